#include "Measured/Steps.h"

#include "Measured/OpName.h"
#include "Timeline/ScaledCosts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace sluice {

llvm::Error refusal(const std::string &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "%s", message.c_str());
}

namespace {

struct Interval {
  int64_t begin, end;
};

class Laying {
public:
  Laying(Measurement &result, const Trace &trace, uint32_t process, const SourceManager &sources)
      : result(result), program(result.program), trace(trace), process(process), sources(sources) {}

  llvm::Error run(const CostModel &costs) {
    if (llvm::Error error = chooseUnit(costs))
      return error;
    Diagnostics diagnostics;
    auto timeline = simulate(program, result.index, result.costs, diagnostics);
    if (!timeline)
      return refusal("the times of the trace and of the model do not fit 64 bits in a common unit");
    result.predicted = std::move(*timeline);
    for (const std::string &name : trace.names)
      names.push_back(parseOpNames(name));
    sort();
    for (size_t begin = 0, end; begin < ops.size(); begin = end) {
      for (end = begin; end < ops.size() && ops[end]->step == ops[begin]->step;)
        ++end;
      layStep(llvm::ArrayRef(ops).slice(begin, end - begin));
    }
    if (result.steps.empty())
      return refusal(ops.empty() ? noEvents() : difference);
    messages();
    return llvm::Error::success();
  }

private:
  std::string noEvents() const {
    std::set<uint32_t> replicas;
    for (const TraceEvent &event : trace.events)
      if (event.kind == TraceEvent::Kind::Op)
        replicas.insert(event.process);
    if (!replicas.empty())
      return fmt::format("the trace has no event of an op of replica {}: it has {}", process,
                         fmt::join(replicas, ", "));
    return "the trace has no event of an op: the category of one begins with `op`, as in those that "
           "sluice/TraceObserver.h writes";
  }

  /// The largest unit that divides the model's and every time of the trace.
  llvm::Error chooseUnit(const CostModel &costs) {
    if (trace.ticks != costs.ticks)
      return refusal(
          costs.ticks ? "the schedule counts ticks and the trace time: give its model times, such as those "
                        "that `sluice calibrate` writes"
                      : "the trace counts ticks and the schedule time: write the trace again");
    const auto perUnit = divide(Rational(costs.ticks ? 1 : 1000), costs.unit);
    __int128 multiple = 1;
    constexpr __int128 most = int64_t(1) << 62;
    auto take = [&](const Rational &time) {
      const auto count = perUnit ? multiply(time, *perUnit) : std::nullopt;
      if (!count)
        return false;
      if (multiple % count->den != 0)
        multiple = multiple / std::gcd(static_cast<int64_t>(multiple), count->den) * count->den;
      return multiple < most;
    };
    for (const TraceEvent &event : trace.events)
      if (event.process == process && !(take(event.begin) && take(event.end) && take(event.queued)))
        return refusal(fmt::format("the times at {} do not fit 64 bits in a common unit with the model's",
                                   placeOf(event.span)));
    auto smaller = inSmallerUnit(costs, static_cast<int64_t>(multiple));
    perTraceUnit = perUnit ? multiply(*perUnit, Rational(static_cast<int64_t>(multiple))) : std::nullopt;
    if (!smaller || !perTraceUnit)
      return refusal("the times of the model do not fit 64 bits in a common unit with those of the trace");
    result.costs = std::move(*smaller);
    int64_t earliest = INT64_MAX;
    for (const TraceEvent &event : trace.events)
      if (event.process == process)
        earliest = std::min(earliest, at(event.begin));
    zero = earliest == INT64_MAX ? 0 : earliest;
    return llvm::Error::success();
  }
  int64_t at(const Rational &time) const {
    const auto units = multiply(time, *perTraceUnit);
    return units ? units->floor() - zero : 0; // chooseUnit has looked at it
  }

  std::string placeOf(Span span) const {
    if (!span.isValid())
      return "the trace";
    const Location location = sources.locate(span.begin);
    return fmt::format("{}:{}", location.file.str(), location.line);
  }

  void sort() {
    llvm::SmallSet<uint32_t, 8> replicas;
    for (const TraceEvent &event : trace.events) {
      replicas.insert(event.process);
      if (event.process != process)
        continue;
      if (event.kind == TraceEvent::Kind::Op)
        ops.push_back(&event);
      else if (event.kind == TraceEvent::Kind::Wait && event.device < program.devices)
        waits[event.device].push_back({at(event.begin), at(event.end)});
    }
    result.replicas = replicas.size();
    result.hasWaits = !waits.empty();
    for (auto &[device, intervals] : waits)
      llvm::stable_sort(intervals, [](const Interval &a, const Interval &b) { return a.begin < b.begin; });
    llvm::stable_sort(ops, [](const TraceEvent *a, const TraceEvent *b) {
      if (a->step != b->step)
        return a->step < b->step;
      return a->device != b->device ? a->device < b->device : a->begin < b->begin;
    });
  }

