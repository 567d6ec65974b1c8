#include "SlowTiming.h"

#include "SlowGraph.h"

#include <algorithm>

namespace sluice::slow {

int64_t EventTimes::makespan() const { return end.empty() ? 0 : *std::max_element(end.begin(), end.end()); }

EventTimes eventTimes(const Program &program, const CostModel &costs, const ChannelRules &rules) {
  CostModel local = costs;
  local.channels = rules;
  return Timing(program, local).times;
}

namespace {

/// When a statement begins to occupy its device, which it does to its end, and what it stood for before.
struct Occupation {
  int64_t from = 0;
  size_t awaits = 0; ///< Event; between it and `from` a transfer stands on its lane.
};

Occupation occupationOf(const Graph &graph, const Program &program, const CostModel &costs,
                        const Statement &statement) {
  const Op &op = program.ops[statement.first];
  if (op.isCompute() || op.has(OverlapFirst) || op.kind == OpKind::Update)
    return {graph.time(statement.begins), statement.begins};
  if (!statement.requests.empty() && !op.isStarted()) {
    const Request &request = graph.requests[statement.requests.front()];
    if (request.kind == Request::Call)
      return {graph.time(request.met), request.met};
    if (request.kind == Request::Move || costs.transfersBlock)
      return {graph.passageOf(static_cast<size_t>(request.carries)).begin, request.met};
  }
  return {graph.time(statement.ends), statement.ends};
}

bool computes(const Program &program, const Statement &statement) {
  return std::any_of(program.ops.begin() + statement.first, program.ops.begin() + statement.end,
                     [](const Op &op) { return op.isCompute(); });
}

} // namespace

Timing::~Timing() = default;

Timing::Timing(const Program &program, const CostModel &costs, Transfers transfers, Delay delay)
    : program(program), costs(costs), graph(std::make_unique<Graph>(program, costs, transfers, delay)) {
  times.end.assign(program.size(), -1);
  times.start = times.met = times.done = times.end;
  for (const Statement &statement : graph->statements) {
    times.complete &= graph->time(statement.ends) >= 0;
    std::fill(times.end.begin() + statement.first, times.end.begin() + statement.end,
              graph->time(statement.ends));
    if (graph->time(statement.ends) >= 0)
      std::fill(times.start.begin() + statement.first, times.start.begin() + statement.end,
                occupationOf(*graph, program, costs, statement).from);
  }
  for (size_t r = 0; r < graph->requests.size(); ++r) {
    const Request &request = graph->requests[r];
    const bool isStored =
        request.kind == Request::Message && program.isExplicit && !costs.channels.isRendezvous();
    times.met[request.op] = isStored || request.carries < 0
                                ? graph->time(request.met)
                                : graph->passageOf(static_cast<size_t>(request.carries)).begin;
    times.done[request.op] = graph->time(request.done);
    const int64_t partner = request.kind == Request::Message ? graph->partner(r) : -1;
    if (partner < 0 || !graph->op(r).isSend() || request.carries < 0)
      continue;
    const auto carries = static_cast<size_t>(request.carries);
    times.messages.push_back({request.op, graph->requests[static_cast<size_t>(partner)].op,
                              graph->op(r).kind == OpKind::SendGradient, graph->clock.events[carries].ready,
                              graph->passageOf(carries).begin, graph->time(carries)});
  }
  for (const Inferred &message : graph->inferred)
    times.messages.push_back({message.from, message.to, message.isGradient,
                              graph->clock.events[message.arrives].ready,
                              graph->passageOf(message.arrives).begin, graph->time(message.arrives)});
  std::sort(times.messages.begin(), times.messages.end());
}

/// Where the time of one device goes; imbalance and upstream come when all devices are known. Returns its
/// span. `stall(from, event)` is what of a wait is under a transfer.
template <typename Stall>
static int64_t measureDevice(const Graph &graph, const Program &program, const CostModel &costs,
                             int64_t makespan, uint32_t device, Stall stall, DeviceFigures &figures) {
  std::vector<const Statement *> own, computing;
  for (const Statement &statement : graph.statements)
    if (statement.device == device) {
      own.push_back(&statement);
      if (computes(program, statement))
        computing.push_back(&statement);
    }
  int64_t before = 0;
  bool hasBegun = computing.empty(), hasEnded = false;
  for (const Statement *statement : own) {
    const Occupation occupation = occupationOf(graph, program, costs, *statement);
    const int64_t end = graph.time(statement->ends), idle = occupation.from - before;
    figures.busy += end - occupation.from;
    const bool isOverlap = statement->end - statement->first > 1;
    if (computes(program, *statement) &&
        (isOverlap || program.ops[statement->first].kind != OpKind::Recompute))
      figures.useful += end - occupation.from;
    if (!hasBegun || computing.empty())
      figures.fill += idle;
    else if (hasEnded)
      figures.drain += idle;
    else
      figures.stallTransfer +=
          stall(before, occupation.awaits) + (occupation.from - graph.time(occupation.awaits));
    hasBegun |= !computing.empty() && statement == computing.front();
    hasEnded |= !computing.empty() && statement == computing.back();
    before = end;
  }
  (computing.empty() ? figures.fill : figures.drain) += makespan - before;
  figures.idle = makespan - figures.busy;
  return computing.empty() ? 0
                           : graph.time(computing.back()->ends) -
                                 occupationOf(graph, program, costs, *computing.front()).from;
}

Figures Timing::figures() const {
  Figures figures;
  figures.makespan = times.makespan();
  figures.transferExposed = figures.makespan - Timing(program, costs, Transfers::Free).times.makespan();
  figures.devices.resize(program.devices);
  int64_t largestBusy = 0, largestSpan = 0;
  for (uint32_t device = 0; device < program.devices; ++device) {
    DeviceFigures &own = figures.devices[device];
    auto stall = [&](int64_t from, size_t event) { return graph->clock.underWaySince(from, event); };
    largestSpan =
        std::max(largestSpan, measureDevice(*graph, program, costs, figures.makespan, device, stall, own));
    largestBusy = std::max(largestBusy, own.busy);
  }
  addShares(largestBusy, largestSpan, figures);
  return figures;
}

Run Timing::asRun() const {
  Run run;
  run.stepOf = graph->statementOf;
  for (const Statement &statement : graph->statements) {
    Step step;
    step.device = statement.device;
    step.first = statement.first;
    step.endOp = statement.end;
    step.start = times.start[statement.first];
    step.finish = times.end[statement.first];
    step.duration = step.finish - step.start;
    step.done = true;
    run.steps.push_back(step);
  }
  for (const Message &message : times.messages)
    run.underWaySince[{message.from, message.to}] = message.begin;
  return run;
}

std::vector<std::pair<int64_t, int64_t>> Timing::stallRanges() const {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (uint32_t device = 0; device < program.devices; ++device) {
    DeviceFigures least, most;
    measureDevice(
        *graph, program, costs, times.makespan(), device,
        [&](int64_t from, size_t event) { return graph->clock.underWayRange(from, event).first; }, least);
    measureDevice(
        *graph, program, costs, times.makespan(), device,
        [&](int64_t from, size_t event) { return graph->clock.underWayRange(from, event).second; }, most);
    ranges.emplace_back(least.stallTransfer, most.stallTransfer);
  }
  return ranges;
}

namespace {

/// Whether the result of `reduce(stage)` must be there before `op`.
bool needsReduced(const Program &program, const Op &op, uint32_t stage) {
  switch (op.kind) {
  case OpKind::Update:
  case OpKind::Zero:
  case OpKind::Scale:
  case OpKind::Backward:
  case OpKind::BackwardWeight:
  case OpKind::Reduce:
    return op.stage == stage;
  case OpKind::ReduceTied: {
    const std::vector<uint32_t> &stages = program.ties[op.microbatch].stages;
    return std::find(stages.begin(), stages.end(), stage) != stages.end();
  }
  default:
    return op.kind == OpKind::Norm;
  }
}

} // namespace

Program overlapped(const Program &program) {
  Program result = program;
  result.ops.clear();
  result.siteOf.clear();
  result.frameOf.clear();
  result.deviceBegin = {0};
  auto append = [&](const Op &op, OpId origin) {
    result.ops.push_back(op);
    result.siteOf.push_back(program.siteOf[origin]);
    result.frameOf.push_back(program.frameOf[origin]);
  };
  for (uint32_t device = 0; device < program.devices; ++device) {
    std::vector<std::pair<Op, OpId>> open;
    const OpId end = program.deviceBegin[device + 1];
    for (OpId id = program.deviceBegin[device]; id < end;) {
      const OpId after = std::min(program.groupEnd(id), end);
      std::erase_if(open, [&](const std::pair<Op, OpId> &each) {
        bool isNeeded = false;
        for (OpId member = id; member < after; ++member)
          isNeeded |= needsReduced(program, program.ops[member], each.first.stage);
        if (isNeeded)
          append(each.first, each.second);
        return isNeeded;
      });
      for (; id < after; ++id) {
        Op op = program.ops[id];
        if (op.kind == OpKind::Reduce && !op.isStarted() && !op.isWait()) {
          Op wait = op;
          op.flags |= Started;
          wait.flags |= Waits;
          open.emplace_back(wait, id);
        }
        append(op, id);
      }
    }
    for (const auto &[wait, origin] : open)
      append(wait, origin);
    result.deviceBegin.push_back(result.size());
  }
  return result;
}

} // namespace sluice::slow
