#include "Emit/Trace.h"

#include "Emit/Caption.h"
#include "Emit/TimeText.h"
#include "Emit/TraceTracks.h"
#include "Timeline/Slack.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <iterator>

namespace sluice {

namespace {

std::string quoted(llvm::StringRef text) {
  std::string out;
  llvm::raw_string_ostream stream(out);
  stream << llvm::json::Value(text);
  return out;
}

/// Events of one file, a line each; the numbers that are unique in it.
class Events {
public:
  explicit Events(llvm::raw_ostream &out) : out(out) {}
  ~Events() { flush(0); }

  template <typename... Args> void add(fmt::format_string<Args...> format, Args &&...args) {
    fmt::format_to(std::back_inserter(buffer), "{}", any ? ",\n" : "\n");
    fmt::format_to(std::back_inserter(buffer), format, std::forward<Args>(args)...);
    any = true;
    flush(1 << 16);
  }
  uint64_t nextTrack = 1, nextFlow = 1;

private:
  void flush(size_t most) {
    if (buffer.size() <= most)
      return;
    out << llvm::StringRef(buffer.data(), buffer.size());
    buffer.clear();
  }
  llvm::raw_ostream &out;
  fmt::memory_buffer buffer;
  bool any = false;
};

class ScheduleTrace {
public:
  ScheduleTrace(const TimedSchedule &schedule, unsigned process, Events &events)
      : schedule(schedule), program(schedule.program), timeline(schedule.timeline), part(schedule),
        time(schedule.costs), process(process), events(events), tracks(schedule, part, events.nextTrack),
        slack(slacks(program, schedule.index, schedule.costs, timeline)),
        bindings(program, schedule.index, schedule.costs, timeline), lines(program.sites.size()) {
    events.nextTrack += tracks.all().size();
  }

