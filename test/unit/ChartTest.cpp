#include "Emit/Chart.h"
#include "Emit/FiguresJson.h"
#include "Emit/TextTable.h"

#include "Schedules.h"
#include "Simulated.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Shown : Simulated {
  using Simulated::Simulated;
  std::string rows(const ChartOptions &options) const { return chartRows(program, costs, timeline, options); }
  std::string text(const ChartOptions &options = {}) const {
    return chart(program, costs, timeline, figures, options);
  }
  std::string json() const {
    return figuresJson({{program, index, costs, timeline, figures, {{"P", "4"}, {"q", "1/2"}}}});
  }
};

CostModel milliseconds(uint32_t stages, int64_t forward, int64_t input, int64_t weight) {
  CostModel costs = CostModel::ofTicks(stages, forward, input, weight);
  costs.ticks = costs.isDefault = false;
  costs.unit = 1'000'000;
  costs.displayUnit = "ms";
  costs.notCounted = {"activation", "boundary"};
  return costs;
}

bool contains(const std::string &text, llvm::StringRef part) { return llvm::StringRef(text).contains(part); }

/// Columns a terminal needs: bytes less those that continue a character.
size_t columnsOf(llvm::StringRef line) {
  return static_cast<size_t>(llvm::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }));
}

} // namespace

TEST(Chart, ShowsEveryOpWithItsMicrobatchAt80Columns) {
  EXPECT_EQ(Shown(gpipe(4, 8), milliseconds(4, 10, 10, 10)).rows({.width = 80, .ascii = true}),
            R"(          0 s                 100 ms              200 ms              300 ms
          |-------------------|-------------------|-------------------|-----
device 0  0-1-2-3-4-5-6-7-                  0###1###2###3###4###5###6###7###
device 1    0-1-2-3-4-5-6-7-            0###1###2###3###4###5###6###7###
device 2      0-1-2-3-4-5-6-7-      0###1###2###3###4###5###6###7###
device 3        0-1-2-3-4-5-6-7-0###1###2###3###4###5###6###7###
          m-- forward  m## backward  blank: idle  m: microbatch
          one column: 5 ms
)");
}

TEST(Chart, WidthsAreProportionalAt120Columns) {
  const std::string rows =
      Shown(oneFOneB(4, 8), milliseconds(4, 10, 10, 10)).rows({.width = 120, .ascii = true});
  EXPECT_TRUE(contains(rows, "\ndevice 0  0--1--2--3--                  0#####4--1#####5--2#####6--3#####7--"
                             "4#####   5#####   6#####   7#####\n"))
      << rows;
}

TEST(Chart, FitsItsWindow) {
  for (unsigned width : {40u, 80u, 120u, 200u})
    for (uint32_t m : {1u, 8u, 200u}) {
      const std::string rows = Shown(oneFOneB(4, m), milliseconds(4, 11, 9, 7)).rows({.width = width});
      for (llvm::StringRef line : llvm::split(rows, '\n'))
        EXPECT_LE(columnsOf(line), std::max(width, 64u)) << line.str();
    }
}

