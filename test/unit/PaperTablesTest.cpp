// Tables of papers, and figures of an independent re-timing on their profiled costs, from schedules of the
// library: test/goldens/zero_bubble_tables.txt and other_figures.txt.
#include "GoldenLibrary.h"
#include "GoldenOrders.h"
#include "IR/Print.h"
#include "Verify/Verify.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <sstream>

using namespace sluice;
using namespace sluice::golden;

namespace {

/// A row of the zero-bubble paper's Table 5 or 8. Times are microseconds of a device's share.
struct PaperRow {
  unsigned table = 0;
  std::string model;
  uint32_t devices = 0, microbatches = 0, chunks = 0; ///< `chunks` a device under 1F1B-I.
  int64_t forward = 0, input = 0, weight = 0, latency = 0;
  std::map<std::string, double> rates; ///< Bubble rates as printed, by column.
  std::optional<double> full;          ///< 1F1B-I with all dependencies.

  std::string str() const {
    return fmt::format("Table {}, {}, P={}, M={}", table, model, devices, microbatches);
  }
  /// The paper's `M (T_F + T_B + T_W)`.
  int64_t work() const { return microbatches * (forward + input + weight); }
};

std::vector<PaperRow> readTables() {
  std::vector<PaperRow> rows;
  std::ifstream file(SLUICE_GOLDENS "/zero_bubble_tables.txt");
  unsigned table = 0;
  std::vector<std::string> columns;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.empty() || first == "#")
      continue;
    if (first == "table") {
      words >> table;
      columns.clear();
      for (std::string column; words >> column;)
        columns.push_back(column);
      continue;
    }
    PaperRow &row = rows.emplace_back();
    row.table = table;
    row.model = first;
    words >> row.devices >> row.microbatches >> row.chunks;
    words >> row.forward >> row.input >> row.weight >> row.latency;
    for (const std::string &column : columns)
      words >> row.rates[column];
    double value = 0;
    if (std::string word; words >> word >> value)
      row.full = value;
  }
  return rows;
}

/// A schedule on the row's times, cut into `chunks` a device. `text` ends in the schedule.
Compiled onTimesOf(const PaperRow &row, const std::string &text, uint32_t chunks) {
  return compile(
      fmt::format("model profiled {{\n  forward = {} us / {};\n  backward_input = {} us / {};\n"
                  "  backward_weight = {} us / {};\n}}\ncluster {{ link {{ latency = {} us; }} }}\n{}",
                  row.forward, chunks, row.input, chunks, row.weight, chunks, row.latency, text),
      Compilation::Depth::Figures);
}

/// `main` as a schedule of the library with P and M set.
std::string libraryText(uint32_t P, uint32_t M, const std::string &call) {
  return fmt::format("{}param P = {}; param M = {};\nschedule main = {};\n", importsOf(call), P, M, call);
}

/// The same with the members of overlaps one after the other.
std::string unfusedText(uint32_t P, uint32_t M, const std::string &call) {
  Compiled compiled = compile(libraryText(P, M, call), Compilation::Depth::Elaborate);
  EXPECT_TRUE(compiled.program && !compiled.hasErrors()) << compiled.text;
  for (Op &op : compiled.program->ops)
    op.flags &= ~(OverlapFirst | OverlapFollower);
  return printSluice(*compiled.program);
}

/// Equal to what is printed with that many digits behind the point.
void expectPrinted(double ours, double printed, unsigned digits = 4) {
  EXPECT_LE(std::abs(ours - printed), 0.5 * std::pow(10, -static_cast<int>(digits)) + 1e-9)
      << ours << " and " << printed;
}

