#include "Events/Execution.h"

#include <limits>

namespace sluice {

Execution::Execution(const Requests &requests, const ChannelRules &rules, const EventClock *clock,
                     Lanes *lanes, OwnMoves *moves)
    : requests(requests), program(requests.program), rules(rules), clock(clock), lanes(lanes), moves(moves),
      flags(requests.size()), queueNext(requests.queueHead), queueLeft(requests.queueHead.size()),
      cursor(program.deviceBegin.begin(), program.deviceBegin.begin() + program.devices),
      resumeAt(program.devices), nextPost(requests.begin.begin(), requests.begin.end() - 1),
      nextWait(requests.waitBegin.begin(), requests.waitBegin.end() - 1),
      blockedBy(program.devices, noRequest), blocks(program.devices) {
  if (rules.atomicGroups) {
    unmet.assign(requests.size(), 0);
    for (RequestId r = 0; r < requests.size(); ++r)
      ++unmet[requests.statement[r]];
  }
  absent.resize(requests.meetingCount());
  for (uint32_t meeting = 0; meeting < absent.size(); ++meeting)
    absent[meeting] = static_cast<uint32_t>(requests.membersOf(requests.callsOf(meeting).front()).size());
  if (!clock)
    return;
  endOf.resize(program.size());
  metAt.resize(requests.size());
  doneAt.resize(requests.size());
  now.resize(program.devices);
  beganAt.resize(program.devices);
  readyAt.resize(requests.size());
  freeAt.resize(queueNext.size());
  calledAt.resize(requests.meetingCount());
  if (lanes) {
    sentAt.assign(requests.size(), -1);
    arrivedAt.assign(requests.size(), -1);
  }
}

int64_t Execution::plus(int64_t a, int64_t b) {
  int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum))
    return sum;
  overflowed = true;
  return std::numeric_limits<int64_t>::max();
}

bool Execution::run() { return clock ? walk<true>() : walk<false>(); }

template <bool isTimed> bool Execution::walk() {
  for (uint32_t device = program.devices; device-- > 0;)
    runnable.push_back(device);
  while (!overflowed) {
    if (runnable.empty() && changed.empty()) {
      if (!isTimed || !lanes || lanes->isEmpty())
        break;
      settle();
      continue;
    }
    if (!changed.empty()) {
      const RequestId r = changed.back();
      changed.pop_back();
      look<isTimed>(r);
      continue;
    }
    const uint32_t device = runnable.back();
    runnable.pop_back();
    runDevice<isTimed>(device);
  }
  if (overflowed)
    return true; // whether it completes is not for a clock to say
  for (uint32_t device = 0; device < program.devices; ++device)
    if (isStuck(device))
      return false;
  return true;
}

template <bool isTimed> void Execution::runDevice(uint32_t device) {
  const OpId programEnd = program.deviceBegin[device + 1];
  while (cursor[device] != programEnd && blocks[device] == 0) {
    const OpId at = cursor[device];
    const Op &entry = program.ops[at];
    const bool isRequest = entry.isCommunication() || requests.joins(entry);
    if (isTimed && moves && moves->isOwn(entry)) {
      resumeAt[device] = at + 1;
      if (!moves->run(device, at, now[device])) {
        blocks[device] = 1;
        blockedBy[device] = noRequest;
        return;
      }
      endOf[at] = now[device];
      cursor[device] = at + 1;
      overflowed |= moves->hasOverflowed();
      continue;
    }
    if (!isRequest) {
      const OpId next = program.groupEnd(at);
      if constexpr (isTimed) {
        now[device] = plus(now[device], clock->duration(at, next - at));
        std::fill(endOf.begin() + at, endOf.begin() + next, now[device]);
      }
      cursor[device] = next;
      continue;
    }
    if (entry.isWait()) {
      if (!wait(device))
        return;
      if constexpr (isTimed)
        endOf[at] = now[device];
      continue;
    }
    const RequestId first = nextPost[device], last = requests.endOfStatement(first);
    if (rules.connectOnFirstUse && entry.isCommunication() && !connect(device, first, last))
      return;
    if constexpr (isTimed)
      std::fill(readyAt.begin() + first, readyAt.begin() + last, now[device]);
    post(device, first, last);
    if (entry.isStarted()) {
      const OpId next = at + (last - first);
      if constexpr (isTimed)
        std::fill(endOf.begin() + at, endOf.begin() + next, now[device]);
      cursor[device] = next;
    }
  }
}

