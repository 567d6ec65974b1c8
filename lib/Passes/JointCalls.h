// Reductions, tied weights and norms that several devices make together, as rounds over the devices see them:
// the n-th call of a name lets nobody go on before all its devices have come to theirs. One that is started
// holds up its wait alone. Flat columns; a program without copies has none of them.
#pragma once

#include "IR/Program.h"

#include "llvm/ADT/DenseMap.h"

#include <map>

namespace sluice {

class JointCalls {
public:
  explicit JointCalls(const Program &program) : program(program) {
    for (uint32_t device = 0; device < program.devices; ++device) {
      std::map<Name, std::pair<uint32_t, uint32_t>> counts; // calls and waits so far
      for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op)
        if (program.ops[op].kind >= OpKind::Reduce)
          add(op, counts);
    }
  }

  /// Device `device` has come to `op`. False: it has to stand there until others have come, and is woken.
  /// Calls `wake(device)` for each one that has stood for the last to come.
  template <typename Wake> bool comeTo(OpId op, uint32_t device, Wake wake) {
    const auto found = meetings.empty() ? meetings.end() : meetings.find(op);
    if (found == meetings.end())
      return true;
    const bool isWait = program.ops[op].isWait();
    uint32_t &left = missing[found->second];
    if (!isWait && left > 0 && --left == 0)
      for (auto stands = standing.lower_bound({found->second, 0});
           stands != standing.end() && stands->first.first == found->second; stands = standing.erase(stands))
        wake(stands->first.second);
    if (left == 0 || program.ops[op].isStarted())
      return true;
    standing[{found->second, device}] = op;
    return false;
  }

private:
  using Name = std::pair<OpKind, uint32_t>; // with the stage, or the number of the weight

  void add(OpId op, std::map<Name, std::pair<uint32_t, uint32_t>> &counts) {
    const Op &call = program.ops[op];
    const bool isTied = call.kind == OpKind::ReduceTied;
    if (!isTied && call.kind != OpKind::Reduce && (call.kind != OpKind::Norm || call.has(Local)))
      return;
    const Name name(call.kind, isTied ? call.microbatch : call.stage);
    auto [joint, isNew] = names.try_emplace(name);
    if (isNew)
      joint->second.members = static_cast<uint32_t>(program.membersOf(call).size());
    if (joint->second.members < 2)
      return;
    auto &[calls, waits] = counts[name];
    const uint32_t ordinal = call.isWait() ? waits++ : calls++;
    std::vector<uint32_t> &numbers = joint->second.meetings;
    if (ordinal == numbers.size()) {
      numbers.push_back(static_cast<uint32_t>(missing.size()));
      missing.push_back(joint->second.members);
    }
    meetings[op] = numbers[ordinal];
  }

  struct Joint {
    uint32_t members = 0;
    std::vector<uint32_t> meetings; // by number of the call
  };
  const Program &program;
  std::map<Name, Joint> names;
  llvm::DenseMap<OpId, uint32_t> meetings;                // of calls and their waits
  std::vector<uint32_t> missing;                          // per meeting: devices that have not come
  std::map<std::pair<uint32_t, uint32_t>, OpId> standing; // meeting and device
};

} // namespace sluice
