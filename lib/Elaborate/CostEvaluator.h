// The state of one evaluation of costs, shared by the files that each evaluate some settings; private to
// lib/Elaborate.
#pragma once

#include "Elaborate/Costs.h"
#include "IR/CostModel.h"
#include "Sema/Evaluate.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>

namespace sluice {

class CostEvaluator {
public:
  CostEvaluator(const Program &program, const CheckedSchedule &schedule, Evaluator &evaluator,
                const std::optional<HeldSamples> &held)
      : program(program), schedule(schedule), file(evaluator.checked()), evaluator(evaluator),
        diagnostics(evaluator.diagnostics), held(held) {}

  std::optional<CostModel> run();

private:
  using Rationals = StageTable<Rational>;

  // Costs.cpp
  const CheckedSetting *setting(const std::optional<CheckedBlock> &block, const std::string &name) const;
  uint32_t indexOf(const CheckedSetting &of) const {
    return static_cast<uint32_t>(&of - file.settings.data());
  }
  bool isUsed(OpKind kind) const { return used & (1u << static_cast<unsigned>(kind)); }
  std::nullopt_t fail() {
    failed = true;
    return std::nullopt;
  }
  /// A value of `of` for these arguments, not negative and of the dimension. Times may be ticks, but not
  /// in one file with seconds.
  std::optional<Rational> value(const CheckedSetting &of, llvm::ArrayRef<Value> arguments,
                                Dimension dimension);
  /// A setting per stage, and per microbatch if it is written so.
  Rationals table(const CheckedSetting &of, Dimension dimension);
  void checkListLength(const CheckedSetting &of, uint32_t count, llvm::StringRef what);
  Rationals zeros() const { return Rationals(std::vector<Rational>(program.stages)); }
  void missing(llvm::StringRef figure, llvm::StringRef name);
  void evaluateCluster();
  /// The word of a setting of the cluster; empty where none is written.
  llvm::StringRef wordOf(const char *name);
  void evaluateOccupation();
  void evaluateChannels();
  std::optional<int64_t> eagerDepth(NodeId node);

  // CostLayers.cpp
  void checkLayers();

  // CostTimes.cpp
  Rationals combine(const Rationals &a, const Rationals &b, bool subtracting, llvm::StringRef what);
  void evaluateTimes();
  void checkWhole();
  /// Only the pairs of stages that some overlap of the program runs.
  void evaluateOverlaps();
  // CostOverlaps.cpp
  using StagePair = std::pair<uint32_t, uint32_t>; ///< Of a forward and of a backward.
  void checkOverlapped(const CheckedSetting &of, llvm::ArrayRef<StagePair> pairs,
                       const std::map<StagePair, Rational> &times);
  void checkUnusedOverlaps(const CheckedSetting &of);

  // CostTimes.cpp
  /// The members of an overlap together may take too long for 64 bits.
  void checkOverlapSums();
  /// The largest unit that divides every time, so that times stay small.
  void chooseUnit();
  bool hasFairLane() const;

  // CostSizes.cpp
  std::vector<int64_t> bytesOf(const Rationals &sizes, const CheckedSetting &of);
  StageTable<int64_t> sizes(const char *name, const StageTable<int64_t> &otherwise);
  void evaluateSizes();
  void evaluateSkips();

  // CostTransfers.cpp
  struct Moving {
    Rational latency, timePerByte; ///< Nanoseconds or ticks; 1 / bandwidth.
  };
  struct Way {
    Moving moving;
    uint32_t route = noRoute; ///< noRoute: no link takes the pair.
  };
  struct Trip {
    Rational time;
    uint32_t route = noRoute;
  };
  bool isComputed(uint32_t setting) const;
  /// Of a link, host or collective whose parameters are set.
  std::optional<Moving> moving(const CheckedLink &link);
  /// Latency and size ÷ bandwidth; 106 at `span` if that leaves 64 bits.
  std::optional<Rational> timeToMove(const Moving &moving, int64_t bytes, Span span,
                                     llvm::function_ref<std::string()> what);
  uint32_t addLinkKind(const CheckedLink &link);
  std::optional<uint32_t> laneOf(uint32_t link, uint32_t from, uint32_t to);
  const Way *wayOf(uint32_t from, uint32_t to);
  void noWay(uint32_t from, uint32_t to, const Op &op);
  /// Of what `op` makes; none on one device.
  Trip trip(uint32_t from, uint32_t to, const Op &op, int64_t bytes);
  void evaluateTransfers();
  void evaluateChainTransfers();
  void evaluateSkipTransfers();

  // CostCollectives.cpp
  void evaluateUpdates();
  /// Of a collective of several members; 0 without a `collective` block.
  Rational timeTogether(uint64_t members, int64_t bytes);
  uint64_t replicas() const { return static_cast<uint64_t>(costs.replicas.value_or(1)); }
  void evaluateReductions();
  void evaluateGathers();
  void checkBlocking();

  // CostHost.cpp
  void evaluateHost();

  // CostProfile.cpp
  Rationals measuredTable(const CheckedSetting &of);
  void checkMeasured();
  void checkMeasured(const CheckedSetting &of, size_t op);

  // CostTraining.cpp
  std::optional<int64_t> count(const char *name);
  void evaluateSemantics();
  bool evaluateTraining();
  bool evaluateTokens();
  void evaluateGradientTerms();
  void batchMismatch(const std::optional<Rational> &fraction);

  const Program &program;
  const CheckedSchedule &schedule;
  const CheckedFile &file;
  Evaluator &evaluator;
  Diagnostics &diagnostics;
  const std::optional<HeldSamples> &held;
  CostModel costs;
  bool failed = false;
  unsigned used = 0; // a bit per kind of op
  bool hasOverlaps = false;
  Span firstTick, firstTime;
  Rationals forward, recompute, backward, backwardInput, backwardWeight, activationTransfer, gradientTransfer;
  Rationals offload, reload;
  std::vector<Rational> update, reduce, unshard, reduceTied; // empty: nothing gives a time
  std::vector<Rational> routeLatency, hostLatency;           // of costs.routes and costs.hostRoutes
  std::map<std::pair<uint32_t, uint32_t>, Way> ways;
  std::map<std::array<int64_t, 3>, uint32_t> lanes;
  std::map<uint64_t, Moving> together; // collectives by their members
  std::vector<Rationals> skipTransfer; // see CostModel
  std::map<std::pair<uint32_t, uint32_t>, Rational> overlapped;
};

} // namespace sluice