/// The device comes to its next `wait`; false if it has to stand there.
bool Execution::wait(uint32_t device) {
  const RequestId r = requests.waits[nextWait[device]++];
  if (r == noRequest) { // never
    blocks[device] = 1;
    blockedBy[device] = noRequest;
    return false;
  }
  flags[r] |= Awaited;
  if (rules.progressInWait && !isReady(r)) {
    if (clock)
      readyAt[r] = std::max(readyAt[r], now[device]);
    if (isServed(r))
      makeReady(r);
  }
  if (isDone(r)) {
    if (clock)
      now[device] = std::max(now[device], doneAt[r]);
    ++cursor[device];
    return true;
  }
  blocks[device] = 1;
  blockedBy[device] = r;
  resumeAt[device] = cursor[device] + 1;
  return false;
}

/// Pairs of devices that a statement uses first: both must stand at such a statement, whose pairs go
/// together. True once all pairs of this one are open.
bool Execution::connect(uint32_t device, RequestId first, RequestId end) {
  uint32_t missing = 0;
  if (clock)
    beganAt[device] = now[device]; // a second time, once its pairs are open, nothing reads it
  for (RequestId r = first; r < end; ++r) {
    const uint32_t peer = requests.peer(r);
    const uint64_t pair = static_cast<uint64_t>(std::min(device, peer)) << 32 | std::max(device, peer);
    auto [found, isNew] = connections.try_emplace(pair, device);
    if (isNew) {
      ++missing;
    } else if (found->second == peer) {
      found->second = open;
      if (clock) {
        const int64_t both = std::max(beganAt[device], beganAt[peer]);
        now[device] = std::max(now[device], both);
        now[peer] = std::max(now[peer], both);
      }
      if (--blocks[peer] == 0)
        resume(peer);
    }
  }
  blocks[device] = missing;
  blockedBy[device] = noRequest;
  resumeAt[device] = cursor[device];
  return missing == 0;
}

void Execution::post(uint32_t device, RequestId first, RequestId end) {
  nextPost[device] = end;
  for (RequestId r = first; r < end; ++r)
    flags[r] |= Posted;
  if (!requests.isStarted(first)) {
    blockedBy[device] = first;
    blocks[device] = end - first;
    resumeAt[device] = cursor[device] + (end - first);
  }
  for (RequestId r = first; r < end; ++r)
    if (const uint32_t queue = requests.queue[r]; queueLeft[queue] == 0 && queueNext[queue] == r)
      serve(queue);
}

void Execution::resume(uint32_t device) {
  blocks[device] = 0;
  if (clock && !endOf.empty())
    for (OpId id = cursor[device]; id < resumeAt[device]; ++id)
      endOf[id] = now[device];
  cursor[device] = resumeAt[device];
  runnable.push_back(device);
}

/// The queue turns to its next statement, if that is posted.
void Execution::serve(uint32_t queue) {
  RequestId r = queueNext[queue];
  if (r == noRequest || !isPosted(r))
    return;
  const RequestId statement = requests.statement[r];
  for (; r != noRequest && requests.statement[r] == statement; r = requests.next[r]) {
    ++queueLeft[queue];
    flags[r] |= Served;
    if (clock)
      readyAt[r] = std::max(readyAt[r], freeAt[queue]);
    if (!rules.progressInWait || isAwaited(r) || !requests.isStarted(r))
      makeReady(r);
  }
  queueNext[queue] = r;
}

