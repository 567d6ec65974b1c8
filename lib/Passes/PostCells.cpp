#include "Passes/PostCells.h"

#include "Passes/Rewrite.h"

#include "llvm/ADT/DenseMap.h"

namespace sluice {

namespace {

/// One device's cells on their way to posts and waits.
class DevicePosts {
public:
  DevicePosts(const Program &program, Rewriter &result) : program(program), result(result) {}

  void run(uint32_t device) {
    received.clear();
    unwaited.clear();
    for (OpId id = program.deviceBegin[device], end = program.deviceBegin[device + 1]; id < end;) {
      const OpId next = program.ops[id].has(OverlapFirst) ? program.groupEnd(id) : id + 1;
      for (OpId member = id; member < next; ++member)
        waitFor(program.ops[member]);
      for (; id < next; ++id)
        put(id);
    }
    for (OpId post : unwaited)
      if (program.ops[post].isSend() || received.contains(keyOf(program.ops[post])))
        addWait(post);
  }

private:
  static uint64_t keyOf(const Op &receive) {
    return static_cast<uint64_t>(receive.kind == OpKind::RecvGradient) << 48 |
           static_cast<uint64_t>(receive.stage) << 32 | receive.microbatch;
  }

  /// Waits for the receive whose value `op` uses, if it stands before it.
  void waitFor(const Op &op) {
    if (op.kind != OpKind::Forward && !op.makesGradient())
      return;
    const OpKind kind = op.kind == OpKind::Forward ? OpKind::RecvActivation : OpKind::RecvGradient;
    auto found = received.find(keyOf({kind, 0, op.stage, op.microbatch}));
    if (found == received.end())
      return;
    addWait(found->second);
    received.erase(found);
  }
  void addWait(OpId post) {
    Op wait = program.ops[post];
    wait.flags = Waits;
    result.insert(wait, post);
  }
  void put(OpId id) {
    const Op &op = program.ops[id];
    // The members of a group are posted at once and do not wait for each other, here as anywhere.
    if (!op.isCommunication())
      return result.copy(id);
    Op post = op;
    post.flags = static_cast<uint8_t>(Started | (op.flags & (GroupFirst | GroupFollower)));
    result.insert(post, id);
    unwaited.push_back(id);
    if (!op.isSend())
      received.try_emplace(keyOf(op), id);
  }

  const Program &program;
  Rewriter &result;
  llvm::DenseMap<uint64_t, OpId> received; // receives that no wait has ended
  std::vector<OpId> unwaited;              // posts in program order
};

} // namespace

Program postCells(const Program &program) {
  Rewriter result(program, 2 * static_cast<size_t>(program.size()));
  DevicePosts posts(program, result);
  for (uint32_t device = 0; device < program.devices; ++device) {
    result.beginDevice();
    posts.run(device);
  }
  return result.take();
}

} // namespace sluice