  void write() {
    names();
    for (uint32_t device = part.firstDevice; device < part.deviceEnd; ++device)
      for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1];
           op = program.groupEnd(op))
        writeOp(device, op);
    for (const TraceTracks::Placed &placed : tracks.placed()) {
      if (placed.track != 0)
        writeUnderWay(placed);
      if (placed.item.kind == UnderWay::Kind::Message)
        arrow(placed);
    }
    counters();
  }

private:
  void names() {
    events.add(R"({{"name":"process_name","ph":"M","pid":{},"tid":0,"args":{{"name":{}}}}})", process,
               quoted(captionTitle(schedule)));
    events.add(R"({{"name":"process_sort_index","ph":"M","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})",
               process);
    std::string labels;
    for (const CaptionFigure &figure : captionFigures(schedule))
      labels += fmt::format("{}{} {}{}", labels.empty() ? "" : "; ", figure.name, figure.value,
                            figure.meaning.empty() ? "" : " (" + figure.meaning + ")");
    events.add(R"({{"name":"process_labels","ph":"M","pid":{},"tid":0,"args":{{"labels":{}}}}})", process,
               quoted(labels));
    for (const TraceTrack &track : tracks.all()) {
      events.add(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", process,
                 track.id, quoted(track.name));
      events.add(R"({{"name":"thread_sort_index","ph":"M","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
                 process, track.id);
    }
  }

  int64_t startOf(OpId op) const { return timeline.start(program, schedule.costs, op); }

  /// An op or overlap: a slice if its device is taken by it, else an instant.
  void writeOp(uint32_t device, OpId first) {
    const OpId end = program.groupEnd(first);
    const int64_t start = startOf(first), stop = timeline.end[first];
    if (!part.meets(start, stop))
      return;
    std::string title, ids;
    for (OpId op = first; op < end; ++op) {
      title += (op == first ? "" : " & ") + str(program, op);
      ids += (op == first ? "" : ",") + std::to_string(op);
    }
    const Op &op = program.ops[first];
    std::string args = fmt::format(R"("ids":[{}],"device":{})", ids, device);
    if (end - first == 1 && op.kind != OpKind::Norm && op.kind != OpKind::ReduceTied)
      args += fmt::format(R"(,"stage":{})", op.stage);
    if (end - first == 1 && op.hasMicrobatch())
      args += fmt::format(R"(,"microbatch":{})", op.microbatch);
    args += place(first) + waitsFor(first);
    if (!slack.empty())
      args += fmt::format(R"(,"slack":{})", time.at(slack[first]));
    const std::string kind = end - first > 1 ? "overlap" : name(op.kind).str();
    const uint64_t track = tracks.ofDevice(device);
    if (start == stop)
      events.add(R"({{"name":{},"cat":"op","ph":"i","s":"t","pid":{},"tid":{},"ts":{},"args":{{{}}}}})",
                 quoted(title), process, track, time.at(start), args);
    else
      slice(quoted(title), "op," + kind, track, start, stop, args);
  }

  // A pair of begin and end, not one event with a duration: viewers add times as doubles, in which a begin
  // and a duration may end behind the next begin. Equal texts are equal numbers.
  void slice(const std::string &title, const std::string &category, uint64_t track, int64_t begin,
             int64_t end, const std::string &args) {
    events.add(R"({{"name":{},"cat":"{}","ph":"B","pid":{},"tid":{},"ts":{},"args":{{{}}}}})", title,
               category, process, track, time.at(begin), args);
    events.add(R"({{"ph":"E","pid":{},"tid":{},"ts":{}}})", process, track, time.at(end));
  }

  /// Where the op is written; looked up once a statement.
  const std::string &place(OpId op) {
    static const std::string nowhere;
    const Span span = program.spanOf(op);
    if (!schedule.part.sources || !span.isValid())
      return nowhere;
    std::string &text = lines[program.siteOf[op]];
    if (text.empty()) {
      const Location location = schedule.part.sources->locate(span.begin);
      text = fmt::format(R"(,"file":{},"line":{})", quoted(location.file), location.line);
    }
    return text;
  }

  /// What came last of what the op needs.
  std::string waitsFor(OpId first) const {
    const Binding binding = bindings.of(first);
    if (binding.op == noOp)
      return "";
    std::string text = fmt::format(R"(,"waits_for":{},"waits_for_id":{},"edge":"{}")",
                                   quoted(str(program, binding.op)), binding.op, name(binding.kind).str());
    if (binding.transfer > 0)
      text += fmt::format(R"(,"under_way":{})", time.at(binding.transfer));
    return text;
  }

  void writeUnderWay(const TraceTracks::Placed &placed) {
    const UnderWay &item = placed.item;
    std::string args = fmt::format(R"("id":{})", item.op);
    if (item.kind == UnderWay::Kind::Message)
      args += fmt::format(R"(,"from_device":{},"to_device":{})", item.device, item.to);
    if (item.begin > item.ready)
      args += fmt::format(R"(,"queued":{})", time.from(item.ready, item.begin));
    if (item.bytes > 0)
      args += fmt::format(R"(,"bytes":{})", item.bytes);
    static constexpr const char *categories[] = {"message", "collective", "host"};
    slice(quoted(str(program, item)), categories[static_cast<unsigned>(item.kind)], placed.track, item.begin,
          item.end, args);
  }

  // From the slice that makes the value over that of the message to the one that uses it, as far as they are
  // there and take time. Viewers bind each end to a slice of the track that is open at its time, some also to
  // one that ends then, so all stand in the middle of their slices.
  struct End {
    uint64_t track;
    int64_t begin, end;
  };
  void arrow(const TraceTracks::Placed &placed) {
    llvm::SmallVector<End, 3> ends;
    addOp(placed.item.producer, ends);
    if (placed.track != 0)
      ends.push_back({placed.track, placed.item.begin, placed.item.end});
    addOp(placed.item.consumer, ends);
    if (ends.size() < 2)
      return;
    for (size_t i = 0; i < ends.size(); ++i)
      events.add(R"({{"name":"{}","cat":"arrow","ph":"{}",{}"id":{},"pid":{},"tid":{},"ts":{}}})",
                 placed.item.isGradient ? "gradient" : "activation",
                 i == 0                 ? "s"
                 : i + 1 == ends.size() ? "f"
                                        : "t",
                 i + 1 == ends.size() ? R"("bp":"e",)" : "", events.nextFlow, process, ends[i].track,
                 time.middle(ends[i].begin, ends[i].end));
    ++events.nextFlow;
  }
  void addOp(OpId op, llvm::SmallVectorImpl<End> &ends) const {
    if (op == noOp)
      return;
    const uint32_t device = program.deviceOf(op);
    const int64_t start = startOf(op), end = timeline.end[op];
    if (part.has(device) && part.meets(start, end) && end > start)
      ends.push_back({tracks.ofDevice(device), start, end});
  }

  void counters() {
    const bool hasBytes = schedule.figures.missingSetting("peak_memory").empty();
    std::optional<Versions> versions;
    if (schedule.costs.asynchronous)
      versions = versionsOf(program);
    for (uint32_t device = part.firstDevice; device < part.deviceEnd; ++device) {
      std::optional<MemoryPoint> before;
      for (const MemoryPoint &point : memoryCurve(program, schedule.index, schedule.costs, timeline, device,
                                                  versions ? &*versions : nullptr)) {
        if (point.time > part.to)
          break;
        if (point.time <= part.from) {
          before = point;
          before->time = part.from;
          continue;
        }
        if (before)
          count(device, *before, hasBytes);
        before.reset();
        count(device, point, hasBytes);
      }
      if (before)
        count(device, *before, hasBytes);
    }
  }
  void count(uint32_t device, const MemoryPoint &point, bool hasBytes) {
    auto counter = [&](const char *what, int64_t value) {
      events.add(
          R"({{"name":"device {} {}","cat":"memory","ph":"C","pid":{},"tid":0,"ts":{},"args":{{"{}":{}}}}})",
          device, what, process, time.at(point.time), what, value);
    };
    if (hasBytes)
      counter("bytes", point.bytes);
    counter("activations", point.activations);
  }

  const TimedSchedule &schedule;
  const Program &program;
  const Timeline &timeline;
  const Part part;
  const Microseconds time;
  const unsigned process;
  Events &events;
  TraceTracks tracks;
  std::vector<int64_t> slack;
  Bindings bindings;
  std::vector<std::string> lines; // per site
};

