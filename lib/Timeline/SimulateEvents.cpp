#include "Timeline/SimulateEvents.h"

#include "Events/Execution.h"

#include <algorithm>

namespace sluice {

int64_t transferOf(const Program &program, const CostModel &costs, const Message &message) {
  if (message.isGradient ? message.to + 1 == message.from : message.from + 1 == message.to)
    return (message.isGradient ? costs.gradientTransfer : costs.activationTransfer)
        .at(message.from, message.microbatch);
  const uint32_t low = std::min(message.from, message.to), high = std::max(message.from, message.to);
  for (uint32_t i = 0; i < costs.skipTransfer.size(); ++i)
    if (program.skips[i].from == low && program.skips[i].to == high)
      return costs.skipTransfer[i].at(message.isGradient, message.microbatch);
  return 0;
}

namespace {

class ModelClock : public EventClock {
public:
  ModelClock(const Program &program, const CostModel &costs) : program(program), costs(costs) {}
  int64_t duration(OpId first, uint32_t count) const override {
    return durationOfGroup(costs, &program.ops[first], count);
  }
  int64_t transfer(OpId request) const override {
    return program.ops[request].isCommunication() ? transferOf(program, costs, messageOf(program, request))
                                                  : 0;
  }

private:
  const Program &program;
  const CostModel &costs;
};

/// Every message goes to another device over an edge of the model.
bool hasPeers(const Program &program) {
  const MessageEdges edges(program);
  for (OpId id = 0; id < program.size(); ++id) {
    if (!program.ops[id].isCommunication())
      continue;
    const Message message = messageOf(program, id);
    if (edges.of(message) == MessageEdges::none)
      return false;
    const uint32_t from = program.deviceOf(message.from, message.microbatch);
    const uint32_t to = program.deviceOf(message.to, message.microbatch);
    if (from == to || from == noDevice || to == noDevice)
      return false;
  }
  return true;
}

} // namespace

std::optional<Timeline> simulateEvents(const Program &program, const CostModel &costs,
                                       Diagnostics &diagnostics) {
  if (!hasPeers(program))
    return std::nullopt;
  const Requests requests(program, costs.channels);
  const ModelClock clock(program, costs);
  Execution execution(requests, costs.channels, &clock);
  if (!execution.run())
    return std::nullopt;
  if (execution.hasOverflowed()) {
    reportOverflow(program, costs, diagnostics);
    return std::nullopt;
  }
  Timeline timeline;
  timeline.end = std::move(execution.endOf);
  timeline.met = timeline.done = timeline.end;
  for (RequestId r = 0; r < requests.size(); ++r) {
    timeline.met[requests.op[r]] = execution.metAt[r];
    timeline.done[requests.op[r]] = execution.doneAt[r];
  }
  for (int64_t end : timeline.end)
    timeline.makespan = std::max(timeline.makespan, end);
  return timeline;
}

} // namespace sluice
