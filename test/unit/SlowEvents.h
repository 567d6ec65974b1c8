// The event graph of written communication, read naively: the table of docs/language.md ("What blocks") as
// events with lists of prerequisites, gone through again and again until nothing changes. Shares no code with
// lib/Events: statements, pairing, queues and groups are found here anew. For programs of some hundred ops.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

#include <vector>

namespace sluice::slow {

struct EventTimes {
  bool complete = true;           ///< Every device reaches its end; times are right only then.
  std::vector<int64_t> end;       ///< Per op.
  std::vector<int64_t> met, done; ///< Per send, receive and joint call, posted or started; -1 for other ops.
  int64_t makespan() const;
};

/// Every message has a stage on another device as its peer.
EventTimes eventTimes(const Program &program, const CostModel &costs, const ChannelRules &rules);

} // namespace sluice::slow
