// A program as events, each with all that it needs. Statements begin and end; requests (sends, receives,
// collectives, moves to and from a host) are ready, met and done. Private to SlowTiming.h.
#pragma once

#include "SlowClock.h"
#include "SlowTiming.h"

#include <map>
#include <string>

namespace sluice::slow {

struct Statement {
  uint32_t device = 0;
  OpId first = 0, end = 0;
  std::vector<size_t> requests; ///< Posted here.
  size_t begins = 0, ends = 0;  ///< Events.
};

struct Request {
  enum Kind { Message, Call, Move } kind = Message;
  OpId op = 0;
  size_t statement = 0;
  std::string queue;   ///< Its end of its channel; empty: it waits for nobody.
  std::string channel; ///< Channel and direction; of a call, its name.
  size_t ordinal = 0;
  bool isAlone = false;                ///< A call of one device.
  int64_t wait = -1;                   ///< Statement of the wait of a started one.
  size_t ready = 0, met = 0, done = 0; ///< Events. `met`: all that `done` needs is there.
  int64_t carries = -1;                ///< Event of its transfer; none for a call.
};

/// A message of inferred communication.
struct Inferred {
  OpId from, to;
  bool isGradient;
  size_t arrives; ///< Event.
};

class Graph {
public:
  Graph(const Program &program, const CostModel &costs, Transfers transfers, Delay delay);

  Clock clock;
  std::vector<Statement> statements; ///< Device by device.
  std::vector<size_t> statementOf;   ///< Per op.
  std::vector<Request> requests;
  std::vector<Inferred> inferred;

  const Op &op(size_t r) const { return program.ops[requests[r].op]; }
  int64_t time(size_t event) const { return clock.events[event].time; }
  const Passage &passageOf(size_t event) const {
    return clock.passages[static_cast<size_t>(clock.events[event].passage)];
  }
  /// The request at the other end of a message; -1 if there is none.
  int64_t partner(size_t r) const {
    return onChannel(r, !op(r).isSend(), static_cast<int64_t>(requests[r].ordinal));
  }

private:
  // SlowGraph.cpp
  void findStatements();
  void addRequest(OpId id, const std::string &name);
  void nameChannel(Request &request, const std::string &name);
  void addStatement(size_t i);
  int64_t ownTime(const Statement &statement) const;
  void addInferred();
  void addMessage(OpId from, OpId to, bool isGradient, int64_t transfer, uint32_t route);
  void addCall(size_t r);
  void addMove(size_t r);
  bool isCall(const Op &op) const;
  std::vector<uint32_t> membersOf(OpId id) const;
  int64_t callTime(const Op &op) const;
  size_t addPassage(int64_t transfer, const Route *route, OpId sender, uint32_t stage);
  void need(size_t event, size_t needed) { clock.events[event].needs.push_back(needed); }

  // SlowEvents.cpp: written messages, and the queues that all requests stand in
  std::pair<uint32_t, uint32_t> stagesOf(OpId id) const;
  bool isGradient(OpId id) const;
  size_t addCarriage(OpId send);
  uint32_t peerDevice(size_t r) const;
  int64_t firstBetween(uint32_t here, uint32_t there) const;
  void addConnections(size_t statement);
  void addReady(size_t r);
  int64_t onChannel(size_t r, bool isSend, int64_t ordinal) const;
  void needsOf(size_t r, size_t event);
  void addWritten(size_t r);

  const Program &program;
  const CostModel &costs;
  const bool isFree;
  const Delay delay;
  ChannelRules rules; ///< Of written communication; else nothing of them counts.
  std::map<std::pair<uint32_t, std::string>, size_t> ordinals;
  std::map<std::pair<uint32_t, std::string>, std::vector<size_t>> started;
  std::vector<std::pair<size_t, int64_t>> waits; ///< Statement, and the request or -1.
};

} // namespace sluice::slow