/// What is no event: what the numbers are, and the figures of each schedule.
void writeFrame(llvm::ArrayRef<TimedSchedule> schedules, llvm::raw_ostream &out) {
  llvm::json::OStream json(out);
  json.object([&] {
    json.attribute("producer", "sluice");
    json.attribute("kind", "modeled, not measured");
    json.attributeArray("schedules", [&] {
      for (const TimedSchedule &schedule : schedules)
        json.object([&] {
          json.attribute("name", schedule.program.name);
          json.attribute("ts", schedule.costs.ticks ? "ticks: 1 us of the trace is 1 tick" : "microseconds");
          json.attribute("exact", Microseconds(schedule.costs).isExact());
          json.attributeObject("parameters", [&] {
            for (const auto &[name, value] : schedule.parameters)
              json.attribute(name, value);
          });
          json.attributeObject("figures", [&] {
            for (const CaptionFigure &figure : captionFigures(schedule))
              json.attribute(figure.name, figure.meaning.empty()
                                              ? figure.value
                                              : fmt::format("{} ({})", figure.value, figure.meaning));
          });
          json.attributeArray("notes", [&] {
            for (const std::string &note : captionNotes(schedule))
              json.value(note);
          });
        });
    });
  });
}

} // namespace

void writeTrace(llvm::ArrayRef<TimedSchedule> schedules, llvm::raw_ostream &out) {
  out << R"({"displayTimeUnit":"ms","otherData":)";
  writeFrame(schedules, out);
  out << ",\n\"traceEvents\":[";
  {
    Events events(out);
    events.nextTrack = schedules.size() + 1; // no track is mistaken for the main thread of a process
    for (auto [index, schedule] : llvm::enumerate(schedules))
      ScheduleTrace(schedule, static_cast<unsigned>(index) + 1, events).write();
  }
  out << "\n]}\n";
}

} // namespace sluice
