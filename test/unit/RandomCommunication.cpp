// Random explicit programs and rules for the tests of what blocks.
#include "ExplicitPrograms.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::slow {

namespace {

class Draw {
public:
  explicit Draw(uint64_t seed) : random(seed) {}

  Program program() {
    devices = 2 + random.below(3);
    stages = 3 + random.below(6);
    microbatches = 1 + random.below(3);
    drawPlacement();
    if (const uint32_t from = random.below(stages - 2); random.chance(30))
      skips = {{from, from + 2 + random.below(stages - from - 2), true, {}}};
    for (uint32_t tie = random.chance(25) ? 1 + random.below(2) : 0; tie > 0; --tie)
      ties.push_back({fmt::format("w{}", tie), {random.below(stages - 1), stages - 1}, {}});
    // One order of all messages and collectives, followed by every device but for a few moves, completes
    // often; an order of its own for each device hardly ever.
    std::vector<Step> steps;
    drawMessages(steps);
    drawCollectives(steps);
    shuffle(steps);
    DeviceOps lists(devices);
    for (const Step &step : steps)
      for (auto [device, op] : step)
        if (!random.chance(2))
          for (uint32_t times = random.chance(2) ? 2 : 1; times > 0; --times)
            lists[device].push_back(op);
    const bool isFree = random.chance(40);
    for (std::vector<Op> &ops : lists) {
      if (isFree)
        shuffle(ops);
      else if (ops.size() > 1)
        for (uint32_t moves = random.below(3); moves > 0; --moves)
          std::swap(ops[random.below(size(ops))], ops[random.below(size(ops))]);
    }
    groupPercent = random.chance(40) ? 0 : random.below(60);
    startPercent = random.chance(50) ? 0 : random.below(70);
    for (uint32_t device = 0; device < devices; ++device)
      lists[device] = posted(lists[device], device);
    return explicitProgram(rows, lists, skips, ties);
  }

private:
  /// The two ends of a message, or the calls of a joint op, with their devices.
  using Step = std::vector<std::pair<uint32_t, Op>>;

  template <typename T> static uint32_t size(const std::vector<T> &list) {
    return static_cast<uint32_t>(list.size());
  }
  template <typename T> void shuffle(std::vector<T> &list) {
    for (uint32_t i = size(list); i > 1; --i)
      std::swap(list[i - 1], list[random.below(i)]);
  }

  static Op beside(Op op) {
    op.flags |= NamesPeer;
    return op;
  }

  /// Loops, a V, blocks, anything, or two copies in opposite directions.
  void drawPlacement() {
    const uint32_t kind = random.below(5);
    rows.assign(microbatches, std::vector<uint32_t>(stages));
    for (uint32_t s = 0; s < stages; ++s) {
      const uint32_t turn = s % (2 * devices), any = random.below(devices);
      for (uint32_t m = 0; m < microbatches; ++m) {
        const uint32_t where[] = {s % devices, turn < devices ? turn : 2 * devices - 1 - turn,
                                  s * devices / stages, any,
                                  m % 2 == 0 ? s % devices : devices - 1 - s % devices};
        rows[m][s] = where[kind];
      }
    }
  }

  void drawMessages(std::vector<Step> &steps) {
    for (uint32_t m = 0; m < microbatches; ++m)
      for (uint32_t s = 0; s + 1 < stages; ++s) {
        const uint32_t here = rows[m][s], behind = rows[m][s + 1];
        if (here == behind)
          continue;
        steps.push_back({{here, sendActivation(s, m)}, {behind, recvActivation(s + 1, m)}});
        steps.push_back({{behind, sendGradient(s + 1, m)}, {here, recvGradient(s, m)}});
      }
    for (SkipEdge skip : skips)
      for (uint32_t m = 0; m < microbatches; ++m) {
        const uint32_t here = rows[m][skip.from], behind = rows[m][skip.to];
        if (here == behind)
          continue;
        steps.push_back(
            {{here, beside(sendActivation(skip.from, m))}, {behind, beside(recvActivation(skip.to, m))}});
        steps.push_back(
            {{behind, beside(sendGradient(skip.to, m))}, {here, beside(recvGradient(skip.from, m))}});
      }
    shuffle(steps);
    steps.resize(std::min<size_t>(steps.size(), 2 + random.below(7)));
  }

