#include "Formats/ScheduleJson.h"

#include "Formats/OpWords.h"
#include "Formats/SettingWords.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

namespace sluice {

llvm::ArrayRef<CostTable> timeTables() {
  static const CostTable tables[] = {{"forward", &CostModel::forward},
                                     {"backward", &CostModel::backward},
                                     {"backward_input", &CostModel::backwardInput},
                                     {"backward_weight", &CostModel::backwardWeight},
                                     {"recompute", &CostModel::recompute},
                                     {"activation_transfer", &CostModel::activationTransfer},
                                     {"gradient_transfer", &CostModel::gradientTransfer}};
  return tables;
}
llvm::ArrayRef<CostTable> sizeTables() {
  static const CostTable tables[] = {{"activation", &CostModel::activation},
                                     {"kept_input", &CostModel::keptInput},
                                     {"pending", &CostModel::pending},
                                     {"boundary", &CostModel::boundary}};
  return tables;
}
llvm::ArrayRef<CostTable> hostTables() {
  static const CostTable tables[] = {{"offload", &CostModel::offload}, {"reload", &CostModel::reload}};
  return tables;
}
llvm::ArrayRef<CostList> timeLists() {
  static const CostList lists[] = {
      {"update", &CostModel::update}, {"reduce", &CostModel::reduce}, {"unshard", &CostModel::unshard}};
  return lists;
}
llvm::ArrayRef<RouteTable> routeTables() {
  static const RouteTable tables[] = {{"activation_route", &CostModel::activationRoute},
                                      {"gradient_route", &CostModel::gradientRoute}};
  return tables;
}
llvm::ArrayRef<CostTables> edgeTables() {
  static const CostTables tables[] = {{"skip_boundary", &CostModel::skipBoundary, 1},
                                      {"skip_transfer", &CostModel::skipTransfer, 2}};
  return tables;
}
llvm::ArrayRef<CostList> sizeLists() {
  static const CostList lists[] = {{"weights", &CostModel::weights},
                                   {"gradients", &CostModel::gradients},
                                   {"optimizer_state", &CostModel::optimizerState},
                                   {"workspace", &CostModel::workspace}};
  return lists;
}

namespace {

class Writer {
public:
  explicit Writer(const FormattedSchedule &schedule)
      : program(schedule.program), costs(schedule.costs), source(schedule.source),
        versions(schedule.program.namedVersions), peers(schedule.program.peers),
        payloads(schedule.program.payloads) {}

  std::string write() {
    out.reserve(program.size() * bytesOfOp);
    line("version", std::to_string(scheduleJsonVersion));
    line("name", quoted(program.name));
    if (!source.empty())
      line("source", quoted(source));
    line("stages", std::to_string(program.stages));
    line("microbatches", std::to_string(program.microbatches));
    line("communication", quoted(program.isExplicit ? "explicit" : costs.communication));
    if (program.sequenceSplits > 1)
      line("sequence_splits", std::to_string(program.sequenceSplits));
    if (program.versions != VersionRule::Stashed)
      line("versions", quoted(name(program.versions)));
    if (program.mostVersions > 0)
      line("most_versions", std::to_string(program.mostVersions));
    if (program.isEvaluation)
      line("phase", quoted("evaluation"));
    structure();
    line("placement", table(program.placement));
    if (!program.buffers.empty())
      line("buffers", table(program.buffers));
    programs();
    if (!costs.isDefault)
      model();
    cluster();
    training();
    out += "\n}\n";
    return std::move(out);
  }

private:
  /// `"key": value` as the next member of the object at hand.
  void line(llvm::StringRef key, const std::string &value) {
    out += out.empty() ? "{" : fresh ? "" : ",";
    out += fmt::format("\n{}{}: {}", indent, quoted(key), value);
    fresh = false;
  }
  template <typename Members> void object(llvm::StringRef key, Members members) {
    line(key, "{");
    std::string outer = indent;
    indent += "  ";
    fresh = true;
    members();
    indent = outer;
    fresh = false;
    out += "\n" + indent + "}";
  }