void Execution::makeReady(RequestId r) {
  flags[r] |= Ready;
  changed.push_back(r);
  if (!requests.isCall(r))
    return;
  if (clock)
    calledAt[requests.direction[r]] = std::max(calledAt[requests.direction[r]], readyAt[r]);
  if (--absent[requests.direction[r]] == 0)
    for (RequestId other : requests.callsOf(requests.direction[r]))
      changed.push_back(other);
}

/// Whether a ready request finds at the other end what it needs.
bool Execution::isMet(RequestId r) const {
  if (requests.isCall(r))
    return absent[requests.direction[r]] == 0;
  const RequestId partner = requests.partner(r);
  if (!requests.isSend(r))
    return partner != noRequest && (rules.isRendezvous() ? isReady(partner) : isDone(partner));
  if (rules.isRendezvous())
    return partner != noRequest && isReady(partner);
  if (!isBounded(r))
    return true;
  const RequestId freeing = requests.receive(r, rules.depth);
  return freeing != noRequest && isDone(freeing);
}

void Execution::meet(RequestId r) {
  flags[r] |= Met;
  if (requests.isCall(r))
    return;
  if (rules.isRendezvous())
    changed.push_back(requests.partner(r));
  if (unmet.empty() || --unmet[requests.statement[r]] > 0)
    return;
  // The group can end as a whole, and under rendezvous so can its partners.
  const RequestId first = requests.statement[r], end = requests.endOfStatement(first);
  for (RequestId member = first; member < end; ++member) {
    changed.push_back(member);
    if (rules.isRendezvous())
      changed.push_back(requests.partner(member));
  }
}

template <bool isTimed> void Execution::look(RequestId r) {
  if (isDone(r) || !isReady(r))
    return;
  if (!(flags[r] & Met)) {
    if (!isMet(r))
      return;
    meet(r);
  }
  if (requests.isCall(r))
    return end<isTimed>(r);
  if (!isOpen(r))
    return;
  if (rules.isRendezvous())
    if (const RequestId partner = requests.partner(r); !(flags[partner] & Met) || !isOpen(partner))
      return;
  if (isTimed && lanes && !hasArrived(r))
    return;
  end<isTimed>(r);
}

const Route *Execution::sharedRoute(RequestId r) const {
  return lanes ? clock->sharedRoute(requests.op[requests.isSend(r) ? r : requests.partner(r)]) : nullptr;
}

/// Whether what `r` waits for has come over its lane. Under rendezvous the transfer begins here.
bool Execution::hasArrived(RequestId r) {
  if (!rules.isRendezvous() && requests.isSend(r))
    return true; // stored: it is done before that
  const RequestId sender = requests.isSend(r) ? r : requests.partner(r);
  const Route *route = sharedRoute(sender);
  if (!route || arrivedAt[sender] >= 0)
    return true;
  if (sentAt[sender] < 0)
    send(sender, *route, metTime(sender));
  return false;
}

void Execution::send(RequestId r, const Route &route, int64_t time) {
  const OpId id = requests.op[r];
  sentAt[r] = time;
  lanes->join(route.lane, time, clock->transfer(id) - route.latency,
              static_cast<uint64_t>(id) << 16 | messageOf(program, id).to);
}

/// The earliest event of the lanes, now that nothing else can go on.
void Execution::settle() {
  const std::optional<Lanes::Served> served = lanes->advance();
  overflowed |= lanes->hasOverflowed();
  if (!served)
    return;
  const auto id = static_cast<OpId>(served->key >> 16);
  if (!program.ops[id].isCommunication()) {
    const uint32_t device = moves->settle(program.deviceOf(id), id, served->begin, served->end);
    overflowed |= moves->hasOverflowed();
    if (device == noDevice)
      return;
    now[device] = std::max(now[device], moves->done[id]);
    resume(device);
    return;
  }
  const RequestId sender = requests.of(id), receiver = requests.partner(sender);
  arrivedAt[sender] = plus(served->end, sharedRoute(sender)->latency);
  if (rules.isRendezvous()) {
    metAt[sender] = served->begin;
    changed.push_back(sender);
  }
  if (receiver != noRequest)
    changed.push_back(receiver);
}

