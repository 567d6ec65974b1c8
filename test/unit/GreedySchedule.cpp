#include "GreedySchedule.h"

#include "IR/Builder.h"
#include "Schedules.h"

namespace sluice::test {

namespace {

/// Times of one op of each kind, per stage.
struct Times {
  std::vector<int64_t> forward, backward, weight;
};

class Greedy {
public:
  explicit Greedy(uint64_t seed) : random(static_cast<unsigned>(seed)) {
    devices = 1 + below(random, 6);
    stages = devices * (1 + below(random, 3));
    microbatches = 1 + below(random, 4) * (below(random, 3) == 0 ? 200 : 40);
    splits = below(random, 3) == 0;
    recomputes = below(random, 4) == 0;
    folds = below(random, 3) == 0; // the second chunk runs back over the devices
    mostInFlight = 1 + below(random, 3 * devices);
    prefersForward = below(random, 2) == 0;
    times = randomTimes(below(random, 2) == 0 ? 1 : 5);
  }

  GreedySchedule make() {
    run();
    ScheduleBuilder builder("greedy", {stages, microbatches, devices});
    builder.place([&](Stage s, Microbatch) { return deviceOf(s); });
    builder.program([&](DeviceProgram &p, Device d) {
      for (const Op &op : orders[d])
        append(p, op);
      p.reduce();
      p.update();
    });
    GreedySchedule result{builder.build(), CostModel::ofTicks(stages)};
    result.costs.isDefault = false;
    const Times other = randomTimes(1 + below(random, 30));
    result.costs.forward = StageTable<int64_t>(other.forward);
    result.costs.recompute = result.costs.forward;
    result.costs.backward = StageTable<int64_t>(other.backward);
    result.costs.backwardInput = result.costs.backward;
    result.costs.backwardWeight = StageTable<int64_t>(other.weight);
    for (auto *table :
         {&result.costs.activation, &result.costs.keptInput, &result.costs.pending, &result.costs.boundary}) {
      std::vector<int64_t> row(stages);
      for (int64_t &bytes : row)
        bytes = below(random, 10);
      *table = StageTable<int64_t>(row);
    }
    for (int64_t &bytes : result.costs.workspace)
      bytes = below(random, 3);
    setTransfers(result.program, result.costs, below(random, 2) * below(random, 12));
    return result;
  }

private:
  Device deviceOf(uint32_t s) const {
    const uint32_t turn = s / devices, place = s % devices;
    return folds && turn % 2 == 1 ? devices - 1 - place : place;
  }
  Times randomTimes(uint32_t most) {
    Times result;
    for (uint32_t s = 0; s < stages; ++s) {
      result.forward.push_back(1 + below(random, most));
      result.backward.push_back(2 + below(random, most));
      result.weight.push_back(1 + below(random, most));
    }
    return result;
  }

  struct Chosen {
    OpKind kind;
    uint32_t stage = ~0u;
  };
  /// Microbatches go through each kind of op of a stage in order, so a count says which is next.
  uint32_t &done(OpKind kind, uint32_t s) { return counts[static_cast<unsigned>(kind)][s]; }
  int64_t endOf(OpKind kind, uint32_t s, uint32_t m) const {
    const auto &list = ends[static_cast<unsigned>(kind)][s];
    return m < list.size() ? list[m] : -1;
  }
  bool hasArrived(int64_t end, int64_t now) const { return end >= 0 && end <= now; }
  bool isReady(OpKind kind, uint32_t s, int64_t now) {
    const uint32_t m = done(kind, s);
    if (m == microbatches)
      return false;
    switch (kind) {
    case OpKind::Forward:
      return (s == 0 || hasArrived(endOf(OpKind::Forward, s - 1, m), now)) &&
             (s >= devices || m - done(OpKind::Backward, s) < mostInFlight);
    case OpKind::Backward:
      return hasArrived(endOf(OpKind::Forward, s, m), now) &&
             (s + 1 == stages || hasArrived(endOf(OpKind::Backward, s + 1, m), now));
    default:
      return splits && hasArrived(endOf(OpKind::Backward, s, m), now);
    }
  }
  std::optional<Chosen> choose(uint32_t device, int64_t now) {
    const OpKind first = prefersForward ? OpKind::Forward : OpKind::Backward;
    const OpKind second = prefersForward ? OpKind::Backward : OpKind::Forward;
    for (OpKind kind : {first, second, OpKind::BackwardWeight})
      for (uint32_t s = stages; s-- > 0;)
        if (deviceOf(s) == device && isReady(kind, s, now))
          return Chosen{kind, s};
    return std::nullopt;
  }
  void run() {
    orders.resize(devices);
    for (auto *column : {&counts[0], &counts[1], &counts[3]})
      column->assign(stages, 0);
    for (auto *column : {&ends[0], &ends[1], &ends[3]})
      column->assign(stages, {});
    std::vector<int64_t> free(devices, 0);
    const uint64_t all = static_cast<uint64_t>(stages) * microbatches * (splits ? 3 : 2);
    uint64_t made = 0;
    for (int64_t now = 0; made < all; ++now)
      for (uint32_t d = 0; d < devices; ++d) {
        if (free[d] > now)
          continue;
        auto chosen = choose(d, now);
        if (!chosen)
          continue;
        const auto [kind, s] = *chosen;
        const uint32_t m = done(kind, s)++;
        const auto &column = kind == OpKind::Forward    ? times.forward
                             : kind == OpKind::Backward ? times.backward
                                                        : times.weight;
        free[d] = now + column[s];
        ends[static_cast<unsigned>(kind)][s].push_back(free[d]);
        orders[d].push_back({kind, 0, static_cast<uint16_t>(s), m});
        ++made;
      }
  }
  void append(DeviceProgram &p, const Op &op) const {
    if (op.kind == OpKind::Forward)
      return p.forward(op.stage, op.microbatch, recomputes ? Keep::Input : Keep::All);
    if (op.kind == OpKind::BackwardWeight)
      return p.backwardWeight(op.stage, op.microbatch);
    if (recomputes)
      p.recompute(op.stage, op.microbatch);
    return splits ? p.backwardInput(op.stage, op.microbatch) : p.backward(op.stage, op.microbatch);
  }

  Random random;
  uint32_t devices, stages, microbatches, mostInFlight;
  bool splits, recomputes, folds, prefersForward;
  Times times;
  std::vector<uint32_t> counts[4];
  std::vector<std::vector<int64_t>> ends[4];
  std::vector<std::vector<Op>> orders;
};

} // namespace

GreedySchedule greedySchedule(uint64_t seed) { return Greedy(seed).make(); }

CostModel spelledOut(const CostModel &costs, uint32_t microbatches) {
  CostModel result = costs;
  for (auto *table : {&result.forward, &result.activation}) {
    StageTable<int64_t> rows;
    std::vector<int64_t> row = table->all();
    for (uint32_t m = 0; m < microbatches; ++m)
      rows.addMicrobatch(row);
    ++row[0];
    rows.addMicrobatch(row); // of a microbatch that does not exist
    rows.finish();
    *table = rows;
  }
  return result;
}

} // namespace sluice::test
