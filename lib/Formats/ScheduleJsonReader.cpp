#include "Formats/ScheduleJson.h"

#include "Formats/OrderJson.h"
#include "Formats/Rows.h"
#include "Formats/ScheduleJsonCosts.h"
#include "Formats/ScheduleJsonOps.h"

#include "llvm/ADT/STLExtras.h"

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
                            "sequence_splits", "versions", "most_versions", "phase", "edges", "tied",
                            "placement", "buffers", "programs", "model", "cluster", "training"});
    FormattedSchedule schedule;
    readVersion();
    readSizes();
    if (!fields.good)
      return std::nullopt;
    readEdges();
    readTied();
    JsonOps ops = readOps(root, ties, fields);
    rows = std::move(ops.rows);
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
    schedule.program.skips = std::move(skips);
    schedule.program.ties = std::move(ties);
    takeOps(ops, schedule.program);
    readSettings(schedule.program);
    readCommunication(schedule);
    readCosts(root, fields, schedule);
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

  void readEdges() {
    const JsonValue *found = fields.field(root, "edges", Kind::Array);
    for (const JsonValue &entry : found ? llvm::ArrayRef(found->items) : llvm::ArrayRef<JsonValue>()) {
      if (!fields.isKind(entry, Kind::Object, "a skip edge"))
        continue;
      fields.checkKeys(entry, {"from", "to", "gradient"});
      auto stage = [&](llvm::StringRef key) -> std::optional<int64_t> {
        const JsonValue *value = fields.needed(entry, key, Kind::Number);
        return value ? fields.integer(*value, key, 0, sizes.stages - 1) : std::nullopt;
      };
      auto from = stage("from"), to = stage("to");
      const JsonValue *gradient = fields.field(entry, "gradient", Kind::Boolean);
      if (!from || !to)
        continue;
      const SkipEdge skip{static_cast<uint32_t>(*from), static_cast<uint32_t>(*to),
                          !gradient || gradient->truth, entry.span};
      if (*to < *from + 2)
        fields.expected(entry, "an edge that passes over a stage");
      else if (!skips.empty() &&
               std::pair(skips.back().from, skips.back().to) >= std::pair(skip.from, skip.to))
        fields.expected(entry, "edges in ascending order, each once");
      else
        skips.push_back(skip);
    }
  }
  void readTied() {
    const JsonValue *found = fields.field(root, "tied", Kind::Array);
    for (const JsonValue &entry : found ? llvm::ArrayRef(found->items) : llvm::ArrayRef<JsonValue>()) {
      if (!fields.isKind(entry, Kind::Object, "a tied weight"))
        continue;
      fields.checkKeys(entry, {"name", "stages"});
      const JsonValue *name = fields.needed(entry, "name", Kind::Text);
      const JsonValue *stages = fields.needed(entry, "stages", Kind::Array);
      if (!name || !stages)
        continue;
      TiedWeight weight{name->text.str(), {}, entry.span};
      for (const JsonValue &item : stages->items)
        if (auto stage = fields.integer(item, "the stage", 0, sizes.stages - 1))
          weight.stages.push_back(static_cast<uint32_t>(*stage));
      std::vector<uint32_t> once = weight.stages;
      llvm::sort(once);
      if (identifier(name->text) != name->text ||
          llvm::any_of(ties, [&](const TiedWeight &other) { return other.name == weight.name; }))
        fields.expected(*name, "a name that no other weight has: letters, digits and _");
      else if (once.empty() || std::adjacent_find(once.begin(), once.end()) != once.end())
        fields.expected(*stages, "the stages that share it, each once");
      else
        ties.push_back(std::move(weight));
    }
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
    if (const JsonValue *phase = fields.field(root, "phase", Kind::Text)) {
      program.isEvaluation = phase->text == "evaluation";
      program.phaseSpan = phase->span;
      if (!program.isEvaluation && phase->text != "training")
        fields.expected(*phase, "\"training\" or \"evaluation\"");
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

  const JsonValue &root;
  Span text;
  const ReadOptions &options;
  JsonFields fields;
  StatedSizes sizes;
  std::vector<Row> rows;
  std::vector<SkipEdge> skips;
  std::vector<TiedWeight> ties;
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
