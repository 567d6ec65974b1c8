// Orders that other systems' own generators printed, as test/goldens/orders holds them (see the README
// there), and the IR and costs they stand for.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::golden {

/// Times of one chunk, in whatever unit the original used, exact.
struct Costs {
  Rational forward, input, weight;
  std::optional<Rational> overlap; ///< Of a fused pair; nothing: the sum of its members.
  Rational latency;                ///< Added where producer and consumer sit on different devices.
};

/// An independent re-timing in doubles.
struct Figures {
  double makespan = 0, idleFraction = 0;
  double overheadRatio = 0; ///< Over the *largest* busy time of a device, ours is over the mean.
  double spanBubbleRate = 0;
  std::vector<double> idle; ///< Per device.
};

struct Order {
  std::string name;   ///< `zb_unit/1F1B_P4_M8_F10B11W8c1`
  std::string source; ///< `repository@commit`
  std::vector<std::pair<std::string, int64_t>> parameters;
  std::optional<Costs> costs;
  std::optional<Figures> figures;
  /// Live chunks times devices over stages, per device; an activation is freed by its weight half, or
  /// already by its input half. Empty where not given.
  std::vector<double> peakAtWeight, peakAtInput;
  /// Names of DeepSpeed's buffers, per device: one for each op.
  std::vector<std::vector<uint32_t>> buffers;
  std::vector<std::vector<Op>> rows; ///< Per device; members of a fused pair carry the flags of an overlap.

  uint32_t stages() const;
  uint32_t microbatches() const;
};

/// All orders of a folder, by name.
std::vector<Order> readOrders(const std::string &folder);

/// The IR of its compute ops: a stage lies where it has ops, for a microbatch where that one has them.
Program programOf(const Order &order);

/// Its costs as whole numbers; `perCost` of them make one unit of the order's own. The latency is that of one
/// link between all devices. Only where it has costs.
CostModel costsOf(const Order &order, const Program &program, int64_t &perCost);

/// `0F3`, `(0F7;7B3)OVERLAP_F_B`: the order as a `table` of the language.
std::string tableText(const Order &order);

} // namespace sluice::golden
