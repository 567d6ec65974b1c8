#include "Formats/PrintFile.h"

#include "Formats/SettingWords.h"
#include "IR/Print.h"
#include "Support/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice {

namespace {

class Printer {
public:
  Printer(const Program &program, const CostModel &costs, llvm::StringRef source,
          std::vector<std::string> &lost)
      : program(program), costs(costs), source(source), lost(lost) {}

  /// What verdicts on the programs alone depend on.
  std::string terms() {
    const bool isSaid = costs.asynchronous || llvm::any_of(trainingWords(), [&](const SettingWords &setting) {
                          return setting.isSaid(costs);
                        });
    if (program.isExplicit)
      block("cluster", [&] { channels(); });
    if (isSaid)
      block("training", [&] { training(); });
    return out;
  }
  std::string run() {
    llvm::SmallVector<llvm::StringRef> lines;
    source.split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef line : lines)
      out += "// " + comment(line) + "\n";
    if (!out.empty())
      out += "\n";
    if (!costs.isDefault || !program.skips.empty() || !program.ties.empty())
      block("model", [&] { model(); });
    block("cluster", [&] { cluster(); });
    block("training", [&] { training(); });
    if (!program.payloads.empty())
      lost.push_back(
          fmt::format("sizes that {} sends and receives expect: a model says them once, as boundary",
                      program.payloads.size()));
    std::string text = printSchedule(program);
    if (costs.communication == "just_in_time" && !program.isExplicit)
      text.insert(text.find('\n') + 1, "  communication = inferred(just_in_time);\n");
    return out + text;
  }

private:
  static std::string comment(llvm::StringRef line) {
    std::string result;
    for (char c : line)
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    return result;
  }
  /// `name { members }`, or nothing if `members` writes none.
  template <typename Members> void block(const char *name, Members members) {
    std::string before = std::exchange(out, "");
    members();
    out = out.empty() ? before : fmt::format("{}{} {{\n{}}}\n\n", before, name, out);
  }
  void set(llvm::StringRef name, const std::string &value) {
    out += fmt::format("  {} = {};\n", name.str(), value);
  }

  std::string time(int64_t count) const {
    auto base = multiply(Rational(count), costs.unit);
    if (!base)
      return fmt::format("{} * {}", count, time(1));
    if (costs.ticks || count == 0)
      return base->str();
    std::string unit = costs.displayUnit.empty() ? "ns" : costs.displayUnit;
    auto shown = divide(*base, unitNamed(unit)->value);
    if (shown && shown->isInteger())
      return fmt::format("{} {}", shown->num, unit);
    return base->isInteger() ? fmt::format("{} ns", base->num)
                             : fmt::format("{} * 1 ns", base->str()); // exact: 1/3 * 1 ns
  }
  static std::string bytes(int64_t size) { return size == 0 ? "0" : fmt::format("{} B", size); }

  template <typename Show> static std::string list(const std::vector<int64_t> &values, Show show) {
    if (!values.empty() && llvm::all_equal(values))
      return show(values[0]);
    std::vector<std::string> texts;
    for (int64_t value : values)
      texts.push_back(show(value));
    return fmt::format("[{}]", fmt::join(texts, ", "));
  }
  /// A value per stage, or per stage and microbatch where rows differ.
  template <typename Show> void table(llvm::StringRef name, const StageTable<int64_t> &values, Show show) {
    std::vector<std::string> rows;
    for (uint32_t r = 0; r < values.rowCount(); ++r) {
      std::vector<int64_t> row;
      for (uint32_t s = 0; s < program.stages; ++s)
        row.push_back(values.inRow(r, s));
      if (values.rowCount() == 1)
        return set(name, list(row, show));
      std::vector<std::string> texts;
      for (int64_t value : row)
        texts.push_back(show(value));
      rows.push_back(fmt::format("[{}]", fmt::join(texts, ", ")));
    }
    std::vector<uint32_t> rowOf;
    for (uint32_t m = 0; m < program.microbatches; ++m)
      rowOf.push_back(values.row(m));
    set(name.str() + "(s, m)",
        fmt::format("[{}][[{}][m]][s]", fmt::join(rows, ", "), fmt::join(rowOf, ", ")));
  }
  template <typename Holds> bool everywhere(Holds holds) const {
    for (uint32_t m = 0; m < program.microbatches; ++m)
      for (uint32_t s = 0; s < program.stages; ++s)
        if (!holds(s, m))
          return false;
    return true;
  }
  bool same(const StageTable<int64_t> &a, const StageTable<int64_t> &b) const {
    return everywhere([&](uint32_t s, uint32_t m) { return a.at(s, m) == b.at(s, m); });
  }
  static bool isZero(const StageTable<int64_t> &values) {
    return llvm::all_of(values.all(), [](int64_t value) { return value == 0; });
  }

