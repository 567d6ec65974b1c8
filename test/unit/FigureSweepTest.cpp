// Rows of a sweep are what each setting gives by itself, whatever the number of threads.
#include "Driver/FigureSweep.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

using namespace sluice;

namespace {

using Of = HeldSamples::Of;

std::string file(const std::string &training, const std::string &forward = "1 ms + samples(m) * 250 us") {
  return "param P = 2 in 1..5; param M = 8;\n"
         "model x { stages = P; forward(s, m) = " +
         forward +
         "; backward(s, m) = 2 * forward(s, m);\n"
         "  activation(s, m) = samples(m) * 1 MiB; boundary(s, m) = samples(m) * 1 MB; }\n"
         "cluster { memory = 40 MiB; link { latency = 7 us; bandwidth = 3 GB/s; } }\n"
         "training { microbatches = M; " +
         training +
         " }\n"
         "schedule gpipe { require M != 6, \"not six\"; place s on s; device d {\n"
         "  for m in 0..M { forward(m); } for m in 0..M { backward(m); } reduce; update; } }\n"
         "schedule pairs { place s on s; device d {\n"
         "  for m in 0..M { forward(m); if mod(m, 2) == 1 { backward(m - 1); backward(m); } }\n"
         "  reduce; update; } }\n";
}

struct Swept {
  SourceManager sources;
  FileLoader loader{sources};
  Compilation compilation{sources, loader};
  std::vector<Setting> settings;
  FigureSweep found;

  Swept(const std::string &text, std::vector<std::string> definitions, Of of, FigureSweepOptions how = {}) {
    Diagnostics diagnostics;
    if (!compilation.load(*sources.addFile("a.sluice", text), diagnostics))
      ADD_FAILURE() << diagnostics.findings().front().message;
    std::string error;
    settings = parseDefinitions(definitions, error);
    auto hold = holdSamples(compilation, settings, {}, of, error);
    if (!hold)
      ADD_FAILURE() << error;
    else
      found = sweepFigures(compilation, settings, {}, *hold, how);
  }

  /// Figures of one schedule at one setting as `simulate` has them.
  std::optional<Figures> alone(const std::string &schedule, const Setting &setting) {
    std::optional<Figures> figures;
    Diagnostics diagnostics;
    CompileOptions options;
    options.schedule = schedule;
    compilation.run(setting, options, Compilation::Depth::Figures, diagnostics,
                    [&](Instance &instance) { figures = std::move(instance.figures); });
    return diagnostics.hasErrors() ? std::nullopt : std::move(figures);
  }
};

std::string all(const SweepTable &table) {
  return sweepText(table) + sweepCsv(table) + sweepJson(table) + sweepSvg(table);
}

const std::vector<std::string> product = {"P=1..6", "M=4,5,6,8,16"};

} // namespace

TEST(FigureSweep, SameForEveryNumberOfThreads) {
  FigureSweepOptions how;
  how.threads = 1;
  const std::string one = all(Swept(file("batch = 16;"), product, Of::Batch, how).found.table);
  for (unsigned threads : {2u, 3u, 100u}) {
    how.threads = threads;
    EXPECT_EQ(all(Swept(file("batch = 16;"), product, Of::Batch, how).found.table), one);
  }
}

TEST(FigureSweep, RowsAreWhatEachSettingGives) {
  Swept swept(file("batch = 16;"), product, Of::Batch);
  const SweepTable &table = swept.found.table;
  ASSERT_EQ(table.rows.size(), 2 * swept.settings.size());
  unsigned ran = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const SweepRow &row = table.rows[i];
    const Setting &setting = swept.settings[i % swept.settings.size()];
    SCOPED_TRACE(row.schedule + " " + str(setting));
    EXPECT_EQ(row.schedule, i < swept.settings.size() ? "gpipe" : "pairs");
    EXPECT_EQ(row.values, (std::vector<std::string>{str(setting[0].value), str(setting[1].value)}));
    const auto figures = swept.alone(row.schedule, setting);
    EXPECT_EQ(row.refused.empty(), figures.has_value()) << row.refused;
    if (!figures || !row.refused.empty())
      continue;
    ++ran;
    const int64_t M = setting[1].value.number.num;
    EXPECT_EQ(row.batch, 16);
    EXPECT_EQ(row.samples, *Rational::make(16, M));
    for (size_t c = 0; c < table.columns.size(); ++c)
      EXPECT_EQ(row.figures[c], figures->valueInBaseUnits(table.columns[c].figure));
    const auto peak = figures->value("peak_memory");
    EXPECT_EQ(row.fits, *peak <= Rational(40 << 20));
    EXPECT_EQ(Rational(row.headroom), *subtract(Rational(40 << 20), *peak));
    ASSERT_TRUE(row.time.has_value());
    EXPECT_EQ(*multiply(row.time->total, Rational(16)), *figures->valueInBaseUnits("makespan"));
    EXPECT_EQ(*add(*add(row.time->kernel, row.time->bubble), row.time->transfer), row.time->total);
  }
  EXPECT_GE(ran, 20u);
}

