#include "Driver/FigureSweep.h"

#include "Support/Quantity.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

/// A row and what the table as a whole says about it.
struct Measured {
  SweepRow row;
  std::vector<std::pair<std::string, std::string>> parameters;
  bool ran = false, ticks = true;
  std::string displayUnit;
  std::optional<Rational> compute;          ///< computePerMicrobatch
  std::map<std::string, std::string> lacks; ///< Figures without a value, and the setting each needs.
  std::vector<std::string> notCounted;
  bool hasMemoryLimit = false;
};

void measureSamples(const CostModel &costs, const Program &program, SweepRow &row) {
  row.batch = costs.batch.value_or(0);
  if (costs.samples.empty())
    return;
  row.leastSamples = *llvm::min_element(costs.samples);
  row.mostSamples = *llvm::max_element(costs.samples);
  auto mean = divide(Rational(row.batch), Rational(costs.replicas.value_or(1)));
  mean = mean ? divide(*mean, Rational(program.wholeMicrobatches())) : mean;
  row.samples = mean.value_or(Rational(row.leastSamples));
}

Measured measure(const Instance &instance, llvm::ArrayRef<SweepColumn> columns) {
  Measured result;
  const Figures &figures = *instance.figures;
  const CostModel &costs = instance.costs;
  result.ran = true;
  result.parameters = instance.parameters;
  result.ticks = costs.ticks;
  result.displayUnit = costs.displayUnit;
  result.notCounted = costs.notCounted;
  result.hasMemoryLimit = !costs.memoryLimit.empty();
  SweepRow &row = result.row;
  for (const SweepColumn &column : columns) {
    row.figures.push_back(figures.valueInBaseUnits(column.figure, column.index));
    if (auto lacking = figures.missingSetting(column.figure); !lacking.empty())
      result.lacks[column.figure] = lacking.str();
  }
  measureSamples(costs, instance.program, row);
  row.fits = figures.fits();
  row.headroom = figures.value("headroom").value_or(Rational()).num;
  row.time = timePerSample(instance.timed(), costs, figures);
  result.compute = computePerMicrobatch(instance.program, costs);
  return result;
}

/// An expectation that fails says nothing against the figures that it fails by.
bool isExpectation(const Finding &finding) { return info(finding.rule).number / 100 == 9; }

class FigureSweeper {
public:
  FigureSweeper(const Compilation &compilation, llvm::ArrayRef<Setting> settings,
                const CompileOptions &options, const Hold &hold, const FigureSweepOptions &how)
      : compilation(compilation), settings(settings), options(options), hold(hold), how(how) {}

  FigureSweep run() {
    names = compilation.schedules(options, settings.front());
    chooseColumns();
    chooseAxes();
    measured.resize(names.size() * settings.size());
    const Sweep found = measureAll();
    describeTable();
    for (size_t s = 0; s < names.size(); ++s)
      for (size_t i = 0; i < settings.size(); ++i)
        compare(s, i);
    noteWhatIsMissing();
    for (Measured &each : measured) {
      result.ran += each.ran;
      result.knowsFit |= each.row.fits.has_value();
      result.table.rows.push_back(std::move(each.row));
    }
    arrange();
    for (Finding &finding : findingsOf(found, settings))
      if (finding.rule != Rule::BatchMismatch)
        result.findings.push_back(std::move(finding));
    return std::move(result);
  }

private:
  size_t rowOf(size_t schedule, size_t setting) const { return schedule * settings.size() + setting; }
  size_t rowOf(llvm::StringRef schedule, size_t setting) const {
    return rowOf(static_cast<size_t>(llvm::find(names, schedule) - names.begin()), setting);
  }

  void chooseColumns() {
    std::vector<SweepColumn> &columns = result.table.columns;
    auto add = [&](const SweepColumn &column) {
      if (llvm::none_of(columns, [&](const SweepColumn &c) { return c.title() == column.title(); }))
        columns.push_back(column);
    };
    for (llvm::StringRef name : standardFigures())
      add(*sweepColumn(name));
    for (const SweepColumn &column : how.columns)
      add(column);
    if (how.sort)
      add(*how.sort);
  }

  /// Parameters with several values are shown; of these the last turns fastest.
  void chooseAxes() {
    const size_t parameters = settings.front().size();
    for (size_t p = 0; p < parameters; ++p) {
      std::set<std::string> values;
      for (const Setting &setting : settings)
        values.insert(str(setting[p].value));
      if (values.size() < 2)
        continue;
      shown.push_back(p);
      turns = values.size();
      result.table.comparedAlong = settings.front()[p].name;
    }
    if (shown.empty())
      for (size_t p = 0; p < parameters; ++p)
        shown.push_back(p);
    for (size_t p : shown)
      result.table.swept.push_back(settings.front()[p].name);
  }

