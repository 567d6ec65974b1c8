// What the model, the cluster and the training of a file say about one schedule, evaluated: plain
// integers that the timeline, the memory account and the generator read. Times are multiples of `unit`,
// chosen so that every cost and every transfer is a whole number of it; sizes are bytes.
#pragma once

#include "IR/ChannelRules.h"
#include "IR/Links.h"
#include "IR/StageTable.h"
#include "Support/Rational.h"
#include "Support/Source.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// What the model says: times and sizes.
struct ModelCosts {
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
  /// The routes of those transfers, into `routes`; noRoute where the transfer is 0 by being none. Empty: the
  /// file declares no link.
  StageTable<uint32_t> activationRoute, gradientRoute;
  /// Per stage, in units: the update, which its device computes, and what collectives are under way for: the
  /// reduction of its gradients, the gathering of its weights. Empty: 0.
  std::vector<int64_t> update, reduce, unshard;
  std::vector<int64_t> reduceTied; ///< Per weight of Program::ties. Empty: 0.
  /// Moving a saved activation to host memory and back. Empty: 0.
  StageTable<int64_t> offload, reload;
  std::vector<LinkKind> links;
  std::vector<Route> routes;
  /// Of device d: 2d to its host, 2d + 1 back. Empty: no `host` block.
  std::vector<Route> hostRoutes;
  uint32_t laneCount = 0; ///< Lanes that some route shares.
  /// `transfers = blocking`: a transfer occupies both of its devices for the same interval.
  bool transfersBlock = false;
  /// `collectives = overlapped`: a reduction holds up only what needs its result.
  bool collectivesOverlap = false;

  /// Bytes. `boundary` is the output of a stage for a microbatch; its gradient has the same size.
  StageTable<int64_t> activation, keptInput, pending, boundary;
  /// Of the outputs that the skip edges of Program::skips carry, by microbatch.
  std::vector<StageTable<int64_t>> skipBoundary; // one column
  /// Transfer times over each skip edge of Program::skips: column 0 its activation, column 1 its gradient.
  std::vector<StageTable<int64_t>> skipTransfer;
  std::vector<StageTable<uint32_t>> skipRoute;                        ///< As skipTransfer, into `routes`.
  std::vector<int64_t> weights, gradients, optimizerState, workspace; ///< Per stage.
  std::vector<bool> randomStage, batchNormStage;                      ///< Per stage; empty: none.
  /// Settings the file leaves out and which therefore count 0 (`activation`, `weights`).
  std::vector<std::string> notCounted;
  /// No model in the file: every op takes one tick, transfers none.
  bool isDefault = true;
};

/// What the training says: the gradient that should come out, and when.
struct TrainingTerms {
  /// Samples of each microbatch; empty: one each, none declared.
  std::vector<int64_t> samples;
  std::optional<int64_t> batch; ///< Samples per step over all replicas, where known.
  std::optional<int64_t> replicas;
  /// Loss tokens of each microbatch; empty: none declared.
  std::vector<int64_t> tokens;
  /// What the gradient should be: `mean over samples`, `mean over microbatches`, `mean over tokens`, `sum`.
  std::string loss = "mean over samples";
  /// Where the executor applies the factor that turns the loss of a microbatch into `loss`.
  enum class Scaling : uint8_t {
    Loss,        ///< At each microbatch's loss.
    Accumulator, ///< Once on the accumulator, before its reduction.
    Reduced,     ///< Once behind it.
    Program,     ///< Nowhere: only the program's own scales count.
  };
  Scaling scaling = Scaling::Loss;
  bool microbatchLossIsSum = false; ///< Of one microbatch's samples or tokens; else their mean.
  bool reductionIsMean = false;     ///< Over replicas; copies are always summed.
  bool isSharded = false;           ///< `reduced = sharded`: a replica keeps its shard of a gradient.
  bool isCopied = false;            ///< `reduced = … copied`: in a buffer of its own, for `update`.
  bool keepsContributions = false;  ///< `contributions = separate`: one gradient set for each.
  bool reshardsAfterReduce = false; ///< `after_reduce = resharded`
  bool asynchronous = false;
  std::optional<int64_t> stalenessBound; ///< `staleness <= k`, in updates; only if asynchronous.
};

struct CostModel : ModelCosts, TrainingTerms {
  /// Where a setting of model, cluster or training is written (`forward`, `boundary`, `link`).
  std::map<std::string, Span> declaredAt;
  std::vector<int64_t> memoryLimit, reserved; ///< Per device; limit empty: none given.
  /// Channel model for the verdict's reach (`nccl`); empty: none named.
  std::string transport;
  /// What blocks. Without a model (`transport`, `channel`) its depth is unbounded.
  ChannelRules channels;
  bool hasChannelModel = false;
  /// Whether `groups`, `progress` and `connect` are written: what a stricter setting would do is else a
  /// warning.
  bool saysGroups = false, saysProgress = false, saysConnect = false;
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
