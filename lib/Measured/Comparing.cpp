#include "Measured/Comparing.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace sluice {

/// Ops that have a time of their own in a model.
static bool isCosted(const Op &op) {
  return (op.isCompute() || op.kind == OpKind::Update || op.kind == OpKind::Reduce ||
          op.kind == OpKind::Unshard || op.kind == OpKind::Offload || op.kind == OpKind::Reload) &&
         !op.isStarted() && !op.isWait();
}

/// Whether the members of the overlap of `op` were timed as one.
static bool isTimedWithOthers(const Program &program, const StepRun &run, OpId op) {
  auto isSame = [&](OpId other) {
    return run.begin[other] == run.begin[op] && run.end[other] == run.end[op];
  };
  return (program.ops[op].has(OverlapFollower) && isSame(op - 1)) ||
         (program.ops[op].has(OverlapFirst) && isSame(op + 1));
}

static std::vector<OpClass> classesOf(const Measurement &measurement, llvm::ArrayRef<const StepRun *> steps) {
  const Program &program = measurement.program;
  struct Sample {
    std::vector<int64_t> times;
    __int128 predicted = 0;
  };
  std::map<std::pair<OpKind, uint32_t>, Sample> samples;
  for (const StepRun *run : steps) {
    const std::vector<int64_t> durations = ownDurations(program, *run);
    for (OpId op = 0; op < program.size(); ++op) {
      const Op &one = program.ops[op];
      if (!run->has(op) || !isCosted(one) || isTimedWithOthers(program, *run, op))
        continue;
      Sample &sample = samples[{one.kind, one.stage}];
      sample.times.push_back(durations[op]);
      sample.predicted += durationOf(measurement.costs, one);
    }
  }
  std::vector<OpClass> classes;
  for (auto &[key, sample] : samples) {
    OpClass group{key.first, key.second, sample.times.size(), {}, {}, 0, 0, 0, 0};
    llvm::sort(sample.times);
    __int128 sum = 0;
    for (int64_t time : sample.times)
      sum += time;
    const auto count = static_cast<int64_t>(sample.times.size());
    group.mean = Rational::make(sum, count).value_or(Rational());
    group.predicted = Rational::make(sample.predicted, count).value_or(Rational());
    group.least = sample.times.front();
    group.median = sample.times[static_cast<size_t>(count - 1) / 2];
    group.most = sample.times.back();
    double squares = 0;
    for (int64_t time : sample.times)
      squares += std::pow(static_cast<double>(time) - group.mean.toDouble(), 2);
    group.deviation = std::sqrt(squares / static_cast<double>(count));
    classes.push_back(group);
  }
  return classes;
}

static std::vector<Offender> offendersOf(const Measurement &measurement, const StepRun &run, size_t most) {
  const Program &program = measurement.program;
  const std::vector<int64_t> durations = ownDurations(program, run);
  std::vector<Offender> offenders;
  for (OpId op = 0; op < program.size(); ++op) {
    if (!run.has(op) || !isCosted(program.ops[op]) || program.ops[op].has(OverlapFollower))
      continue;
    const bool isWhole = isTimedWithOthers(program, run, op);
    const OpId end = isWhole ? program.groupEnd(op) : op + 1;
    const Offender offender{op, durationOfGroup(measurement.costs, &program.ops[op], end - op),
                            durations[op]};
    if (offender.difference() != 0)
      offenders.push_back(offender);
  }
  llvm::stable_sort(offenders, [](const Offender &a, const Offender &b) {
    return std::abs(a.difference()) > std::abs(b.difference());
  });
  offenders.resize(std::min(offenders.size(), most));
  return offenders;
}

std::optional<Rational> Comparing::relative() const {
  const Rational predicted(measurement->predicted.makespan);
  return divide(Rational(run->makespan() - predicted.num), predicted);
}

llvm::Expected<Comparing> layBeside(const Measurement &measurement, const Figures &figures,
                                    const CompareOptions &options) {
  Comparing result;
  result.measurement = &measurement;
  result.figures = &figures;
  for (const StepRun &run : measurement.steps)
    if (!options.step || run.step == *options.step)
      result.looked.push_back(&run);
  if (result.looked.empty()) {
    std::vector<std::string> steps;
    for (const StepRun &run : measurement.steps)
      steps.push_back(std::to_string(run.step));
    if (steps.size() > 8) {
      steps.resize(8);
      steps.push_back("...");
    }
    return refusal(
        fmt::format("the trace has no complete step {}: it has {}", *options.step, llvm::join(steps, ", ")));
  }
  result.isChosen = options.step.has_value();
  result.leavesFirstOut = result.looked.size() > 1;
  if (result.leavesFirstOut)
    result.looked.erase(result.looked.begin());
  std::vector<const StepRun *> sorted = result.looked;
  llvm::stable_sort(sorted, [](const StepRun *a, const StepRun *b) { return a->makespan() < b->makespan(); });
  result.run = sorted[(sorted.size() - 1) / 2];
  result.least = sorted.front()->makespan();
  result.most = sorted.back()->makespan();
  if (result.looked.size() > 1)
    result.period = Rational::make(result.looked.back()->first - result.looked.front()->first,
                                   static_cast<int64_t>(result.looked.size() - 1));
  result.measured.emplace(measurement, *result.run, figures);
  auto parts = explain(measurement, *result.run);
  if (!parts)
    return parts.takeError();
  result.parts = std::move(*parts);
  result.classes = classesOf(measurement, result.looked);
  result.messages = messageClasses(measurement);
  result.offenders = offendersOf(measurement, *result.run, options.offenders);
  return result;
}

} // namespace sluice
