// Formats: what is written and read again is the same schedule, JSON and texts that are broken say where,
// and numbers of other systems are taken exactly.
#include "Driver/Compilation.h"
#include "Formats/DeepSpeed.h"
#include "Formats/Json.h"
#include "Formats/Megatron.h"
#include "Formats/PrintFile.h"
#include "Formats/Rows.h"
#include "Formats/ScheduleJson.h"
#include "Formats/SettingWords.h"
#include "RandomDecorations.h"
#include "Schedules.h"
#include "Std/LibraryText.h"

#include <gtest/gtest.h>

using namespace sluice;

namespace {

std::vector<FormattedSchedule> compiled(const std::string &text, const Setting &setting = {}) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  std::vector<FormattedSchedule> schedules;
  if (compilation.load(*sources.addFile("test.sluice", text), diagnostics))
    compilation.run(setting, {}, Compilation::Depth::Elaborate, diagnostics, [&](Instance &instance) {
      schedules.push_back({std::move(instance.program), std::move(instance.costs), "a test"});
    });
  for (const Finding &finding : diagnostics.findings())
    if (finding.rule != Rule::OverlappedCost) // random costs of overlaps are rarely plausible
      ADD_FAILURE() << finding.message << "\n" << text;
  return schedules;
}

/// Reads `text`; a finding fails the test.
std::optional<FormattedSchedule> readBack(FormatReader read, const std::string &text) {
  SourceManager sources;
  Diagnostics diagnostics;
  std::vector<std::string> lost;
  auto schedule = read(sources, *sources.addFile("input", text), {}, diagnostics, lost);
  for (const Finding &finding : diagnostics.findings())
    ADD_FAILURE() << finding.message << "\n" << text;
  return schedule;
}

/// Rule numbers and places of the findings, such as `110 1:12`, joined by commas.
std::string findingsOf(FormatReader read, const std::string &text) {
  SourceManager sources;
  Diagnostics diagnostics;
  std::vector<std::string> lost;
  bool isRead = read(sources, *sources.addFile("input", text), {}, diagnostics, lost).has_value();
  EXPECT_EQ(isRead, !diagnostics.hasErrors()) << text;
  std::string result;
  for (const Finding &finding : diagnostics.findings()) {
    Location place = sources.locate(finding.span.begin);
    result += (result.empty() ? "" : ", ") + std::to_string(info(finding.rule).number) + " " +
              std::to_string(place.line) + ":" + std::to_string(place.column);
  }
  return result;
}

std::string json(const FormattedSchedule &schedule) {
  std::vector<std::string> lost;
  std::string error;
  return writeJson(schedule, lost, error).value_or("");
}

/// Settings whose value is a word, and what blocks.
void expectEqualTerms(const CostModel &a, const CostModel &b) {
  for (llvm::ArrayRef<SettingWords> table : {trainingWords(), clusterWords()})
    for (const SettingWords &setting : table)
      EXPECT_EQ(setting.wordOf(a).str(), setting.wordOf(b).str()) << setting.name.str();
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.transport, b.transport);
  EXPECT_TRUE(a.channels == b.channels);
  EXPECT_EQ(a.hasChannelModel, b.hasChannelModel);
}

/// JSON keeps everything, down to the bytes of what it writes again.
void expectJsonRoundTrip(const FormattedSchedule &schedule) {
  std::string text = json(schedule);
  auto again = readBack(readJson, text);
  ASSERT_TRUE(again);
  EXPECT_TRUE(equal(schedule.program, again->program)) << text;
  expectEqualTerms(schedule.costs, again->costs);
  EXPECT_EQ(text, json(*again));
}

/// Times as numbers of ticks or nanoseconds: two files may count in different units.
void expectEqualTimes(const FormattedSchedule &a, const FormattedSchedule &b, const std::string &text) {
  for (const CostTable &entry : timeTables())
    for (uint32_t m = 0; m < a.program.microbatches; ++m)
      for (uint32_t s = 0; s < a.program.stages; ++s)
        ASSERT_EQ(multiply((a.costs.*entry.table).at(s, m), a.costs.unit),
                  multiply((b.costs.*entry.table).at(s, m), b.costs.unit))
            << entry.key.str() << "(" << s << ", " << m << ")\n"
            << text;
  for (OpId id = 0; id < a.program.size(); id = a.program.groupEnd(id)) {
    auto time = [&](const FormattedSchedule &of) {
      return multiply(durationOfGroup(of.costs, &of.program.ops[id], of.program.groupEnd(id) - id),
                      of.costs.unit);
    };
    ASSERT_EQ(time(a), time(b)) << str(a.program.ops[id]) << "\n" << text;
  }
}

