#include "Timeline/Flights.h"

#include "Events/OwnMoves.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace sluice {

Flights::Flights(const Program &program, const Timeline &timeline, const Requests *calls, bool areMovesTimed,
                 const Requests *written)
    : program(program), timeline(timeline) {
  if (calls)
    addJoint(*calls);
  if (areMovesTimed)
    addOwn(calls ? calls : written);
  llvm::sort(places, [](const Place &a, const Place &b) { return a.op < b.op; });
}

OpId Flights::previous(OpId op) const {
  return op == program.deviceBegin[program.deviceOf(op)] ? noOp : op - 1;
}

/// When the device of a call or move has come to it.
int64_t Flights::arrivalAt(OpId op) const {
  const OpId before = previous(op);
  return before == noOp ? 0 : timeline.end[before];
}

void Flights::addJoint(const Requests &calls) {
  flights.resize(calls.meetingCount());
  for (RequestId r = 0; r < calls.size(); ++r)
    places.push_back({calls.op[r], calls.direction[r], calls.op[r]});
  std::vector<OpId> goesOn = calls.op;
  size_t wait = 0;
  for (OpId id = 0; id < program.size(); ++id)
    if (program.ops[id].isWait() && calls.joins(program.ops[id]))
      if (const RequestId call = calls.waits[wait++]; call != noRequest) {
        goesOn[call] = id;
        places.push_back({id, calls.direction[call], calls.op[call]});
      }
  // Of each queue the meetings in order, since calls of a device ascend.
  for (RequestId r = 0; r < calls.size(); ++r) {
    const uint32_t meeting = calls.direction[r];
    const llvm::ArrayRef<RequestId> all = calls.callsOf(meeting);
    if (all.front() != r)
      continue;
    Flight &flight = flights[meeting];
    flight.firstMember = static_cast<uint32_t>(members.size());
    flight.memberCount = static_cast<uint32_t>(all.size());
    for (RequestId member : all) {
      const OpId op = calls.op[member];
      members.push_back({op, program.ops[op].isStarted() && goesOn[member] == op ? noOp : goesOn[member]});
      flight.begin = std::max(flight.begin, arrivalAt(op));
    }
    flight.end = flight.begin;
    if (!timeline.met.empty()) {
      flight.begin = timeline.met[calls.op[r]];
      flight.end = timeline.done[calls.op[r]];
    }
    if (const RequestId next = calls.next[r]; next != noRequest) {
      flight.behind = calls.direction[next];
      flights[flight.behind].before = meeting;
    }
    findRoot(flight);
  }
}

void Flights::addOwn(const Requests *joint) {
  const std::vector<AwaitedMove> awaited = awaitedMoves(program, joint);
  llvm::DenseMap<OpId, OpId> waitOf;
  for (const AwaitedMove &each : awaited)
    if (each.start != noOp)
      waitOf[each.start] = each.wait;
  for (uint32_t device = 0; device < program.devices; ++device) {
    uint32_t last = none;
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if (op.isCompute() || op.isWait() || !isOwnMove(op, joint))
        continue;
      Flight flight;
      flight.begin = timeline.met[id];
      flight.end = timeline.done[id];
      flight.firstMember = static_cast<uint32_t>(members.size());
      flight.memberCount = 1;
      OpId goesOn = id;
      if (op.isStarted()) {
        auto wait = waitOf.find(id);
        goesOn = wait == waitOf.end() ? noOp : wait->second;
        if (goesOn != noOp)
          places.push_back({goesOn, size(), id});
      }
      members.push_back({id, goesOn});
      places.push_back({id, size(), id});
      if (!isHostMove(op)) {
        flight.before = last;
        if (last != none)
          flights[last].behind = size();
        last = size();
      }
      findRoot(flight);
      flights.push_back(flight);
    }
  }
}

void Flights::findRoot(Flight &flight) {
  int64_t latest = -1;
  for (const Member &member : llvm::ArrayRef(members).slice(flight.firstMember, flight.memberCount))
    if (const int64_t arrival = arrivalAt(member.op); arrival > latest) {
      latest = arrival;
      flight.root = program.ops[member.op].isStarted() ? member.op : previous(member.op);
    }
  if (flight.begin == latest)
    return;
  // A host move that is held up is so by others on its lane, a call by the one before it.
  flight.queued = flight.begin - latest;
  if (flight.before == none)
    return;
  const Flight &before = flights[flight.before];
  flight.root = before.root;
  flight.queued = before.queued + before.time();
}

const Flights::Place *Flights::placeOf(OpId op) const {
  auto found = llvm::partition_point(places, [&](const Place &place) { return place.op < op; });
  return found == places.end() || found->op != op ? nullptr : &*found;
}

uint32_t Flights::of(OpId op) const {
  const Place *place = placeOf(op);
  return place ? place->flight : none;
}

std::optional<Binding> Flights::bindingOf(OpId op) const {
  const Place *place = placeOf(op);
  if (!place || program.ops[op].isStarted())
    return std::nullopt;
  const Flight &flight = flights[place->flight];
  const EdgeKind kind = isHostMove(program.ops[op]) ? EdgeKind::Saved : EdgeKind::Contribution;
  OpId root = flight.root;
  int64_t queued = flight.queued;
  // Of several that came last, its own device goes first.
  if (flight.begin == arrivalAt(place->own)) {
    root = program.ops[place->own].isStarted() ? place->own : previous(place->own);
    queued = 0;
  }
  if (!program.ops[op].isWait())
    return Binding{root, kind, flight.begin, queued};
  return Binding{root, kind, flight.end, queued + flight.time()};
}

} // namespace sluice
