// Schedules that several tests use: the classical orders, and random ones with random costs.
#pragma once

#include "IR/Builder.h"
#include "IR/CostModel.h"

#include <algorithm>
#include <random>

namespace sluice::test {

/// One stage a device: `warmup(d)` forwards, then forward and backward in turn, then the rest.
template <typename Warmup>
Program inTurns(const char *name, uint32_t stages, uint32_t microbatches, Warmup warmupOf,
                bool backwardsReversed = false) {
  ScheduleBuilder builder(name, {stages, microbatches, stages});
  builder.place([](Stage s, Microbatch) { return Device(s); });
  builder.program([&](DeviceProgram &p, Device d) {
    const uint32_t warmup = std::min<uint32_t>(warmupOf(d), microbatches);
    auto backward = [&](uint32_t i) { p.backward(d, backwardsReversed ? microbatches - 1 - i : i); };
    for (uint32_t m = 0; m < warmup; ++m)
      p.forward(d, m);
    for (uint32_t m = 0; m < microbatches - warmup; ++m) {
      p.forward(d, m + warmup);
      backward(m);
    }
    for (uint32_t m = microbatches - warmup; m < microbatches; ++m)
      backward(m);
    p.reduce();
    p.update();
  });
  return builder.build();
}
inline Program gpipe(uint32_t stages, uint32_t microbatches, bool reversed = false) {
  return inTurns("gpipe", stages, microbatches, [=](uint32_t) { return microbatches; }, reversed);
}
inline Program oneFOneB(uint32_t stages, uint32_t microbatches) {
  return inTurns("one_f_one_b", stages, microbatches, [=](uint32_t d) { return stages - 1 - d; });
}
inline Program eagerOneFOneB(uint32_t stages, uint32_t microbatches) {
  return inTurns("eager", stages, microbatches, [=](uint32_t d) { return 2 * (stages - 1 - d); });
}

/// Transfers of `time` between all neighbours that `program` places apart.
inline void setTransfers(const Program &program, CostModel &costs, int64_t time) {
  costs.activationTransfer = costs.gradientTransfer = {};
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    std::vector<int64_t> activations(program.stages), gradients(program.stages);
    for (uint32_t s = 0; s + 1 < program.stages; ++s)
      if (program.deviceOf(s, m) != program.deviceOf(s + 1, m))
        activations[s] = gradients[s + 1] = time;
    costs.activationTransfer.addMicrobatch(activations);
    costs.gradientTransfer.addMicrobatch(gradients);
  }
  costs.activationTransfer.finish();
  costs.gradientTransfer.finish();
}

using Random = std::mt19937;
inline uint32_t below(Random &random, uint32_t bound) { return random() % bound; }

/// A random program that completes: ops in the order of one random execution. It has whole and split
/// backwards, recomputes, overlaps, and stages whose device depends on the microbatch.
class RandomSchedule {
public:
  explicit RandomSchedule(unsigned seed) : random(seed) {
    sizes = {1 + below(random, 5), 1 + below(random, 6), 1 + below(random, 4)};
    const uint32_t perMicrobatch = below(random, 2);
    const uint32_t shift = below(random, sizes.devices);
    deviceOf = [=, this](uint32_t s, uint32_t m) {
      return (s * (1 + shift) + (perMicrobatch ? m % 2 : 0)) % sizes.devices;
    };
    chooseOps();
  }

  Program build() {
    ScheduleBuilder builder("random", sizes);
    builder.place(deviceOf);
    while (!remaining.empty()) {
      uint32_t chosen = pickReady(~0u);
      Op first = take(chosen);
      uint32_t device = deviceOf(first.stage, first.microbatch);
      // A second op is ready together with the first only if it does not need it.
      uint32_t second = below(random, 4) == 0 ? pickReady(device) : ~0u;
      builder.program(device, [&](DeviceProgram &p) {
        if (second == ~0u)
          return append(p, first);
        Op other = take(second);
        p.overlap([&] { append(p, first), append(p, other); });
        done.push_back(other);
      });
      done.push_back(first);
    }
    builder.program([](DeviceProgram &p, Device) { p.reduce(), p.update(); });
    return builder.build();
  }