  void drawCollectives(std::vector<Step> &steps) {
    for (uint32_t s = 0; s < stages; ++s) {
      Step step;
      for (uint32_t device = 0; device < devices; ++device)
        if (std::any_of(rows.begin(), rows.end(), [&](auto &row) { return row[s] == device; }))
          step.push_back({device, {OpKind::Reduce, 0, static_cast<uint16_t>(s), noMicrobatch}});
      if (random.chance(step.size() > 1 ? 30 : 5))
        steps.push_back(step);
    }
    for (uint32_t tie = 0; tie < ties.size(); ++tie) {
      Step step;
      const Op op{OpKind::ReduceTied, 0, static_cast<uint16_t>(ties[tie].stages.front()), tie};
      for (uint32_t device = 0; device < devices; ++device)
        if (std::any_of(rows.begin(), rows.end(), [&](auto &row) {
              return row[ties[tie].stages[0]] == device || row[ties[tie].stages[1]] == device;
            }))
          step.push_back({device, op});
      steps.push_back(step);
    }
    for (uint32_t calls = random.chance(30) ? 1 + random.below(2) : 0; calls > 0; --calls) {
      Step step;
      for (uint32_t device = 0; device < devices; ++device)
        step.push_back({device, {OpKind::Norm, 0, 0, noMicrobatch}});
      steps.push_back(step);
    }
  }

  /// `ops` of a device as statements, with some of its forwards in between.
  std::vector<Op> posted(const std::vector<Op> &ops, uint32_t device) {
    std::vector<Op> result, open;
    auto wait = [&](uint32_t which) {
      if (!random.chance(3))
        result.push_back(waits(open[which]));
      open.erase(open.begin() + which);
    };
    for (size_t i = 0; i < ops.size();) {
      std::vector<Op> members = {ops[i++]};
      if (members[0].isCommunication())
        while (i < ops.size() && ops[i].isCommunication() && random.chance(groupPercent))
          members.push_back(ops[i++]);
      const bool canStart = members[0].mayStart();
      if (canStart && random.chance(startPercent))
        for (Op &op : members) {
          open.push_back(op);
          op = started(op);
        }
      result = result + group(members);
      while (!open.empty() && random.chance(35))
        wait(random.chance(70) ? 0 : random.below(size(open)));
      const uint32_t s = random.below(stages), m = random.below(microbatches);
      if (random.chance(10) && rows[m][s] == device)
        result.push_back({OpKind::Forward, 0, static_cast<uint16_t>(s), m});
    }
    while (!open.empty())
      wait(random.chance(70) ? 0 : random.below(size(open)));
    if (!ops.empty() && random.chance(2))
      result.push_back(waits(ops[random.below(size(ops))]));
    return result;
  }

  Random random;
  uint32_t devices = 0, stages = 0, microbatches = 0;
  PlacementRows rows;
  std::vector<SkipEdge> skips;
  std::vector<TiedWeight> ties;
  uint32_t groupPercent = 0, startPercent = 0;
};

} // namespace

Program randomCommunication(uint64_t seed) { return Draw(seed).program(); }

Blocking randomBlocking(Random &random) {
  static constexpr uint32_t depths[] = {0, 1, 2, Blocking::unbounded};
  Blocking blocking;
  blocking.key = static_cast<Blocking::Key>(random.below(4));
  blocking.depth = depths[random.below(4)];
  blocking.servesDevice = random.chance(30);
  blocking.atomicGroups = random.chance(30);
  blocking.progressInWait = random.chance(30);
  blocking.connectsOnFirstUse = random.chance(25);
  return blocking;
}

} // namespace sluice::slow
