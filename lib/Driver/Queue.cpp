#include "Driver/Queue.h"

#include <fmt/format.h>

namespace sluice {

/// A queue's setting as a number that is not negative; nothing if it is missing or wrong, with a finding.
static std::optional<Rational> queueSetting(const CheckedBlock &queue, Evaluator &evaluator, const char *name,
                                            Dimension dimension, bool positive) {
  auto found = queue.settings.find(name);
  if (found == queue.settings.end()) {
    evaluator.diagnostics
        .report(Rule::ValueMissing, queue.span,
                {{"figure", "queue " + queue.name.value_or("")}, {"setting", fmt::format("`{}`", name)}})
        .fix.message = fmt::format("{} = ...;", name);
    return std::nullopt;
  }
  const CheckedSetting &setting = evaluator.checked().settings[found->second];
  if (setting.value == noNode)
    return std::nullopt; // reported when it was read
  auto value = evaluator.evalQuantity(setting.value, dimension, name);
  if (!value || (*value >= Rational(0) && !(positive && value->num == 0)))
    return value;
  evaluator.diagnostics.report(
      Rule::ValueOutOfRange, setting.span,
      {{"what", fmt::format("{} is {}", name, positive && value->num == 0 ? "0" : "below 0")}});
  return std::nullopt;
}

std::optional<QueueRun> runQueue(const CheckedBlock &queue, Evaluator &evaluator, unsigned atMost) {
  auto backlog = queueSetting(queue, evaluator, "backlog", noDimension, false);
  auto arrival = queueSetting(queue, evaluator, "arrival", rateDimension, false);
  auto service = queueSetting(queue, evaluator, "service", rateDimension, false);
  auto step = queueSetting(queue, evaluator, "step", timeDimension, true);
  if (!backlog || !arrival || !service || !step)
    return std::nullopt;
  QueueRun run{queue.name.value_or(""), *arrival, *service, *step, {{Rational(0), *backlog}}, {}};
  auto net = subtract(*service, *arrival);
  auto change = net ? multiply(*net, *step) : std::nullopt;
  if (net && net->num > 0)
    run.drainTime = divide(*backlog, *net);
  for (unsigned i = 0; i < atMost && change && run.steps.back().backlog.num > 0; ++i) {
    auto time = add(run.steps.back().time, *step);
    auto left = subtract(run.steps.back().backlog, *change);
    if (!time || !left)
      break;
    run.steps.push_back({*time, std::max(*left, Rational(0))});
  }
  if (!change || (backlog->num > 0 && run.steps.size() == 1 && atMost > 0)) {
    evaluator.diagnostics.report(Rule::ValueOutOfRange, queue.span, {{"what", "the backlog overflows"}});
    return std::nullopt;
  }
  return run;
}

std::string queueText(const QueueRun &run) {
  auto rate = [](const Rational &value) { return format(Quantity{value, rateDimension}); };
  auto seconds = [](const Rational &time) {
    auto value = divide(time, Rational(1'000'000'000));
    if (!value)
      return time.str() + " ns";
    return (1000 % value->den == 0 ? value->decimal(3) : value->str()) + " s";
  };
  std::string out = fmt::format("queue {}: arrival {}, service {}, step {}\n", run.name, rate(run.arrival),
                                rate(run.service), seconds(run.step));
  for (const QueueStep &step : run.steps) {
    size_t bar = static_cast<size_t>(std::min<int64_t>(step.backlog.ceil(), 60));
    out += fmt::format("  {:>10}  backlog {:>6}  {}\n", seconds(step.time), step.backlog.decimal(3),
                       std::string(bar, '#'));
  }
  if (run.drainTime && run.arrival.num == 0)
    out += fmt::format("Admissions have stopped: the backlog is served after {}.\n", seconds(*run.drainTime));
  else if (run.drainTime)
    out +=
        fmt::format("Less arrives than is served: the backlog is gone after {}.\n", seconds(*run.drainTime));
  else if (run.arrival == run.service)
    out += "The backlog stays: as much arrives as is served.\n";
  else
    out += "The backlog grows: more arrives than is served.\n";
  return out +
         "A queue has no stages and no forward or backward wave: its times say nothing about a bubble.\n";
}

} // namespace sluice