/// The schedule file that is printed means the same.
void expectFileRoundTrip(const FormattedSchedule &schedule) {
  std::vector<std::string> lost;
  std::string text = printFile(schedule, lost);
  EXPECT_TRUE(lost.empty()) << lost[0] << "\n" << text;
  std::vector<FormattedSchedule> again = compiled(text);
  ASSERT_EQ(again.size(), 1u) << text;
  EXPECT_TRUE(equal(schedule.program, again[0].program)) << text;
  EXPECT_EQ(schedule.costs.isDefault, again[0].costs.isDefault);
  EXPECT_EQ(schedule.costs.ticks, again[0].costs.ticks);
  EXPECT_EQ(schedule.costs.samples, again[0].costs.samples);
  EXPECT_EQ(schedule.costs.batch, again[0].costs.batch);
  EXPECT_EQ(schedule.costs.replicas, again[0].costs.replicas);
  EXPECT_EQ(schedule.costs.memoryLimit, again[0].costs.memoryLimit);
  expectEqualTerms(schedule.costs, again[0].costs);
  EXPECT_EQ(schedule.costs.communication, again[0].costs.communication);
  EXPECT_EQ(schedule.costs.notCounted, again[0].costs.notCounted);
  for (const CostTable &entry : sizeTables())
    for (uint32_t m = 0; m < schedule.program.microbatches; ++m)
      for (uint32_t s = 0; s < schedule.program.stages; ++s)
        ASSERT_EQ((schedule.costs.*entry.table).at(s, m), (again[0].costs.*entry.table).at(s, m))
            << entry.key.str() << "\n"
            << text;
  for (const CostList &entry : sizeLists())
    EXPECT_EQ(schedule.costs.*entry.list, again[0].costs.*entry.list) << entry.key.str();
  for (size_t i = 0; i < schedule.program.skips.size() && !schedule.costs.isDefault; ++i)
    for (uint32_t m = 0; m < schedule.program.microbatches; ++m) {
      EXPECT_EQ(schedule.costs.skipBoundary[i].at(0, m), again[0].costs.skipBoundary[i].at(0, m)) << text;
      for (uint32_t way : {0, 1})
        EXPECT_EQ(multiply(schedule.costs.skipTransfer[i].at(way, m), schedule.costs.unit),
                  multiply(again[0].costs.skipTransfer[i].at(way, m), again[0].costs.unit))
            << text;
    }
  expectEqualTimes(schedule, again[0], text);
}

/// The time of all transfers, over skip edges too, where neighbours on two devices have one.
void setSkipLatency(FormattedSchedule &schedule) {
  int64_t latency = 0;
  for (int64_t time : schedule.costs.activationTransfer.all())
    latency = std::max(latency, time);
  for (size_t i = 0; i < schedule.program.skips.size(); ++i) {
    const SkipEdge &skip = schedule.program.skips[i];
    StageTable<int64_t> times;
    for (uint32_t m = 0; m < schedule.program.microbatches; ++m) {
      const bool crosses = schedule.program.deviceOf(skip.from, m) != schedule.program.deviceOf(skip.to, m);
      times.addMicrobatch({crosses ? latency : 0, crosses && skip.hasGradient ? latency : 0});
    }
    times.finish();
    schedule.costs.skipTransfer[i] = times;
  }
}

