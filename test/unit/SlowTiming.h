// When everything happens, read naively from docs/figures.md ("The timeline") and docs/language.md ("What
// blocks"): inferred or written communication, links that are shared, collectives, moves to and from a host.
// A schedule becomes a list of events with all that each needs (SlowGraph.h), and a clock lets them happen.
// Shares no code with lib/Events or lib/Timeline. For programs of some hundred ops.
#pragma once

#include "SlowModel.h"

#include <memory>
#include <vector>

namespace sluice::slow {

/// One message between devices: who makes and who uses its value, or its send and receive.
struct Message {
  OpId from = noOp, to = noOp;
  bool isGradient = false;
  int64_t ready = 0, begin = 0, end = 0;
  friend auto operator<=>(const Message &, const Message &) = default;
};

struct EventTimes {
  bool complete = true;            ///< Every device reaches its end; the rest is right only then.
  std::vector<int64_t> start, end; ///< Per op; what does not occupy its device starts when it ends.
  /// Per send, receive, call and move to or from a host, posted or started: since when it is under way, and
  /// when it is done; -1 for other ops.
  std::vector<int64_t> met, done;
  std::vector<Message> messages; ///< Ascending.
  int64_t makespan() const;
};

/// What is changed for one run: an op that ends later by itself.
struct Delay {
  OpId op = noOp;
  int64_t by = 0;
};

class Graph;

/// A run of a program under CostModel::channels, which count where communication is written. Every message
/// has a stage on another device as its peer.
class Timing {
public:
  Timing(const Program &program, const CostModel &costs, Transfers transfers = Transfers::Given,
         Delay delay = {});
  ~Timing();
  EventTimes times;

  /// The figures of a complete run that are times, and ratios of them.
  Figures figures() const;
  /// The same of inferred communication, for measureLive.
  Run asRun() const;
  /// Per device: the least and the most that stallTransfer could be, were ties broken in any other way.
  std::vector<std::pair<int64_t, int64_t>> stallRanges() const;

private:
  const Program &program;
  const CostModel &costs;
  std::unique_ptr<Graph> graph;
};

/// Of a program whose communication is written, under the given rules.
EventTimes eventTimes(const Program &program, const CostModel &costs, const ChannelRules &rules);

/// `program` with its reductions under way beside what does not need them (`collectives = overlapped`).
Program overlapped(const Program &program);

} // namespace sluice::slow