/// When everything ends if a chunk's first stage on device 0 does not wait for the stage before it, nor the
/// backward of a chunk's last stage on device P-1 for the stage behind it, but for the first microbatch of
/// each group of P: what the paper's 1F1B-I column computes. Times are those of `row` times `row.chunks`.
int64_t endWithoutWrapAround(const Program &program, const PaperRow &row) {
  const ProgramIndex index(program);
  const uint32_t P = row.devices;
  constexpr int64_t notYet = -1;
  std::vector<int64_t> ends(program.size(), notYet), free(P, 0);
  std::vector<OpId> next(program.deviceBegin.begin(), program.deviceBegin.end() - 1);
  auto arrival = [&](const Op &op, const Edge &edge) {
    if (edge.kind == EdgeKind::Saved)
      return ends[edge.from];
    const bool wraps = edge.kind == EdgeKind::Activation ? op.stage % P == 0 : op.stage % P == P - 1;
    if (wraps && op.microbatch % P != 0)
      return int64_t(0);
    return ends[edge.from] == notYet ? notYet : ends[edge.from] + row.latency * row.chunks;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t d = 0; d < P; ++d)
      for (; next[d] < program.deviceBegin[d + 1]; ++next[d], moved = true) {
        const Op &op = program.ops[next[d]];
        if (!op.isCompute())
          continue;
        int64_t start = free[d];
        bool isReady = true;
        for (const Edge &edge : inputsOf(program, index, op)) {
          isReady &= arrival(op, edge) != notYet;
          start = std::max(start, arrival(op, edge));
        }
        if (!isReady)
          break;
        free[d] = ends[next[d]] = start + (op.kind == OpKind::Forward ? row.forward : row.input + row.weight);
      }
  }
  EXPECT_EQ(llvm::count(ends, notYet),
            llvm::count_if(program.ops, [](const Op &op) { return !op.isCompute(); }));
  return *llvm::max_element(free);
}

void compareInterleaved(const PaperRow &row) {
  Compiled compiled = onTimesOf(
      row,
      libraryText(row.devices, row.microbatches, fmt::format("interleaved_megatron(P, M, {})", row.chunks)),
      row.chunks);
  ASSERT_TRUE(compiled.figures && !compiled.hasErrors()) << compiled.text;
  const double ours = compiled.figures->spanBubbleRate->toDouble(), printed = row.rates.at("1F1B-I");
  if (row.full)
    expectPrinted(ours, *row.full);
  EXPECT_GT(ours, printed + 0.0005) << "the column's error is gone";
  const auto end = static_cast<double>(endWithoutWrapAround(*compiled.program, row));
  expectPrinted(1 - static_cast<double>(row.work() * row.chunks) / end, printed);
}

/// Columns that a schedule of the library has. The paper's cost is the end of the step for 1F1B and ZB-H1,
/// whose first device's span is all of it, and the longest span for ZB-H2.
void compareColumn(const PaperRow &row, const std::string &column, const std::string &call) {
  SCOPED_TRACE(column);
  Compiled compiled = onTimesOf(row, libraryText(row.devices, row.microbatches, call), 1);
  ASSERT_TRUE(compiled.figures && !compiled.hasErrors()) << compiled.text;
  expectPrinted(compiled.figures->spanBubbleRate->toDouble(), row.rates.at(column));
  // In the 1.5B settings W takes half as long as F, and the last device's span is the longest.
  if (column == "ZB-H2" && row.model != "1.5B")
    EXPECT_GT(compiled.figures->idleFraction->toDouble(), row.rates.at(column) + 0.001);
  else
    EXPECT_NEAR(compiled.figures->idleFraction->toDouble(), row.rates.at(column), 0.00005);
}

} // namespace

TEST(PaperTables, ZeroBubbleTables5And8) {
  const std::vector<PaperRow> rows = readTables();
  ASSERT_EQ(rows.size(), 12u + 9u);
  for (const PaperRow &row : rows) {
    SCOPED_TRACE(row.str());
    compareColumn(row, "1F1B", "one_f_one_b(P, M)");
    compareColumn(row, "ZB-H1", "zb_h1(P, M)");
    compareColumn(row, "ZB-H2", "zb_h2(P, M)");
    compareInterleaved(row);
  }
}

namespace {

/// What other_figures.txt says of a stored order; counts in `stored` what it says.
void expectStored(const std::string &name, const sluice::Figures &figures, unsigned &stored) {
  std::ifstream file(SLUICE_GOLDENS "/other_figures.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key, model, order;
    uint32_t P = 0, M = 0;
    double idle = 0, span = 0;
    words >> key >> model >> P >> M >> idle >> span >> order;
    if (key != "stored" || order != name)
      continue;
    expectPrinted(figures.idleFraction->toDouble(), idle);
    expectPrinted(figures.spanBubbleRate->toDouble(), span);
    ++stored;
  }
}

} // namespace