  Sweep measureAll() {
    SweepOptions each;
    each.threads = how.threads;
    each.progress = how.progress;
    each.depth = Compilation::Depth::Figures;
    each.adjust = [&](uint32_t setting, CompileOptions &own) { own.held = hold.at[setting]; };
    each.visit = [&](uint32_t setting, const Instance &instance) {
      if (instance.figures)
        measured[rowOf(instance.name, setting)] = measure(instance, result.table.columns);
    };
    // No two threads run one setting, so no two write one of these rows.
    each.finished = [&](uint32_t setting, const Diagnostics &diagnostics) {
      for (const std::string &name : names)
        finish(measured[rowOf(name, setting)], name, setting, diagnostics);
    };
    return sweep(compilation, settings, options, each);
  }

  void finish(Measured &each, const std::string &name, uint32_t setting, const Diagnostics &diagnostics) {
    each.row.schedule = name;
    for (size_t p : shown)
      each.row.values.push_back(str(settings[setting][p].value));
    for (const Finding &finding : diagnostics.findings())
      if (finding.severity == Severity::Error && !isExpectation(finding) && concerns(finding, name)) {
        each.row.refused =
            fmt::format("{} [{} {}]", finding.message, info(finding.rule).name, info(finding.rule).number);
        break;
      }
    if (each.row.refused.empty())
      each.row.refused = hold.refused[setting];
    if (each.row.refused.empty() && !each.ran)
      each.row.refused = "it has no timeline";
    if (!each.row.refused.empty()) {
      SweepRow refused;
      refused.schedule = each.row.schedule;
      refused.values = each.row.values;
      refused.refused = each.row.refused;
      refused.figures.resize(result.table.columns.size());
      each = Measured();
      each.row = std::move(refused);
    }
  }

  const Measured *firstRun() const {
    const auto found = llvm::find_if(measured, [](const Measured &each) { return each.ran; });
    return found == measured.end() ? nullptr : &*found;
  }

  void describeTable() {
    SweepTable &table = result.table;
    table.file = compilation.checked().name;
    table.hasSchedules = names.size() > 1;
    table.holdsBatch = hold.of == HeldSamples::Of::Batch;
    table.invariant = invariant();
    table.meaning = table.holdsBatch ? "every setting is the same training; more microbatches are smaller "
                                       "kernels, not only another bubble"
                                     : "kernels keep their size; more microbatches or replicas are a larger "
                                       "batch, so other training";
    const Measured *first = firstRun();
    const std::string fixed = first ? fixedParameters(*first) : "";
    table.title = fmt::format("{}{}{}, swept over {}", table.hasSchedules ? "" : names.front() + " of ",
                              table.file, fixed.empty() ? "" : " at " + fixed, llvm::join(table.swept, ", "));
    if (!first)
      return;
    table.ticks = first->ticks;
    table.displayUnit = first->displayUnit;
    // A file may have times at one setting and none at another; nothing compares those.
    for (Measured &each : measured)
      if (each.ran && each.ticks != table.ticks) {
        each.row.refused =
            fmt::format("its times are {}, those of other rows {}", each.ticks ? "ticks" : "in seconds",
                        table.ticks ? "ticks" : "in seconds");
        each.ran = false;
      }
  }

  /// Those that are the same in all rows.
  std::string fixedParameters(const Measured &first) const {
    std::vector<std::string> fixed;
    for (const auto &parameter : first.parameters)
      if (!llvm::is_contained(result.table.swept, parameter.first) &&
          llvm::all_of(measured, [&](const Measured &each) {
            return !each.ran || llvm::is_contained(each.parameters, parameter);
          }))
        fixed.push_back(parameter.first + "=" + parameter.second);
    return llvm::join(fixed, ", ");
  }

  std::string invariant() const {
    const std::string origin = hold.origin.empty() ? "" : fmt::format(" ({})", hold.origin);
    if (hold.bySamples)
      return "samples(m) held as the file writes it";
    const auto number = hold.number();
    if (hold.of == HeldSamples::Of::Batch)
      return number ? fmt::format("batch held at {}{}",
                                  counted(static_cast<uint64_t>(*number), "sample", "samples"), origin)
                    : "batch held as the file gives it, whatever the number of microbatches";
    return number ? fmt::format("microbatches held at {}{}",
                                counted(static_cast<uint64_t>(*number), "sample", "samples"), origin)
                  : "microbatches held at the samples the file gives, whatever their number";
  }