/// The library at the defaults and, where a schedule has these parameters, at several sizes.
std::vector<FormattedSchedule> library() {
  std::vector<FormattedSchedule> all;
  const std::vector<std::vector<std::pair<const char *, int64_t>>> settings = {
      {}, {{"P", 4}, {"M", 8}}, {{"P", 2}, {"M", 12}}, {{"P", 4}, {"M", 16}, {"v", 3}}};
  for (const LibraryFile &file : libraryFiles())
    for (const auto &setting : settings) {
      SourceManager sources;
      FileLoader loader(sources);
      Compilation compilation(sources, loader);
      Diagnostics diagnostics;
      if (!compilation.load(*sources.addFile(file.name.str(), file.text.str()), diagnostics)) {
        ADD_FAILURE() << file.name.str();
        continue;
      }
      Setting chosen;
      for (const auto &[name, value] : setting)
        for (const std::string &known : compilation.parameterNames({}))
          if (known == name)
            chosen.push_back({name, Value::of(Rational(value))});
      // Sizes that a schedule refuses are no schedule.
      compilation.run(chosen, {}, Compilation::Depth::Elaborate, diagnostics, [&](Instance &instance) {
        all.push_back({std::move(instance.program), std::move(instance.costs), ""});
      });
    }
  return all;
}

const char *const trained = R"(
model gpt {
  stages = 3;
  forward(s) = s == 2 ? 13 ms : 10 ms; backward_input = [1 ms, 2 ms, 2500 us]; backward_weight = 1 ms / 3;
  activation(s, m) = (1 + mod(m, 2)) * 1 MiB; boundary = 4 KiB; kept_input = 1 KiB; weights(s) = s * 1 GiB;
  workspace = 5 B; random on 0, 2;
}
cluster {
  memory(d) = (d + 1) * 1 GiB; reserved = 1 MiB; transport = nccl;
  link(a, b) { latency = a == 0 ? 5 us : 0; bandwidth = a < b ? 50 GB/s : 25 GB/s; }
}
training { scale = accumulator; reduced = sharded copied; after_reduce = resharded; microbatch_loss = sum;
  microbatches = 4; batch = 28; samples(m) = m < 2 ? 4 : 3; replicas = 2; loss = mean over microbatches; }
schedule main {
  communication = inferred(just_in_time);
  place s on s;
  device d {
    for m in 0..4 { forward(m) keep input; recompute(m) replay; }
    for m in 0..4 { backward_input(m); backward_weight(m); }
    zero; reduce; update;
  }
})";

} // namespace

TEST(ScheduleJson, KeepsTheLibrary) {
  std::vector<FormattedSchedule> all = library();
  EXPECT_GT(all.size(), 60u);
  for (const FormattedSchedule &schedule : all) {
    SCOPED_TRACE(schedule.program.name);
    expectJsonRoundTrip(schedule);
  }
}

TEST(ScheduleJson, KeepsRandomSchedulesAndCosts) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    test::RandomSchedule random(seed);
    FormattedSchedule schedule;
    schedule.program = random.build();
    schedule.costs = random.costs(schedule.program);
    expectJsonRoundTrip(schedule);
    if (HasFailure())
      return;
  }
}

TEST(ScheduleJson, KeepsRandomSchedulesWithEverything) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    test::RandomSchedule random(seed);
    FormattedSchedule schedule;
    Program plain = random.build();
    schedule.program = test::decorated(plain, seed);
    schedule.costs = random.costs(plain);
    test::decorateCosts(schedule.program, schedule.costs, seed);
    if (schedule.program.isExplicit)
      schedule.costs.communication = "explicit";
    for (OpId id = 0; id < schedule.program.size(); ++id)
      if (schedule.program.ops[id].isCommunication() && id % 2 == 0)
        schedule.program.payloads.push_back({id, id * 100});
    expectJsonRoundTrip(schedule);
    if (HasFailure())
      return;
  }
}

TEST(ScheduleJson, KeepsAllSettings) {
  std::vector<FormattedSchedule> all = compiled(trained);
  ASSERT_EQ(all.size(), 1u);
  expectJsonRoundTrip(all[0]);
  std::string text = json(all[0]);
  auto again = readBack(readJson, text);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->costs.loss, "mean over microbatches");
  EXPECT_EQ(again->costs.displayUnit, all[0].costs.displayUnit);
  EXPECT_EQ(again->costs.randomStage, all[0].costs.randomStage);
  EXPECT_EQ(again->costs.communication, "just_in_time");
  EXPECT_EQ(again->costs.unit, all[0].costs.unit);
}

TEST(PrintFile, KeepsTheLibrary) {
  for (const FormattedSchedule &schedule : library()) {
    SCOPED_TRACE(schedule.program.name);
    expectFileRoundTrip(schedule);
  }
}

