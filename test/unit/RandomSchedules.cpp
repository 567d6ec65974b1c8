#include "RandomSchedules.h"

#include <algorithm>
#include <set>

namespace sluice::slow {

namespace {

/// How a schedule reduces and updates.
enum class Ending { AtEnd, AsReady, NoUpdate, Asynchronous };

/// Carries out a random execution.
class Generator {
public:
  explicit Generator(uint64_t seed) : random(seed) {}
  RandomSchedule generate();

private:
  void choosePlacement();
  bool tryPlacement(uint32_t shape);
  void chooseCosts();
  StageTable<int64_t> table(int64_t low, int64_t high, bool perMicrobatch);
  StageTable<int64_t> transfers(int step);
  void chooseEnding();
  void choosePlans();
  void execute();
  bool isReady(uint32_t stage, uint32_t microbatch) const;
  uint32_t appeal(const Op &op);
  void runStep(uint32_t device);
  void finishStage(uint32_t stage, uint32_t device);
  std::vector<uint32_t> holders(uint32_t stage) const;
  bool mustReduce(uint32_t stage) const;
  void append(OpKind kind, uint32_t stage, uint32_t device) {
    result.steps[device].push_back({Op{kind, 0, static_cast<uint16_t>(stage), noMicrobatch}});
  }

