#include "SlowModel.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sluice::slow {

namespace {

enum class What { Saved, Input, Pending, Output };

/// Something an op of a device makes and a later one frees: live from the start of step `first` to the
/// end of step `last`.
struct Item {
  What what;
  uint32_t stage, microbatch;
  int64_t bytes;
  size_t first, last = std::numeric_limits<size_t>::max();
};

/// A boundary from another device: live from the start of its transfer until `consumer` takes it over at
/// its start, or frees it at its end.
struct Received {
  int64_t bytes, from;
  size_t consumer;
  bool untilEnd;
};

struct Live {
  const Program &program;
  const CostModel &costs;
  const Run &run;
  uint32_t device;
  std::vector<Item> items;
  std::vector<Received> received;
  /// Weights beyond one version of each, per step of the device and, under ~0, behind the last.
  std::map<size_t, int64_t> oldWeights{};
  /// What weights and gradients count beyond one whole set of each, which is less than nothing for shards:
  /// while a step of the device runs, and once it has ended. The first entry is what the program begins with.
  int64_t staticsAtFirst = 0;
  std::map<size_t, int64_t> staticsDuring{}, staticsBehind{};

  void open(What what, const Op &op, const StageTable<int64_t> &bytes, size_t step) {
    items.push_back({what, op.stage, op.microbatch, bytes.at(op.stage, op.microbatch), step});
  }
  void close(What what, const Op &op, size_t step) {
    for (Item &item : items)
      if (item.what == what && item.stage == op.stage && item.microbatch == op.microbatch &&
          item.last == std::numeric_limits<size_t>::max())
        item.last = step;
  }
  void apply(const Op &op, size_t step);
  void receive(const Op &op, size_t step);
  bool isLive(const Item &item, int64_t time) const;
  bool isLive(const Received &boundary, int64_t time) const;
  int64_t workspace(const Step &step) const;
  int64_t oldWeightsAt(int64_t time) const;
  int64_t staticsAt(int64_t time) const;
  int64_t bytesOf(const std::vector<const Item *> &live) const;
  int64_t during(size_t step) const;
  int64_t at(int64_t time) const;
};

} // namespace

void Live::apply(const Op &op, size_t step) {
  const bool isLast = op.stage + 1u == program.stages;
  switch (op.kind) {
  case OpKind::Forward:
    if (op.has(KeepInput))
      open(What::Input, op, costs.keptInput, step);
    else if (!op.has(KeepNothing))
      open(What::Saved, op, costs.activation, step);
    if (isLast)
      open(What::Output, op, costs.boundary, step);
    break;
  case OpKind::Recompute:
    close(What::Input, op, step);
    open(What::Saved, op, costs.activation, step);
    break;
  case OpKind::Backward:
    close(What::Saved, op, step);
    close(What::Output, op, step);
    break;
  case OpKind::BackwardInput:
    close(What::Saved, op, step);
    close(What::Output, op, step);
    open(What::Pending, op, costs.pending, step);
    break;
  case OpKind::BackwardWeight:
    close(What::Pending, op, step);
    break;
  case OpKind::Drop:
    close(What::Saved, op, step);
    if (op.has(KeepInput))
      open(What::Input, op, costs.keptInput, step);
    else
      close(What::Input, op, step);
    break;
  case OpKind::Offload: // gone from here once the copy is whole: at the wait, where it goes on beside others
    if (!op.isStarted())
      close(What::Saved, op, step);
    break;
  case OpKind::Reload: // its room is taken when it begins to come back
    if (!op.isWait())
      open(What::Saved, op, costs.activation, step);
    break;
  default:
    break;
  }
}

/// A message starts to travel when its producer ends.
void Live::receive(const Op &op, size_t step) {
  const bool isForward = op.kind == OpKind::Forward;
  if (!isForward && op.kind != OpKind::Backward && op.kind != OpKind::BackwardInput)
    return;
  if (isForward ? op.stage == 0 : op.stage + 1u == program.stages)
    return;
  const uint32_t from = isForward ? op.stage - 1u : op.stage + 1u;
  if (program.deviceOf(from, op.microbatch) == device)
    return;
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &other = program.ops[id];
    bool produces = isForward ? other.kind == OpKind::Forward
                              : other.kind == OpKind::Backward || other.kind == OpKind::BackwardInput;
    // Activation and gradient of an edge have the size of the boundary they cross.
    uint32_t edge = isForward ? from : op.stage;
    if (!produces || other.stage != from || other.microbatch != op.microbatch)
      continue;
    auto later = run.underWaySince.find({id, static_cast<OpId>(&op - program.ops.data())});
    const int64_t since = later == run.underWaySince.end() ? run.steps[run.stepOf[id]].finish : later->second;
    received.push_back(
        {costs.boundary.at(edge, op.microbatch), since, step, !isForward || op.has(KeepNothing)});
  }
}

bool Live::isLive(const Item &item, int64_t time) const {
  return run.steps[item.first].start <= time &&
         (item.last == std::numeric_limits<size_t>::max() || time < run.steps[item.last].finish);
}

