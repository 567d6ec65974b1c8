#include "IR/Versions.h"

#include <algorithm>

namespace sluice {

namespace {

/// The copy of one stage on the device at hand.
struct Copy {
  uint32_t device = noDevice;
  uint32_t newest = 0;
  std::vector<std::pair<uint32_t, uint32_t>> queue; ///< Microbatch and version of each push.
  size_t popped = 0;                                ///< How many of them are gone.
  std::vector<bool> isReadLater;                    ///< Per version; used on the way back.
  uint32_t readLater = 0;                           ///< How many of them are.
};

class VersionWalk {
public:
  explicit VersionWalk(const Program &program)
      : program(program), readByForward(static_cast<size_t>(program.stages) * program.microbatches),
        copies(program.stages), named(program.namedVersions) {
    result.of.resize(program.size(), noVersion);
    result.kept.resize(program.size(), 1);
    if (program.versions == VersionRule::Queued)
      result.poppedFrom.resize(program.size(), noMicrobatch);
  }
  Versions run() {
    for (uint32_t device = 0; device < program.devices; ++device) {
      for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
        result.of[id] = versionOf(id, device);
      if (program.versions == VersionRule::Newest)
        continue; // one is kept
      for (OpId id = program.deviceBegin[device + 1]; id-- > program.deviceBegin[device];)
        goBack(id);
    }
    return std::move(result);
  }

private:
  uint32_t &forwardOf(const Op &op) {
    return readByForward[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch];
  }
  uint32_t versionOf(OpId id, uint32_t device) {
    const Op &op = program.ops[id];
    Copy &copy = copies[op.stage];
    if (copy.device != device)
      (copy = {}).device = device;
    switch (op.kind) {
    case OpKind::Forward: {
      uint32_t version = copy.newest;
      if (!named.empty() && named.front().op == id) {
        version = named.front().version;
        named = named.drop_front();
      }
      forwardOf(op) = std::min(version, copy.newest);
      if (program.versions == VersionRule::Queued)
        copy.queue.emplace_back(op.microbatch, forwardOf(op));
      return version;
    }
    case OpKind::Recompute:
      return program.versions == VersionRule::Newest ? copy.newest : std::min(forwardOf(op), copy.newest);
    case OpKind::Backward:
    case OpKind::BackwardInput: {
      if (program.versions == VersionRule::Newest)
        return copy.newest;
      if (copy.popped == copy.queue.size()) // stashed, or nothing was pushed
        return std::min(forwardOf(op), copy.newest);
      auto [microbatch, version] = copy.queue[copy.popped++];
      result.poppedFrom[id] = microbatch;
      return version;
    }
    case OpKind::Update:
      return ++copy.newest;
    default:
      return noVersion;
    }
  }

  void goBack(OpId id) {
    const Op &op = program.ops[id];
    Copy &copy = copies[op.stage];
    if (copy.isReadLater.size() <= copy.newest)
      copy.isReadLater.resize(copy.newest + 1);
    result.kept[id] = copy.readLater + (copy.isReadLater[copy.newest] ? 0 : 1);
    const uint32_t version = result.of[id];
    if (version == noVersion)
      return;
    if (op.kind == OpKind::Update) { // what reads this version stands behind it
      copy.readLater -= copy.isReadLater[copy.newest];
      copy.isReadLater[copy.newest--] = false;
    } else if (version <= copy.newest && !copy.isReadLater[version]) {
      copy.isReadLater[version] = true;
      ++copy.readLater;
    }
  }

  const Program &program;
  std::vector<uint32_t> readByForward; // per pair: the version, at most the newest of its time
  std::vector<Copy> copies;            // per stage
  llvm::ArrayRef<NamedVersion> named;  // those to come
  Versions result;
};

} // namespace

Versions versionsOf(const Program &program) { return VersionWalk(program).run(); }

VersionFigures versionFigures(const Program &program, const Versions &versions) {
  VersionFigures figures{std::vector<uint32_t>(program.stages), std::vector<uint32_t>(program.stages, 1)};
  constexpr uint32_t none = ~0u;
  struct Copy {
    uint32_t device = noDevice, newest = 0, oldestPending = none;
  };
  std::vector<Copy> copies(program.stages);
  std::vector<uint32_t> readByForward(static_cast<size_t>(program.stages) * program.microbatches, none);
  for (uint32_t device = 0; device < program.devices; ++device) {
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      Copy &copy = copies[op.stage];
      if (copy.device != device)
        (copy = {}).device = device;
      figures.kept[op.stage] = std::max(figures.kept[op.stage], versions.kept[id]);
      const size_t pair = static_cast<size_t>(op.stage) * program.microbatches + op.microbatch;
      if (op.kind == OpKind::Forward)
        readByForward[pair] = std::min(versions.of[id], copy.newest);
      else if (op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight)
        copy.oldestPending = std::min(copy.oldestPending, readByForward[pair]);
      if (op.kind != OpKind::Update)
        continue;
      if (copy.oldestPending != none)
        figures.staleness[op.stage] = std::max(figures.staleness[op.stage], copy.newest - copy.oldestPending);
      copy = {device, copy.newest + 1, none};
    }
  }
  return figures;
}

} // namespace sluice
