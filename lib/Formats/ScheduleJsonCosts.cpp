#include "Formats/ScheduleJsonCosts.h"

#include "Formats/ScheduleJson.h"
#include "Formats/ScheduleJsonOps.h"
#include "Formats/SettingWords.h"
#include "Support/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

using Kind = JsonValue::Kind;

class CostsReader {
public:
  CostsReader(const JsonValue &root, JsonFields &fields, FormattedSchedule &schedule)
      : root(root), fields(fields), program(schedule.program), costs(schedule.costs) {}

  void run() {
    std::string communication = costs.communication;
    costs = CostModel::ofTicks(program.stages);
    costs.communication = communication;
    costs.skipTransfer.assign(program.skips.size(), StageTable<int64_t>({0, 0}));
    costs.skipBoundary.assign(program.skips.size(), StageTable<int64_t>({0}));
    if (const JsonValue *model = fields.field(root, "model", Kind::Object))
      readModel(*model);
    if (const JsonValue *cluster = fields.field(root, "cluster", Kind::Object))
      readCluster(*cluster);
    if (const JsonValue *training = fields.field(root, "training", Kind::Object))
      readTraining(*training);
  }

private:
  void readCluster(const JsonValue &cluster) {
    std::vector<llvm::StringRef> keys{"memory", "reserved", "transport"};
    for (const SettingWords &setting : clusterWords())
      keys.push_back(setting.name);
    fields.checkKeys(cluster, keys);
    costs.memoryLimit = fields.integers(cluster, "memory", program.devices);
    costs.reserved = fields.integers(cluster, "reserved", program.devices);
    if (const JsonValue *transport = fields.field(cluster, "transport", Kind::Text))
      if (!setTransport(costs, transport->text) ||
          (!costs.channels.isUnbounded() && costs.channels.depth > mostDepth))
        fields.expected(*transport, "nccl, mpi, gloo, local, rendezvous, unbounded or eager(N)");
    readWords(cluster, clusterWords());
    if (costs.transfersBlock &&
        (costs.communication != "early" || program.isExplicit || !program.skips.empty()))
      fields.expected(*cluster.find("transfers"),
                      "\"overlapped\": only what is placed early over no edge can block");
  }
  void readModel(const JsonValue &model) {
    std::vector<llvm::StringRef> keys{"time_unit", "time_factor", "shown_unit", "overlapped",
                                      "random",    "batch_norm",  "not_counted"};
    for (const CostTable &entry : timeTables())
      keys.push_back(entry.key);
    for (const CostTable &entry : hostTables())
      keys.push_back(entry.key);
    for (const CostList &entry : timeLists())
      keys.push_back(entry.key);
    llvm::append_range(keys, linkKeys());
    keys.push_back("reduce_tied");
    for (const CostTable &entry : sizeTables())
      keys.push_back(entry.key);
    for (const CostList &entry : sizeLists())
      keys.push_back(entry.key);
    for (const CostTables &entry : edgeTables())
      keys.push_back(entry.key);
    fields.checkKeys(model, keys);
    costs.isDefault = false;
    if (const JsonValue *unit = fields.needed(model, "time_unit", Kind::Text)) {
      costs.ticks = unit->text == "tick";
      if (!costs.ticks && unit->text != "ns")
        fields.expected(*unit, "\"tick\" or \"ns\"");
    }
    if (const JsonValue *factor = fields.needed(model, "time_factor", Kind::Text))
      readFactor(*factor);
    if (const JsonValue *shown = fields.field(model, "shown_unit", Kind::Text)) {
      auto unit = unitNamed(shown->text);
      costs.displayUnit = shown->text.str();
      if (costs.ticks || !unit || unit->dimension != timeDimension)
        fields.expected(*shown, costs.ticks ? "no unit for ticks" : "\"ns\", \"us\", \"ms\" or \"s\"");
    }
    for (const CostTable &entry : timeTables())
      readTable(model, entry, /*isNeeded=*/true);
    for (const CostTable &entry : sizeTables())
      readTable(model, entry, /*isNeeded=*/false);
    for (const CostList &entry : sizeLists())
      if (auto list = fields.integers(model, entry.key, program.stages); !list.empty())
        costs.*entry.list = std::move(list);
    for (const CostList &entry : timeLists())
      costs.*entry.list = fields.integers(model, entry.key, program.stages);
    costs.reduceTied = fields.integers(model, "reduce_tied", program.ties.size());
    for (const CostTable &entry : hostTables())
      readTable(model, entry, /*isNeeded=*/false);
    readOverlapped(model);
    for (const CostTables &entry : edgeTables())
      readEdgeTables(model, entry);
    if (fields.good)
      readLinks(model, fields, program, costs);
    costs.randomStage = stages(model, "random");
    costs.batchNormStage = stages(model, "batch_norm");
    costs.notCounted = fields.texts(model, "not_counted");
    static constexpr llvm::StringRef names[] = {"activation",      "boundary", "weights", "gradients",
                                                "optimizer_state", "update",   "reduce",  "reduce_tied",
                                                "unshard",         "offload"};
    for (const std::string &name : costs.notCounted)
      if (!llvm::is_contained(names, llvm::StringRef(name)))
        fields.expected(*model.find("not_counted"),
                        "names of settings: " + llvm::join(std::begin(names), std::end(names), ", "));
  }
  void readFactor(const JsonValue &factor) {
    auto unit = fractionOf(factor.text);
    if (unit && unit->num > 0)
      costs.unit = *unit;
    else
      fields.expected(factor, "a fraction above 0 such as \"1\" or \"1/3\"");
  }
  void readTable(const JsonValue &model, const CostTable &entry, bool isNeeded) {
    const JsonValue *found = model.find(entry.key);
    if (!found) {
      if (isNeeded)
        fields.needed(model, entry.key, Kind::Array);
      return;
    }
    if (auto table = fields.table(*found, entry.key, program.stages, program.microbatches, INT64_MAX))
      costs.*entry.table = std::move(*table);
  }
  void readOverlapped(const JsonValue &model) {
    const JsonValue *found = fields.field(model, "overlapped", Kind::Array);
    for (const JsonValue &entry : found ? llvm::ArrayRef(found->items) : llvm::ArrayRef<JsonValue>()) {
      if (!entry.is(Kind::Array) || entry.items.size() != 3) {
        fields.expected(entry, "[stage of the forward, stage of the backward, time]");
        continue;
      }
      auto forward = fields.integer(entry.items[0], "the stage", 0, program.stages - 1);
      auto backward = fields.integer(entry.items[1], "the stage", 0, program.stages - 1);
      auto time = fields.integer(entry.items[2], "the time", 0, INT64_MAX);
      if (forward && backward && time && !costs.overlapped.try_emplace({*forward, *backward}, *time).second)
        fields.expected(entry, "each pair once");
    }
  }
  std::vector<bool> stages(const JsonValue &model, llvm::StringRef key) {
    std::vector<bool> result;
    if (const JsonValue *found = fields.field(model, key, Kind::Array)) {
      result.assign(program.stages, false);
      for (const JsonValue &item : found->items)
        if (auto stage = fields.integer(item, key, 0, program.stages - 1))
          result[static_cast<size_t>(*stage)] = true;
    }
    return result;
  }
  void readTraining(const JsonValue &training) {
    const uint32_t microbatches = program.wholeMicrobatches();
    std::vector<llvm::StringRef> keys{"samples", "tokens", "batch", "replicas", "semantics", "staleness"};
    for (const SettingWords &setting : trainingWords())
      keys.push_back(setting.name);
    fields.checkKeys(training, keys);
    costs.samples = fields.integers(training, "samples", microbatches);
    costs.tokens = fields.integers(training, "tokens", microbatches);
    costs.batch = fields.integerField(training, "batch", 1, INT64_MAX);
    costs.replicas = fields.integerField(training, "replicas", 1, INT64_MAX);
    readWords(training, trainingWords());
    if (costs.loss == "mean over tokens")
      fields.needed(training, "tokens", Kind::Array);
    if (const JsonValue *semantics = fields.field(training, "semantics", Kind::Text)) {
      costs.asynchronous = semantics->text == "asynchronous";
      if (!costs.asynchronous && semantics->text != "synchronous")
        fields.expected(*semantics, "\"synchronous\" or \"asynchronous\"");
    }
    costs.stalenessBound = fields.integerField(training, "staleness", 0, INT64_MAX);
    if (costs.stalenessBound && !costs.asynchronous)
      fields.expected(*training.find("staleness"), "no bound for synchronous training");
    int64_t tokens = 0;
    for (int64_t count : costs.tokens)
      if (__builtin_add_overflow(tokens, count, &tokens))
        return fields.expected(*training.find("tokens"), "tokens that add up to 64 bits");
    checkBatch(training, microbatches);
  }
  void readWords(const JsonValue &object, llvm::ArrayRef<SettingWords> settings) {
    for (const SettingWords &setting : settings) {
      const JsonValue *found = fields.field(object, setting.name, Kind::Text);
      if (!found)
        continue;
      const auto *word = llvm::find(setting.words, found->text);
      if (word != setting.words.end() && !word->empty()) {
        setting.set(costs, static_cast<size_t>(word - setting.words.begin()));
        continue;
      }
      llvm::ArrayRef<llvm::StringRef> known = setting.words;
      fields.expected(*found, llvm::join(known.drop_front(known[0].empty() ? 1 : 0), ", "));
    }
  }
  void readEdgeTables(const JsonValue &model, const CostTables &entry) {
    const JsonValue *found = fields.field(model, entry.key, Kind::Array);
    if (!found)
      return;
    if (found->items.size() != program.skips.size())
      return fields.expected(*found, fmt::format("a table for each of the {} edges", program.skips.size()));
    for (size_t i = 0; i < found->items.size(); ++i)
      if (auto table =
              fields.table(found->items[i], entry.key, entry.columns, program.microbatches, INT64_MAX))
        (costs.*entry.tables)[i] = std::move(*table);
  }
  void checkBatch(const JsonValue &training, uint32_t microbatches) {
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
  JsonFields &fields;
  const Program &program;
  CostModel &costs;
  static constexpr uint32_t mostDepth = 0x7fff'fffe; // as the language has it
};

} // namespace

void readCosts(const JsonValue &root, JsonFields &fields, FormattedSchedule &schedule) {
  CostsReader(root, fields, schedule).run();
}

} // namespace sluice