/// The latest of what a request waited for.
int64_t Execution::metTime(RequestId r) const {
  int64_t met = readyAt[r];
  auto wholeGroup = [&](RequestId of) {
    if (!rules.atomicGroups)
      return;
    const RequestId first = requests.statement[of];
    for (RequestId member = first, last = requests.endOfStatement(first); member < last; ++member) {
      met = std::max(met, readyAt[member]);
      if (rules.isRendezvous())
        met = std::max(met, readyAt[requests.partner(member)]);
      else if (!requests.isSend(member))
        met = std::max(met, doneAt[requests.partner(member)]);
      else if (isBounded(member))
        met = std::max(met, doneAt[requests.receive(member, rules.depth)]);
    }
  };
  wholeGroup(r);
  const RequestId partner = requests.partner(r);
  if (rules.isRendezvous()) {
    wholeGroup(partner);
    return std::max(met, readyAt[partner]);
  }
  if (!requests.isSend(r))
    return std::max(met, doneAt[partner]);
  return isBounded(r) ? std::max(met, doneAt[requests.receive(r, rules.depth)]) : met;
}

/// When a request is done: the latest of what it waited for, and how long it is under way from there.
template <bool isTimed> int64_t Execution::doneTime(RequestId r) {
  if (requests.isCall(r)) {
    metAt[r] = calledAt[requests.direction[r]];
    return plus(metAt[r], clock->transfer(requests.op[r]));
  }
  const RequestId sender = requests.isSend(r) ? r : requests.partner(r);
  const Route *route = sharedRoute(sender);
  if (rules.isRendezvous()) {
    metAt[r] = route ? metAt[sender] : metTime(r);
    return route ? arrivedAt[sender] : plus(metAt[r], clock->transfer(requests.op[sender]));
  }
  metAt[r] = metTime(r);
  if (requests.isSend(r))
    return metAt[r];
  // Under way from the end of its send on, whether the receive was posted or not.
  const int64_t arrival =
      route ? arrivedAt[sender] : plus(doneAt[sender], clock->transfer(requests.op[sender]));
  return std::max(metAt[r], arrival);
}

template <bool isTimed> void Execution::end(RequestId r) {
  flags[r] |= Done;
  ++done;
  const uint32_t queue = requests.queue[r], device = requests.device(r);
  if constexpr (isTimed) {
    doneAt[r] = doneTime<true>(r);
    freeAt[queue] = std::max(freeAt[queue], doneAt[r]);
  }
  if (--queueLeft[queue] == 0)
    serve(queue);
  // A wait for the first of a started group is not for its other members.
  if (blocks[device] > 0 &&
      (blockedBy[device] == r || (blockedBy[device] == requests.statement[r] && !requests.isStarted(r)))) {
    if constexpr (isTimed)
      now[device] = std::max(now[device], doneAt[r]);
    if (--blocks[device] == 0)
      resume(device);
  }
  if (requests.isCall(r))
    return;
  if (rules.isRendezvous()) {
    changed.push_back(requests.partner(r));
  } else if (requests.isSend(r)) {
    if (isTimed)
      if (const Route *route = sharedRoute(r))
        send(r, *route, doneAt[r]);
    if (const RequestId receive = requests.partner(r); receive != noRequest)
      changed.push_back(receive);
  } else if (!rules.isUnbounded()) {
    if (const RequestId send = requests.send(r, rules.depth); send != noRequest)
      changed.push_back(send);
  }
}

} // namespace sluice