  template <typename T> static std::string list(const std::vector<T> &values) {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  template <typename T> std::string row(const StageTable<T> &table, uint32_t row) {
    std::vector<std::string> values;
    for (uint32_t s = 0; s < table.stageCount(); ++s) {
      T value = table.inRow(row, s);
      bool none = std::is_same_v<T, uint32_t> && value == static_cast<T>(noDevice);
      values.push_back(none ? "null" : std::to_string(value));
    }
    return list(values);
  }
  template <typename T> std::string table(const StageTable<T> &values) {
    if (values.rowCount() == 1)
      return row(values, 0);
    std::vector<std::string> rows;
    for (uint32_t r = 0; r < values.rowCount(); ++r)
      rows.push_back(row(values, r));
    std::vector<uint32_t> rowOf;
    for (uint32_t m = 0; m < program.microbatches; ++m)
      rowOf.push_back(values.row(m));
    return fmt::format("{{\"rows\": {}, \"of_microbatch\": {}}}", list(rows), list(rowOf));
  }
  std::string stagesOf(const std::vector<bool> &marked) {
    std::vector<size_t> stages;
    for (size_t s = 0; s < marked.size(); ++s)
      if (marked[s])
        stages.push_back(s);
    return list(stages);
  }

  /// Skip edges and tied weights.
  void structure() {
    std::vector<std::string> entries;
    for (const SkipEdge &skip : program.skips)
      entries.push_back(fmt::format("{{\"from\": {}, \"to\": {}{}}}", skip.from, skip.to,
                                    skip.hasGradient ? "" : ", \"gradient\": false"));
    if (!entries.empty())
      line("edges", list(std::exchange(entries, {})));
    for (const TiedWeight &tied : program.ties)
      entries.push_back(
          fmt::format("{{\"name\": {}, \"stages\": {}}}", quoted(tied.name), list(tied.stages)));
    if (!entries.empty())
      line("tied", list(entries));
  }

  void op(OpId id) {
    const Op &op = program.ops[id];
    auto to = std::back_inserter(out);
    const std::string_view kind = name(op.kind);
    if (op.hasMicrobatch())
      fmt::format_to(to, "[\"{}\", {}, {}", kind, op.stage, op.microbatch);
    else if (op.kind == OpKind::ReduceTied)
      fmt::format_to(to, "[\"{}\", {}", kind, quoted(program.ties[op.microbatch].name));
    else if (op.kind == OpKind::Norm)
      fmt::format_to(to, "[\"{}\"", kind);
    else if (op.kind == OpKind::Scale)
      fmt::format_to(to, "[\"{}\", {}, \"{}\"", kind, op.stage, program.factorOf(id).str());
    else
      fmt::format_to(to, "[\"{}\", {}", kind, op.stage);
    if (op.flags & ~memberFlags)
      for (const OpWord &word : opWords())
        if (word.isSaidBy(op))
          fmt::format_to(to, ", \"{}\"", std::string_view(word.text));
    values(id);
    out += "]";
  }
  /// What an op names: `{"to": 3, "bytes": 4096}`.
  void values(OpId id) {
    const Op &op = program.ops[id];
    llvm::SmallVector<std::string, 2> named;
    auto take = [&](auto &entries, auto &&text) {
      if (entries.empty() || entries.front().op != id)
        return;
      named.push_back(text(entries.front()));
      entries = entries.drop_front();
    };
    take(versions, [](const NamedVersion &of) { return fmt::format("\"version\": {}", of.version); });
    take(peers,
         [&](const OpPeer &of) { return fmt::format("\"{}\": {}", op.isSend() ? "to" : "from", of.stage); });
    take(payloads, [](const OpPayload &of) { return fmt::format("\"bytes\": {}", of.bytes); });
    if (op.hasFactor() && op.kind != OpKind::Scale)
      named.push_back(fmt::format("\"scale\": \"{}\"", program.factorOf(id).str()));
    if (!named.empty())
      fmt::format_to(std::back_inserter(out), ", {{{}}}", fmt::join(named, ", "));
  }
  void programs() {
    line("programs", "[");
    for (uint32_t d = 0; d < program.devices; ++d) {
      out += d == 0 ? "\n    [" : "],\n    [";
      for (OpId id = program.deviceBegin[d]; id < program.deviceBegin[d + 1];) {
        const Op &first = program.ops[id];
        if (id != program.deviceBegin[d])
          out += ", ";
        bool isBlock = first.has(OverlapFirst) || first.has(GroupFirst);
        OpId end = first.has(GroupFirst) ? program.postedEnd(id) : program.groupEnd(id);
        if (isBlock)
          out += first.has(GroupFirst) ? "{\"group\": [" : "{\"overlap\": [";
        for (OpId member = id; member < end; ++member) {
          if (member != id)
            out += ", ";
          op(member);
        }
        if (isBlock)
          out += "]}";
        id = end;
      }
    }
    out += "]\n  ]";
  }

  void model() {
    object("model", [&] {
      line("time_unit", quoted(costs.ticks ? "tick" : "ns"));
      line("time_factor", quoted(costs.unit.str()));
      if (!costs.displayUnit.empty())
        line("shown_unit", quoted(costs.displayUnit));
      for (const CostTable &entry : timeTables())
        line(entry.key, table(costs.*entry.table));
      for (const CostList &entry : timeLists())
        if (!(costs.*entry.list).empty())
          line(entry.key, list(costs.*entry.list));
      if (!costs.reduceTied.empty())
        line("reduce_tied", list(costs.reduceTied));
      for (const CostTable &entry : hostTables())
        if (!(costs.*entry.table).empty())
          line(entry.key, table(costs.*entry.table));
      if (!costs.links.empty())
        links();
      if (!costs.overlapped.empty()) {
        std::vector<std::string> entries;
        for (const auto &[stages, time] : costs.overlapped)
          entries.push_back(fmt::format("[{}, {}, {}]", stages.first, stages.second, time));
        line("overlapped", list(entries));
      }
      for (const CostTable &entry : sizeTables())
        line(entry.key, table(costs.*entry.table));
      for (const CostList &entry : sizeLists())
        line(entry.key, list(costs.*entry.list));
      for (const CostTables &entry : edgeTables()) {
        std::vector<std::string> tables;
        for (const StageTable<int64_t> &values : costs.*entry.tables)
          tables.push_back(table(values));
        if (!tables.empty())
          line(entry.key, list(tables));
      }
      if (!costs.randomStage.empty())
        line("random", stagesOf(costs.randomStage));
      if (!costs.batchNormStage.empty())
        line("batch_norm", stagesOf(costs.batchNormStage));
      std::vector<std::string> left;
      for (const std::string &name : costs.notCounted)
        left.push_back(quoted(name));
      line("not_counted", list(left));
    });
  }
  /// Links, and the routes over them that transfers take.
  void links() {
    static constexpr llvm::StringRef sharing[] = {"no", "fifo", "fair"}; // as Sharing
    std::vector<std::string> entries;
    for (const LinkKind &link : costs.links)
      entries.push_back(fmt::format("{{\"name\": {}, \"shared\": {}}}", quoted(link.name),
                                    quoted(sharing[static_cast<size_t>(link.sharing)])));
    line("links", list(entries));
    if (costs.laneCount > 0)
      line("lanes", std::to_string(costs.laneCount));
    auto routes = [&](llvm::StringRef key, const std::vector<Route> &values) {
      entries.clear();
      for (const Route &route : values)
        entries.push_back(fmt::format("[{}, {}, {}]", route.link,
                                      route.lane == noLane ? "null" : std::to_string(route.lane),
                                      route.latency));
      if (!entries.empty())
        line(key, list(entries));
    };
    routes("routes", costs.routes);
    routes("host_routes", costs.hostRoutes);
    for (const RouteTable &entry : routeTables())
      if (!(costs.*entry.table).empty())
        line(entry.key, table(costs.*entry.table));
    entries.clear();
    for (const StageTable<uint32_t> &values : costs.skipRoute)
      entries.push_back(table(values));
    if (!entries.empty())
      line("skip_route", list(entries));
  }
  void cluster() {
    const bool hasWords =
        llvm::any_of(clusterWords(), [&](const SettingWords &setting) { return setting.isSaid(costs); });
    if (costs.memoryLimit.empty() && costs.reserved.empty() && costs.transport.empty() && !hasWords)
      return;
    object("cluster", [&] {
      if (!costs.memoryLimit.empty())
        line("memory", list(costs.memoryLimit));
      if (!costs.reserved.empty())
        line("reserved", list(costs.reserved));
      if (!costs.transport.empty())
        line("transport", quoted(costs.transport));
      words(clusterWords());
    });
  }
  void training() {
    object("training", [&] {
      if (!costs.samples.empty())
        line("samples", list(costs.samples));
      if (costs.batch)
        line("batch", std::to_string(*costs.batch));
      if (costs.replicas)
        line("replicas", std::to_string(*costs.replicas));
      if (!costs.tokens.empty())
        line("tokens", list(costs.tokens));
      if (costs.loss == CostModel().loss)
        line("loss", quoted(costs.loss)); // said in any case
      words(trainingWords());
      if (costs.asynchronous)
        line("semantics", quoted("asynchronous"));
      if (costs.stalenessBound)
        line("staleness", std::to_string(*costs.stalenessBound));
    });
  }

  void words(llvm::ArrayRef<SettingWords> settings) {
    for (const SettingWords &setting : settings)
      if (setting.isSaid(costs))
        line(setting.name, quoted(setting.wordOf(costs)));
  }

  const Program &program;
  const CostModel &costs;
  const std::string &source;
  llvm::ArrayRef<NamedVersion> versions; // of ops to come, as what follows
  llvm::ArrayRef<OpPeer> peers;
  llvm::ArrayRef<OpPayload> payloads;
  /// `["backward", 63, 16383], ` and some more.
  static constexpr size_t bytesOfOp = 32;

  std::string out, indent = "  ";
  bool fresh = true;
};

} // namespace

std::optional<std::string> writeJson(const FormattedSchedule &schedule, std::vector<std::string> &lost,
                                     std::string &) {
  if (!schedule.program.nests.empty() && schedule.program.nests.size() > 1)
    lost.push_back("statements and loops that ops came from");
  else
    lost.push_back("statements that ops came from");
  return Writer(schedule).write();
}

} // namespace sluice
