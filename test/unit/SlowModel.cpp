#include "SlowModel.h"

#include <algorithm>
#include <tuple>

namespace sluice::slow {

static int64_t duration(const CostModel &costs, const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
    return costs.forward.at(op.stage, op.microbatch);
  case OpKind::Backward:
    return costs.backward.at(op.stage, op.microbatch);
  case OpKind::BackwardInput:
    return costs.backwardInput.at(op.stage, op.microbatch);
  case OpKind::BackwardWeight:
    return costs.backwardWeight.at(op.stage, op.microbatch);
  case OpKind::Recompute:
    return costs.recompute.at(op.stage, op.microbatch);
  default:
    return 0;
  }
}

/// A fused forward and backward may have a cost of its own; any other overlap takes the sum.
int64_t computeTime(const Program &program, const CostModel &costs, OpId first, OpId end) {
  int64_t sum = 0;
  const Op *forward = nullptr, *backward = nullptr;
  for (OpId id = first; id < end; ++id) {
    const Op &op = program.ops[id];
    sum += duration(costs, op);
    if (op.kind == OpKind::Forward)
      forward = &op;
    if (op.kind == OpKind::Backward)
      backward = &op;
  }
  if (end - first == 2 && forward && backward)
    if (auto fused = costs.overlapped.find({forward->stage, backward->stage});
        fused != costs.overlapped.end())
      return fused->second;
  return sum;
}

namespace {
/// All ops of one kind, stage and microbatch, in order of devices and programs.
using Places = std::map<std::tuple<OpKind, uint32_t, uint32_t>, std::vector<OpId>>;
} // namespace

static std::vector<OpId> find(const Places &places, OpKind kind, uint32_t stage, uint32_t microbatch) {
  auto found = places.find({kind, stage, microbatch});
  return found == places.end() ? std::vector<OpId>{} : found->second;
}

/// The step whose result `op` waits for from another stage, if there is one.
static std::vector<Prerequisite> inputOf(const Program &program, const CostModel &costs, const Run &run,
                                         const Places &places, const Op &op) {
  if (!op.hasMicrobatch())
    return {};
  std::vector<OpId> producers;
  int64_t transfer = 0;
  uint32_t device = program.deviceOf(op.stage, op.microbatch), neighbour = op.stage;
  if (op.kind == OpKind::Forward && op.stage > 0) {
    neighbour = op.stage - 1u;
    producers = find(places, OpKind::Forward, neighbour, op.microbatch);
    transfer = costs.activationTransfer.at(neighbour, op.microbatch);
  }
  if ((op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput) && op.stage + 1u < program.stages) {
    neighbour = op.stage + 1u;
    producers = find(places, OpKind::Backward, neighbour, op.microbatch);
    if (producers.empty())
      producers = find(places, OpKind::BackwardInput, neighbour, op.microbatch);
    transfer = costs.gradientTransfer.at(neighbour, op.microbatch);
  }
  // On one device the program's order hands the value over; a wrong order there is the verdict's affair.
  if (producers.empty() || program.deviceOf(neighbour, op.microbatch) == device)
    return {};
  return {{run.stepOf[producers.front()], transfer}};
}

/// The steps right before the same call of the reduction on every device that holds a copy.
static void joinReduction(const Program &program, Run &run, size_t step) {
  Step &self = run.steps[step];
  const Op &op = program.ops[self.first];
  auto sameCalls = [&](uint32_t device) {
    std::vector<size_t> calls;
    for (size_t i = 0; i < run.steps.size(); ++i)
      if (run.steps[i].device == device && program.ops[run.steps[i].first] == op)
        calls.push_back(i);
    return calls;
  };
  std::vector<size_t> mine = sameCalls(self.device);
  size_t call = std::find(mine.begin(), mine.end(), step) - mine.begin();
  for (uint32_t device : program.devicesOf(op.stage)) {
    if (device == self.device)
      continue;
    std::vector<size_t> theirs = sameCalls(device);
    if (call >= theirs.size())
      self.never = true;
    else if (theirs[call] > 0 && run.steps[theirs[call] - 1].device == device)
      self.prerequisites.push_back({theirs[call] - 1, 0});
  }
}

static void addSteps(const Program &program, const CostModel &costs, Run &run, Places &places) {
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1];) {
      Step step;
      step.device = device;
      step.first = id++;
      while (id < program.deviceBegin[device + 1] && program.ops[id].has(OverlapFollower))
        ++id;
      step.endOp = id;
      step.duration = computeTime(program, costs, step.first, step.endOp);
      for (OpId op = step.first; op < step.endOp; ++op) {
        run.stepOf.push_back(run.steps.size());
        places[{program.ops[op].kind, program.ops[op].stage, program.ops[op].microbatch}].push_back(op);
      }
      run.steps.push_back(step);
    }
}

