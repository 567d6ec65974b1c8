#include "Formats/Megatron.h"

#include "Formats/Json.h"
#include "Formats/Rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

/// One entry of an order: a chunk from 1 on, negative for a backward.
struct Entry {
  int64_t chunk;
  Span place;
};

class Reader {
public:
  Reader(SourceManager &sources, Span text, const ReadOptions &options, Diagnostics &diagnostics)
      : sources(sources), whole(text), options(options), diagnostics(diagnostics) {}

  std::optional<FormattedSchedule> run() {
    llvm::StringRef text = sources.text(whole), start = text.ltrim();
    bool isJson = start.starts_with("{") || (start.consume_front("[") && start.ltrim().starts_with("["));
    if (!(isJson ? readJson() : readLines(text)))
      return std::nullopt;
    auto program = programOfRows("megatron", rows(), {}, whole, options, diagnostics);
    if (!program || failed)
      return std::nullopt;
    FormattedSchedule schedule;
    schedule.costs = CostModel::ofTicks(program->stages);
    schedule.program = std::move(*program);
    return schedule;
  }

private:
  bool expected(Span place, std::string what, std::string found) {
    diagnostics.report(Rule::SyntaxError, place, {{"what", std::move(what)}, {"token", std::move(found)}});
    return false;
  }
  void badEntry(llvm::StringRef text, Span place, std::string why, const char *fix) {
    Finding &finding = diagnostics.report(Rule::BadCell, place,
                                          {{"cell", text.take_front(40).str()}, {"from", std::move(why)}});
    finding.device = static_cast<uint32_t>(entries.size()) - 1;
    finding.fix.message = fix;
    failed = true;
  }
  void addEntry(llvm::StringRef text, Span place) {
    llvm::StringRef digits = text;
    bool negative = digits.consume_front("-");
    if (!negative)
      digits.consume_front("+");
    int64_t chunk = 0;
    if (digits.empty() || !llvm::all_of(digits, llvm::isDigit))
      return badEntry(text, place, "of a Megatron-LM order",
                      "a forward of chunk c is c + 1, its backward -(c + 1)");
    if (digits.getAsInteger(10, chunk) || chunk > maxStages)
      return badEntry(text, place, fmt::format("because there are at most {} stages", maxStages),
                      "a smaller chunk");
    if (chunk == 0)
      return badEntry(text, place, "because chunks are counted from 1", "1 for chunk 0, -1 for its backward");
    entries.back().push_back({negative ? -chunk : chunk, place});
  }
  bool addRow(Span place) {
    if (entries.size() == maxStages)
      return expected(place, fmt::format("at most {} devices", maxStages), "another");
    entries.emplace_back();
    rowSpans.push_back(place);
    return true;
  }

  bool readJson() {
    auto document = parseJson(sources, whole, diagnostics);
    if (!document)
      return false;
    const JsonValue *order = &document->root;
    if (order->is(JsonValue::Kind::Object)) {
      for (const JsonValue::Key &key : order->keys)
        if (key.name != "order")
          return expected(key.span, "the key \"order\" alone", quoted(key.name));
      order = order->find("order");
      if (!order)
        return expected(document->root.span, "an order for each device", "an empty object");
    }
    if (!order->is(JsonValue::Kind::Array))
      return expected(order->span, "an array of orders, one a device", describe(*order));
    for (const JsonValue &row : order->items) {
      if (!row.is(JsonValue::Kind::Array))
        return expected(row.span, "an array of chunks", describe(row));
      if (!addRow(row.span))
        return false;
      for (const JsonValue &entry : row.items)
        if (entry.is(JsonValue::Kind::Number))
          addEntry(entry.text, entry.span);
        else
          return expected(entry.span, "a chunk such as 1 or -1", describe(entry));
    }
    return true;
  }

  Span spanOf(llvm::StringRef text, llvm::StringRef part) const {
    auto begin = whole.begin + static_cast<uint32_t>(part.data() - text.data());
    return {begin, begin + static_cast<uint32_t>(std::max<size_t>(part.size(), 1))};
  }
  bool readLines(llvm::StringRef text) {
    for (llvm::StringRef rest = text; !rest.empty();) {
      auto [line, after] = rest.split('\n');
      rest = after;
      line = line.trim();
      if (line.empty() || line.starts_with("#"))
        continue;
      if (!addRow(spanOf(text, line)) || !readLabel(text, line) || !readRow(text, line))
        return false;
    }
    return true;
  }
  /// `rank 0:`, `device 0:`, `0:`; the numbers count the lines.
  bool readLabel(llvm::StringRef text, llvm::StringRef &line) {
    auto [label, rest] = line.split(':');
    if (label.size() == line.size())
      return true;
    llvm::StringRef number = label.trim();
    for (llvm::StringRef word : {"device", "rank", "stage"})
      if (number.consume_front_insensitive(word))
        break;
    number = number.trim();
    uint32_t index = 0;
    if (number.getAsInteger(10, index) || index != entries.size() - 1)
      return expected(spanOf(text, label), fmt::format("`{}:` or no label", entries.size() - 1),
                      quoted(label));
    line = rest.trim();
    return true;
  }
  bool readRow(llvm::StringRef text, llvm::StringRef line) {
    bool bracketed = line.consume_front("[");
    if (bracketed && !line.consume_back("]"))
      return expected(spanOf(text, line.take_back(1)), "\"]\" at the end of the line",
                      quoted(line.take_back(1)));
    for (line = line.trim(); !line.empty();) {
      llvm::StringRef entry = line.take_until([](char c) { return c == ',' || llvm::isSpace(c); });
      if (entry.empty())
        return expected(spanOf(text, line.take_front(1)), "a chunk such as 1 or -1",
                        quoted(line.take_front(1)));
      addEntry(entry, spanOf(text, entry));
      line = line.drop_front(entry.size()).ltrim();
      if (line.consume_front(","))
        line = line.ltrim();
    }
    return true;
  }