TEST(PrintFile, KeepsRandomSchedulesAndCosts) {
  unsigned tried = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    test::RandomSchedule random(seed);
    FormattedSchedule schedule;
    schedule.program = random.build();
    schedule.costs = random.costs(schedule.program);
    // A pair without a time of its own takes a sum, which a file can say only where microbatches are equal.
    schedule.costs.overlapped.clear();
    for (uint32_t s = 0; s < schedule.program.stages && seed % 2 == 0; ++s)
      for (uint32_t t = 0; t < schedule.program.stages; ++t)
        schedule.costs.overlapped[{s, t}] = 1 + (s * 7 + t * 3) % 5;
    bool isNamed = true; // a device that holds no stage has no text
    for (uint32_t d = 0; d < schedule.program.devices; ++d)
      isNamed = isNamed && !schedule.program.stagesOn(d).empty();
    if (!isNamed)
      continue;
    ++tried;
    expectFileRoundTrip(schedule);
    if (HasFailure())
      return;
  }
  EXPECT_GT(tried, 40u);
}

TEST(PrintFile, KeepsRandomSchedulesWithEverything) {
  unsigned tried = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    test::RandomSchedule random(seed);
    FormattedSchedule schedule;
    Program plain = random.build();
    bool isNamed = true; // a device that holds no stage has no text
    for (uint32_t d = 0; d < plain.devices; ++d)
      isNamed = isNamed && !plain.stagesOn(d).empty();
    if (!isNamed)
      continue;
    schedule.program = test::decorated(plain, seed);
    schedule.costs = random.costs(plain);
    schedule.costs.overlapped.clear();
    if (seed % 2 == 0)
      test::setTransfers(plain, schedule.costs, 0);
    test::decorateCosts(schedule.program, schedule.costs, seed);
    if (seed % 2 == 1)
      setSkipLatency(schedule);
    if (schedule.program.isExplicit)
      schedule.costs.communication = "explicit";
    ++tried;
    expectFileRoundTrip(schedule);
    if (HasFailure())
      return;
  }
  EXPECT_GT(tried, 80u);
}

TEST(PrintFile, SaysWhatTheLanguageCannotSay) {
  ScheduleBuilder builder("two", {.stages = 3, .microbatches = 1, .devices = 2});
  builder.place([](Stage s, Microbatch) { return Device(s % 2); });
  builder.program([](DeviceProgram &program, Device d) { program.forward(d, 0); });
  FormattedSchedule schedule;
  schedule.program = builder.build();
  schedule.costs = CostModel::ofTicks(3);
  schedule.costs.isDefault = false;
  schedule.costs.activationTransfer = StageTable<int64_t>({1, 2, 0});
  schedule.costs.gradientTransfer = StageTable<int64_t>({0, 2, 2}); // device 1 to 0 takes 2, both times
  std::vector<std::string> lost;
  EXPECT_EQ(printFile(schedule, lost).find("latency"), std::string::npos);
  ASSERT_EQ(lost.size(), 1u); // stage 2 to 1 is the same link as stage 0 to 1
  EXPECT_EQ(lost[0], "times of transfers: they depend on more than the two devices");
}

TEST(PrintFile, KeepsAllSettings) {
  std::vector<FormattedSchedule> all = compiled(trained);
  ASSERT_EQ(all.size(), 1u);
  // Transfers take latency plus boundary by bandwidth; printed they are one latency each.
  expectFileRoundTrip(all[0]);
}

TEST(Megatron, WrittenAndReadAgain) {
  unsigned tried = 0;
  for (FormattedSchedule schedule : library()) {
    if (schedule.program.name != "interleaved_megatron" && schedule.program.name != "one_f_one_b" &&
        schedule.program.name != "looped_bfs")
      continue;
    std::vector<std::string> lost;
    std::string error;
    auto text = writeMegatron(schedule, lost, error);
    if (schedule.program.name == "looped_bfs") { // backwards in descending order have no order list
      EXPECT_FALSE(text);
      EXPECT_NE(error.find("would be taken for"), std::string::npos) << error;
      continue;
    }
    ASSERT_TRUE(text) << error;
    auto again = readBack(readMegatron, *text);
    ASSERT_TRUE(again);
    Program &program = schedule.program;
    std::vector<uint32_t> begin{0};
    std::vector<Op> ops;
    for (uint32_t d = 0; d < program.devices; ++d) {
      for (const Op &op : program.opsOf(d))
        if (op.kind == OpKind::Forward || op.kind == OpKind::Backward)
          ops.push_back(op);
      begin.push_back(static_cast<uint32_t>(ops.size()));
    }
    program.ops = ops;
    program.deviceBegin = begin;
    EXPECT_TRUE(equal(program, again->program)) << *text;
    ++tried;
  }
  EXPECT_GE(tried, 6u);
}

