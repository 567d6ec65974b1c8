#include "Events/Requests.h"

#include <cassert>
#include <map>

namespace sluice {

static constexpr uint32_t unknown = ~0u;

/// The direction of a message, numbered by first use in `from` and `to`.
uint32_t Requests::directionOf(OpId id, const ChannelRules &rules) {
  const Message message = messageOf(program, id);
  const uint32_t edge = edges.of(message);
  assert(edge != MessageEdges::none && "a message without a peer (406)");
  const size_t slot = program.placement.row(message.microbatch) * static_cast<size_t>(edges.count()) + edge;
  const bool isShared = rules.key != ChannelRules::Key::Message;
  if (isShared && known[slot] != unknown)
    return known[slot];
  const uint32_t a = program.deviceOf(message.from, message.microbatch);
  const uint32_t b = program.deviceOf(message.to, message.microbatch);
  // Both devices are part of every key: a queue has one device at each end.
  uint64_t key = static_cast<uint64_t>(a) << 16 | b;
  if (rules.key == ChannelRules::Key::Edge)
    key |= static_cast<uint64_t>(edge) << 32;
  else if (rules.key == ChannelRules::Key::Message)
    key = static_cast<uint64_t>(edge) << 32 | message.microbatch; // one device each: a pair is placed once
  auto [found, isNew] = numberOf.try_emplace(key, static_cast<uint32_t>(from.size()));
  if (isNew) {
    from.push_back(a);
    to.push_back(b);
  }
  if (isShared)
    known[slot] = found->second;
  return found->second;
}

/// Who takes part in reductions, tied weights and norms. Only asked where a program has such ops.
void Requests::nameCalls() {
  names.resize(program.stages + program.ties.size() + 1);
  std::vector<bool> occurs(names.size());
  for (const Op &each : program.ops)
    if (each.kind == OpKind::Reduce || each.kind == OpKind::ReduceTied || each.kind == OpKind::Norm)
      occurs[nameOf(each)] = true;
  std::map<std::vector<uint32_t>, uint32_t> groupOf;
  for (uint32_t name = 0; name < names.size(); ++name) {
    if (!occurs[name])
      continue;
    const bool isReduce = name < program.stages, isNorm = name + 1 == names.size();
    const Op like{isReduce ? OpKind::Reduce
                  : isNorm ? OpKind::Norm
                           : OpKind::ReduceTied,
                  0, static_cast<uint16_t>(isReduce ? name : 0),
                  isReduce || isNorm ? noMicrobatch : name - program.stages};
    names[name].members = program.membersOf(like);
    names[name].group = groupOf.try_emplace(names[name].members, groupOf.size()).first->second;
  }
  groups = static_cast<uint32_t>(groupOf.size());
}

/// The request that has just been added is the next call of `name` on its device.
void Requests::addCall(uint32_t name) {
  CallName &call = names[name];
  if (call.made == 0)
    called.push_back(name);
  const uint32_t n = call.made++;
  if (n == call.meetings.size())
    call.meetings.push_back(meetings++);
  ordinal.push_back(n);
  direction.push_back(call.meetings[n]);
}

void Requests::number(const ChannelRules &rules) {
  known.assign(static_cast<size_t>(edges.count()) * program.placement.rowCount(), unknown);
  begin.reserve(program.devices + 1);
  llvm::DenseMap<std::pair<uint64_t, uint32_t>, std::vector<RequestId>>
      started; // by name: without a wait yet
  auto keyOf = [&](OpId id) {
    const Op &entry = program.ops[id];
    const uint64_t upper =
        static_cast<uint64_t>(entry.kind) << 40 | static_cast<uint64_t>(entry.namesPeer()) << 32 |
        static_cast<uint64_t>(entry.stage) << 16 | (entry.namesPeer() ? program.peerStageOf(id) : 0u);
    return std::pair(upper, entry.microbatch);
  };
  for (uint32_t device = 0; device < program.devices; ++device) {
    begin.push_back(size());
    waitBegin.push_back(static_cast<uint32_t>(waits.size()));
    started.clear();
    for (uint32_t name : called)
      names[name].made = 0;
    called.clear();
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &entry = program.ops[id];
      if (!entry.isCommunication() && !joins(entry))
        continue;
      if (entry.isWait()) {
        std::vector<RequestId> &open = started[keyOf(id)];
        waits.push_back(open.empty() ? noRequest : open.front());
        if (!open.empty())
          open.erase(open.begin());
        continue;
      }
      if (entry.isStarted())
        started[keyOf(id)].push_back(size());
      statement.push_back(entry.has(GroupFollower) ? statement.back() : size());
      op.push_back(id);
      if (entry.isCommunication()) {
        direction.push_back(directionOf(id, rules));
        ordinal.push_back(0);
      } else {
        addCall(nameOf(entry));
      }
    }
  }
  begin.push_back(size());
  waitBegin.push_back(static_cast<uint32_t>(waits.size()));
}