bool Live::isLive(const Received &boundary, int64_t time) const {
  const Step &consumer = run.steps[boundary.consumer];
  return boundary.from <= time && time < (boundary.untilEnd ? consumer.finish : consumer.start);
}

/// What is needed only while ops run: each member of an overlap needs its own, an op that takes no time none.
int64_t Live::workspace(const Step &step) const {
  int64_t bytes = 0;
  for (OpId id = step.first; id < step.endOp; ++id)
    bytes += program.ops[id].isCompute() ? costs.workspace[program.ops[id].stage] : 0;
  return bytes;
}

/// An asynchronous copy keeps the version of its newest update and those that a forward, its backward or its
/// recompute has yet to read, which is the one that was newest at the forward.
static int64_t keptVersions(const Program &program, const Run &run, const std::vector<size_t> &steps,
                            size_t position, uint32_t stage) {
  std::map<uint32_t, size_t> readAtForward; // per microbatch
  std::set<size_t> kept;
  size_t updates = 0, updatesBefore = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i == position)
      updatesBefore = updates;
    for (OpId id = run.steps[steps[i]].first; id < run.steps[steps[i]].endOp; ++id) {
      const Op &op = program.ops[id];
      if (op.stage != stage)
        continue;
      if (op.kind == OpKind::Update)
        ++updates;
      else if (op.kind == OpKind::Forward)
        readAtForward[op.microbatch] = updates;
      const bool reads = op.kind == OpKind::Forward || op.kind == OpKind::Recompute ||
                         op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
      if (i >= position && reads)
        kept.insert(readAtForward[op.microbatch]);
    }
  }
  if (position == steps.size())
    updatesBefore = updates;
  kept.erase(kept.upper_bound(updatesBefore), kept.end());
  kept.insert(updatesBefore);
  return static_cast<int64_t>(kept.size());
}

int64_t Live::oldWeightsAt(int64_t time) const {
  for (const auto &[step, bytes] : oldWeights)
    if (step == ~size_t(0) || time < run.steps[step].finish)
      return bytes;
  return 0;
}

static int64_t shardOf(const CostModel &costs, int64_t bytes) {
  return (bytes + costs.replicas.value_or(1) - 1) / costs.replicas.value_or(1);
}

/// Whether the weights of the stage are whole after the first `count` ops of `ops`, told by the last op that
/// changed it; if there is none, by the end of the step before.
static bool isWhole(const CostModel &costs, const std::vector<Op> &ops, size_t count) {
  auto changes = [&](const Op &op) {
    return op.kind == OpKind::Unshard || op.kind == OpKind::Reshard ||
           (op.kind == OpKind::Reduce && costs.reshardsAfterReduce);
  };
  auto gathers = [](const Op &op) { return op.kind == OpKind::Unshard; };
  if (std::none_of(ops.begin(), ops.end(), gathers))
    return true;
  for (size_t i = count; i-- > 0;)
    if (changes(ops[i]))
      return gathers(ops[i]);
  return std::all_of(ops.begin(), ops.end(), [&](const Op &op) { return !changes(op) || gathers(op); });
}

/// Gradient sets after `count` ops: each contribution its own, until a reduction or the update makes one of
/// all there are. An update leaves none, unless only `zero` does that.
static int64_t gradientSets(const std::vector<Op> &ops, size_t count, bool hasZero) {
  int64_t sets = 0;
  for (size_t i = 0; i < count; ++i) {
    if (ops[i].overwrites() || ops[i].kind == OpKind::Zero || (ops[i].kind == OpKind::Update && !hasZero))
      sets = 0;
    if (ops[i].contributes())
      ++sets;
    if (ops[i].kind == OpKind::Reduce || ops[i].kind == OpKind::Update)
      sets = std::min<int64_t>(sets, 1);
  }
  return std::max<int64_t>(sets, 1);
}

/// Fills in what the statics of one stage add while each step runs and behind it.
static void addStatics(Live &live, const std::vector<size_t> &steps, uint32_t stage) {
  const bool hasZero = std::any_of(live.program.ops.begin(), live.program.ops.end(),
                                   [](const Op &op) { return op.kind == OpKind::Zero; });
  std::vector<Op> ops; // of the stage
  for (size_t step : steps)
    for (OpId id = live.run.steps[step].first; id < live.run.steps[step].endOp; ++id)
      if (live.program.ops[id].stage == stage)
        ops.push_back(live.program.ops[id]);
  const int64_t weights = live.costs.weights[stage], gradients = live.costs.gradients[stage];
  auto weightsAt = [&](size_t count) {
    return isWhole(live.costs, ops, count) ? 0 : shardOf(live.costs, weights) - weights;
  };
  auto gradientsAt = [&](size_t count) {
    return live.costs.keepsContributions ? gradients * (gradientSets(ops, count, hasZero) - 1) : 0;
  };
  live.staticsAtFirst += weightsAt(0) + gradientsAt(0);
  size_t before = 0;
  for (size_t step : steps) {
    size_t behind = before;
    for (OpId id = live.run.steps[step].first; id < live.run.steps[step].endOp; ++id)
      behind += live.program.ops[id].stage == stage;
    // What grows does so at the start, what shrinks at the end.
    live.staticsDuring[step] +=
        std::max(weightsAt(before), weightsAt(behind)) + std::max(gradientsAt(before), gradientsAt(behind));
    live.staticsBehind[step] += weightsAt(behind) + gradientsAt(behind);
    before = behind;
  }
}