/// M = 5 does not divide the batch, M = 6 is refused: M = 8 is compared with M = 4, and no row across P.
TEST(FigureSweep, ChangesAreAgainstTheSettingBefore) {
  Swept swept(file("batch = 16;"), product, Of::Batch);
  const std::vector<SweepRow> &rows = swept.found.table.rows;
  EXPECT_EQ(swept.found.table.comparedAlong, "M");
  ASSERT_EQ(rows.size(), 50u);
  EXPECT_EQ(rows[24].refused, "P = 5 is outside 1..5 [value-out-of-range 106]");
  for (size_t i = 0; i < 4; ++i) { // gpipe at each P in range
    SCOPED_TRACE(i);
    const SweepRow *group = &rows[i * 5];
    EXPECT_EQ(group[0].against, "");
    EXPECT_FALSE(group[0].change);
    EXPECT_EQ(group[1].refused,
              "5 microbatches of equal size hold 15 samples, batch is 16 [batch-mismatch 807]");
    EXPECT_TRUE(llvm::StringRef(group[2].refused).starts_with("not six (M = 6")) << group[2].refused;
    EXPECT_EQ(group[3].against, "M=4");
    EXPECT_EQ(group[4].against, "M=8");
    EXPECT_EQ(*group[3].change, *changeOf(*group[0].time, *group[3].time));
    EXPECT_EQ(*group[4].change, *changeOf(*group[3].time, *group[4].time));
  }
  ASSERT_EQ(swept.found.findings.size(), 1u);
  EXPECT_EQ(swept.found.findings[0].instance, "fails at 5 of 25, smallest P=5, M=4");
}

/// A file with a batch, held by the microbatch, is the file that says so itself.
TEST(FigureSweep, HeldIsAsIfTheFileSaidIt) {
  const std::vector<std::string> definitions = {"M=4,8,12"};
  auto rows = [&](const std::string &training, Of of, const std::string &forward) {
    return sweepCsv(Swept(file(training, forward), definitions, of).found.table);
  };
  for (const char *forward : {"1 ms + samples(m) * 250 us", "100 us * batch / M", "1 ms + 10 us * batch"}) {
    SCOPED_TRACE(forward);
    const std::string converted = rows("batch = 16;", Of::Microbatch, forward);
    EXPECT_EQ(converted, rows("batch = 2 * M;", Of::Microbatch, forward));
    EXPECT_NE(converted, rows("batch = 16;", Of::Batch, forward));
  }
  for (const char *forward : {"1 ms + samples(m) * 250 us", "10 us * microbatch_samples"}) {
    SCOPED_TRACE(forward);
    EXPECT_EQ(rows("microbatch_samples = 3;", Of::Batch, forward),
              rows("microbatch_samples = 24 / M;", Of::Batch, forward));
  }
  EXPECT_EQ(rows("microbatch_samples = 2;", Of::Microbatch, "1 ms * samples(m)"),
            rows("batch = 16;", Of::Microbatch, "1 ms * samples(m)"));
}

TEST(FigureSweep, SortsAndLeavesOut) {
  FigureSweepOptions how;
  how.sort = sweepColumn("throughput");
  how.descends = true;
  how.fitsOnly = true;
  how.columns = {*sweepColumn("busy(0)"), *sweepColumn("makespan")};
  Swept swept(file("batch = 16;"), {"P=2", "M=2,4,5,16"}, Of::Batch, how);
  const SweepTable &table = swept.found.table;
  EXPECT_EQ(table.columns.size(), standardFigures().size() + 1); // makespan is there already
  std::vector<Rational> rates;
  size_t refused = 0;
  for (const SweepRow &row : table.rows) {
    refused += !row.refused.empty();
    EXPECT_TRUE(refused == 0 || !row.refused.empty()) << "refused rows come last";
    if (!row.refused.empty())
      continue;
    EXPECT_EQ(row.fits, true);
    rates.push_back(*row.figures[0]);
  }
  EXPECT_EQ(refused, 2u);
  EXPECT_GE(rates.size(), 2u);
  EXPECT_TRUE(std::is_sorted(rates.rbegin(), rates.rend()));
  EXPECT_EQ(table.rows.size() + table.leftOut, 8u);
}

/// Where samples change and costs do not, that is said; where costs follow, it is not.
TEST(FigureSweep, SaysWhereCostsIgnoreSamples) {
  auto says = [](const std::string &forward) {
    const Swept swept(file("batch = 16;", forward), {"M=4,8"}, Of::Batch);
    return llvm::any_of(swept.found.table.notes, [](const std::string &note) {
      return llvm::StringRef(note).contains("takes as long");
    });
  };
  EXPECT_TRUE(says("2 ms"));
  EXPECT_FALSE(says("2 ms * samples(m)"));
}
