// The state of one evaluation of costs, shared by the files that each evaluate some settings; private to
// lib/Elaborate.
#pragma once

#include "IR/CostModel.h"
#include "Sema/Evaluate.h"

namespace sluice {

class CostEvaluator {
public:
  CostEvaluator(const Program &program, const CheckedSchedule &schedule, Evaluator &evaluator)
      : program(program), schedule(schedule), file(evaluator.checked()), evaluator(evaluator),
        diagnostics(evaluator.diagnostics) {}

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

  // CostSizes.cpp
  std::vector<int64_t> bytesOf(const Rationals &sizes, const CheckedSetting &of);
  StageTable<int64_t> sizes(const char *name, const StageTable<int64_t> &otherwise);
  void evaluateSizes();
  void evaluateSkips();

  // CostTransfers.cpp
  struct Link {
    Rational latency, timePerByte; ///< Nanoseconds or ticks; 1 / bandwidth.
  };
  std::optional<Link> link(uint32_t from, uint32_t to);
  void evaluateTransfers();

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
  CostModel costs;
  bool failed = false;
  unsigned used = 0; // a bit per kind of op
  bool hasOverlaps = false;
  Span firstTick, firstTime;
  Rationals forward, recompute, backward, backwardInput, backwardWeight, activationTransfer, gradientTransfer;
  std::vector<Rationals> skipTransfer; // see CostModel
  std::map<std::pair<uint32_t, uint32_t>, Rational> overlapped;
};

} // namespace sluice