  CostModel costs(const Program &program) {
    CostModel result = CostModel::ofTicks(sizes.stages);
    result.isDefault = false;
    for (auto *table :
         {&result.forward, &result.backward, &result.backwardInput, &result.backwardWeight, &result.recompute,
          &result.activation, &result.keptInput, &result.pending, &result.boundary})
      *table = randomTable(0, 9);
    setTransfers(program, result, below(random, 6));
    if (sizes.stages > 1)
      result.overlapped[{0, sizes.stages - 1}] = 3;
    return result;
  }

private:
  StageTable<int64_t> randomTable(uint32_t least, uint32_t most) {
    StageTable<int64_t> table;
    const bool uneven = below(random, 2) == 1;
    std::vector<int64_t> row(sizes.stages);
    for (uint32_t m = 0; m < sizes.microbatches; ++m) {
      for (int64_t &value : row)
        if (m == 0 || uneven)
          value = least + below(random, most - least + 1);
      table.addMicrobatch(row);
    }
    table.finish();
    return table;
  }

  void chooseOps() {
    for (uint32_t s = 0; s < sizes.stages; ++s)
      for (uint32_t m = 0; m < sizes.microbatches; ++m) {
        auto add = [&](OpKind kind, uint8_t flags = 0) {
          remaining.push_back({kind, flags, static_cast<uint16_t>(s), m});
        };
        const bool recomputes = below(random, 4) == 0, splits = below(random, 2) == 0;
        add(OpKind::Forward, recomputes ? KeepInput : 0);
        if (recomputes)
          add(OpKind::Recompute);
        add(splits ? OpKind::BackwardInput : OpKind::Backward);
        if (splits)
          add(OpKind::BackwardWeight);
      }
  }

  bool has(const std::vector<Op> &ops, OpKind kind, uint32_t s, uint32_t m) const {
    return std::any_of(ops.begin(), ops.end(),
                       [&](const Op &op) { return op.kind == kind && op.stage == s && op.microbatch == m; });
  }
  bool isReady(const Op &op) const {
    const uint32_t s = op.stage, m = op.microbatch;
    switch (op.kind) {
    case OpKind::Forward:
      return s == 0 || has(done, OpKind::Forward, s - 1, m);
    case OpKind::BackwardWeight:
      return has(done, OpKind::BackwardInput, s, m);
    case OpKind::Recompute:
      return has(done, OpKind::Forward, s, m);
    default:
      return has(done, OpKind::Forward, s, m) && !has(remaining, OpKind::Recompute, s, m) &&
             !inHand(OpKind::Recompute, s, m) &&
             (s + 1 == sizes.stages || has(done, OpKind::Backward, s + 1, m) ||
              has(done, OpKind::BackwardInput, s + 1, m));
    }
  }
  /// The op just taken is neither remaining nor done.
  bool inHand(OpKind kind, uint32_t s, uint32_t m) const {
    return taken.kind == kind && taken.stage == s && taken.microbatch == m && !has(done, kind, s, m);
  }
  uint32_t pickReady(uint32_t device) {
    std::vector<uint32_t> ready;
    for (uint32_t i = 0; i < remaining.size(); ++i)
      if (isReady(remaining[i]) &&
          (device == ~0u || deviceOf(remaining[i].stage, remaining[i].microbatch) == device))
        ready.push_back(i);
    return ready.empty() ? ~0u : ready[below(random, static_cast<uint32_t>(ready.size()))];
  }
  Op take(uint32_t position) {
    taken = remaining[position];
    remaining.erase(remaining.begin() + position);
    return taken;
  }
  static void append(DeviceProgram &p, const Op &op) {
    switch (op.kind) {
    case OpKind::Forward:
      return p.forward(op.stage, op.microbatch, op.has(KeepInput) ? Keep::Input : Keep::All);
    case OpKind::Recompute:
      return p.recompute(op.stage, op.microbatch);
    case OpKind::Backward:
      return p.backward(op.stage, op.microbatch);
    case OpKind::BackwardInput:
      return p.backwardInput(op.stage, op.microbatch);
    default:
      return p.backwardWeight(op.stage, op.microbatch);
    }
  }

  Random random;
  Sizes sizes;
  std::function<uint32_t(uint32_t, uint32_t)> deviceOf;
  std::vector<Op> remaining, done;
  Op taken{OpKind::Update};
};

} // namespace sluice::test
