#include "Passes/VersionSlots.h"

#include "IR/Versions.h"
#include "Passes/SlotPool.h"

namespace sluice {

using runtime::noSlot;

namespace {

/// The copy of one stage on the device at hand.
struct CopyWalk {
  uint32_t device = noDevice;
  uint32_t newest = 0;
  SlotPool pool;
  std::vector<uint32_t> slotOf; // per version
  std::vector<OpId> lastRead;   // per version; noOp: never

  void begin(uint32_t d) {
    *this = CopyWalk();
    device = d;
    slotOf.push_back(pool.take());
    lastRead.push_back(noOp);
  }
  bool isReadBehind(uint32_t version, OpId id) const {
    return lastRead[version] != noOp && lastRead[version] > id;
  }
};

} // namespace

VersionSlots assignVersions(const Program &program) {
  const Versions versions = versionsOf(program);
  VersionSlots result;
  result.reads.assign(program.size(), noSlot);
  result.writes.assign(program.size(), noSlot);
  std::vector<CopyWalk> copies(program.stages);
  std::vector<uint32_t> here; // stages of the device at hand
  for (uint32_t device = 0; device < program.devices; ++device) {
    const OpId first = program.deviceBegin[device], end = program.deviceBegin[device + 1];
    here.clear();
    for (OpId id = first; id < end; ++id) {
      if (versions.of[id] == noVersion)
        continue;
      const Op &op = program.ops[id];
      CopyWalk &copy = copies[op.stage];
      if (copy.device != device) {
        copy.begin(device);
        here.push_back(op.stage);
      }
      if (op.kind == OpKind::Update) {
        copy.slotOf.push_back(noSlot);
        copy.lastRead.push_back(noOp);
      } else {
        copy.lastRead[versions.of[id]] = id;
      }
    }
    for (OpId id = first; id < end; ++id) {
      const uint32_t version = versions.of[id];
      if (version == noVersion)
        continue;
      CopyWalk &copy = copies[program.ops[id].stage];
      if (program.ops[id].kind != OpKind::Update) {
        result.reads[id] = copy.slotOf[version];
        if (version != copy.newest && copy.lastRead[version] == id)
          copy.pool.release(copy.slotOf[version]);
        copy.pool.giveBack();
        continue;
      }
      result.reads[id] = copy.slotOf[copy.newest];
      result.writes[id] = copy.isReadBehind(copy.newest, id) ? copy.pool.take() : copy.slotOf[copy.newest];
      copy.slotOf[++copy.newest] = result.writes[id];
    }
    for (uint32_t stage : here)
      if (copies[stage].pool.size() > 1)
        result.copies[{stage, device}] = {copies[stage].pool.size(),
                                          copies[stage].slotOf[copies[stage].newest]};
  }
  return result;
}

} // namespace sluice