/// ZB-1p, ZB-2p and ZB-V are greedy searches: their columns follow from the orders that the authors' own code
/// made, as far as they are stored.
TEST(PaperTables, ColumnsOfGreedySearch) {
  const std::vector<PaperRow> rows = readTables();
  unsigned compared = 0, stored = 0;
  for (const Order &order : readOrders(SLUICE_GOLDENS "/orders")) {
    std::smatch parts;
    static const std::regex pattern("zb/t([58])_(ZB-1p|ZB-2p|ZB-V)_([^_]*)_P([0-9]*)_M([0-9]*)");
    if (!std::regex_match(order.name, parts, pattern))
      continue;
    SCOPED_TRACE(order.name);
    auto row = llvm::find_if(rows, [&](const PaperRow &row) {
      return std::to_string(row.table) == parts[1] && row.model == parts[3] &&
             std::to_string(row.devices) == parts[4] && std::to_string(row.microbatches) == parts[5];
    });
    ASSERT_NE(row, rows.end());
    Program program = programOf(order);
    ProgramIndex index(program);
    int64_t perCost = 1;
    CostModel costs = costsOf(order, program, perCost);
    Diagnostics diagnostics;
    std::optional<Timeline> timeline = simulate(program, index, costs, diagnostics);
    ASSERT_TRUE(timeline.has_value());
    std::optional<sluice::Figures> figures = computeFigures(program, index, costs, *timeline, diagnostics);
    ASSERT_TRUE(figures.has_value());
    expectPrinted(figures->spanBubbleRate->toDouble(), row->rates.at(parts[2]));
    expectStored(order.name, *figures, stored);
    ++compared;
  }
  EXPECT_EQ(compared, 9u + 7u + 3u);
  EXPECT_EQ(stored, 1u);
}

TEST(PaperTables, FiguresOnProfiledTimes) {
  const std::vector<PaperRow> rows = readTables();
  std::ifstream file(SLUICE_GOLDENS "/other_figures.txt");
  unsigned compared = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key, model, call;
    uint32_t P = 0, M = 0;
    double idle = 0, span = 0, peak = 0;
    words >> key >> model >> P >> M >> idle >> span >> peak;
    std::getline(words >> std::ws, call);
    if (key != "idle")
      continue;
    SCOPED_TRACE(line);
    auto row = llvm::find_if(rows, [&](const PaperRow &row) {
      return row.table == 8 && row.model == model && row.devices == P && row.microbatches == M;
    });
    ASSERT_NE(row, rows.end());
    const bool isWhole = call.starts_with("one_f_one_b(") || call.starts_with("zb_h");
    const bool isUnfused = llvm::StringRef(call).consume_front("unfused ");
    Compiled compiled = onTimesOf(
        *row, isUnfused ? unfusedText(P, M, call.substr(8)) : libraryText(P, M, call), isWhole ? 1 : 2);
    ASSERT_TRUE(compiled.figures && !compiled.hasErrors()) << compiled.text;
    expectPrinted(compiled.figures->idleFraction->toDouble(), idle);
    expectPrinted(compiled.figures->spanBubbleRate->toDouble(), span);
    // 1F1B keeps P microbatches of a device's share.
    expectPrinted(compiled.figures->value("peak_activation")->toDouble() / compiled.program->stages, peak, 3);
    ++compared;
  }
  EXPECT_EQ(compared, 4u * 9u);
}

TEST(PaperTables, BlocksOfControllableMemory) {
  std::ifstream file(SLUICE_GOLDENS "/other_figures.txt");
  unsigned compared = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key, call;
    uint32_t P = 0, M = 0;
    double peak = 0, equal = 0, unequal = 0;
    words >> key >> P >> M >> peak >> equal >> unequal;
    std::getline(words >> std::ws, call);
    if (key != "units")
      continue;
    SCOPED_TRACE(line);
    for (const auto &[input, weight, expected] :
         {std::tuple{10, 10, std::lround(equal * 10)}, std::tuple{12, 8, std::lround(unequal * 10)}}) {
      Compiled compiled = compile(
          fmt::format(
              "model unit {{ forward = 10 ms; backward_input = {} ms; backward_weight = {} ms; }}\n{}", input,
              weight, libraryText(P, M, call)),
          Compilation::Depth::Figures);
      ASSERT_TRUE(compiled.figures && !compiled.hasErrors()) << compiled.text;
      // A unit is 10 ms, and a device works 6 M of them; an overhead of 1.8 units is 18 ms.
      EXPECT_EQ(compiled.figures->valueInBaseUnits("makespan"),
                Rational((int64_t(60) * M + expected) * 1'000'000));
      expectPrinted(compiled.figures->value("peak_activation")->toDouble() / 2, peak, 3);
    }
    ++compared;
  }
  EXPECT_EQ(compared, 44u);
}