TEST(Chart, KindsAreToldApartWithoutColour) {
  ScheduleBuilder builder("kinds", {1, 3, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(0, [](DeviceProgram &p) {
    p.forward(0, 0, Keep::Input), p.recompute(0, 0), p.backward(0, 0), p.forward(0, 1);
    p.overlap([&] { p.forward(0, 2), p.backwardInput(0, 1); });
    p.backwardWeight(0, 1), p.backwardInput(0, 2), p.backwardWeight(0, 2);
  });
  Shown kinds(builder.build(), CostModel::ofTicks(1, 2, 2, 3));
  EXPECT_TRUE(contains(kinds.rows({.width = 34, .ascii = true}), "device 0  0-0~0####1-2&1&1++2=2++\n"));
  EXPECT_TRUE(contains(kinds.rows({.width = 34}), "device 0  0─0≈0████1─2&1▚1░░2▓2░░\n"));
  const std::string colored = kinds.rows({.width = 34, .color = true});
  EXPECT_TRUE(contains(colored, "\x1b[30;48;5;74m0 \x1b[30;48;5;176m0 ")) << colored;
  EXPECT_FALSE(contains(kinds.rows({.width = 34}), "\x1b"));
}

TEST(Chart, NamesTheStageWhereADeviceHasSeveral) {
  ScheduleBuilder builder("chunks", {2, 2, 1});
  builder.place([](Stage, Microbatch) { return 0; });
  builder.program(0, [](DeviceProgram &p) {
    for (uint32_t m : {0u, 1u})
      p.forward(0, m), p.forward(1, m), p.backward(1, m), p.backward(0, m);
  });
  Shown chunks(builder.build(), CostModel::ofTicks(2, 1, 1, 0));
  EXPECT_TRUE(contains(chunks.rows({.width = 34, .ascii = true}), "device 0  0a-0b-0b#0a#1a-1b-1b#1a#\n"));
  // Where they do not fit one op they are left out everywhere.
  EXPECT_TRUE(contains(chunks.rows({.width = 30, .ascii = true}), "device 0  0-0-0#0#1-1-1#1#\n"));
}

TEST(Chart, DensityWhereOpsAreNarrowerThanColumns) {
  Shown large(oneFOneB(64, 1024), milliseconds(64, 10, 10, 10));
  const std::string rows = large.rows({.width = 100, .ascii = true});
  // Device 63 waits for 63 forwards, works without a pause and ends 63 backwards early.
  EXPECT_TRUE(contains(rows, "\ndevice 63   2" + std::string(83, '#') + "5\n")) << rows;
  EXPECT_TRUE(contains(rows, "1 to 9: tenths of a column that the device is busy"));
  EXPECT_EQ(llvm::StringRef(rows).count("\ndevice "), 64u);

  const std::string folded = large.rows({.width = 80, .maxRows = 8});
  EXPECT_EQ(llvm::StringRef(folded).count("\ndevices "), 8u);
  EXPECT_TRUE(contains(folded, "devices 56..64 "));
}

TEST(Chart, ShowsAPartOfTheTimeAndTheDevices) {
  Shown whole(gpipe(4, 8), milliseconds(4, 10, 10, 10));
  EXPECT_EQ(
      whole.rows({.width = 30, .ascii = true, .from = 110, .to = 130, .firstDevice = 2, .deviceEnd = 4}),
      R"(                    120 ms
          ----------|---------
device 2
device 3  0###################
          m## backward
          blank: idle
          m: microbatch
          one column: 1 ms
)");
}

TEST(Chart, IsWholeForAnyScheduleWindowAndWidth) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomSchedule schedule(seed);
    Program program = schedule.build();
    CostModel costs = schedule.costs(program);
    if (seed % 10 == 0)
      for (auto *table :
           {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight, &costs.recompute})
        *table = StageTable<int64_t>(std::vector<int64_t>(program.stages, 0));
    const Shown simulated(program, costs);
    for (unsigned width : {0u, 25u, 80u, 500u})
      for (int64_t from : {int64_t(0), int64_t(7), simulated.timeline.makespan}) {
        const std::string rows = simulated.rows({.width = width, .from = from, .to = from + 9, .maxRows = 2});
        EXPECT_GE(llvm::StringRef(rows).count('\n'), 2 + std::min(program.devices, 2u) + 1) << rows;
      }
    const std::string text = simulated.text();
    EXPECT_EQ(contains(text, "no op takes time"), simulated.figures.ideal == Rational(0)) << text;
    EXPECT_TRUE(contains(text, ", exactly\n")) << text;
  }
}

TEST(Chart, FiguresNameTheirDenominators) {
  const std::string text = Shown(oneFOneB(4, 8), milliseconds(4, 10, 10, 10)).text();
  for (const char *part :
       {"makespan          330 ms", "idle fraction     3/11 = 27.27 %          of elapsed",
        "overhead ratio    3/8 = 37.5 %            of ideal", "modeled, not measured",
        "  closed forms      equal to the timeline:\n"
        "    overhead_ratio == (P - 1) / M: 3/8 = 37.5 % (1F1B with P = 4, M = 8, known by its ops)\n"
        "    idle_fraction == (P - 1) / (M + P - 1): 3/11 = 27.27 % (the same)\n",
        "  1        240    90    10     20         0          0        60          3\n",
        "idle = fill + drain + transfer + imbalance + upstream, exactly",
        "not counted, as the file does not give them: activation, boundary",
        "peak_memory needs `activation`, which the file does not give"})
    EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
}