  Random random;
  RandomSchedule result;
  Ending ending = Ending::AtEnd;
  bool reduces = true, overlaps = false;
  uint32_t eagerness = 1; // how much a backward is preferred to a forward
  /// What remains of each pair's ops, per microbatch and stage; the next at the back.
  std::vector<std::vector<std::vector<Op>>> plans;
  std::vector<std::vector<bool>> forwardDone, gradientDone;
  std::vector<uint32_t> contributionsLeft; // per stage
};

} // namespace

bool Generator::tryPlacement(uint32_t shape) {
  const uint32_t devices = result.devices = 1 + random.below(4);
  uint32_t microbatches = result.microbatches = 1 + random.below(6);
  uint32_t stages = devices;
  if (shape == 1)
    stages *= 1 + random.below(3);
  if (shape == 2)
    stages *= 2;
  if (shape >= 4)
    stages = 1 + random.below(6);
  result.stages = stages;
  std::vector<uint32_t> row(stages);
  std::set<uint32_t> used;
  result.placement.clear();
  for (uint32_t m = 0; m < microbatches; ++m) {
    for (uint32_t s = 0; s < stages; ++s) {
      bool up = shape == 3 && m % 2 == 1;
      if (shape <= 1)
        row[s] = s % devices;
      else if (shape == 2)
        row[s] = s < devices ? s : 2 * devices - 1 - s;
      else if (shape == 3)
        row[s] = up ? devices - 1 - s : s;
      else if (shape == 5 || m == 0)
        row[s] = random.below(devices);
      used.insert(row[s]);
    }
    result.placement.push_back(row);
  }
  return used.size() == devices;
}

/// Linear, looped, folded, bidirectional, any by stage, any by stage and microbatch; no device is left out.
void Generator::choosePlacement() {
  while (!tryPlacement(random.below(6)))
    ;
  result.steps.resize(result.devices);
}

StageTable<int64_t> Generator::table(int64_t low, int64_t high, bool perMicrobatch) {
  StageTable<int64_t> values;
  std::vector<int64_t> row;
  for (uint32_t m = 0; m < result.microbatches; ++m) {
    if (m == 0 || perMicrobatch) {
      row.clear();
      for (uint32_t s = 0; s < result.stages; ++s)
        row.push_back(random.between(low, high));
    }
    values.addMicrobatch(row);
  }
  values.finish();
  return values;
}

/// Of outputs (`step` 1) or input gradients (-1): only between neighbours on different devices.
StageTable<int64_t> Generator::transfers(int step) {
  static constexpr int64_t longest[] = {0, 1, 3, 20};
  const int64_t high = longest[random.below(4)];
  const bool perMicrobatch = random.chance(30);
  std::vector<int64_t> drawn;
  StageTable<int64_t> values;
  for (uint32_t m = 0; m < result.microbatches; ++m) {
    std::vector<int64_t> row;
    for (uint32_t s = 0; s < result.stages; ++s) {
      if (m == 0)
        drawn.push_back(random.between(0, high));
      else if (perMicrobatch)
        drawn[s] = random.between(0, high);
      int64_t to = static_cast<int64_t>(s) + step;
      bool crosses = to >= 0 && to < static_cast<int64_t>(result.stages) &&
                     result.placement[m][s] != result.placement[m][static_cast<size_t>(to)];
      row.push_back(crosses ? drawn[s] : 0);
    }
    values.addMicrobatch(row);
  }
  values.finish();
  return values;
}

void Generator::chooseCosts() {
  CostModel &costs = result.costs = CostModel::ofTicks(result.stages);
  const bool perMicrobatch = random.chance(30);
  if (random.chance(80)) {
    const int64_t low = random.chance(10) ? 0 : 1, high = random.chance(10) ? 1'000'000 : 1 + random.below(9);
    for (StageTable<int64_t> *column :
         {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight, &costs.recompute})
      *column = table(low, high, perMicrobatch);
    costs.isDefault = false;
  }
  costs.activationTransfer = transfers(1);
  costs.gradientTransfer = transfers(-1);
  const int64_t largest = random.chance(20) ? int64_t(1) << 33 : 9;
  for (StageTable<int64_t> *column : {&costs.activation, &costs.keptInput, &costs.pending, &costs.boundary})
    *column = table(0, largest, perMicrobatch);
  for (std::vector<int64_t> *column :
       {&costs.weights, &costs.gradients, &costs.optimizerState, &costs.workspace})
    for (int64_t &value : *column)
      value = random.between(0, largest);
  if (random.chance(30))
    for (uint32_t device = 0; device < result.devices; ++device)
      costs.reserved.push_back(random.between(0, largest));
  if (random.chance(40)) // an overlap may also cost less than its longer member: only a warning
    for (uint32_t s = 0; s < result.stages; ++s)
      for (uint32_t t = 0; t < result.stages; ++t)
        if (random.chance(50))
          costs.overlapped[{s, t}] = random.between(1, 12);
  if (random.chance(20))
    for (uint32_t s = 0; s < result.stages; ++s)
      costs.randomStage.push_back(random.chance(50));
}

std::vector<uint32_t> Generator::holders(uint32_t stage) const {
  std::set<uint32_t> devices;
  for (const std::vector<uint32_t> &row : result.placement)
    devices.insert(row[stage]);
  return {devices.begin(), devices.end()};
}

/// One replica of one copy need not reduce; one that is not declared need not if nobody does.
void Generator::chooseEnding() {
  CostModel &costs = result.costs;
  bool anyCopies = false;
  for (uint32_t s = 0; s < result.stages; ++s)
    anyCopies |= holders(s).size() > 1;
  ending = static_cast<Ending>(random.below(3));
  if (random.chance(8) && !anyCopies) {
    ending = Ending::Asynchronous;
    costs.asynchronous = true;
  }
  if (random.chance(50))
    costs.replicas = 1 + random.below(2);
  reduces = anyCopies || costs.replicas > 1 || random.chance(70);
}

bool Generator::mustReduce(uint32_t stage) const {
  return reduces && (result.costs.replicas != 1 || holders(stage).size() > 1);
}

/// Whole or halved backwards; everything kept, or only the input and rebuilt, or dropped later on.
void Generator::choosePlans() {
  const uint32_t halves = random.below(3) * 50, rebuilt = random.chance(50) ? 0 : random.below(2) * 60 + 40;
  plans.resize(result.microbatches);
  for (uint32_t m = 0; m < result.microbatches; ++m)
    for (uint32_t s = 0; s < result.stages; ++s) {
      std::vector<Op> ops;
      auto add = [&](OpKind kind, unsigned flags = 0) {
        ops.push_back({kind, static_cast<uint8_t>(flags), static_cast<uint16_t>(s), m});
      };
      if (random.chance(rebuilt)) {
        const bool dropsLater = random.chance(30);
        add(OpKind::Forward, dropsLater ? 0 : KeepInput);
        if (dropsLater)
          add(OpKind::Drop, KeepInput);
        add(OpKind::Recompute, result.costs.isRandom(s) && random.chance(90) ? Replay : 0);
      } else {
        add(OpKind::Forward);
      }
      if (random.chance(halves)) {
        add(OpKind::BackwardInput);
        add(OpKind::BackwardWeight);
      } else {
        add(OpKind::Backward);
      }
      std::reverse(ops.begin(), ops.end());
      plans[m].push_back(ops);
    }
}

bool Generator::isReady(uint32_t stage, uint32_t microbatch) const {
  if (plans[microbatch][stage].empty())
    return false;
  switch (plans[microbatch][stage].back().kind) {
  case OpKind::Forward:
    return stage == 0 || forwardDone[microbatch][stage - 1];
  case OpKind::Backward:
  case OpKind::BackwardInput:
    return stage + 1 == result.stages || gradientDone[microbatch][stage + 1];
  default:
    return true;
  }
}

uint32_t Generator::appeal(const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
    return 10;
  case OpKind::BackwardWeight:
    return 1 + random.below(20);
  default:
    return 10 * eagerness;
  }
}

