// The sends, receives and joint calls of a program as requests on channels: which queue each stands in and
// which others it meets. There are no tags: on each channel and direction the n-th send pairs with the n-th
// receive, and the n-th call of a name with the n-th calls of the others. Flat columns, made in a few passes
// over the program.
#pragma once

#include "Events/Messages.h"
#include "IR/ChannelRules.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>

namespace sluice {

using RequestId = uint32_t;
inline constexpr RequestId noRequest = ~0u;

struct Requests {
  /// Every send and receive of `program` has a stage on another device as its peer (406 otherwise).
  Requests(const Program &program, const ChannelRules &rules);

  uint32_t size() const { return static_cast<uint32_t>(op.size()); }
  bool isCall(RequestId r) const { return !program.ops[op[r]].isCommunication(); }
  bool isSend(RequestId r) const { return program.ops[op[r]].isSend(); }
  bool isStarted(RequestId r) const { return program.ops[op[r]].isStarted(); }
  uint32_t device(RequestId r) const {
    return isCall(r) ? program.deviceOf(op[r]) : isSend(r) ? from[direction[r]] : to[direction[r]];
  }
  /// Of a send or receive: the device at the other end.
  uint32_t peer(RequestId r) const { return isSend(r) ? to[direction[r]] : from[direction[r]]; }
  /// Whether `op` is a joint call of several devices.
  bool joins(const Op &op) const {
    return op.kind == OpKind::Reduce ? names[op.stage].members.size() > 1
           : op.kind == OpKind::ReduceTied || op.kind == OpKind::Norm
               ? !(op.kind == OpKind::Norm && op.has(Local)) && names[nameOf(op)].members.size() > 1
               : false;
  }
  /// The request of a send, receive or joint call; a binary search.
  RequestId of(OpId id) const {
    return static_cast<RequestId>(std::lower_bound(op.begin(), op.end(), id) - op.begin());
  }
  /// The other end of the message; noRequest where the program lacks it.
  RequestId partner(RequestId r) const { return isSend(r) ? receive(r, 0) : send(r); }
  /// The receive `back` messages before the one that send `r` pairs with; noRequest if there is none.
  RequestId receive(RequestId r, uint32_t back) const {
    return inList(receives, receiveBegin, direction[r], ordinal[r] - back, ordinal[r] >= back);
  }
  /// The send `ahead` messages behind the one that receive `r` pairs with.
  RequestId send(RequestId r, uint32_t ahead = 0) const {
    return inList(sends, sendBegin, direction[r], ordinal[r] + ahead, ordinal[r] + ahead >= ahead);
  }
  /// The calls that meet in one, of which `direction` of a call is the number.
  llvm::ArrayRef<RequestId> callsOf(uint32_t meeting) const {
    return llvm::ArrayRef(calls).slice(meetingBegin[meeting],
                                       meetingBegin[meeting + 1] - meetingBegin[meeting]);
  }
  uint32_t meetingCount() const { return meetings; }
  /// Devices that a call waits for, ascending.
  llvm::ArrayRef<uint32_t> membersOf(RequestId r) const { return names[nameOf(program.ops[op[r]])].members; }
  RequestId endOfStatement(RequestId first) const {
    RequestId end = first + 1;
    while (end < size() && statement[end] == first)
      ++end;
    return end;
  }

  const Program &program;
  /// Per request, in program order of the devices: ids of one device are consecutive and ascend as it posts.
  std::vector<OpId> op;
  std::vector<RequestId> statement; ///< The first request of its statement: of its group, or itself.
  std::vector<uint32_t> direction;  ///< Channel and direction, for pairing; of a call, its meeting.
  std::vector<uint32_t> ordinal; ///< Its number among the sends, receives or calls of its direction or name.
  std::vector<uint32_t> queue;   ///< The channel end it is served at.
  std::vector<RequestId> next;   ///< Behind it in its queue.
  std::vector<RequestId> begin;  ///< Per device, devices + 1.
  /// Per `wait` for a send, receive or joint call, in program order, the request it is for: the n-th wait of
  /// a name is for its n-th start; noRequest where nothing is started (308).
  std::vector<RequestId> waits;
  std::vector<uint32_t> waitBegin; ///< Per device, devices + 1.

  std::vector<uint32_t> from, to;         ///< Per direction: its devices.
  std::vector<RequestId> queueHead;       ///< Per queue: its first request.
  std::vector<RequestId> sends, receives; ///< By direction, in order.
  std::vector<uint32_t> sendBegin, receiveBegin;

private:
  RequestId inList(const std::vector<RequestId> &list, const std::vector<uint32_t> &begins, uint32_t of,
                   uint32_t number, bool isValid) const {
    return isValid && number < begins[of + 1] - begins[of] ? list[begins[of] + number] : noRequest;
  }
  /// Reductions by stage, then tied weights, then the norm.
  uint32_t nameOf(const Op &op) const {
    return op.kind == OpKind::Reduce       ? op.stage
           : op.kind == OpKind::ReduceTied ? program.stages + op.microbatch
                                           : static_cast<uint32_t>(names.size()) - 1;
  }
  void nameCalls();
  void number(const ChannelRules &rules);
  void addCall(uint32_t name);
  void pair();
  void gatherCalls();
  void enqueue(const ChannelRules &rules);
  uint32_t directionOf(OpId id, const ChannelRules &rules);

  MessageEdges edges;
  struct CallName {
    std::vector<uint32_t> members; ///< Devices.
    uint32_t group = 0;            ///< Names with the same members share one channel.
    std::vector<uint32_t> meetings;
    uint32_t made = 0; ///< On the device at hand.
  };
  std::vector<CallName> names;
  std::vector<uint32_t> called; // names, on the device at hand
  uint32_t groups = 0, meetings = 0;
  std::vector<RequestId> calls;                // by meeting
  std::vector<uint32_t> meetingBegin;          // meetings + 1
  std::vector<uint32_t> known;                 // directions, per placement row and edge; key Message: unused
  llvm::DenseMap<uint64_t, uint32_t> numberOf; // of what a key joins
};

} // namespace sluice
