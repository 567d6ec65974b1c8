#include "Formats/OrderJson.h"

#include "Formats/JsonFields.h"
#include "Formats/Rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

using Kind = JsonValue::Kind;

constexpr llvm::StringRef knownKeys[] = {"order", "schedule", "source",    "params",  "cost",
                                         "comm",  "note",     "n_devices", "n_stages"};
/// What scripts write beside an order: figures that follow from it.
constexpr llvm::StringRef figureKeys[] = {"resim", "native", "peak_mem_units_Ma_over_P"};

/// Reads one op at the front of `rest`; on failure `rest` begins at what does not fit.
bool readOp(llvm::StringRef &rest, Op &op) {
  if (rest.consume_front("SEND_F"))
    op.kind = OpKind::SendActivation;
  else if (rest.consume_front("RECV_F"))
    op.kind = OpKind::RecvActivation;
  else if (rest.consume_front("SEND_B"))
    op.kind = OpKind::SendGradient;
  else if (rest.consume_front("RECV_B"))
    op.kind = OpKind::RecvGradient;
  else if (rest.consume_front("F"))
    op.kind = OpKind::Forward;
  else if (rest.consume_front("BW"))
    op.kind = OpKind::Backward;
  else if (rest.consume_front("B"))
    op.kind = OpKind::BackwardInput;
  else if (rest.consume_front("W"))
    op.kind = OpKind::BackwardWeight;
  else
    return false;
  auto number = [&](uint64_t limit, uint64_t &value) {
    llvm::StringRef digits = rest.take_while(llvm::isDigit);
    if (digits.getAsInteger(10, value) || value >= limit)
      return false;
    rest = rest.drop_front(digits.size());
    return true;
  };
  uint64_t microbatch, stage;
  if (!number(0x7fff'ffff, microbatch) || !rest.consume_front("@") || !number(maxStages, stage))
    return false;
  op.microbatch = static_cast<uint32_t>(microbatch);
  op.stage = static_cast<uint16_t>(stage);
  return true;
}

/// Reads the bytes behind a send or receive, `:4096`; false, with `rest` at what does not fit.
bool readBytes(llvm::StringRef &rest, int64_t &bytes) {
  llvm::StringRef digits = rest.drop_front().take_while(llvm::isDigit);
  if (!rest.starts_with(":") || digits.getAsInteger(10, bytes))
    return false;
  rest = rest.drop_front(1 + digits.size());
  return true;
}

class Reader {
public:
  Reader(const JsonValue &root, Span text, const ReadOptions &options, Diagnostics &diagnostics,
         std::vector<std::string> &lost)
      : root(root), text(text), options(options), fields(diagnostics), lost(lost) {}

  std::optional<FormattedSchedule> run() {
    checkKeys();
    readRows();
    StatedSizes sizes;
    if (auto stages = fields.integerField(root, "n_stages", 1, maxStages))
      sizes.stages = static_cast<uint32_t>(*stages);
    sizes.microbatches = statedMicrobatches();
    checkDeviceCount();
    const JsonValue *name = fields.field(root, "schedule", Kind::Text);
    if (!fields.good)
      return std::nullopt;
    auto program = programOfRows(name ? name->text : "order", rows, sizes, text, options, fields.diagnostics);
    if (!program)
      return std::nullopt;
    FormattedSchedule schedule;
    schedule.program = std::move(*program);
    if (uint64_t splits = param("seq_splits"); splits > 1 && schedule.program.microbatches % splits == 0)
      schedule.program.sequenceSplits = static_cast<uint32_t>(splits);
    if (!readCosts(schedule.program, schedule.costs))
      return std::nullopt;
    schedule.program.payloads = std::move(payloads);
    schedule.program.isExplicit = isExplicit;
    if (isExplicit)
      schedule.costs.communication = "explicit";
    schedule.source = describeSource();
    if (!fields.good)
      return std::nullopt;
    return schedule;
  }

private:
  void checkKeys() {
    std::vector<llvm::StringRef> all(std::begin(knownKeys), std::end(knownKeys));
    all.insert(all.end(), std::begin(figureKeys), std::end(figureKeys));
    std::vector<std::string> figures;
    for (const JsonValue::Key &key : root.keys)
      if (llvm::is_contained(figureKeys, key.name))
        figures.push_back(key.name.str());
    fields.checkKeys(root, all);
    if (!figures.empty())
      lost.push_back(fmt::format("{}: figures, which follow from the order", llvm::join(figures, ", ")));
  }

  void badCell(uint32_t device, size_t index, const JsonValue &cell, llvm::StringRef rest) {
    const size_t at = cell.text.size() - rest.size();
    Finding &finding = fields.diagnostics.report(
        Rule::BadCell, cell.span,
        {{"cell", cell.text.take_front(60).str()},
         {"from", rest.empty() ? "at its end: something is missing"
                               : fmt::format("from \"{}\" on", rest.take_front(40).str())}});
    finding.device = device;
    finding.notes.push_back(
        {fmt::format("it is number {} of row {}, both counted from 0", index, device), {}, {}, {}});
    auto isOp = [](llvm::StringRef candidate) {
      Op op;
      return readOp(candidate, op) && candidate.empty();
    };
    std::string upper = cell.text.upper(), good = cell.text.take_front(at).str();
    finding.fix.message =
        isOp(upper)  ? fmt::format("\"{}\"?", upper)
        : isOp(good) ? fmt::format("\"{}\"?", good)
                     : "F, B, W or BW, microbatch, @, stage: F3@1; or O[F3@1|BW1@1]; or SEND_F3@1:4096";
    fields.good = false;
  }
  void addOp(Row &row, const Op &op, Span place) {
    row.add(op, place);
    ++opCount;
  }
  void readCell(uint32_t device, size_t index, const JsonValue &cell) {
    Row &row = rows[device];
    llvm::StringRef rest = cell.text;
    Op op{OpKind::Forward};
    if (!rest.consume_front("O[")) {
      int64_t bytes = -1;
      if (!readOp(rest, op) ||
          (!rest.empty() && (!op.isCommunication() || !readBytes(rest, bytes) || !rest.empty())))
        return badCell(device, index, cell, rest);
      if (bytes >= 0)
        payloads.push_back({opCount, bytes});
      isExplicit |= op.isCommunication();
      return addOp(row, op, cell.span);
    }
    unsigned members = 0;
    do {
      llvm::StringRef before = rest;
      if (!readOp(rest, op) || op.isCommunication())
        return badCell(device, index, cell, op.isCommunication() ? before : rest);
      op.flags = members++ == 0 ? OverlapFirst : OverlapFollower;
      addOp(row, op, cell.span);
    } while (rest.consume_front("|"));
    if (!rest.consume_front("]") || !rest.empty() || members < 2)
      badCell(device, index, cell, rest);
  }
  void readRows() {
    const JsonValue *order = fields.needed(root, "order", Kind::Array);
    if (!order)
      return;
    if (order->items.size() > maxStages)
      return fields.expected(*order, "at most 65536 rows");
    rows.resize(order->items.size());
    for (uint32_t device = 0; device < rows.size(); ++device) {
      const JsonValue &row = order->items[device];
      rows[device].span = row.span;
      if (!fields.isKind(row, Kind::Array, "a row of the order"))
        continue;
      for (size_t i = 0; i < row.items.size(); ++i)
        if (fields.isKind(row.items[i], Kind::Text, "an op"))
          readCell(device, i, row.items[i]);
    }
  }

  /// A whole number of `params`; 0 if it has none of this name.
  uint64_t param(llvm::StringRef key) const {
    const JsonValue *params = root.find("params");
    const JsonValue *found = params && params->is(Kind::Object) ? params->find(key) : nullptr;
    uint64_t value = 0;
    return found && found->is(Kind::Number) && !found->text.getAsInteger(10, value) ? value : 0;
  }
  /// What `params` says, if that is more than the order shows: ops may be missing. Less is no fault, since
  /// some count the microbatches of one direction only.
  uint32_t statedMicrobatches() {
    uint64_t stated = param("M") ? param("M") : param("num_chunks");
    uint64_t splits = std::max<uint64_t>(param("seq_splits"), 1), shown = 0;
    for (const Row &row : rows)
      for (const Op &op : row.ops)
        shown = std::max<uint64_t>(shown, op.microbatch + 1);
    if (stated >= 0x7fff'ffff || splits >= 0x7fff'ffff || stated * splits >= 0x7fff'ffff) {
      std::string units = splits == 1 ? "" : fmt::format(" of {} splits", splits);
      fields.diagnostics.report(
          Rule::ValueOutOfRange, root.find("params")->span,
          {{"what", fmt::format("{} microbatches{} are more than {}", stated, units, 0x7fff'fffe)}});
      fields.good = false;
      return 0;
    }
    return stated * splits > shown ? static_cast<uint32_t>(stated * splits) : 0;
  }
  void checkDeviceCount() {
    auto devices = fields.integerField(root, "n_devices", 1, maxStages);
    if (!devices || static_cast<size_t>(*devices) == rows.size() || !fields.good)
      return;
    fields.diagnostics
        .report(Rule::SizesDisagree, root.find("n_devices")->span,
                {{"covers", fmt::format("the order has {} rows", rows.size())},
                 {"declaration", fmt::format("n_devices is {}", *devices)}})
        .fix.message = "a row for each device";
    fields.good = false;
  }

  /// A time in ticks; nothing, reported, if it is missing where it is needed, or is none.
  std::optional<Rational> time(const JsonValue &object, llvm::StringRef key) {
    const JsonValue *found = fields.needed(object, key, Kind::Number);
    if (!found)
      return std::nullopt;
    auto exact = exactNumber(found->text);
    if (exact && exact->num >= 0)
      return exact;
    fields.diagnostics.report(Rule::ValueOutOfRange, found->span,
                              {{"what", fmt::format("{} = {} {}", key.str(), found->text.str(),
                                                    exact ? "is below 0" : "does not fit 64 bits")}});
    fields.good = false;
    return std::nullopt;
  }
  bool readCosts(const Program &program, CostModel &costs) {
    const JsonValue *cost = fields.field(root, "cost", Kind::Object);
    const JsonValue *comm = root.find("comm");
    if (!cost) {
      costs = CostModel::ofTicks(program.stages);
      if (comm && !(comm->is(Kind::Number) && exactNumber(comm->text) == Rational(0))) {
        fields.needed(root, "cost", Kind::Object);
        return false;
      }
      return fields.good;
    }
    fields.checkKeys(*cost, {"F", "B", "W", "O"});
    auto forward = time(*cost, "F"), input = time(*cost, "B"), weight = time(*cost, "W");
    const JsonValue *fused = cost->find("O");
    bool hasFused = fused && !fused->is(Kind::Null);
    auto overlapped = hasFused ? time(*cost, "O") : Rational(0);
    auto transfer = comm ? time(root, "comm") : Rational(0);
    if (!fields.good)
      return false;
    auto unit = commonUnit({*forward, *input, *weight, *overlapped, *transfer});
    auto whole = unit ? add(*input, *weight) : std::nullopt;
    if (!whole || !divide(*whole, *unit)) {
      fields.diagnostics
          .report(Rule::ValueOutOfRange, cost->span,
                  {{"what", "the times have no common unit that fits 64 bits"}})
          .fix.message = "rounder costs";
      return false;
    }
    auto count = [&](const Rational &time) { return divide(time, *unit)->num; };
    costs = CostModel::ofTicks(program.stages, count(*forward), count(*input), count(*weight));
    costs.unit = *unit;
    costs.isDefault = false;
    costs.notCounted = {"activation", "boundary", "weights", "gradients", "optimizer_state"};
    setLatency(program, count(*transfer), costs);
    if (hasFused)
      for (OpId id = 0; id < program.size(); ++id)
        if (program.ops[id].has(OverlapFirst) && program.groupEnd(id) == id + 2)
          setOverlap(program.ops[id], program.ops[id + 1], count(*overlapped), costs);
    return checkOverlapSums(program, costs, fields.diagnostics);
  }
  static void setOverlap(Op first, Op second, int64_t time, CostModel &costs) {
    if (first.kind != OpKind::Forward)
      std::swap(first, second);
    if (first.kind == OpKind::Forward && second.kind != OpKind::Forward)
      costs.overlapped[{first.stage, second.stage}] = time;
  }

  /// Source, schedule, parameters and note, a line each.
  std::string describeSource() {
    std::vector<std::string> lines;
    for (llvm::StringRef key : {"source", "schedule", "note"})
      if (const JsonValue *found = root.find(key); found && !found->is(Kind::Null))
        if (fields.isKind(*found, Kind::Text, quoted(key)))
          lines.push_back(fmt::format("{}: {}", key.str(), found->text.str()));
    if (const JsonValue *params = fields.field(root, "params", Kind::Object)) {
      std::vector<std::string> parts;
      for (size_t i = 0; i < params->keys.size(); ++i)
        parts.push_back(fmt::format("{} = {}", params->keys[i].name.str(),
                                    params->items[i].text.empty() ? describe(params->items[i])
                                                                  : params->items[i].text.str()));
      if (!parts.empty())
        lines.push_back("params: " + llvm::join(parts, ", "));
    }
    return llvm::join(lines, "\n");
  }

  const JsonValue &root;
  Span text;
  const ReadOptions &options;
  JsonFields fields;
  std::vector<std::string> &lost;
  std::vector<Row> rows;
  OpId opCount = 0;
  std::vector<OpPayload> payloads;
  bool isExplicit = false; // some cell sends or receives
};

} // namespace

std::optional<FormattedSchedule> readOrderJson(const JsonValue &root, Span text, const ReadOptions &options,
                                               Diagnostics &diagnostics, std::vector<std::string> &lost) {
  return Reader(root, text, options, diagnostics, lost).run();
}

} // namespace sluice