void Generator::finishStage(uint32_t stage, uint32_t device) {
  if (ending == Ending::Asynchronous) {
    if (mustReduce(stage))
      append(OpKind::Reduce, stage, device);
    append(OpKind::Update, stage, device);
    return;
  }
  if (--contributionsLeft[stage] > 0 || ending != Ending::AsReady)
    return;
  if (mustReduce(stage) || (reduces && random.chance(50)))
    for (uint32_t holder : holders(stage))
      append(OpKind::Reduce, stage, holder);
  for (uint32_t holder : holders(stage))
    append(OpKind::Update, stage, holder);
}

/// Runs one op of `device`, or several that are ready at once as an overlap. Nothing if none is ready.
void Generator::runStep(uint32_t device) {
  std::vector<Op> ready, chosen;
  uint32_t total = 0;
  for (uint32_t m = 0; m < result.microbatches; ++m)
    for (uint32_t s = 0; s < result.stages; ++s)
      if (result.placement[m][s] == device && isReady(s, m))
        ready.push_back(plans[m][s].back());
  const size_t members = overlaps && random.chance(40) ? 2 + random.chance(10) : 1;
  while (!ready.empty() && chosen.size() < members) {
    std::vector<uint32_t> weights;
    total = 0;
    for (const Op &op : ready)
      weights.push_back(total += appeal(op));
    size_t pick = std::upper_bound(weights.begin(), weights.end(), random.below(total)) - weights.begin();
    chosen.push_back(ready[pick]);
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  if (chosen.empty())
    return;
  result.steps[device].push_back(chosen);
  for (const Op &op : chosen) {
    plans[op.microbatch][op.stage].pop_back();
    if (op.kind == OpKind::Forward)
      forwardDone[op.microbatch][op.stage] = true;
    if (op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput)
      gradientDone[op.microbatch][op.stage] = true;
    if (op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight)
      finishStage(op.stage, device);
  }
}

void Generator::execute() {
  for (auto *done : {&forwardDone, &gradientDone})
    done->assign(result.microbatches, std::vector<bool>(result.stages));
  contributionsLeft.assign(result.stages, result.microbatches);
  uint32_t left = result.stages;
  while (left > 0) {
    runStep(random.below(result.devices));
    left = 0;
    for (const auto &row : plans)
      left += static_cast<uint32_t>(
          std::count_if(row.begin(), row.end(), [](const std::vector<Op> &plan) { return !plan.empty(); }));
  }
  if (ending != Ending::AtEnd && ending != Ending::NoUpdate)
    return;
  for (uint32_t s = 0; s < result.stages; ++s)
    for (uint32_t device : holders(s))
      if (mustReduce(s))
        append(OpKind::Reduce, s, device);
  for (uint32_t s = 0; s < result.stages && ending == Ending::AtEnd; ++s)
    for (uint32_t device : holders(s))
      append(OpKind::Update, s, device);
}

RandomSchedule Generator::generate() {
  choosePlacement();
  chooseCosts();
  chooseEnding();
  overlaps = random.chance(30) && ending != Ending::Asynchronous; // where each contribution has its update
  eagerness = 1 + random.below(3) * random.below(20);
  choosePlans();
  if (ending != Ending::Asynchronous && random.chance(15))
    for (uint32_t s = 0; s < result.stages; ++s)
      for (uint32_t device : holders(s))
        append(OpKind::Zero, s, device);
  execute();
  return std::move(result);
}

RandomSchedule randomSchedule(uint64_t seed) { return Generator(seed).generate(); }

} // namespace sluice::slow