  void layStep(llvm::ArrayRef<const TraceEvent *> events) {
    StepRun run;
    run.step = events.front()->step;
    run.begin.assign(program.size(), -1);
    run.end.assign(program.size(), -1);
    run.between.assign(program.size(), 0);
    run.first = INT64_MAX;
    bool isWhole = true;
    for (uint32_t device = 0; device < program.devices && isWhole; ++device) {
      const auto own = events.take_while([&](const TraceEvent *e) { return e->device == device; });
      events = events.drop_front(own.size());
      isWhole = layDevice(run, device, own);
    }
    if (isWhole && !events.empty()) {
      isWhole = false;
      note(fmt::format("{}: {} runs on device {}, and {} has {} devices", placeOf(events.front()->span),
                       trace.names[events.front()->name], events.front()->device, program.name,
                       program.devices));
    }
    if (isWhole)
      result.steps.push_back(std::move(run));
    else
      ++result.incomplete;
  }
  /// Keeps the first difference.
  void note(std::string text) {
    if (difference.empty())
      difference = std::move(text);
  }

  /// Whether an op need not be in the trace, since executors may carry it out without a row.
  static bool mayLack(const Op &op) {
    return op.kind == OpKind::Drop || op.kind == OpKind::Zero || op.kind == OpKind::Scale ||
           op.kind == OpKind::Norm || op.kind == OpKind::Reshard;
  }
  /// Measured messages have events of their own; their rows and waits are the executor's.
  bool isLaid(const Op &op) const { return trace.isModeled || !(op.isCommunication() || op.isWait()); }
  bool isLaid(const OpName &name) const {
    return name.kind && (trace.isModeled || !(name.isWait || Op{*name.kind}.isCommunication()));
  }

  bool layDevice(StepRun &run, uint32_t device, llvm::ArrayRef<const TraceEvent *> events) {
    OpId op = program.deviceBegin[device];
    const OpId stop = program.deviceBegin[device + 1];
    auto skip = [&] {
      while (op < stop && !isLaid(program.ops[op]))
        ++op;
    };
    int64_t before = events.empty() ? 0 : at(events.front()->begin);
    const TraceEvent *part = nullptr; // of the op behind it
    skip();
    for (const TraceEvent *event : events) {
      const bool continues = part && isPartOf(names[part->name].front(), names[event->name].front());
      const int64_t begin = at(continues ? part->begin : event->begin), end = at(event->end);
      run.first = std::min(run.first, begin);
      run.last = std::max(run.last, end);
      part = event;
      for (const OpName &name : names[event->name]) {
        if (!isLaid(name))
          continue;
        OpId candidate = op;
        while (candidate < stop && !name.isOf(program.ops[candidate]) && mayLack(program.ops[candidate])) {
          ++candidate;
          while (candidate < stop && !isLaid(program.ops[candidate]))
            ++candidate;
        }
        if (candidate < stop && name.isOf(program.ops[candidate])) {
          op = candidate;
        } else if (*name.kind == OpKind::Scale || *name.kind == OpKind::Reshard ||
                   *name.kind == OpKind::Zero) {
          continue; // added by the executor
        } else {
          differs(device, op, event, run.step);
          return false;
        }
        run.begin[op] = begin;
        run.end[op] = end;
        run.between[op] = std::max<int64_t>(begin - before - waited(device, before, begin), 0);
        before = end;
        ++op;
        skip();
      }
    }
    while (op < stop && mayLack(program.ops[op])) {
      ++op;
      skip();
    }
    if (op < stop)
      differs(device, op, nullptr, run.step);
    return op == stop;
  }

  /// How much of [from, to] lies under waits. They do not overlap.
  int64_t waited(uint32_t device, int64_t from, int64_t to) const {
    auto found = waits.find(device);
    if (found == waits.end() || to <= from)
      return 0;
    const std::vector<Interval> &intervals = found->second;
    auto next = llvm::partition_point(intervals, [&](const Interval &wait) { return wait.begin < from; });
    if (next != intervals.begin())
      --next;
    int64_t sum = 0;
    for (; next != intervals.end() && next->begin < to; ++next)
      sum += std::max<int64_t>(std::min(next->end, to) - std::max(next->begin, from), 0);
    return sum;
  }

  void differs(uint32_t device, OpId op, const TraceEvent *event, uint64_t step) {
    const std::string ours =
        op == program.deviceBegin[device + 1]
            ? "nothing more"
            : fmt::format("{}{}", str(program, op),
                          program.spanOf(op).isValid() ? " (" + placeOf(program.spanOf(op)) + ")" : "");
    const std::string theirs =
        event ? fmt::format("{} ({})", trace.names[event->name], placeOf(event->span)) : "nothing more";
    std::string made;
    if (llvm::none_of(ops, [&](const TraceEvent *other) { return other->device == device; }))
      made = fmt::format(
          "; it has nothing of device {} at all: each process of a run writes a trace, name them all",
          device);
    else if (!trace.schedules.empty() && !llvm::is_contained(trace.schedules, program.name))
      made = fmt::format("; the trace is of {}", fmt::join(trace.schedules, ", "));
    if (!trace.parameters.empty())
      made += fmt::format("; the trace was made at {}", trace.parameters);
    note(fmt::format("device {}, step {}, op {}: the trace has {}, {} has {}{}", device, step,
                     op - program.deviceBegin[device], theirs, program.name, ours, made));
  }