  void model() {
    auto shown = [&](int64_t count) { return time(count); };
    set("stages", std::to_string(program.stages));
    table("forward", costs.forward, shown);
    bool isSum = everywhere([&](uint32_t s, uint32_t m) {
      int64_t sum = 0;
      return !__builtin_add_overflow(costs.backwardInput.at(s, m), costs.backwardWeight.at(s, m), &sum) &&
             sum == costs.backward.at(s, m);
    });
    bool hasHalves = llvm::any_of(program.ops, [](const Op &op) {
      return op.kind == OpKind::BackwardInput || op.kind == OpKind::BackwardWeight;
    });
    bool wholeOnly = !isSum && !hasHalves && isZero(costs.backwardInput) && isZero(costs.backwardWeight);
    if (!isSum)
      table("backward", costs.backward, shown);
    if (!wholeOnly) {
      table("backward_input", costs.backwardInput, shown);
      table("backward_weight", costs.backwardWeight, shown);
    }
    if (!isSum && !wholeOnly)
      out += "  fused;\n";
    if (!same(costs.recompute, costs.forward))
      table("recompute", costs.recompute, shown);
    overlapped();
    if (costs.isDefault) {
      out += printStructure(program);
      return;
    }
    together("update", OpKind::Update, costs.update);
    together("reduce", OpKind::Reduce, costs.reduce);
    sizes();
    marked("random", costs.randomStage);
    marked("batch_norm", costs.batchNormStage);
    for (size_t i = 0; i < program.skips.size(); ++i)
      edge(program.skips[i], costs.skipBoundary[i]);
    for (const TiedWeight &tied : program.ties)
      out += fmt::format("  tied {} on {};\n", tied.name, fmt::join(tied.stages, ", "));
  }
  bool uses(OpKind kind) const {
    return llvm::any_of(program.ops, [&](const Op &op) { return op.kind == kind; });
  }
  /// Times of a stage; 0 is written where it is meant.
  void together(llvm::StringRef name, OpKind kind, const std::vector<int64_t> &times) {
    if (!times.empty())
      set(name, list(times, [&](int64_t count) { return time(count); }));
    else if (isCounted(name) && uses(kind))
      set(name, "0");
  }
  void edge(const SkipEdge &skip, const StageTable<int64_t> &boundary) {
    std::string inner;
    std::vector<int64_t> sizes;
    bool isOfStage = true;
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      sizes.push_back(boundary.at(0, m));
      isOfStage = isOfStage && sizes.back() == costs.boundary.at(skip.from, m);
    }
    if (!isOfStage)
      inner += llvm::all_equal(sizes) ? fmt::format(" boundary = {};", bytes(sizes[0]))
                                      : fmt::format(" boundary(m) = {}[m];", list(sizes, bytes));
    if (!skip.hasGradient)
      inner += " no_gradient;";
    out += fmt::format("  edge {} -> {}{}\n", skip.from, skip.to,
                       inner.empty() ? ";" : fmt::format(" {{{} }}", inner));
  }
  void overlapped() {
    if (costs.overlapped.empty())
      return;
    int64_t first = costs.overlapped.begin()->second;
    if (llvm::all_of(costs.overlapped, [&](const auto &entry) { return entry.second == first; }) &&
        allPairsGiven())
      return set("overlapped(s, t)", time(first));
    std::vector<std::string> rows;
    for (uint32_t s = 0; s < program.stages; ++s) {
      std::vector<std::string> row;
      for (uint32_t t = 0; t < program.stages; ++t) {
        auto given = costs.overlapped.find({s, t});
        row.push_back(time(given != costs.overlapped.end()
                               ? given->second
                               : costs.forward.at(s, 0) + costs.backward.at(t, 0)));
      }
      rows.push_back(fmt::format("[{}]", fmt::join(row, ", ")));
    }
    set("overlapped(s, t)", fmt::format("[{}][s][t]", fmt::join(rows, ", ")));
    if (!allPairsGiven() && (costs.forward.rowCount() > 1 || costs.backward.rowCount() > 1))
      lost.push_back("overlaps whose time is the sum of members that differ between microbatches");
  }
  /// True if every overlap that takes the model's time has one of its own there.
  bool allPairsGiven() const {
    for (OpId id = 0; id < program.size(); ++id) {
      if (!program.ops[id].has(OverlapFirst) || program.groupEnd(id) != id + 2)
        continue;
      const Op *first = &program.ops[id], *second = first + 1;
      if (first->kind != OpKind::Forward)
        std::swap(first, second);
      if (first->kind == OpKind::Forward && second->kind == OpKind::Backward &&
          !costs.overlapped.count({first->stage, second->stage}))
        return false;
    }
    return true;
  }
  bool isCounted(llvm::StringRef name) const { return !llvm::is_contained(costs.notCounted, name); }
  void sizes() {
    if (isCounted("activation"))
      table("activation", costs.activation, bytes);
    if (isCounted("boundary"))
      table("boundary", costs.boundary, bytes);
    if (!same(costs.keptInput, costs.boundary))
      table("kept_input", costs.keptInput, bytes);
    if (!same(costs.pending, costs.activation))
      table("pending", costs.pending, bytes);
    if (isCounted("weights"))
      set("weights", list(costs.weights, bytes));
    if (isCounted("gradients"))
      set("gradients", list(costs.gradients, bytes));
    if (isCounted("optimizer_state"))
      set("optimizer_state", list(costs.optimizerState, bytes));
    if (llvm::any_of(costs.workspace, [](int64_t size) { return size != 0; }))
      set("workspace", list(costs.workspace, bytes));
  }
  void marked(const char *name, const std::vector<bool> &stages) {
    std::vector<size_t> numbers;
    for (size_t s = 0; s < stages.size(); ++s)
      if (stages[s])
        numbers.push_back(s);
    if (!numbers.empty())
      out += fmt::format("  {} on {};\n", name, fmt::join(numbers, ", "));
  }

  void cluster() {
    auto perDevice = [&](const char *name, const std::vector<int64_t> &values) {
      if (values.empty())
        return;
      if (llvm::all_equal(values))
        set(name, bytes(values[0]));
      else
        set(fmt::format("{}(d)", name), list(values, bytes) + "[d]");
    };
    perDevice("memory", costs.memoryLimit);
    perDevice("reserved", costs.reserved);
    if (!costs.isDefault) {
      link();
      host();
    }
    channels();
    auto takesTime = [](const std::vector<int64_t> &times) {
      return llvm::any_of(times, [](int64_t time) { return time != 0; });
    };
    // What is done together and takes no time is meant so.
    auto isFree = [&](const char *name, OpKind kind, const std::vector<int64_t> &times) {
      return isCounted(name) && uses(kind) && !takesTime(times);
    };
    if (!costs.isDefault && ((costs.replicas != 1 && isFree("unshard", OpKind::Unshard, costs.unshard)) ||
                             isFree("reduce_tied", OpKind::ReduceTied, costs.reduceTied)))
      out += "  collective { latency = 0; }\n";
    if (takesTime(costs.unshard))
      lost.push_back("times of unshards: they follow from a link between replicas");
    if (takesTime(costs.reduceTied))
      lost.push_back("times of reductions of tied weights");
  }
  void channels() {
    if (!costs.transport.empty())
      set(llvm::any_of(transports(), [&](const Transport &known) { return known.name == costs.transport; })
              ? "transport"
              : "channel",
          costs.transport);
    words(clusterWords());
  }
  void words(llvm::ArrayRef<SettingWords> settings) {
    for (const SettingWords &setting : settings)
      if (setting.isSaid(costs))
        set(setting.name, setting.wordOf(costs).str());
  }
  /// Moves to host memory as latencies, where they depend on nothing but the device.
  void host() {
    if (costs.offload.empty() || (isZero(costs.offload) && isZero(costs.reload))) {
      if (isCounted("offload") && (uses(OpKind::Offload) || uses(OpKind::Reload)))
        out += "  host { latency = 0; }\n";
      return;
    }
    std::vector<int64_t> latencies(program.devices, -1);
    bool good = llvm::all_of(costs.hostRoutes, [](const Route &route) { return route.lane == noLane; });
    good = good && everywhere([&](uint32_t s, uint32_t m) {
             if (program.deviceOf(s, m) == noDevice)
               return true;
             int64_t &latency = latencies[program.deviceOf(s, m)];
             const int64_t time = costs.offload.at(s, m);
             return std::exchange(latency, time) == (latency < 0 ? time : latency) &&
                    costs.reload.at(s, m) == time;
           });
    if (!good) {
      lost.push_back(
          "times of moves to host memory: they share a way there, or depend on more than the device");
      return;
    }
    auto shown = [&](int64_t count) { return time(count < 0 ? 0 : count); };
    out += llvm::all_equal(latencies)
               ? fmt::format("  host {{ latency = {}; }}\n", shown(latencies[0]))
               : fmt::format("  host(d) {{ latency = {}[d]; }}\n", list(latencies, shown));
  }
  /// Transfers as latencies of links, where they depend on nothing but the two devices.
  void link() {
    if (llvm::any_of(costs.routes, [](const Route &route) { return route.lane != noLane; }))
      lost.push_back("links that are shared: each transfer takes its time as if it were alone");
    std::map<std::pair<uint32_t, uint32_t>, int64_t> latencies;
    auto isOne = [&](uint32_t from, uint32_t to, int64_t time) {
      return from == to || latencies.try_emplace({from, to}, time).first->second == time;
    };
    bool good = everywhere([&](uint32_t s, uint32_t m) {
      if (s + 1 >= program.stages || program.deviceOf(s, m) == program.deviceOf(s + 1, m))
        return true;
      uint32_t here = program.deviceOf(s, m), there = program.deviceOf(s + 1, m);
      int64_t ahead = costs.activationTransfer.at(s, m), back = costs.gradientTransfer.at(s + 1, m);
      return isOne(here, there, ahead) && isOne(there, here, back);
    });
    for (size_t i = 0; i < program.skips.size() && good; ++i)
      for (uint32_t m = 0; m < program.microbatches && good; ++m) {
        const SkipEdge &skip = program.skips[i];
        const uint32_t here = program.deviceOf(skip.from, m), there = program.deviceOf(skip.to, m);
        good = isOne(here, there, costs.skipTransfer[i].at(0, m)) &&
               (!skip.hasGradient || isOne(there, here, costs.skipTransfer[i].at(1, m)));
      }
    if (!good) {
      lost.push_back("times of transfers: they depend on more than the two devices");
      return;
    }
    if (llvm::all_of(latencies, [](const auto &entry) { return entry.second == 0; }))
      return;
    int64_t first = latencies.begin()->second;
    if (llvm::all_of(latencies, [&](const auto &entry) { return entry.second == first; })) {
      out += fmt::format("  link {{ latency = {}; }}\n", time(first));
      return;
    }
    std::vector<std::string> rows;
    for (uint32_t a = 0; a < program.devices; ++a) {
      std::vector<std::string> row;
      for (uint32_t b = 0; b < program.devices; ++b) {
        auto found = latencies.find({a, b});
        row.push_back(time(found == latencies.end() ? 0 : found->second));
      }
      rows.push_back(fmt::format("[{}]", fmt::join(row, ", ")));
    }
    out += fmt::format("  link(a, b) {{ latency = [{}][a][b]; }}\n", fmt::join(rows, ", "));
  }

  void training() {
    auto plain = [](int64_t count) { return std::to_string(count); };
    if (costs.samples.empty()) {
      if (costs.batch)
        set("batch", plain(*costs.batch));
    } else if (llvm::all_equal(costs.samples) && costs.samples[0] > 0) {
      set("microbatch_samples", plain(costs.samples[0]));
    } else {
      set("samples(m)", list(costs.samples, plain) + (llvm::all_equal(costs.samples) ? "" : "[m]"));
    }
    if (!costs.tokens.empty())
      set("tokens(m)", list(costs.tokens, plain) + (llvm::all_equal(costs.tokens) ? "" : "[m]"));
    if (costs.replicas)
      set("replicas", plain(*costs.replicas));
    words(trainingWords());
    if (costs.asynchronous)
      set("semantics", costs.stalenessBound
                           ? fmt::format("asynchronous(staleness <= {})", *costs.stalenessBound)
                           : "asynchronous");
    if (!out.empty())
      out = fmt::format("  microbatches = {};\n", program.wholeMicrobatches()) + out;
  }

  const Program &program;
  const CostModel &costs;
  llvm::StringRef source;
  std::vector<std::string> &lost;
  std::string out;
};

} // namespace

std::string printTerms(const Program &program, const CostModel &costs) {
  std::vector<std::string> lost;
  return Printer(program, costs, "", lost).terms();
}

std::string printFile(const FormattedSchedule &schedule, std::vector<std::string> &lost) {
  return Printer(schedule.program, schedule.costs, schedule.source, lost).run();
}

} // namespace sluice