TEST(Chart, SaysWhichAssumptionOfTheClosedFormsFailsAndWhere) {
  SourceManager sources;
  Span file = *sources.addFile("x.sluice", "model gpt {\n  forward(s) = 1;\n}\n");
  CostModel costs = milliseconds(4, 10, 10, 10);
  costs.forward = StageTable<int64_t>({10, 10, 10, 13});
  costs.declaredAt["forward"] = {file.begin + 14, file.begin + 29};
  const std::string text = Shown(oneFOneB(4, 8), costs).text({.sources = &sources});
  EXPECT_TRUE(contains(text, "closed forms      do not apply:\n"
                             "    stage 3 has forward 13 ms, stage 0 10 ms (line 2)\n"))
      << text;
}

TEST(Chart, ListsWhatIsLiveAtTheMostMemory) {
  CostModel costs = milliseconds(4, 10, 10, 10);
  costs.notCounted.clear();
  costs.activation = StageTable<int64_t>(std::vector<int64_t>(4, int64_t(1) << 30));
  costs.weights.assign(4, int64_t(3) << 30);
  costs.memoryLimit.assign(4, int64_t(80) << 30);
  const std::string text = Shown(oneFOneB(4, 8), costs).text();
  EXPECT_TRUE(contains(
      text, "most memory: 7 GiB of 80 GiB on device 0, 73 GiB left, first at 30 ms by forward(0, 3)\n"
            "         4 GiB  4 saved activations of stage 0\n"
            "         3 GiB  weights of stage 0\n"))
      << text;
}

TEST(TextTable, FoldsEqualNeighbours) {
  TextTable table({"device", "n"});
  for (uint32_t row = 0; row < 5; ++row)
    table.addRow(row, {row < 3 ? "7" : "100"});
  EXPECT_EQ(table.text(), "  device    n\n  0..2      7\n  3..4    100\n");
}

TEST(FiguresJson, HasNamesUnitsAndExactValues) {
  CostModel costs = milliseconds(4, 10, 10, 10);
  costs.batch = 64;
  const Shown simulated(oneFOneB(4, 8), costs);
  const std::string text = simulated.json();
  auto parsed = llvm::json::parse(text);
  ASSERT_TRUE(static_cast<bool>(parsed)) << text;
  const llvm::json::Object &root = *parsed->getAsObject();
  EXPECT_EQ(root.getInteger("version"), 1);
  const llvm::json::Object &schedule = *(*root.getArray("schedules"))[0].getAsObject();
  EXPECT_EQ(schedule.getString("name"), "one_f_one_b");
  EXPECT_EQ(schedule.getObject("parameters")->getInteger("P"), 4);
  EXPECT_EQ(schedule.getObject("parameters")->getString("q"), "1/2");
  const llvm::json::Object &figures = *schedule.getObject("figures");
  auto expect = [](const llvm::json::Object &figure, const char *exact, double value, const char *unit) {
    EXPECT_EQ(figure.getString("exact"), exact);
    EXPECT_EQ(figure.getNumber("value"), value);
    EXPECT_EQ(figure.getString("unit"), unit);
  };
  expect(*figures.getObject("makespan"), "330", 330, "ms");
  expect(*figures.getObject("idle_fraction"), "3/11", 3.0 / 11, "1");
  expect(*figures.getObject("throughput"), "6400/33", 6400.0 / 33, "1/s");
  EXPECT_FALSE(figures.getObject("bytes_moved"));
  const llvm::json::Array &devices = *schedule.getArray("devices");
  ASSERT_EQ(devices.size(), 4u);
  expect(*devices[1].getAsObject()->getObject("figures")->getObject("drain"), "20", 20, "ms");
  expect(*devices[3].getAsObject()->getObject("figures")->getObject("peak_activation"), "1", 1, "1");
  expect(*(*schedule.getArray("stages"))[0].getAsObject()->getObject("figures")->getObject("in_flight"), "4",
         4, "1");
  // Doubles in their shortest form, as the page shows them.
  EXPECT_TRUE(contains(text, "\"value\": 0.2727272727272727,"));
  EXPECT_EQ(text, Shown(oneFOneB(4, 8), costs).json());
}

TEST(FiguresJson, CountsTicksWithoutATimeUnit) {
  const std::string text = Shown(gpipe(2, 3), CostModel::ofTicks(2)).json();
  EXPECT_TRUE(contains(text, "\"makespan\": {\n          \"exact\": \"12\",\n          \"value\": 12,\n"
                             "          \"unit\": \"tick\""))
      << text;
}
