#include "Measured/Calibration.h"

#include "IR/Profile.h"
#include "Measured/OpName.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <tuple>

namespace sluice {

namespace {

struct Sample {
  Rational time;
  uint64_t step;
};

class Collecting {
public:
  Collecting(const Trace &trace, llvm::ArrayRef<int64_t> samples, uint32_t splits)
      : trace(trace), samplesOf(samples), splits(splits) {}

  llvm::Expected<Calibration> run() {
    for (const std::string &name : trace.names)
      names.push_back(parseOpNames(name));
    sort();
    const TraceEvent *part = nullptr;
    for (const TraceEvent *event : events) {
      const std::vector<OpName> &name = names[event->name];
      const bool continues = part && part->process == event->process && part->step == event->step &&
                             part->device == event->device &&
                             isPartOf(names[part->name].front(), name.front());
      const auto time = subtract(event->end, continues ? part->begin : event->begin);
      part = event;
      if (!time)
        return refusal("a time of the trace does not fit an exact 64-bit fraction");
      if (name.size() > 1)
        ++result.overlaps;
      else
        add(name.front(), *event, *time);
    }
    for (const auto &[key, time] : reductions)
      samples[{reduceIndex(), std::get<1>(key), -1}].push_back({time, std::get<0>(key)});
    for (auto &[key, times] : samples)
      summarize(key, times);
    if (result.ops.empty())
      return refusal("the trace has no op that a profile holds: forward, backward, update, ...");
    return std::move(result);
  }

private:
  void sort() {
    uint64_t first = UINT64_MAX, last = 0;
    std::map<uint64_t, bool> steps;
    for (const TraceEvent &event : trace.events)
      if (event.kind == TraceEvent::Kind::Op) {
        first = std::min(first, event.step);
        last = std::max(last, event.step);
        steps[event.step] = true;
      }
    result.leavesFirstOut = first < last;
    result.steps = steps.size() - result.leavesFirstOut;
    for (const TraceEvent &event : trace.events)
      if (event.kind == TraceEvent::Kind::Op && !(result.leavesFirstOut && event.step == first))
        events.push_back(&event);
    llvm::stable_sort(events, [](const TraceEvent *a, const TraceEvent *b) {
      if (std::tie(a->process, a->step, a->device) != std::tie(b->process, b->step, b->device))
        return std::tie(a->process, a->step, a->device) < std::tie(b->process, b->step, b->device);
      return a->begin < b->begin;
    });
  }

  static size_t reduceIndex() {
    return static_cast<size_t>(llvm::find(profileOps(), "reduce") - profileOps().begin());
  }

  void add(const OpName &name, const TraceEvent &event, const Rational &time) {
    const auto *op = llvm::find(profileOps(), name.word);
    if (op == profileOps().end() || name.stage < 0 || name.stage >= maxStages || name.isWait ||
        llvm::StringRef(trace.names[event.name]).starts_with("start ")) {
      const bool isPart = name.word == "load" || name.word == "loss"; // counted with the op behind it
      const bool isMessage = name.kind && Op{*name.kind}.isCommunication();
      if (!isPart && !isMessage && !name.isWait && time.num > 0) {
        Rational &sum = result.others[name.word];
        sum = sluice::add(sum, time).value_or(sum);
      }
      return;
    }
    const auto index = static_cast<size_t>(op - profileOps().begin());
    const auto stage = static_cast<uint32_t>(name.stage);
    if (index == reduceIndex()) {
      const uint32_t number = reduceNumber[{event.step, stage, event.process, event.device}]++;
      auto [entry, isNew] = reductions.try_emplace({event.step, stage, number}, time);
      entry->second = std::min(entry->second, time);
      return;
    }
    int64_t count = -1;
    if (index < profileOpsOfMicrobatches) {
      count = event.samples;
      const int64_t whole = name.microbatch / splits;
      if (count < 0 && whole >= 0 && whole < static_cast<int64_t>(samplesOf.size()))
        count = samplesOf[static_cast<size_t>(whole)];
    }
    samples[{index, stage, count}].push_back({time, event.step});
  }

  void summarize(const std::tuple<size_t, uint32_t, int64_t> &key, std::vector<Sample> &times) {
    llvm::stable_sort(times, [](const Sample &a, const Sample &b) { return a.time < b.time; });
    MeasuredPoint point;
    point.samples = std::get<2>(key);
    point.count = times.size();
    point.least = times.front().time;
    point.most = times.back().time;
    point.worstStep = times.back().step;
    const Rational &low = times[(times.size() - 1) / 2].time, &high = times[times.size() / 2].time;
    const auto sum = sluice::add(low, high);
    point.time = (sum ? divide(*sum, Rational(2)) : std::nullopt).value_or(low);
    const auto limit = multiply(point.time, *Rational::make(3, 2));
    for (const Sample &sample : times)
      point.outliers += limit && sample.time > *limit;
    result.ops[{std::get<0>(key), std::get<1>(key)}].push_back(point);
  }

  const Trace &trace;
  llvm::ArrayRef<int64_t> samplesOf;
  const int64_t splits;
  std::vector<std::vector<OpName>> names;
  std::vector<const TraceEvent *> events;
  std::map<std::tuple<size_t, uint32_t, int64_t>, std::vector<Sample>> samples; // by op, stage and samples
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, Rational>
      reductions; // by step, stage and number: shortest
  std::map<std::tuple<uint64_t, uint32_t, uint32_t, uint32_t>, uint32_t> reduceNumber;
  Calibration result;
};

} // namespace

llvm::Expected<Calibration> calibrate(const Trace &trace, llvm::ArrayRef<int64_t> samples, uint32_t splits) {
  if (trace.ticks)
    return refusal("the trace counts ticks, and a profile has times: give the model of its file times");
  return Collecting(trace, samples, splits).run();
}

} // namespace sluice