Run run(const Program &program, const CostModel &costs, Transfers transfers) {
  Run run;
  Places places;
  addSteps(program, costs, run, places);
  for (size_t i = 0; i < run.steps.size(); ++i) {
    Step &step = run.steps[i];
    if (i > 0 && run.steps[i - 1].device == step.device)
      step.prerequisites.push_back({i - 1, 0});
    for (OpId id = step.first; id < step.endOp; ++id)
      for (Prerequisite input : inputOf(program, costs, run, places, program.ops[id]))
        step.prerequisites.push_back({input.step, transfers == Transfers::Given ? input.transfer : 0});
    if (program.ops[step.first].kind == OpKind::Reduce)
      joinReduction(program, run, i);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (Step &step : run.steps) {
      if (step.done || step.never)
        continue;
      int64_t ready = 0;
      bool all = true;
      for (const Prerequisite &needed : step.prerequisites) {
        all &= run.steps[needed.step].done;
        ready = std::max(ready, run.steps[needed.step].finish + needed.transfer);
      }
      if (!all)
        continue;
      step.start = ready;
      step.finish = ready + step.duration;
      step.done = changed = true;
    }
  }
  run.complete = std::all_of(run.steps.begin(), run.steps.end(), [](const Step &step) { return step.done; });
  return run;
}

int64_t Run::makespan() const {
  int64_t latest = 0;
  for (const Step &step : steps)
    latest = std::max(latest, step.finish);
  return latest;
}

/// Time under a transfer in the idle interval that begins at `from` and that `ending` ends: back along
/// what each step of the chain waited for longest.
static int64_t transferStall(const Run &run, const Step &ending, int64_t from) {
  int64_t stall = 0;
  const Step *step = &ending;
  while (step->start > from) {
    const Prerequisite *binding = nullptr;
    int64_t latest = -1;
    for (const Prerequisite &candidate : step->prerequisites) {
      const Step &source = run.steps[candidate.step];
      int64_t arrival = source.finish + candidate.transfer;
      bool ownWins = binding && run.steps[binding->step].device == step->device;
      bool lower = binding && source.device < run.steps[binding->step].device;
      if (arrival > latest || (arrival == latest && !ownWins && (source.device == step->device || lower))) {
        latest = arrival;
        binding = &candidate;
      }
    }
    step = &run.steps[binding->step];
    stall += latest - std::max(from, std::min(latest, step->finish));
  }
  return stall;
}

static bool computes(const Program &program, const Step &step) {
  return std::any_of(program.ops.begin() + step.first, program.ops.begin() + step.endOp,
                     [](const Op &op) { return op.isCompute(); });
}

/// Busy, useful and the parts of idle; imbalance and upstream come when all devices are known. Returns the
/// device's span.
static int64_t measureTime(const Program &program, const Run &run, uint32_t device, DeviceFigures &figures) {
  std::vector<const Step *> steps, computing;
  for (const Step &step : run.steps)
    if (step.device == device) {
      steps.push_back(&step);
      if (computes(program, step))
        computing.push_back(&step);
    }
  for (const Step *step : steps) {
    figures.busy += step->duration;
    bool isOverlap = step->endOp - step->first > 1;
    if (isOverlap || program.ops[step->first].kind != OpKind::Recompute)
      figures.useful += step->duration;
  }
  figures.idle = run.makespan() - figures.busy;
  if (computing.empty()) {
    figures.fill = figures.idle;
    return 0;
  }
  figures.fill = computing.front()->start;
  figures.drain = run.makespan() - computing.back()->finish;
  // Between its compute ops a device may also wait for a reduction, which then ends an idle interval.
  auto last = std::find(steps.begin(), steps.end(), computing.back());
  for (auto step = std::find(steps.begin(), steps.end(), computing.front()); step != last; ++step)
    figures.stallTransfer += transferStall(run, **(step + 1), (*step)->finish);
  return computing.back()->finish - computing.front()->start;
}

void addShares(int64_t largestBusy, int64_t largestSpan, Figures &figures) {
  int64_t busy = 0, useful = 0;
  for (DeviceFigures &own : figures.devices) {
    busy += own.busy;
    useful += own.useful;
    int64_t wait = own.idle - own.fill - own.drain - own.stallTransfer;
    own.imbalance = std::min(wait, largestBusy - own.busy);
    own.stallUpstream = wait - own.imbalance;
  }
  const auto devices = static_cast<int64_t>(figures.devices.size());
  const int64_t elapsed = figures.makespan * devices;
  figures.ideal = Rational::make(busy, devices);
  figures.bubbleTime = Rational::make(elapsed - busy, devices);
  figures.overheadRatio = Rational::make(elapsed - busy, busy);
  figures.idleFraction = Rational::make(elapsed - busy, elapsed);
  figures.utilization = Rational::make(useful, elapsed);
  figures.spanBubbleRate = Rational::make(largestSpan - largestBusy, largestSpan);
}

Figures measure(const Program &program, const CostModel &costs, const Run &run) {
  Figures figures;
  figures.makespan = run.makespan();
  figures.transferExposed = figures.makespan - slow::run(program, costs, Transfers::Free).makespan();
  figures.devices.resize(program.devices);
  int64_t largestBusy = 0, largestSpan = 0;
  for (uint32_t device = 0; device < program.devices; ++device) {
    DeviceFigures &own = figures.devices[device];
    largestSpan = std::max(largestSpan, measureTime(program, run, device, own));
    largestBusy = std::max(largestBusy, own.busy);
  }
  addShares(largestBusy, largestSpan, figures);
  measureLive(program, costs, run, figures);
  return figures;
}

} // namespace sluice::slow