TEST(Megatron, TakesEveryForm) {
  auto reference = readBack(readMegatron, "[[1, 2, -2, -1], [1, 2, -2, -1]]");
  ASSERT_TRUE(reference);
  EXPECT_EQ(reference->program.stages, 4u);
  EXPECT_EQ(str(reference->program.ops[5]), "forward(3, 0)");
  for (const char *text :
       {"{\"order\": [[1, 2, -2, -1], [1, 2, -2, -1]]}", "1 2 -2 -1\n1 2 -2 -1\n",
        "+1,+2,-2,-1\r\n+1,+2,-2,-1", "# order\n[1, 2, -2, -1]\n\n[1, 2, -2, -1]\n",
        "rank 0: [1, 2, -2, -1]\nrank 1: [1, 2, -2, -1]\n", "0: 1 2 -2 -1\n1: 1 2 -2 -1"}) {
    auto read = readBack(readMegatron, text);
    ASSERT_TRUE(read) << text;
    EXPECT_TRUE(equal(read->program, reference->program)) << text;
  }
}

TEST(Megatron, SaysWhereItIsBroken) {
  EXPECT_EQ(findingsOf(readMegatron, "1 -1\n1 0 -1\n"), "110 2:3");
  EXPECT_EQ(findingsOf(readMegatron, "1 -1\n1 x -1 1.5\n"), "110 2:3, 110 2:8");
  EXPECT_EQ(findingsOf(readMegatron, "[[1, -1], [1, \"a\"]]"), "101 1:15");
  EXPECT_EQ(findingsOf(readMegatron, "[[1, -1], 3]"), "101 1:11");
  EXPECT_EQ(findingsOf(readMegatron, "[[1, 1.0]]"), "110 1:6");
  EXPECT_EQ(findingsOf(readMegatron, "1: 1 -1\n"), "101 1:1");
  EXPECT_EQ(findingsOf(readMegatron, "[1, -1\n"), "101 1:6");
  EXPECT_EQ(findingsOf(readMegatron, "1,,-1\n"), "101 1:3");
  EXPECT_EQ(findingsOf(readMegatron, "1 -1\n70000 1\n"), "110 2:1");
  EXPECT_EQ(findingsOf(readMegatron, "1 -1\n65000 1\n"), "110 2:1"); // stage 2 * 64999 + 1
  EXPECT_EQ(findingsOf(readMegatron, ""), "106 1:1");
  EXPECT_EQ(findingsOf(readMegatron, "{\"orders\": []}"), "101 1:2");
}

TEST(OrderJson, ReadsCostsExactly) {
  auto schedule = readBack(readJson, R"({"schedule": "1F1B-zb", "cost": {"F": 6171.0,
    "B": 6028.666666666667, "W": 3110.3333333333335}, "comm": 0.2,
    "order": [["F0@0", "BW0@0"], ["F0@1", "B0@1", "W0@1"]]})");
  ASSERT_TRUE(schedule);
  EXPECT_EQ(schedule->program.name, "schedule_1F1B_zb");
  const CostModel &costs = schedule->costs;
  EXPECT_EQ(costs.unit, *Rational::make(1, 15));
  EXPECT_EQ(costs.forward.at(0, 0), 6171 * 15);
  EXPECT_EQ(costs.backwardInput.at(0, 0), 18086 * 5);
  EXPECT_EQ(costs.backwardWeight.at(1, 0), 9331 * 5);
  EXPECT_EQ(costs.backward.at(1, 0), (18086 + 9331) * 5);
  EXPECT_EQ(costs.activationTransfer.at(0, 0), 3);
  EXPECT_EQ(costs.gradientTransfer.at(1, 0), 3);
  EXPECT_EQ(costs.activationTransfer.at(1, 0), 0);
}

