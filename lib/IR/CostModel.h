// What the model, the cluster and the training of a file say about one schedule, evaluated: plain
// integers that the timeline, the memory account and the generator read. Times are multiples of `unit`,
// chosen so that every cost and every transfer is a whole number of it; sizes are bytes.
#pragma once

#include "IR/StageTable.h"
#include "Support/Rational.h"
#include "Support/Source.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

struct CostModel {
  /// True: times count ticks. False: nanoseconds.
  bool ticks = true;
  /// Length of one integer time unit, in ticks or nanoseconds.
  Rational unit = 1;
  /// The smallest time unit the file writes (`ms`), in which JSON states times; empty for ticks.
  std::string displayUnit;

  /// Durations of ops, per stage and microbatch.
  StageTable<int64_t> forward, backward, backwardInput, backwardWeight, recompute;
  /// Duration of an overlap of forward(s) and backward(t), for pairs given by the model; others take the
  /// sum of their members.
  std::map<std::pair<uint32_t, uint32_t>, int64_t> overlapped;
  /// Transfer time of the output of s to s + 1, and of the input gradient of s to s - 1; 0 on one device
  /// and where there is no such neighbour.
  StageTable<int64_t> activationTransfer, gradientTransfer;

  /// Bytes. `boundary` is the output of a stage for a microbatch; its gradient has the same size.
  StageTable<int64_t> activation, keptInput, pending, boundary;
  std::vector<int64_t> weights, gradients, optimizerState, workspace; ///< Per stage.
  std::vector<int64_t> memoryLimit, reserved; ///< Per device; limit empty: none given.
  /// Settings the file leaves out and which therefore count 0 (`activation`, `weights`).
  std::vector<std::string> notCounted;
  /// Where a setting of model, cluster or training is written (`forward`, `boundary`, `link`).
  std::map<std::string, Span> declaredAt;
  /// No model in the file: every op takes one tick, transfers none.
  bool isDefault = true;

  /// Samples of each microbatch; empty: one each, none declared.
  std::vector<int64_t> samples;
  std::optional<int64_t> batch; ///< Samples per step over all replicas, where known.
  std::optional<int64_t> replicas;
  std::string loss = "mean over samples";
  bool asynchronous = false;
  std::optional<int64_t> stalenessBound;         ///< `staleness <= k`, in updates; only if asynchronous.
  std::vector<bool> randomStage, batchNormStage; ///< Per stage; empty: none.
  /// Channel model for the verdict's reach (`nccl`); empty: none named.
  std::string transport;
  /// What shares one channel: `direction`, `pair`, `edge` or `message`.
  std::string channelKey = "direction";
  std::string communication = "early"; ///< Placement of inferred communication.

  bool isRandom(uint32_t stage) const { return !randomStage.empty() && randomStage[stage]; }
  /// A model of one tick per forward and half, free transfers, no sizes.
  static CostModel ofTicks(uint32_t stages, int64_t forward = 1, int64_t input = 1, int64_t weight = 1);
};

/// Duration of one op by itself, in units; 0 for drop, zero, reduce, update.
int64_t durationOf(const CostModel &costs, const struct Op &op);
/// Duration of the overlap (or single op) of `count` ops that begins at `first`.
int64_t durationOfGroup(const CostModel &costs, const struct Op *first, uint32_t count);

} // namespace sluice
