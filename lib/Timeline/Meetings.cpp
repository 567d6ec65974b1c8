#include "Timeline/Meetings.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

bool Meetings::occurIn(const Program &program) {
  return llvm::any_of(program.ops, [&](const Op &op) {
    return op.kind >= OpKind::ReduceTied || (op.kind == OpKind::Reduce && program.placement.rowCount() > 1);
  });
}

Meetings::Meetings(const Program &program)
    : program(program), calls(program, ChannelRules()), meetings(calls.meetingCount()),
      nextCall(calls.begin.begin(), calls.begin.end() - 1),
      nextWait(calls.waitBegin.begin(), calls.waitBegin.end() - 1), doneAt(calls.queueHead.size()) {
  for (uint32_t i = 0; i < meetings.size(); ++i)
    meetings[i].absent = static_cast<uint32_t>(calls.membersOf(calls.callsOf(i).front()).size());
}

bool Meetings::begin(RequestId call, const CostModel &costs, OwnMoves &moves) {
  Meeting &meeting = of(call);
  const llvm::ArrayRef<RequestId> members = calls.callsOf(calls.direction[call]);
  int64_t &done = doneAt[calls.queue[members.front()]];
  const int64_t begin = std::max(meeting.latest, done);
  const bool fits = !__builtin_add_overflow(begin, movingTime(costs, program.ops[calls.op[call]]), &done);
  meeting.latest = done;
  for (RequestId member : members) {
    moves.met[calls.op[member]] = begin;
    moves.done[calls.op[member]] = done;
  }
  return fits;
}

} // namespace sluice