/// Counts, then fills: the lists of each direction, in the order of their one device.
void Requests::pair() {
  sendBegin.assign(from.size() + 1, 0);
  receiveBegin.assign(from.size() + 1, 0);
  for (RequestId r = 0; r < size(); ++r)
    if (!isCall(r))
      ordinal[r] = (isSend(r) ? sendBegin : receiveBegin)[direction[r] + 1]++;
  for (size_t i = 1; i < sendBegin.size(); ++i) {
    sendBegin[i] += sendBegin[i - 1];
    receiveBegin[i] += receiveBegin[i - 1];
  }
  sends.resize(sendBegin.back());
  receives.resize(receiveBegin.back());
  for (RequestId r = 0; r < size(); ++r)
    if (!isCall(r))
      (isSend(r) ? sends[sendBegin[direction[r]] + ordinal[r]]
                 : receives[receiveBegin[direction[r]] + ordinal[r]]) = r;
}

void Requests::gatherCalls() {
  meetingBegin.assign(meetings + 1, 0);
  if (meetings == 0)
    return;
  for (RequestId r = 0; r < size(); ++r)
    if (isCall(r))
      ++meetingBegin[direction[r] + 1];
  for (size_t i = 1; i < meetingBegin.size(); ++i)
    meetingBegin[i] += meetingBegin[i - 1];
  calls.resize(meetingBegin.back());
  std::vector<uint32_t> at(meetingBegin.begin(), meetingBegin.end() - 1);
  for (RequestId r = 0; r < size(); ++r)
    if (isCall(r))
      calls[at[direction[r]]++] = r;
}

void Requests::enqueue(const ChannelRules &rules) {
  // Under `pair` the two directions of a pair of devices share an end; else each direction has its own two.
  std::vector<uint32_t> ends(2 * from.size());
  uint32_t count = 0;
  if (rules.deviceService) {
    for (size_t i = 0; i < from.size(); ++i) {
      ends[2 * i] = from[i];
      ends[2 * i + 1] = to[i];
    }
    count = program.devices;
  } else if (rules.key == ChannelRules::Key::Pair) {
    llvm::DenseMap<uint64_t, uint32_t> endOf;
    auto end = [&](uint32_t here, uint32_t there) {
      auto [found, isNew] = endOf.try_emplace(static_cast<uint64_t>(here) << 32 | there, count);
      count += isNew;
      return found->second;
    };
    for (size_t i = 0; i < from.size(); ++i) {
      ends[2 * i] = end(from[i], to[i]);
      ends[2 * i + 1] = end(to[i], from[i]);
    }
  } else {
    for (uint32_t i = 0; i < ends.size(); ++i)
      ends[i] = i;
    count = static_cast<uint32_t>(ends.size());
  }
  const uint32_t firstCallQueue = count;
  if (!rules.deviceService)
    count += groups * program.devices;
  queueHead.assign(count, noRequest);
  std::vector<RequestId> last(count, noRequest);
  queue.resize(size());
  next.assign(size(), noRequest);
  for (uint32_t device = 0; device < program.devices; ++device)
    for (RequestId r = begin[device]; r < begin[device + 1]; ++r) {
      if (!isCall(r))
        queue[r] = ends[2 * direction[r] + !isSend(r)];
      else if (rules.deviceService)
        queue[r] = device;
      else
        queue[r] = firstCallQueue + names[nameOf(program.ops[op[r]])].group * program.devices + device;
      RequestId &before = last[queue[r]];
      (before == noRequest ? queueHead[queue[r]] : next[before]) = r;
      before = r;
    }
}

Requests::Requests(const Program &program, const ChannelRules &rules) : program(program), edges(program) {
  nameCalls();
  number(rules);
  pair();
  gatherCalls();
  enqueue(rules);
}

} // namespace sluice