int64_t Live::staticsAt(int64_t time) const {
  int64_t bytes = staticsAtFirst;
  for (const auto &[step, behind] : staticsBehind) {
    if (run.steps[step].start > time)
      break;
    bytes = time < run.steps[step].finish ? staticsDuring.at(step) : behind;
  }
  return bytes;
}

/// A pair is in one state: while an op turns one into the next, the larger of the two is held.
int64_t Live::bytesOf(const std::vector<const Item *> &live) const {
  std::map<std::pair<uint32_t, uint32_t>, int64_t> largest;
  int64_t bytes = 0;
  for (const Item *item : live)
    if (item->what == What::Output)
      bytes += item->bytes;
    else
      largest[{item->stage, item->microbatch}] =
          std::max(largest[{item->stage, item->microbatch}], item->bytes);
  for (auto [pair, held] : largest)
    bytes += held;
  return bytes;
}

/// Live bytes while `step` runs, in the device's own order: an op that takes no time still allocates
/// before it frees.
int64_t Live::during(size_t step) const {
  std::vector<const Item *> held;
  for (const Item &item : items)
    if (item.first <= step && step <= item.last)
      held.push_back(&item);
  int64_t bytes = workspace(run.steps[step]) + bytesOf(held) +
                  (oldWeights.empty() ? 0 : oldWeights.at(step)) + staticsDuring.at(step);
  for (const Received &boundary : received)
    if (boundary.from <= run.steps[step].start &&
        (step < boundary.consumer || (step == boundary.consumer && boundary.untilEnd)))
      bytes += boundary.bytes;
  return bytes;
}

/// Live bytes right after `time`, when a transfer to this device has just started.
int64_t Live::at(int64_t time) const {
  int64_t bytes = oldWeightsAt(time) + staticsAt(time);
  for (const Step &step : run.steps)
    if (step.device == device && step.start <= time && time < step.finish)
      bytes += workspace(step);
  std::vector<const Item *> held;
  for (const Item &item : items)
    if (isLive(item, time))
      held.push_back(&item);
  bytes += bytesOf(held);
  for (const Received &boundary : received)
    bytes += isLive(boundary, time) ? boundary.bytes : 0;
  return bytes;
}

/// Pairs of stage and microbatch with one of `kinds` live, the most over the device's steps.
static int64_t peakPairs(const Live &live, const std::vector<size_t> &steps, const std::set<What> &kinds) {
  size_t peak = 0;
  for (size_t step : steps) {
    std::set<std::pair<uint32_t, uint32_t>> pairs;
    for (const Item &item : live.items)
      if (kinds.count(item.what) && item.first <= step && step <= item.last)
        pairs.insert({item.stage, item.microbatch});
    peak = std::max(peak, pairs.size());
  }
  return static_cast<int64_t>(peak);
}

void measureLive(const Program &program, const CostModel &costs, const Run &run, Figures &figures) {
  for (uint32_t device = 0; device < program.devices; ++device) {
    Live live{program, costs, run, device, {}, {}};
    std::vector<size_t> steps;
    for (size_t step = 0; step < run.steps.size(); ++step)
      if (run.steps[step].device == device)
        steps.push_back(step);
    for (size_t step : steps)
      for (OpId id = run.steps[step].first; id < run.steps[step].endOp; ++id) {
        live.apply(program.ops[id], step);
        live.receive(program.ops[id], step);
      }
    if (costs.asynchronous)
      for (size_t position = 0; position <= steps.size(); ++position)
        for (uint32_t stage : program.stagesOn(device))
          live.oldWeights[position < steps.size() ? steps[position] : ~size_t(0)] +=
              costs.weights[stage] * (keptVersions(program, run, steps, position, stage) - 1);
    for (uint32_t stage : program.stagesOn(device))
      addStatics(live, steps, stage);
    DeviceFigures &own = figures.devices[device];
    own.peakActivation = peakPairs(live, steps, {What::Saved, What::Pending});
    own.peakSaved = peakPairs(live, steps, {What::Saved});
    own.peakPending = peakPairs(live, steps, {What::Pending});
    for (size_t step : steps)
      own.peakMemory = std::max(own.peakMemory, live.during(step));
    figures.transfers += static_cast<int64_t>(live.received.size());
    for (const Received &boundary : live.received)
      figures.bytesMoved += boundary.bytes;
    for (const Received &boundary : live.received)
      own.peakMemory = std::max(own.peakMemory, live.at(boundary.from));
    for (uint32_t stage : program.stagesOn(device))
      own.peakMemory +=
          costs.weights[stage] + costs.gradients[stage] +
          (costs.isSharded ? shardOf(costs, costs.optimizerState[stage]) : costs.optimizerState[stage]);
    own.peakMemory += costs.reserved.empty() ? 0 : costs.reserved[device];
  }
}

} // namespace sluice::slow