TEST(OrderJson, PlacesByTheRows) {
  auto schedule = readBack(readJson, R"({"order": [["F0@0", "F1@1", "O[F2@0|BW1@1]", "BW0@0", "BW2@0"],
                                                   ["F1@0", "F0@1", "F2@1", "BW0@1", "BW1@0", "BW2@1"]]})");
  ASSERT_TRUE(schedule);
  const Program &program = schedule->program;
  EXPECT_EQ(program.deviceOf(0, 0), 0u);
  EXPECT_EQ(program.deviceOf(0, 1), 1u);
  EXPECT_EQ(program.deviceOf(1, 1), 0u);
  EXPECT_TRUE(program.ops[2].has(OverlapFirst) && program.ops[3].has(OverlapFollower));
  EXPECT_TRUE(schedule->costs.isDefault);
}

TEST(OrderJson, PlacesWhatIsMissingByTheOthers) {
  // Microbatches 1 and 3 go the other way; stage 1 of microbatch 3 is missing, on device 0.
  auto schedule = readBack(readJson, R"({"order": [["F0@0", "F1@1", "BW1@1", "BW0@0"],
                                                   ["F1@0", "F0@1", "F3@0", "BW0@1", "BW1@0"]]})");
  ASSERT_TRUE(schedule);
  EXPECT_EQ(schedule->program.deviceOf(1, 3), 0u);
  EXPECT_EQ(schedule->program.deviceOf(0, 2), 0u); // nothing of it is known
}

TEST(OrderJson, ReadsMessagesAndTheirSizes) {
  auto schedule = readBack(readJson, R"({"order": [["F0@0", "SEND_F0@0:4096", "RECV_B0@0", "BW0@0"],
                                                   ["RECV_F0@1:4000", "F0@1", "BW0@1", "SEND_B0@1"]]})");
  ASSERT_TRUE(schedule);
  EXPECT_TRUE(schedule->program.isExplicit);
  EXPECT_EQ(schedule->costs.communication, "explicit");
  const std::vector<OpPayload> expected = {{1, 4096}, {4, 4000}};
  EXPECT_EQ(schedule->program.payloads, expected);
  EXPECT_EQ(schedule->program.ops[1], (Op{OpKind::SendActivation, 0, 0, 0}));
  EXPECT_EQ(schedule->program.ops[7], (Op{OpKind::SendGradient, 0, 1, 0}));
  std::vector<std::string> lost;
  printFile(*schedule, lost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0], "sizes that 2 sends and receives expect: a model says them once, as boundary");
}

TEST(OrderJson, SaysWhereItIsBroken) {
  EXPECT_EQ(findingsOf(readJson, R"({"order": [["SEND_F0@0:"]]})"), "110 1:13");
  EXPECT_EQ(findingsOf(readJson, R"({"order": [["F0@0:4"]]})"), "110 1:13");
  EXPECT_EQ(findingsOf(readJson, R"({"order": [["O[F0@0|SEND_F0@0]"]]})"), "110 1:13");
  auto broken = [](const char *cell) {
    return findingsOf(readJson, std::string("{\"order\": [[\"F0@0\", ") + cell + "]]}");
  };
  for (const char *cell :
       {"\"f0@0\"", "\"F0\"", "\"F@0\"", "\"F0@\"", "\"F0@0 \"", "\"BF0@0\"", "\"F-1@0\"", "\"O[F0@0]\"",
        "\"O[F0@0|BW0@0\"", "\"O[F0@0|]\"", "\"F0@65536\"", "\"F2147483647@0\"", "\"\""})
    EXPECT_EQ(broken(cell), "110 1:21") << cell;
  EXPECT_EQ(broken("3"), "101 1:21");
  EXPECT_EQ(findingsOf(readJson, R"({"order": [["F0@0"]], "n_devices": 2})"), "805 1:36");
  EXPECT_EQ(findingsOf(readJson, R"({"order": [["F0@1", "F0@0"]], "n_stages": 1})"), "803 1:13");
  EXPECT_EQ(findingsOf(readJson, R"({"order": [["F0@2"]]})"), "801 1:1");
  EXPECT_EQ(findingsOf(readJson, R"({"order": [["F0@0"]], "cots": {}})"), "102 1:23");
  EXPECT_EQ(findingsOf(readJson, R"({"order": [["F0@0"]], "cost": {"F": 1, "B": -1}})"),
            "106 1:45, 114 1:31");
  EXPECT_EQ(findingsOf(readJson, R"({"order": [["F0@0"]], "comm": 1})"), "114 1:1");
  EXPECT_EQ(findingsOf(readJson, R"({"order": []})"), "106 1:1");
  EXPECT_EQ(findingsOf(readJson, R"({"order": [[]], "order": []})"), "103 1:17");
}

