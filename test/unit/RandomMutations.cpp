#include "RandomSchedules.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::slow {

namespace {

/// The steps of one device, and a choice among them.
struct Change {
  RandomSchedule &schedule;
  Random &random;
  uint32_t device;
  std::vector<std::vector<Op>> &steps;
  size_t at;

  auto place(size_t index) { return steps.begin() + static_cast<std::ptrdiff_t>(index); }
  void apply(uint32_t kind);
  void changeFlag();
  void changeKind();
};

} // namespace

void Change::changeFlag() {
  Op &op = steps[at].front();
  if (op.kind == OpKind::Forward)
    op.flags = random.chance(50) ? KeepNothing : op.flags ^ KeepInput;
  else if (op.kind == OpKind::Drop)
    op.flags ^= KeepInput;
}

void Change::changeKind() {
  Op &op = steps[at].front();
  if (op.kind == OpKind::Backward)
    op.kind = random.chance(50) ? OpKind::BackwardInput : OpKind::BackwardWeight;
  else if (op.kind == OpKind::BackwardInput)
    op.kind = OpKind::Backward;
}

void Change::apply(uint32_t kind) {
  const size_t other = random.below(static_cast<uint32_t>(steps.size()));
  std::vector<Op> step = steps[at];
  switch (kind) {
  case 0:
    schedule.mutation = "lost " + str(step);
    steps.erase(place(at));
    break;
  case 1:
    schedule.mutation = "doubled " + str(step);
    steps.insert(place(other), step);
    break;
  case 2:
    schedule.mutation = fmt::format("moved {} from {} to {}", str(step), at, other);
    steps.erase(place(at));
    steps.insert(place(std::min(other, steps.size())), step);
    break;
  case 3:
    schedule.mutation = fmt::format("exchanged {} and {}", str(step), str(steps[other]));
    std::swap(steps[at], steps[other]);
    break;
  case 4: {
    uint32_t target = random.below(schedule.devices);
    schedule.mutation = fmt::format("gave {} to device {}", str(step), target);
    steps.erase(place(at));
    auto &theirs = schedule.steps[target];
    theirs.insert(theirs.begin() + random.below(static_cast<uint32_t>(theirs.size()) + 1), step);
    break;
  }
  case 5:
    changeFlag();
    schedule.mutation = "another flag: " + str(steps[at]);
    break;
  case 6:
    changeKind();
    schedule.mutation = "another kind: " + str(steps[at]);
    break;
  case 7:
    if (at + 1 < steps.size() && step.back().hasMicrobatch() && steps[at + 1].back().hasMicrobatch()) {
      steps[at].insert(steps[at].end(), steps[at + 1].begin(), steps[at + 1].end());
      steps.erase(place(at + 1));
      schedule.mutation = "fused " + str(steps[at]);
    }
    break;
  default:
    schedule.placement[random.below(schedule.microbatches)][random.below(schedule.stages)] = noDevice;
    schedule.mutation = "a pair left unplaced";
  }
}

void mutate(RandomSchedule &schedule, Random &random) {
  schedule.mutation = "nothing";
  uint32_t device = random.below(schedule.devices);
  std::vector<std::vector<Op>> &steps = schedule.steps[device];
  if (steps.empty())
    return;
  size_t at = random.below(static_cast<uint32_t>(steps.size()));
  // Most mutants move ops; to leave a pair unplaced is one fault and needs few tries.
  uint32_t kind = random.chance(2) ? 8 : random.below(8);
  Change{schedule, random, device, steps, at}.apply(kind);
}

} // namespace sluice::slow
