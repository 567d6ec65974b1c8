#include "Events/GlobalChange.h"

#include "Events/LocalOrder.h"
#include "Events/Moves.h"
#include "Passes/LowerCommunication.h"
#include "Passes/Rewrite.h"

namespace sluice {

std::optional<Program> groupNeighbours(const Program &program) {
  Program grouped = program;
  bool isChanged = false;
  for (uint32_t device = 0; device < program.devices; ++device) {
    OpId first = noOp; // of the group at hand
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      Op &op = grouped.ops[id];
      if (!isPlainPost(op)) {
        first = noOp;
        continue;
      }
      bool joins = first != noOp;
      if (!program.buffers.empty()) // nothing else keeps posts in order
        for (OpId member = first; joins && member < id; ++member)
          joins = !mustKeepOrder(program, member, id);
      isChanged |= joins && !op.has(GroupFollower);
      op.flags = static_cast<uint8_t>(op.flags & ~(GroupFirst | GroupFollower));
      if (joins) {
        grouped.ops[first].flags |= GroupFirst;
        op.flags |= GroupFollower;
      } else {
        first = id;
      }
    }
  }
  return isChanged ? std::optional(std::move(grouped)) : std::nullopt;
}

std::optional<Program> inferEarly(const Program &program) {
  Program bare = program;
  bare.peers.clear();
  bare.payloads.clear();
  bare.isExplicit = false;
  Rewriter rewriter(bare, program.size());
  for (uint32_t device = 0; device < program.devices; ++device) {
    rewriter.beginDevice();
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
      if (!program.ops[id].isCommunication())
        rewriter.copy(id);
  }
  const Program inferred = rewriter.take();
  const ProgramIndex index(inferred);
  return lowerCommunication(inferred, index, CommunicationPlacement::Early);
}

uint64_t crossedPairs(const Requests &requests) {
  uint64_t count = 0;
  for (RequestId r = 0; r < requests.size(); ++r)
    if (!requests.isCall(r) && requests.isSend(r))
      if (const RequestId receive = requests.partner(r); receive != noRequest)
        count +=
            messageOf(requests.program, requests.op[r]) != messageOf(requests.program, requests.op[receive]);
  return count;
}

} // namespace sluice