TEST(ScheduleJson, SaysWhereItIsBroken) {
  const std::string start = R"({"version": 1, "name": "a", "stages": 1, "microbatches": 1, )";
  const std::string whole = start + R"("placement": [0], "programs": [[["forward", 0, 0]]])";
  EXPECT_EQ(findingsOf(readJson, whole + "}"), "");
  EXPECT_EQ(findingsOf(readJson, "{\"version\": 2}"), "101 1:13, 114 1:1, 114 1:1");
  auto program = [&](const std::string &ops) {
    return findingsOf(readJson, start + "\n\"placement\": [0],\n\"programs\": [[" + ops + "]]}");
  };
  EXPECT_EQ(program(R"(["forwart", 0, 0])"), "102 3:16");
  EXPECT_EQ(program(R"(["forward", 0])"), "101 3:15");
  EXPECT_EQ(program(R"(["forward", 1, 0])"), "803 3:15");
  EXPECT_EQ(program(R"(["forward", 0, 1])"), "803 3:15");
  EXPECT_EQ(program(R"(["forward", 0, 0.5])"), "105 3:30");
  EXPECT_EQ(program(R"(["forward", 0, -1])"), "106 3:30");
  EXPECT_EQ(program(R"(["backward", 0, 0, "keep input"])"), "101 3:34");
  EXPECT_EQ(program(R"({"overlap": []})"), "101 3:27");
  EXPECT_EQ(program(R"({"group": [["forward", 0, 0]]})"), "101 3:26");
  EXPECT_EQ(program(R"({"overlap": [["reduce", 0]]})"), "101 3:28");
  EXPECT_EQ(program(R"({"overlap": [["offload", 0, 0]]})"), "101 3:28");
  EXPECT_EQ(program(R"(["reduce", 0, "start"], ["reduce", 0, "wait"])"), "");
  EXPECT_EQ(program(R"(["reduce", 0, "start", "wait"])"), "101 3:38");
  EXPECT_EQ(program(R"(["update", 0, "start"])"), "101 3:29");
  EXPECT_EQ(program(R"(["backward", 0, 0, "overwrite", {"scale": "-1/4"}])"), "");
  EXPECT_EQ(program(R"(["backward", 0, 0, {"scale": "0"}])"), "101 3:44");
  EXPECT_EQ(program(R"(["backward", 0, 0, {"to": 1}])"), "102 3:35");
  EXPECT_EQ(program(R"(["scale", 0])"), "101 3:15");
  EXPECT_EQ(program(R"(["scale", 0, 2])"), "101 3:28");
  EXPECT_EQ(program(R"(["reduce_tied", "emb"])"), "101 3:31");
  EXPECT_EQ(program(R"(["norm", "local"], ["norm"])"), "");
  EXPECT_EQ(program(R"({"group": [["send_activation", 0, 0, "start"]]})"), "101 3:26");
  EXPECT_EQ(findingsOf(readJson, start + R"("placement": [1], "programs": [[]]})"), "106 1:75");
  EXPECT_EQ(findingsOf(readJson, whole + R"(, "cluster": {"transport": "tcp"}})"), "101 1:139");
  EXPECT_EQ(findingsOf(readJson, whole + R"(, "training": {"batch": 3}})"), "807 1:126");
  EXPECT_EQ(
      findingsOf(readJson, whole + R"(, "model": {"time_unit": "tick", "time_factor": "0"}})").substr(0, 9),
      "101 1:160");
  EXPECT_EQ(findingsOf(readJson, "[]"), "101 1:1");
  EXPECT_EQ(findingsOf(readJson, whole + R"(, "training": {"loss": "mean over tokens"}})"), "114 1:126");
  EXPECT_EQ(findingsOf(readJson, whole + R"(, "training": {"reduction": "max"}})"), "101 1:140");
  EXPECT_EQ(findingsOf(readJson, whole + R"(, "cluster": {"groups": ""}})"), "101 1:136");
  EXPECT_EQ(findingsOf(readJson, whole + R"(, "edges": [{"from": 0, "to": 1}]})"), "106 1:142");
  EXPECT_EQ(findingsOf(readJson, whole + R"(, "tied": [{"name": "w", "stages": []}]})"), "101 1:147");
}

