// Random legal compute orders for the tests of splits, versions and buffers: a random execution, written
// down device by device. Everything follows from the seed.
#pragma once

#include "IR/Builder.h"
#include "RandomSchedules.h"

#include <set>
#include <tuple>

namespace sluice::slow {

struct RandomOrder {
  Sizes sizes;
  std::vector<uint32_t> deviceOf;       ///< Per stage.
  std::vector<std::vector<Op>> devices; ///< Compute ops of each.

  /// What must have run before `op`, by the language's definition.
  std::vector<Op> prerequisites(const Op &op) const {
    std::vector<Op> result;
    const auto s = static_cast<uint32_t>(op.stage);
    const uint32_t m = op.microbatch, k = sizes.sequenceSplits;
    auto add = [&](OpKind kind, uint32_t stage, uint32_t microbatch) {
      result.push_back({kind, 0, static_cast<uint16_t>(stage), microbatch});
    };
    if (op.kind == OpKind::BackwardWeight) {
      add(OpKind::BackwardInput, s, m);
    } else if (op.kind == OpKind::Forward) {
      if (s > 0)
        add(OpKind::Forward, s - 1, m);
      if (m % k > 0)
        add(OpKind::Forward, s, m - 1);
    } else {
      add(OpKind::Forward, s, m);
      if (s + 1 < sizes.stages)
        add(OpKind::Backward, s + 1, m);
      if (m % k + 1 < k)
        add(OpKind::Backward, s, m + 1);
    }
    return result;
  }
};

/// A whole backward or an input half: either passes the gradient on.
inline OpKind plainKind(OpKind kind) { return kind == OpKind::BackwardInput ? OpKind::Backward : kind; }

/// The ops that have run, whole backwards and input halves as one kind.
class Ran {
public:
  void add(const Op &op) { ops.insert({plainKind(op.kind), op.stage, op.microbatch}); }
  bool has(const Op &op) const { return ops.count({plainKind(op.kind), op.stage, op.microbatch}) != 0; }

private:
  std::set<std::tuple<OpKind, uint32_t, uint32_t>> ops;
};

inline RandomOrder randomOrder(Random &random, uint32_t splits) {
  RandomOrder order;
  const uint32_t stages = 1 + random.below(4), devices = 1 + random.below(stages);
  order.sizes = {stages, (1 + random.below(4)) * splits, devices, splits};
  for (uint32_t s = 0; s < stages; ++s)
    order.deviceOf.push_back(s < devices ? s : random.below(devices));
  order.devices.resize(devices);
  std::vector<Op> left;
  for (uint32_t s = 0; s < stages; ++s)
    for (uint32_t m = 0; m < order.sizes.microbatches; ++m) {
      auto add = [&](OpKind kind) { left.push_back({kind, 0, static_cast<uint16_t>(s), m}); };
      add(OpKind::Forward);
      const bool isSplit = random.chance(30);
      add(isSplit ? OpKind::BackwardInput : OpKind::Backward);
      if (isSplit)
        add(OpKind::BackwardWeight);
    }
  Ran ran;
  while (!left.empty()) {
    std::vector<size_t> runnable;
    for (size_t i = 0; i < left.size(); ++i) {
      const std::vector<Op> needs = order.prerequisites(left[i]);
      if (std::all_of(needs.begin(), needs.end(), [&](const Op &op) { return ran.has(op); }))
        runnable.push_back(i);
    }
    const size_t chosen = runnable[random.below(static_cast<uint32_t>(runnable.size()))];
    const Op op = left[chosen];
    left.erase(left.begin() + static_cast<ptrdiff_t>(chosen));
    ran.add(op);
    order.devices[order.deviceOf[op.stage]].push_back(op);
  }
  return order;
}

/// Writes an op of any kind through the builder.
inline void write(DeviceProgram &program, const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
    return program.forward(op.stage, op.microbatch);
  case OpKind::Backward:
    return program.backward(op.stage, op.microbatch);
  case OpKind::BackwardInput:
    return program.backwardInput(op.stage, op.microbatch);
  case OpKind::BackwardWeight:
    return program.backwardWeight(op.stage, op.microbatch);
  default:
    return program.update(op.stage);
  }
}

} // namespace sluice::slow
