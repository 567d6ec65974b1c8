#include "Formats/TraceJson.h"

#include "Formats/JsonFields.h"
#include "Support/Decimal.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace sluice {

namespace {

using Kind = JsonValue::Kind;

class TraceReader {
public:
  explicit TraceReader(JsonFields &fields) : fields(fields) {}

  void event(const JsonValue &event) {
    if (!fields.good)
      return; // one fault is enough: what follows is mostly the same
    if (!event.is(Kind::Object)) {
      ++trace.ignored;
      return;
    }
    const JsonValue *phase = event.find("ph");
    const llvm::StringRef ph = phase && phase->is(Kind::Text) ? phase->text : "";
    if (ph == "E")
      return finish(event);
    const std::optional<TraceEvent::Kind> kind = kindOf(event);
    const bool isOurs = kind && (ph == "X" || ph == "B" || ph == "i" || ph == "I");
    if (ph == "B" && !isOurs)
      open[trackOf(event)].push_back(none);
    if (!isOurs) {
      // Names of tracks, counters and arrows belong to every trace, what goes on beside the devices to ours.
      const JsonValue *category = event.find("cat");
      const bool isBeside = category && (category->text == "collective" || category->text == "host");
      trace.ignored += !(isBeside || ph == "M" || ph == "C" || ph == "s" || ph == "t" || ph == "f");
      return;
    }
    TraceEvent read;
    read.kind = *kind;
    read.span = event.span;
    const JsonValue *name = fields.needed(event, "name", Kind::Text);
    const auto begin = time(event, "ts");
    const auto length = ph == "X" ? time(event, "dur") : std::optional(Rational(0));
    const auto end = begin && length ? add(*begin, *length) : std::nullopt;
    if (!name || !begin || !length)
      return;
    if (!end)
      return fields.expected(event, "times that fit exact 64-bit fractions");
    if (length->num < 0)
      return fields.expected(*event.find("dur"), "a duration that is not below 0");
    read.begin = *begin;
    read.end = *end;
    read.name = nameOf(name->text);
    place(event, read);
    if (ph == "B")
      open[trackOf(event)].push_back(trace.events.size());
    trace.events.push_back(read);
  }

  void frame(const JsonValue &root) {
    const JsonValue *other = fields.field(root, "otherData", Kind::Object);
    if (!other)
      return;
    if (const JsonValue *kind = fields.field(*other, "kind", Kind::Text))
      trace.isModeled = kind->text.starts_with("modeled");
    if (const JsonValue *schedule = fields.field(*other, "schedule", Kind::Text))
      trace.schedules.push_back(schedule->text.str());
    if (const JsonValue *parameters = fields.field(*other, "parameters", Kind::Text))
      trace.parameters = parameters->text.str();
    if (const JsonValue *schedules = fields.field(*other, "schedules", Kind::Array))
      for (const JsonValue &schedule : schedules->items) {
        const JsonValue *name = fields.needed(schedule, "name", Kind::Text);
        trace.schedules.push_back(name ? name->text.str() : "");
        if (const JsonValue *unit = fields.field(schedule, "ts", Kind::Text))
          trace.ticks |= unit->text.starts_with("ticks");
      }
    if (const JsonValue *origin = fields.field(*other, "origin_ns", Kind::Number)) {
      const auto nanoseconds = signedDecimal(origin->text);
      const auto microseconds = nanoseconds ? divide(*nanoseconds, Rational(1000)) : std::nullopt;
      if (!microseconds)
        return fields.expected(*origin, "a number of nanoseconds");
      trace.origin = *microseconds;
      trace.hasOrigin = true;
    }
    count(*other, "unfinished", trace.unfinished);
    count(*other, "dropped", trace.dropped);
  }

  /// What was begun and not ended is left out.
  Trace take() {
    std::vector<bool> isOpen(trace.events.size());
    for (const auto &[track, stack] : open)
      for (size_t index : stack)
        if (index != none) {
          isOpen[index] = true;
          ++trace.unfinished;
        }
    size_t kept = 0;
    for (size_t i = 0; i < trace.events.size(); ++i)
      if (!isOpen[i])
        trace.events[kept++] = trace.events[i];
    trace.events.resize(kept);
    return std::move(trace);
  }

private:
  static constexpr size_t none = ~size_t(0);

  static std::optional<TraceEvent::Kind> kindOf(const JsonValue &event) {
    const JsonValue *category = event.find("cat");
    if (!category || !category->is(Kind::Text))
      return std::nullopt;
    const llvm::StringRef first = category->text.split(',').first;
    if (first == "op")
      return TraceEvent::Kind::Op;
    if (first == "message")
      return TraceEvent::Kind::Message;
    if (first == "wait")
      return TraceEvent::Kind::Wait;
    return std::nullopt;
  }
  static std::optional<Rational> signedDecimal(llvm::StringRef digits) {
    const bool isNegative = digits.consume_front("-");
    auto value = parseDecimal(digits);
    return value && isNegative ? multiply(*value, Rational(-1)) : value;
  }
  std::optional<Rational> time(const JsonValue &event, llvm::StringRef key) {
    const JsonValue *value = fields.needed(event, key, Kind::Number);
    if (!value)
      return std::nullopt;
    auto exact = signedDecimal(value->text);
    if (!exact)
      fields.expected(*value, "a time that fits an exact 64-bit fraction");
    return exact;
  }
  void count(const JsonValue &object, llvm::StringRef key, uint64_t &to) {
    if (auto value = fields.integerField(object, key, 0, INT64_MAX))
      to += static_cast<uint64_t>(*value);
  }