  /// With the nearest setting before it that ran and differs in the parameter that turns fastest alone.
  void compare(size_t schedule, size_t setting) {
    Measured &each = measured[rowOf(schedule, setting)];
    if (!each.ran || !each.row.time || turns < 2)
      return;
    for (size_t other = setting; other-- > setting / turns * turns;) {
      const Measured &before = measured[rowOf(schedule, other)];
      if (!before.ran || !before.row.time)
        continue;
      each.row.change = changeOf(*before.row.time, *each.row.time);
      if (each.row.change)
        each.row.against = result.table.comparedAlong + "=" + before.row.values.back();
      noteFixedCosts(before, each);
      return;
    }
  }

  /// Once: where kernels shrink in samples and not in time.
  void noteFixedCosts(const Measured &before, const Measured &after) {
    if (saysFixedCosts || before.row.samples == after.row.samples || !before.compute ||
        before.compute != after.compute || before.compute->num == 0)
      return;
    saysFixedCosts = true;
    const std::string &name = result.table.comparedAlong;
    result.table.notes.push_back(fmt::format(
        "a microbatch takes as long with {} samples ({}={}) as with {} ({}={}); if that is not so, let the "
        "costs follow: `forward(s, m) = … * samples(m);`",
        before.row.samples.str(), name, before.row.values.back(), after.row.samples.str(), name,
        after.row.values.back()));
  }

  void noteWhatIsMissing() {
    std::map<std::string, std::string> lacks;
    std::set<std::string> uncounted;
    bool hasMemory = true;
    for (const Measured &each : measured)
      if (each.ran) {
        lacks.insert(each.lacks.begin(), each.lacks.end());
        uncounted.insert(each.notCounted.begin(), each.notCounted.end());
        hasMemory &= each.hasMemoryLimit;
      }
    std::vector<std::string> &notes = result.table.notes;
    for (const auto &[figure, setting] : lacks)
      notes.push_back(fmt::format("{} needs {}, which the file does not give", figure, setting));
    if (firstRun() && !hasMemory)
      notes.push_back("fits needs `memory` in the cluster, which the file does not give");
    if (!uncounted.empty())
      notes.push_back(
          fmt::format("not counted, as the file does not give them: {}", llvm::join(uncounted, ", ")));
  }

  /// Leaves out and sorts, as asked for; refused rows stay, behind those that ran.
  void arrange() {
    SweepTable &table = result.table;
    if (how.fitsOnly) {
      const size_t before = table.rows.size();
      llvm::erase_if(table.rows, [](const SweepRow &row) { return row.refused.empty() && row.fits != true; });
      table.leftOut = before - table.rows.size();
    }
    if (!how.sort)
      return;
    const auto found = llvm::find_if(
        table.columns, [&](const SweepColumn &column) { return column.title() == how.sort->title(); });
    const auto column = static_cast<size_t>(found - table.columns.begin());
    llvm::stable_sort(table.rows, [&](const SweepRow &a, const SweepRow &b) {
      const auto &x = a.figures[column], &y = b.figures[column];
      if (a.refused.empty() != b.refused.empty() || x.has_value() != y.has_value())
        return a.refused.empty() != b.refused.empty() ? a.refused.empty() : x.has_value();
      return x && (how.descends ? *y < *x : *x < *y);
    });
    table.sortedBy = fmt::format("{}, the {} first", how.sort->title(), how.descends ? "most" : "least");
  }

  const Compilation &compilation;
  llvm::ArrayRef<Setting> settings;
  const CompileOptions &options;
  const Hold &hold;
  const FigureSweepOptions &how;
  std::vector<std::string> names; ///< Of the schedules.
  std::vector<size_t> shown;      ///< Which parameters of a setting the rows name.
  size_t turns = 0;               ///< Values of the parameter that turns fastest.
  std::vector<Measured> measured; ///< Schedule by schedule, each at all settings.
  bool saysFixedCosts = false;
  FigureSweep result;
};

} // namespace

std::optional<SweepColumn> sweepColumn(llvm::StringRef text) {
  auto [name, rest] = text.trim().split('(');
  const FigureInfo *found = findFigure(name.trim());
  if (!found)
    return std::nullopt;
  SweepColumn column{found->name.str(), std::nullopt, found->unit};
  if (rest.empty())
    return text.contains('(') ? std::nullopt : std::optional(column);
  uint32_t index = 0;
  if (!rest.consume_back(")") || rest.trim().getAsInteger(10, index) || found->arity == FigureArity::Schedule)
    return std::nullopt;
  column.index = index;
  return column;
}

bool isBetterHigh(const SweepColumn &column) {
  return column.unit == FigureUnit::Rate || column.figure == "utilization" || column.figure == "useful";
}

FigureSweep sweepFigures(const Compilation &compilation, llvm::ArrayRef<Setting> settings,
                         const CompileOptions &options, const Hold &hold, const FigureSweepOptions &how) {
  return FigureSweeper(compilation, settings, options, hold, how).run();
}

} // namespace sluice