  void messages() {
    trace.isModeled ? modeledMessages() : measuredMessages();
    llvm::sort(result.messages, [](const MessageRun &a, const MessageRun &b) {
      return std::tie(a.step, a.isGradient, a.from, a.to, a.microbatch, a.time) <
             std::tie(b.step, b.isGradient, b.from, b.to, b.microbatch, b.time);
    });
  }
  void modeledMessages() {
    for (const TraceEvent &event : trace.events) {
      if (event.kind != TraceEvent::Kind::Message || event.process != process)
        continue;
      const OpName &name = names[event.name].front();
      MessageRun message;
      message.isGradient = name.word == "gradient";
      if ((!message.isGradient && name.word != "activation") || name.stage < 0 || name.microbatch < 0 ||
          name.stage >= program.stages || name.microbatch >= program.microbatches)
        continue;
      message.from = static_cast<uint32_t>(name.stage);
      message.to = name.peer >= 0       ? static_cast<uint32_t>(name.peer)
                   : message.isGradient ? message.from - 1
                                        : message.from + 1;
      message.microbatch = static_cast<uint32_t>(name.microbatch);
      message.queued = at(event.queued) - at(Rational(0));
      message.time = at(event.end) - at(event.begin) + message.queued;
      message.bytes = event.bytes;
      result.messages.push_back(message);
    }
  }

  struct Ends {
    const TraceEvent *send = nullptr, *receive = nullptr;
  };
  /// A measured message has an event at each end. Channel and number pair them, or else the stages, the
  /// microbatch and the step.
  void measuredMessages() {
    std::map<std::array<int64_t, 6>, Ends> pairs;
    for (const TraceEvent &event : trace.events) {
      const OpName &name = names[event.name].front();
      if (event.kind != TraceEvent::Kind::Message || event.process != process || !name.kind ||
          !Op{*name.kind}.isCommunication() || name.stage < 0 || name.stage >= program.stages ||
          name.microbatch < 0 || name.microbatch >= program.microbatches)
        continue;
      const bool isSend = Op{*name.kind}.isSend();
      const int64_t other = otherStage(name);
      std::array<int64_t, 6> key = {1, event.channel, event.number, 0, 0, 0};
      if (event.channel < 0 || event.number < 0)
        key = {0,
               static_cast<int64_t>(event.step),
               isGradient(name),
               isSend ? name.stage : other,
               isSend ? other : name.stage,
               name.microbatch};
      (isSend ? pairs[key].send : pairs[key].receive) = &event;
    }
    for (const auto &[key, ends] : pairs) {
      // A receive that is posted after its message was sent may find it there: that says nothing of its way.
      if (!ends.send || !ends.receive || ends.send->begin < ends.receive->begin)
        continue;
      const OpName &sent = names[ends.send->name].front(), &received = names[ends.receive->name].front();
      MessageRun message;
      message.step = ends.send->step;
      message.isGradient = isGradient(sent);
      message.from = static_cast<uint32_t>(sent.stage);
      message.to = static_cast<uint32_t>(received.stage);
      message.microbatch = static_cast<uint32_t>(sent.microbatch);
      message.time = at(ends.receive->end) - at(ends.send->begin);
      message.bytes = std::max(ends.send->bytes, ends.receive->bytes);
      if (message.time >= 0)
        result.messages.push_back(message);
    }
  }
  static bool isGradient(const OpName &name) {
    return name.kind == OpKind::SendGradient || name.kind == OpKind::RecvGradient;
  }
  static int64_t otherStage(const OpName &name) {
    if (name.peer >= 0)
      return name.peer;
    return isGradient(name) == Op{*name.kind}.isSend() ? name.stage - 1 : name.stage + 1;
  }

  Measurement &result;
  const Program &program;
  const Trace &trace;
  const uint32_t process;
  const SourceManager &sources;
  std::optional<Rational> perTraceUnit;
  int64_t zero = 0; // begin of the first event: what is below 0 stands for none
  std::vector<std::vector<OpName>> names;
  std::vector<const TraceEvent *> ops; // by step, device and time
  std::map<uint32_t, std::vector<Interval>> waits;
  std::string difference;
};

} // namespace

llvm::Expected<Measurement> measure(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                    const Trace &trace, uint32_t process, const SourceManager &sources) {
  Measurement result(program, index);
  result.isModeled = trace.isModeled;
  if (llvm::Error error = Laying(result, trace, process, sources).run(costs))
    return error;
  return result;
}

} // namespace sluice