  /// Numbers of process and track; what is no such number has one track for all.
  std::pair<int64_t, int64_t> trackOf(const JsonValue &event) const {
    auto number = [&](llvm::StringRef key) {
      const JsonValue *value = event.find(key);
      int64_t result = -1;
      return value && value->is(Kind::Number) && !value->text.getAsInteger(10, result) ? result : -1;
    };
    return {number("pid"), number("tid")};
  }
  uint32_t nameOf(llvm::StringRef text) {
    auto [entry, isNew] = ids.try_emplace(text, trace.names.size());
    if (isNew)
      trace.names.push_back(text.str());
    return entry->second;
  }

  void finish(const JsonValue &event) {
    auto stack = open.find(trackOf(event));
    if (stack == open.end() || stack->second.empty()) {
      ++trace.ignored;
      return;
    }
    const size_t index = stack->second.back();
    stack->second.pop_back();
    if (index == none)
      return; // its begin was counted
    const auto end = time(event, "ts");
    if (!end)
      return;
    if (*end < trace.events[index].begin)
      return fields.expected(*event.find("ts"), "an end that is not before its begin");
    trace.events[index].end = *end;
  }

  /// Which replica, device and step, as `args` say, else by the numbers of process and track.
  void place(const JsonValue &event, TraceEvent &read) {
    constexpr int64_t most = UINT32_MAX - 1;
    static const JsonValue nothing;
    const JsonValue *found = event.find("args");
    const JsonValue &args = found && found->is(Kind::Object) ? *found : nothing;
    const auto [process, track] = trackOf(event);
    if (auto replica = fields.integerField(args, "replica", 0, most))
      read.process = static_cast<uint32_t>(*replica);
    else
      read.process = process > 0 && process <= most ? static_cast<uint32_t>(process - 1) : 0;
    auto device = fields.integerField(args, "device", 0, most);
    if (!device)
      device = fields.integerField(args, "to_device", 0, most);
    if (device)
      read.device = static_cast<uint32_t>(*device);
    else if (track >= 2 && track <= most)
      read.device = static_cast<uint32_t>(track - 2);
    if (auto from = fields.integerField(args, "from_device", 0, most))
      read.from = static_cast<uint32_t>(*from);
    if (auto step = fields.integerField(args, "step", 0, INT64_MAX))
      read.step = static_cast<uint64_t>(*step);
    if (args.find("queued"))
      read.queued = time(args, "queued").value_or(Rational(0));
    for (auto [key, value] : {std::pair("bytes", &read.bytes),
                              {"samples", &read.samples},
                              {"channel", &read.channel},
                              {"number", &read.number}})
      *value = fields.integerField(args, key, 0, INT64_MAX).value_or(-1);
  }

  JsonFields &fields;
  Trace trace;
  llvm::StringMap<uint32_t> ids;
  std::map<std::pair<int64_t, int64_t>, std::vector<size_t>> open; // by process and track, into events
};

} // namespace

std::optional<Trace> readTrace(const SourceManager &sources, Span text, Diagnostics &diagnostics) {
  JsonFields fields(diagnostics);
  TraceReader reader(fields);
  auto document = parseJson(sources, text, diagnostics, "traceEvents",
                            [&](const JsonValue &event) { reader.event(event); });
  if (!document)
    return std::nullopt;
  if (!fields.isKind(document->root, Kind::Object, "a trace") ||
      !fields.needed(document->root, "traceEvents", Kind::Array))
    return std::nullopt;
  reader.frame(document->root);
  if (!fields.good)
    return std::nullopt;
  return reader.take();
}

bool addTrace(Trace &trace, Trace more) {
  std::optional<Rational> shift = Rational(0);
  if (trace.hasOrigin && more.hasOrigin)
    shift = subtract(more.origin, trace.origin);
  llvm::StringMap<uint32_t> ids;
  for (size_t i = 0; i < trace.names.size(); ++i)
    ids[trace.names[i]] = static_cast<uint32_t>(i);
  std::vector<uint32_t> renamed;
  for (std::string &name : more.names) {
    auto [entry, isNew] = ids.try_emplace(name, trace.names.size());
    if (isNew)
      trace.names.push_back(std::move(name));
    renamed.push_back(entry->second);
  }
  for (TraceEvent event : more.events) {
    auto begin = shift ? add(event.begin, *shift) : std::nullopt;
    auto end = shift ? add(event.end, *shift) : std::nullopt;
    if (!begin || !end)
      return false;
    event.begin = *begin;
    event.end = *end;
    event.name = renamed[event.name];
    trace.events.push_back(event);
  }
  trace.hasOrigin &= more.hasOrigin;
  trace.ignored += more.ignored;
  trace.unfinished += more.unfinished;
  trace.dropped += more.dropped;
  return true;
}

} // namespace sluice