TEST(Json, SaysWhereItIsBroken) {
  auto broken = [](const std::string &text) { return findingsOf(readJson, text); };
  EXPECT_EQ(broken(""), "101 1:1");
  EXPECT_EQ(broken("{"), "101 1:2");
  EXPECT_EQ(broken("{\"a\": 1,}"), "101 1:9");
  EXPECT_EQ(broken("{\"a\" 1}"), "101 1:6");
  EXPECT_EQ(broken("[1 2]"), "101 1:4");
  EXPECT_EQ(broken("[01]"), "101 1:2");
  EXPECT_EQ(broken("[1.]"), "101 1:4");
  EXPECT_EQ(broken("[\"\\x\"]"), "101 1:4");
  EXPECT_EQ(broken("[\"\\ud800\"]"), "101 1:9");
  EXPECT_EQ(broken("[\"a\nb\"]"), "101 1:4");
  EXPECT_EQ(broken("[nul]"), "101 1:2");
  EXPECT_EQ(broken("[] []"), "101 1:4");
  EXPECT_EQ(broken(std::string(100000, '[')), "101 1:65");
}

TEST(Json, DecodesTexts) {
  SourceManager sources;
  Diagnostics diagnostics;
  auto document = parseJson(
      sources, *sources.addFile("a", R"(["\u0041\n\"\\\/", "\ud83d\ude00", "\u00e9", -0.5e+3, true])"),
      diagnostics);
  ASSERT_TRUE(document);
  const std::vector<JsonValue> &items = document->root.items;
  EXPECT_EQ(items[0].text, "A\n\"\\/");
  EXPECT_EQ(items[1].text, "\xf0\x9f\x98\x80");
  EXPECT_EQ(items[2].text, "\xc3\xa9");
  EXPECT_EQ(items[3].text, "-0.5e+3");
  EXPECT_TRUE(items[4].truth);
}

TEST(ExactNumber, TakesDecimalsAsTheyStandAndDoublesAsFractions) {
  auto is = [](const char *text, int64_t num, int64_t den) {
    auto exact = exactNumber(text);
    EXPECT_TRUE(exact && *exact == *Rational::make(num, den))
        << text << " is " << (exact ? exact->str() : "none");
  };
  is("0", 0, 1);
  is("3", 3, 1);
  is("1.5", 3, 2);
  is("-0.25", -1, 4);
  is("2e3", 2000, 1);
  is("25E-2", 1, 4);
  is("5204.0", 5204, 1);
  is("0.1", 1, 10);
  is("0.123456789", 123456789, 1000000000);
  is("0.3333333333333333", 1, 3);
  is("6028.666666666667", 18086, 3);
  // Not the double 0.3, so no small fraction; whatever it is, it prints as the same double.
  auto sum = exactNumber("0.30000000000000004");
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->toDouble(), 0.1 + 0.2);
  EXPECT_FALSE(exactNumber("1e41"));
  EXPECT_FALSE(exactNumber("99999999999999999999"));
}

TEST(Identifier, IsANameOfTheLanguage) {
  EXPECT_EQ(identifier("Megatron-interleaved-MoEoverlap(+1 warmup)"),
            "Megatron_interleaved_MoEoverlap_1_warmup");
  EXPECT_EQ(identifier("1F1B"), "schedule_1F1B");
  EXPECT_EQ(identifier("for"), "schedule_for");
  EXPECT_EQ(identifier("***"), "schedule");
  EXPECT_EQ(identifier("zb_h1"), "zb_h1");
}
