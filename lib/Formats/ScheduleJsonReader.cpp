#include "Formats/ScheduleJson.h"

#include "Formats/JsonFields.h"
#include "Formats/OrderJson.h"
#include "Formats/Rows.h"
#include "Support/Quantity.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

using Kind = JsonValue::Kind;

class Reader {
public:
  Reader(const JsonValue &root, Span text, const ReadOptions &options, Diagnostics &diagnostics)
      : root(root), text(text), options(options), fields(diagnostics) {}

  std::optional<FormattedSchedule> run() {
    fields.checkKeys(root, {"version", "name", "source", "stages", "microbatches", "communication",
                            "sequence_splits", "versions", "most_versions", "placement", "buffers",
                            "programs", "model", "cluster", "training"});
    FormattedSchedule schedule;
    readVersion();
    readSizes();
    if (!fields.good)
      return std::nullopt;
    readPrograms();
    auto placement = readPlacement();
    const JsonValue *name = fields.needed(root, "name", Kind::Text);
    if (!fields.good)
      return std::nullopt;
    if (identifier(name->text) != name->text) {
      fields.expected(*name, "a name: letters, digits and _");
      return std::nullopt;
    }
    auto program = programOfRows(name->text, rows, sizes, text, options, fields.diagnostics, placement);
    if (!program)
      return std::nullopt;
    schedule.program = std::move(*program);
    schedule.program.namedVersions = std::move(versions);
    readSettings(schedule.program);
    readCommunication(schedule);
    readCosts(schedule);
    if (const JsonValue *source = fields.field(root, "source", Kind::Text))
      schedule.source = source->text.str();
    if (!fields.good || !checkOverlapSums(schedule.program, schedule.costs, fields.diagnostics))
      return std::nullopt;
    return schedule;
  }

private:
  void readVersion() {
    auto version = fields.needed(root, "version", Kind::Number);
    if (version && fields.integer(*version, "version", 1, INT64_MAX) && version->text != "1")
      fields.expected(*version, fmt::format("version {}", scheduleJsonVersion));
  }
  void readSizes() {
    auto size = [&](llvm::StringRef key, int64_t most) -> uint32_t {
      const JsonValue *found = fields.needed(root, key, Kind::Number);
      auto value = found ? fields.integer(*found, key, 1, most) : std::nullopt;
      return value ? static_cast<uint32_t>(*value) : 0;
    };
    sizes.stages = size("stages", maxStages);
    sizes.microbatches = size("microbatches", 0x7fff'fffe);
    if (!fields.good || static_cast<uint64_t>(sizes.stages) * sizes.microbatches <= options.maxOps)
      return;
    fields.diagnostics.report(Rule::ValueOutOfRange, text,
                              {{"what", fmt::format("{} stages and {} microbatches are more pairs than ops",
                                                    sizes.stages, sizes.microbatches)}});
    fields.good = false;
  }

  StageTable<uint32_t> readPlacement() {
    const JsonValue *found = root.find("placement");
    if (!found) {
      fields.needed(root, "placement", Kind::Array);
      return {};
    }
    auto table = fields.table(*found, "placement", sizes.stages, sizes.microbatches,
                              static_cast<int64_t>(rows.size()) - 1, static_cast<int64_t>(noDevice));
    return table ? table->mapped([](int64_t device) { return static_cast<uint32_t>(device); })
                 : StageTable<uint32_t>();
  }

  void readPrograms() {
    const JsonValue *programs = fields.needed(root, "programs", Kind::Array);
    if (!programs)
      return;
    if (programs->items.empty() || programs->items.size() > maxStages)
      return fields.expected(*programs, "1 to 65536 programs");
    for (const JsonValue &program : programs->items) {
      Row &row = rows.emplace_back();
      row.span = program.span;
      if (fields.isKind(program, Kind::Array, "the program of a device"))
        for (const JsonValue &entry : program.items)
          readEntry(row, entry);
    }
  }
  void readEntry(Row &row, const JsonValue &entry) {
    if (!entry.is(Kind::Object))
      return readOp(row, entry, 0);
    bool isGroup = entry.find("group"), isOverlap = entry.find("overlap");
    if (entry.keys.size() != 1 || !(isGroup || isOverlap))
      return fields.expected(entry, R"(an op, {"overlap": [..]} or {"group": [..]})");
    const JsonValue &members = entry.items[0];
    if (!fields.isKind(members, Kind::Array, quoted(entry.keys[0].name)))
      return;
    if (members.items.empty())
      return fields.expected(members, "at least one op");
    for (const JsonValue &member : members.items) {
      bool first = &member == &members.items[0];
      readOp(row, member,
             isGroup ? (first ? GroupFirst : GroupFollower) : (first ? OverlapFirst : OverlapFollower));
    }
  }
  void readOp(Row &row, const JsonValue &entry, unsigned flags) {
    if (!fields.isKind(entry, Kind::Array, "an op"))
      return;
    const std::vector<JsonValue> &parts = entry.items;
    if (parts.empty() || !parts[0].is(Kind::Text))
      return fields.expected(entry, R"(an op such as ["forward", 0, 3])");
    auto kind = kindOf(parts[0]);
    if (!kind)
      return;
    Op op{*kind, static_cast<uint8_t>(flags)};
    const size_t numbers = op.hasMicrobatch() ? 2 : 1;
    if (parts.size() <= numbers)
      return fields.expected(
          entry, fmt::format(R"(["{}", stage{}])", name(*kind).str(), numbers == 2 ? ", microbatch" : ""));
    auto stage = fields.integer(parts[1], "the stage", 0, maxStages - 1);
    auto microbatch =
        numbers == 2 ? fields.integer(parts[2], "the microbatch", 0, 0x7fff'fffd) : std::optional<int64_t>(0);
    if (!stage || !microbatch)
      return;
    op.stage = static_cast<uint16_t>(*stage);
    if (numbers == 2)
      op.microbatch = static_cast<uint32_t>(*microbatch);
    for (size_t i = numbers + 1; i < parts.size(); ++i)
      if (parts[i].is(Kind::Object) && op.kind == OpKind::Forward && i + 1 == parts.size())
        readVersion(parts[i]);
      else
        readModifier(op, parts[i]);
    bool inGroup = flags & (GroupFirst | GroupFollower), inOverlap = flags & (OverlapFirst | OverlapFollower);
    if ((inGroup && !op.isCommunication()) || (inOverlap && !op.hasMicrobatch()) ||
        (inOverlap && op.isCommunication()))
      return fields.expected(entry, inGroup ? "a send or receive in a group"
                                            : "an op of a microbatch in an overlap");
    row.add(op, entry.span);
    ++opCount;
  }
  std::optional<OpKind> kindOf(const JsonValue &word) {
    std::vector<llvm::StringRef> names;
    for (unsigned i = 0; i < opKindCount; ++i) {
      names.push_back(name(static_cast<OpKind>(i)));
      if (names.back() == word.text)
        return static_cast<OpKind>(i);
    }
    fields.good = false;
    Finding &finding =
        fields.diagnostics.report(Rule::UnknownName, word.span, {{"name", "the op " + quoted(word.text)}});
    llvm::StringRef near = nearest(word.text, names);
    finding.fix.message = near.empty() ? "an op of the language" : quoted(near) + "?";
    return std::nullopt;
  }
  void readModifier(Op &op, const JsonValue &word) {
    unsigned flag = 0;
    if (word.is(Kind::Text)) {
      bool isForward = op.kind == OpKind::Forward;
      if (word.text == "keep input" && (isForward || op.kind == OpKind::Drop))
        flag = KeepInput;
      else if (word.text == "keep nothing" && isForward)
        flag = KeepNothing;
      else if (word.text == "replay" && op.kind == OpKind::Recompute)
        flag = Replay;
    }
    if (flag == 0 || op.has(static_cast<OpFlag>(flag)) || (op.flags & (KeepInput | KeepNothing)))
      return fields.expected(word, fmt::format("what may follow {}", name(op.kind).str()));
    op.flags |= flag;
  }

  void readVersion(const JsonValue &named) {
    fields.checkKeys(named, {"version"});
    const JsonValue *number = fields.needed(named, "version", Kind::Number);
    auto version = number ? fields.integer(*number, "version", 0, 0xffff'fffe) : std::nullopt;
    if (version)
      versions.push_back({opCount, static_cast<uint32_t>(*version)});
  }
  void readSettings(Program &program) {
    if (auto splits = fields.integerField(root, "sequence_splits", 1, sizes.microbatches)) {
      program.sequenceSplits = static_cast<uint32_t>(*splits);
      if (sizes.microbatches % program.sequenceSplits != 0)
        fields.expected(*root.find("sequence_splits"),
                        fmt::format("a divisor of the {} microbatches", sizes.microbatches));
    }
    if (const JsonValue *rule = fields.field(root, "versions", Kind::Text)) {
      bool known = false;
      for (VersionRule each : {VersionRule::Stashed, VersionRule::Newest, VersionRule::Queued})
        if (rule->text == name(each))
          program.versions = each, known = true;
      if (!known)
        fields.expected(*rule, "\"stashed\", \"newest\" or \"queued\"");
    }
    if (auto most = fields.integerField(root, "most_versions", 1, 0xffff'fffe)) {
      program.mostVersions = static_cast<uint32_t>(*most);
      if (program.versions != VersionRule::Stashed)
        fields.expected(*root.find("most_versions"), "no bound for versions that are not stashed");
    }
    if (const JsonValue *buffers = root.find("buffers"))
      if (auto table = fields.table(*buffers, "buffers", sizes.stages, sizes.microbatches, 0x7fff'ffff))
        program.buffers = table->mapped([](int64_t buffer) { return static_cast<uint32_t>(buffer); });
  }
  void readCommunication(FormattedSchedule &schedule) {
    const JsonValue *found = fields.field(root, "communication", Kind::Text);
    for (OpId id = 0; id < schedule.program.size(); ++id)
      if (schedule.program.ops[id].isCommunication() && !(found && found->text == "explicit")) {
        fields.good = false;
        fields.diagnostics
            .report(Rule::WrongArguments, schedule.program.spanOf(id),
                    {{"what", fmt::format("{} is written in a schedule whose communication is inferred",
                                          str(schedule.program.ops[id]))}})
            .fix.message = "\"communication\": \"explicit\"";
        return;
      }
    if (!found)
      return;
    schedule.program.isExplicit = found->text == "explicit";
    if (schedule.program.isExplicit || found->text == "early" || found->text == "just_in_time")
      schedule.costs.communication = found->text.str();
    else
      fields.expected(*found, "\"early\", \"just_in_time\" or \"explicit\"");
  }

  void readCosts(FormattedSchedule &schedule) {
    std::string communication = schedule.costs.communication;
    schedule.costs = CostModel::ofTicks(schedule.program.stages);
    schedule.costs.communication = communication;
    if (const JsonValue *model = fields.field(root, "model", Kind::Object))
      readModel(*model, schedule.costs);
    if (const JsonValue *cluster = fields.field(root, "cluster", Kind::Object)) {
      fields.checkKeys(*cluster, {"memory", "reserved", "transport"});
      schedule.costs.memoryLimit = fields.integers(*cluster, "memory", rows.size());
      schedule.costs.reserved = fields.integers(*cluster, "reserved", rows.size());
      if (const JsonValue *transport = fields.field(*cluster, "transport", Kind::Text)) {
        schedule.costs.transport = transport->text.str();
        if (!isTransport(transport->text))
          fields.expected(*transport, "nccl, mpi, gloo, local, rendezvous, unbounded or eager(N)");
      }
    }
    if (const JsonValue *training = fields.field(root, "training", Kind::Object))
      readTraining(*training, schedule.program.wholeMicrobatches(), schedule.costs);
  }
  static bool isTransport(llvm::StringRef word) {
    static constexpr llvm::StringRef known[] = {"nccl", "mpi", "gloo", "local", "rendezvous", "unbounded"};
    uint32_t depth = 0;
    return llvm::is_contained(known, word) || (word.consume_front("eager(") && word.consume_back(")") &&
                                               !word.empty() && !word.getAsInteger(10, depth));
  }
  void readModel(const JsonValue &model, CostModel &costs) {
    std::vector<llvm::StringRef> keys{"time_unit", "time_factor", "shown_unit", "overlapped",
                                      "random",    "batch_norm",  "not_counted"};
    for (const CostTable &entry : timeTables())
      keys.push_back(entry.key);
    for (const CostTable &entry : sizeTables())
      keys.push_back(entry.key);
    for (const CostList &entry : sizeLists())
      keys.push_back(entry.key);
    fields.checkKeys(model, keys);
    costs.isDefault = false;
    if (const JsonValue *unit = fields.needed(model, "time_unit", Kind::Text)) {
      costs.ticks = unit->text == "tick";
      if (!costs.ticks && unit->text != "ns")
        fields.expected(*unit, "\"tick\" or \"ns\"");
    }
    if (const JsonValue *factor = fields.needed(model, "time_factor", Kind::Text))
      readFactor(*factor, costs);
    if (const JsonValue *shown = fields.field(model, "shown_unit", Kind::Text)) {
      auto unit = unitNamed(shown->text);
      costs.displayUnit = shown->text.str();
      if (costs.ticks || !unit || unit->dimension != timeDimension)
        fields.expected(*shown, costs.ticks ? "no unit for ticks" : "\"ns\", \"us\", \"ms\" or \"s\"");
    }
    for (const CostTable &entry : timeTables())
      readTable(model, entry, costs, /*isNeeded=*/true);
    for (const CostTable &entry : sizeTables())
      readTable(model, entry, costs, /*isNeeded=*/false);
    for (const CostList &entry : sizeLists())
      if (auto list = fields.integers(model, entry.key, sizes.stages); !list.empty())
        costs.*entry.list = std::move(list);
    readOverlapped(model, costs);
    costs.randomStage = stages(model, "random");
    costs.batchNormStage = stages(model, "batch_norm");
    costs.notCounted = fields.texts(model, "not_counted");
    static constexpr llvm::StringRef sizes[] = {"activation", "boundary", "weights", "gradients",
                                                "optimizer_state"};
    for (const std::string &name : costs.notCounted)
      if (!llvm::is_contained(sizes, llvm::StringRef(name)))
        fields.expected(*model.find("not_counted"),
                        "names of sizes: " + llvm::join(std::begin(sizes), std::end(sizes), ", "));
  }
  void readFactor(const JsonValue &factor, CostModel &costs) {
    auto [numerator, denominator] = factor.text.split('/');
    int64_t above = 0, below = 1;
    bool good = !numerator.getAsInteger(10, above) && above > 0 &&
                (denominator.empty() ? numerator.size() == factor.text.size()
                                     : !denominator.getAsInteger(10, below) && below > 0);
    auto unit = good ? Rational::make(above, below) : std::nullopt;
    if (unit)
      costs.unit = *unit;
    else
      fields.expected(factor, "a fraction above 0 such as \"1\" or \"1/3\"");
  }
  void readTable(const JsonValue &model, const CostTable &entry, CostModel &costs, bool isNeeded) {
    const JsonValue *found = model.find(entry.key);
    if (!found) {
      if (isNeeded)
        fields.needed(model, entry.key, Kind::Array);
      return;
    }
    if (auto table = fields.table(*found, entry.key, sizes.stages, sizes.microbatches, INT64_MAX))
      costs.*entry.table = std::move(*table);
  }
  void readOverlapped(const JsonValue &model, CostModel &costs) {
    const JsonValue *found = fields.field(model, "overlapped", Kind::Array);
    for (const JsonValue &entry : found ? llvm::ArrayRef(found->items) : llvm::ArrayRef<JsonValue>()) {
      if (!entry.is(Kind::Array) || entry.items.size() != 3) {
        fields.expected(entry, "[stage of the forward, stage of the backward, time]");
        continue;
      }
      auto forward = fields.integer(entry.items[0], "the stage", 0, sizes.stages - 1);
      auto backward = fields.integer(entry.items[1], "the stage", 0, sizes.stages - 1);
      auto time = fields.integer(entry.items[2], "the time", 0, INT64_MAX);
      if (forward && backward && time && !costs.overlapped.try_emplace({*forward, *backward}, *time).second)
        fields.expected(entry, "each pair once");
    }
  }
  std::vector<bool> stages(const JsonValue &model, llvm::StringRef key) {
    std::vector<bool> result;
    if (const JsonValue *found = fields.field(model, key, Kind::Array)) {
      result.assign(sizes.stages, false);
      for (const JsonValue &item : found->items)
        if (auto stage = fields.integer(item, key, 0, sizes.stages - 1))
          result[static_cast<size_t>(*stage)] = true;
    }
    return result;
  }
  void readTraining(const JsonValue &training, uint32_t microbatches, CostModel &costs) {
    fields.checkKeys(training, {"samples", "batch", "replicas", "loss", "semantics", "staleness"});
    costs.samples = fields.integers(training, "samples", microbatches);
    costs.batch = fields.integerField(training, "batch", 1, INT64_MAX);
    costs.replicas = fields.integerField(training, "replicas", 1, INT64_MAX);
    if (const JsonValue *loss = fields.field(training, "loss", Kind::Text)) {
      static constexpr llvm::StringRef known[] = {"mean over samples", "mean over microbatches", "sum"};
      costs.loss = loss->text.str();
      if (!llvm::is_contained(known, loss->text))
        fields.expected(*loss, llvm::join(std::begin(known), std::end(known), ", "));
    }
    if (const JsonValue *semantics = fields.field(training, "semantics", Kind::Text)) {
      costs.asynchronous = semantics->text == "asynchronous";
      if (!costs.asynchronous && semantics->text != "synchronous")
        fields.expected(*semantics, "\"synchronous\" or \"asynchronous\"");
    }
    costs.stalenessBound = fields.integerField(training, "staleness", 0, INT64_MAX);
    if (costs.stalenessBound && !costs.asynchronous)
      fields.expected(*training.find("staleness"), "no bound for synchronous training");
    checkBatch(training, microbatches, costs);
  }
  void checkBatch(const JsonValue &training, uint32_t microbatches, const CostModel &costs) {
    std::optional<Rational> held = Rational(0);
    for (int64_t count : costs.samples)
      held = held ? add(*held, Rational(count)) : held;
    const int64_t replicas = costs.replicas.value_or(1);
    held = held ? multiply(*held, Rational(replicas)) : held;
    if (!fields.good ||
        costs.batch == (costs.samples.empty() || !held ? std::nullopt : std::optional(held->num)))
      return;
    fields.diagnostics.report(
        Rule::BatchMismatch, training.span,
        {{"microbatches", fmt::format("{} microbatches x {} replicas", microbatches, replicas)},
         {"samples", held ? held->str() : "more than 2^63"},
         {"batch", costs.batch ? std::to_string(*costs.batch) : "not given"}});
    fields.good = false;
  }

  const JsonValue &root;
  Span text;
  const ReadOptions &options;
  JsonFields fields;
  StatedSizes sizes;
  std::vector<Row> rows;
  OpId opCount = 0;
  std::vector<NamedVersion> versions;
};

} // namespace

std::optional<FormattedSchedule> readJson(SourceManager &sources, llvm::ArrayRef<Span> texts,
                                          const ReadOptions &options, Diagnostics &diagnostics,
                                          std::vector<std::string> &lost) {
  auto document = parseJson(sources, texts[0], diagnostics);
  if (!document)
    return std::nullopt;
  const JsonValue &root = document->root;
  if (root.is(Kind::Object) && root.find("order"))
    return readOrderJson(root, texts[0], options, diagnostics, lost);
  if (root.is(Kind::Object) && (root.find("programs") || root.find("version")))
    return Reader(root, texts[0], options, diagnostics).run();
  Finding &finding = diagnostics.report(
      Rule::SyntaxError, root.is(Kind::Object) ? Span{root.span.begin, root.span.begin + 1} : root.span,
      {{"what", R"(an object with "order" or "programs")"}, {"token", describe(root)}});
  if (root.is(Kind::Array))
    finding.fix.message = "read lists of chunks as megatron, lists of instructions as deepspeed";
  return std::nullopt;
}

} // namespace sluice
