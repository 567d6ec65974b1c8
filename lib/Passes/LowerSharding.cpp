#include "Passes/LowerSharding.h"

#include "Passes/Rewrite.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cassert>

namespace sluice {

namespace {

/// A stage the device will compute on, and the first op (or overlap) that does.
struct NextUse {
  uint16_t stage;
  OpId op;
};

/// Walks a device from its end, so that the next uses of its stages are known before each op.
class Window {
public:
  explicit Window(uint32_t active) : active(active) {}

  /// To `op`, which computes on `stage` alone; false if that may change the window.
  bool stays(OpId op, uint16_t stage) {
    if (uses.empty() || uses[0].stage != stage || (uses.size() > 1 && uses[1].op == uses[0].op))
      return false;
    uses[0].op = op;
    return true;
  }
  /// To `op`, which computes on `computed`. Stages are in the order of their next use.
  void stepTo(OpId op, llvm::ArrayRef<uint16_t> computed) {
    llvm::erase_if(uses, [&](const NextUse &use) { return llvm::is_contained(computed, use.stage); });
    llvm::SmallVector<NextUse, 4> first;
    for (uint16_t stage : computed)
      if (llvm::none_of(first, [&](const NextUse &use) { return use.stage == stage; }))
        first.push_back({stage, op});
    uses.insert(uses.begin(), first.begin(), first.end());
    // An op that fills the window is in it whole.
    size_t size = std::min<size_t>(uses.size(), active);
    while (size < uses.size() && uses[size].op == uses[size - 1].op)
      ++size;
    uses.truncate(size);
  }
  llvm::ArrayRef<NextUse> stages() const { return uses; }
  bool contains(uint16_t stage) const {
    return llvm::any_of(uses, [&](const NextUse &use) { return use.stage == stage; });
  }

private:
  size_t active;
  llvm::SmallVector<NextUse, 8> uses;
};

/// An unshard or reshard that stands before `before`.
struct Change {
  OpId before;
  OpKind kind;
  uint16_t stage;
};

class Sharding {
public:
  Sharding(const Program &program, uint32_t active) : program(program), active(active) {}

  Program run() {
    std::vector<size_t> end; // of each device's changes
    for (uint32_t d = 0; d < program.devices; ++d) {
      findChanges(d);
      end.push_back(changes.size());
    }
    Rewriter writer(program, program.size() + changes.size());
    for (uint32_t d = 0; d < program.devices; ++d) {
      writer.beginDevice();
      writeDevice(d,
                  llvm::ArrayRef(changes).slice(d == 0 ? 0 : end[d - 1], end[d] - (d == 0 ? 0 : end[d - 1])),
                  writer);
    }
    return writer.take();
  }

private:
  static bool isShard(const Op &op) { return op.kind == OpKind::Unshard || op.kind == OpKind::Reshard; }

  /// Changes of one device from its end to its beginning, those of one place in reverse, too.
  void findChanges(uint32_t device) {
    Window window(active);
    llvm::SmallVector<uint16_t, 8> before;
    const OpId first = program.deviceBegin[device], last = program.deviceBegin[device + 1];
    OpId place = last; // the op behind the window `before`
    for (OpId end = last; end > first;) {
      OpId begin = end - 1;
      while (begin > first && program.ops[begin].has(OverlapFollower))
        --begin;
      llvm::SmallVector<uint16_t, 4> computed;
      for (OpId op = begin; op < end; ++op)
        if (program.ops[op].isCompute())
          computed.push_back(program.ops[op].stage);
      if (computed.size() == 1 && window.stays(begin, computed[0])) {
        place = begin;
      } else if (!computed.empty()) {
        before = stagesOf(window);
        window.stepTo(begin, computed);
        record(window, before, place);
        place = begin;
      }
      end = begin;
    }
    record(Window(active), before = stagesOf(window), place);
  }
  static llvm::SmallVector<uint16_t, 8> stagesOf(const Window &window) {
    llvm::SmallVector<uint16_t, 8> stages;
    for (const NextUse &use : window.stages())
      stages.push_back(use.stage);
    return stages;
  }
  /// From the window `from` to the stages `to` at `place`, backwards: unshards, then reshards.
  void record(const Window &from, llvm::ArrayRef<uint16_t> to, OpId place) {
    for (uint16_t stage : llvm::reverse(to))
      if (!from.contains(stage))
        changes.push_back({place, OpKind::Unshard, stage});
    llvm::SmallVector<uint16_t, 4> gone;
    for (const NextUse &use : from.stages())
      if (!llvm::is_contained(to, use.stage))
        gone.push_back(use.stage);
    llvm::sort(gone, std::greater<>());
    for (uint16_t stage : gone)
      changes.push_back({place, OpKind::Reshard, stage});
  }

  void writeDevice(uint32_t device, llvm::ArrayRef<Change> changesOf, Rewriter &writer) {
    const OpId first = program.deviceBegin[device], last = program.deviceBegin[device + 1];
    OpId origin = first;
    auto writeChanges = [&](OpId before) {
      for (; !changesOf.empty() && changesOf.back().before == before; changesOf = changesOf.drop_back()) {
        const Change &change = changesOf.back();
        writer.insert({change.kind, 0, change.stage, noMicrobatch}, origin);
      }
    };
    for (OpId op = first; op < last;) {
      if (isShard(program.ops[op])) {
        ++op;
        continue;
      }
      origin = op;
      writeChanges(op);
      // Up to the next change all go over at once.
      const OpId stop = changesOf.empty() ? last : changesOf.back().before;
      OpId end = op + 1;
      while (end < stop && !isShard(program.ops[end]))
        ++end;
      writer.copy(op, end);
      origin = end - 1;
      op = end;
    }
    writeChanges(last);
  }

  const Program &program;
  uint32_t active;
  std::vector<Change> changes;
};

} // namespace

Program lowerSharding(const Program &program, uint32_t active) {
  assert(active > 0);
  return Sharding(program, active).run();
}

} // namespace sluice
