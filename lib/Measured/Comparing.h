// A prediction and a measurement of one schedule beside each other. All differences are measured less
// predicted, and parts of the predicted value.
#pragma once

#include "Measured/Explain.h"
#include "Measured/RunFigures.h"

namespace sluice {

/// Ops of one kind on one stage. Times in the unit of the measurement.
struct OpClass {
  OpKind kind;
  uint32_t stage = 0;
  uint64_t count = 0; ///< Over all steps that are looked at.
  Rational predicted, mean;
  int64_t least = 0, median = 0, most = 0;
  double deviation = 0; ///< Standard deviation.
};

struct Offender {
  OpId op = noOp;
  int64_t predicted = 0, measured = 0;
  int64_t difference() const { return measured - predicted; }
};

struct CompareOptions {
  std::optional<uint64_t> step; ///< Only this one; else the median of all but the first.
  size_t offenders = 5;
};

struct Comparing {
  const Measurement *measurement = nullptr;
  const Figures *figures = nullptr;    ///< Predicted.
  const StepRun *run = nullptr;        ///< The step that figures, parts and offenders are of.
  std::vector<const StepRun *> looked; ///< Those that kinds of ops are of.
  bool leavesFirstOut = false;
  bool isChosen = false;       ///< By CompareOptions::step.
  int64_t least = 0, most = 0; ///< Makespans of `looked`.
  /// Mean time from the first row of a step to that of the next; nothing for one step.
  std::optional<Rational> period;
  std::optional<RunFigures> measured;
  std::vector<MakespanPart> parts;
  std::vector<OpClass> classes;
  std::vector<MessageClass> messages;
  std::vector<Offender> offenders; ///< Of the step, largest difference first; none without one.

  /// (measured - predicted) / predicted of the makespan; nothing if that is 0.
  std::optional<Rational> relative() const;
};

/// Keeps references. Fails if there is no such step or a time overflows.
llvm::Expected<Comparing> layBeside(const Measurement &measurement, const Figures &figures,
                                    const CompareOptions &options);

struct CompareCaption {
  std::string title;              ///< `main at P=4, M=8`
  std::vector<std::string> files; ///< Of the trace.
  std::vector<std::pair<std::string, std::string>> parameters;
  uint32_t replica = 0;
  std::vector<std::string> notes; ///< What is uncertain, a line each.
};
/// For people, ended by '\n'. `sources` has the schedule's text.
std::string comparingText(const Comparing &comparing, const CompareCaption &caption,
                          const SourceManager &sources);
/// The document that docs/compare.md describes, ended by '\n'; the same bytes for the same input.
std::string comparingJson(const Comparing &comparing, const CompareCaption &caption,
                          const SourceManager &sources);

} // namespace sluice