  std::vector<Row> rows() {
    std::vector<Row> result;
    const size_t devices = entries.size();
    for (size_t d = 0; d < devices; ++d) {
      std::vector<uint32_t> forwards, backwards; // so far, by chunk
      Row &row = result.emplace_back();
      row.span = rowSpans[d];
      for (const Entry &entry : entries[d]) {
        const size_t chunk = static_cast<size_t>(std::abs(entry.chunk)) - 1, stage = chunk * devices + d;
        if (stage >= maxStages) {
          badEntry(std::to_string(entry.chunk), entry.place,
                   fmt::format("because there are at most {} stages", maxStages), "a smaller chunk");
          continue;
        }
        std::vector<uint32_t> &counts = entry.chunk > 0 ? forwards : backwards;
        if (counts.size() <= chunk)
          counts.resize(chunk + 1);
        row.add({entry.chunk > 0 ? OpKind::Forward : OpKind::Backward, 0, static_cast<uint16_t>(stage),
                 counts[chunk]++},
                entry.place);
      }
    }
    return result;
  }

  SourceManager &sources;
  Span whole;
  const ReadOptions &options;
  Diagnostics &diagnostics;
  std::vector<std::vector<Entry>> entries; // by device
  std::vector<Span> rowSpans;
  bool failed = false;
};

} // namespace

std::optional<FormattedSchedule> readMegatron(SourceManager &sources, llvm::ArrayRef<Span> texts,
                                              const ReadOptions &options, Diagnostics &diagnostics,
                                              std::vector<std::string> &) {
  return Reader(sources, texts[0], options, diagnostics).run();
}

/// Why the order cannot say `op` of device `d`; empty if it can.
static std::string refusal(const Program &program, uint32_t d, const Op &op, uint32_t expected) {
  const uint32_t home = op.stage % program.devices;
  if (op.kind != OpKind::Forward && op.kind != OpKind::Backward)
    return "an order holds forwards and whole backwards only";
  if (home != d)
    return fmt::format("chunk {} of device {} is stage {}, and stage {} belongs to device {}",
                       op.stage / program.devices, d, op.stage / program.devices * program.devices + d,
                       op.stage, home);
  if (op.has(KeepInput) || op.has(KeepNothing))
    return "an order does not say what a forward keeps";
  if (op.microbatch != expected)
    return fmt::format("microbatches are not written but counted, and this one would be taken for {}",
                       expected);
  return "";
}

std::optional<std::string> writeMegatron(const FormattedSchedule &schedule, std::vector<std::string> &lost,
                                         std::string &error) {
  const Program &program = schedule.program;
  std::string out = "[\n";
  unsigned overlaps = 0, steps = 0, communication = 0, factors = 0;
  if (!program.skips.empty()) {
    error =
        fmt::format("edge {} -> {} passes over a stage, and chunks hand their outputs to the next one alone",
                    program.skips[0].from, program.skips[0].to);
    return std::nullopt;
  }
  if (program.stages % program.devices != 0) {
    error =
        fmt::format("{} stages are no whole number of chunks on {} devices", program.stages, program.devices);
    return std::nullopt;
  }
  for (uint32_t d = 0; d < program.devices; ++d) {
    std::vector<uint32_t> forwards(program.stages), backwards(program.stages);
    out += " [";
    bool first = true;
    for (const Op &op : program.opsOf(d)) {
      if (op.kind == OpKind::Zero || op.kind == OpKind::Reduce || op.kind == OpKind::Update ||
          op.kind == OpKind::ReduceTied || op.kind == OpKind::Norm) {
        ++steps;
        continue;
      }
      factors += op.hasFactor() || op.overwrites();
      if (op.kind == OpKind::Scale)
        continue;
      if (op.isCommunication()) {
        ++communication;
        continue;
      }
      uint32_t &count = op.kind == OpKind::Forward ? forwards[op.stage] : backwards[op.stage];
      if (std::string why = refusal(program, d, op, count); !why.empty()) {
        error = fmt::format("{} on device {}: {}", str(op), d, why);
        return std::nullopt;
      }
      ++count;
      overlaps += op.has(OverlapFirst);
      const int chunk = static_cast<int>(op.stage / program.devices) + 1;
      out += fmt::format("{}{}", first ? "" : ", ", op.kind == OpKind::Forward ? chunk : -chunk);
      first = false;
    }
    out += d + 1 < program.devices ? "],\n" : "]\n";
  }
  if (overlaps > 0)
    lost.push_back(fmt::format("{} overlaps: their ops stand one after the other", overlaps));
  if (steps > 0)
    lost.push_back(fmt::format(
        "{} of zero, reduce, reduce_tied, norm and update: an order ends with the last backward", steps));
  if (factors > 0)
    lost.push_back(fmt::format(
        "{} of scale and overwrite: Megatron-LM scales the loss, and adds gradients up", factors));
  if (communication > 0)
    lost.push_back(fmt::format("{} sends and receives: Megatron-LM adds its own", communication));
  if (!schedule.costs.isDefault)
    lost.push_back("costs and sizes");
  return out + "]\n";
}

} // namespace sluice
