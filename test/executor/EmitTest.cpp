// The text of generated executors: the same bytes for the same program, whatever file it came from.
#include "Schedules.h"

#include "Emit/Cpp.h"
#include "Emit/CppDigest.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

static std::vector<EmittedFile> emit(const Program &program, CppOptions options = {}) {
  return emitCpp(program, CostModel::ofTicks(program.stages), options);
}
static bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}
/// The digest a header's namespace is named by.
static std::string digestIn(const std::vector<EmittedFile> &files) {
  const std::string &header = files.at(0).text;
  return header.substr(header.find("inline namespace d") + 18, 8);
}

TEST(EmitCpp, SameProgramSameBytes) {
  const auto first = emit(zbH1(4, 8), {.parameters = "P = 4, M = 8", .source = "a.sluice"});
  const auto second = emit(zbH1(4, 8), {.parameters = "P = 4, M = 8", .source = "a.sluice"});
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].name, "zb_h1.h");
  EXPECT_EQ(first[1].name, "zb_h1.cpp");
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(first[i].text, second[i].text);
}

TEST(EmitCpp, OnlyTheFileNameOfASourceIsShown) {
  const auto files = emit(gpipe(2, 2), {.source = "/home/someone/schedules/a.sluice"});
  for (const EmittedFile &file : files) {
    EXPECT_TRUE(contains(file.text, "from a.sluice;")) << file.text;
    EXPECT_FALSE(contains(file.text, "someone"));
  }
}

TEST(EmitCpp, DigestIsOfTheProgramNotOfItsLines) {
  Program program = oneFOneB(4, 8);
  const std::string digest = digestIn(emit(program));
  program.sites.clear();
  program.siteOf.clear();
  EXPECT_EQ(digestIn(emit(program)), digest);
  EXPECT_EQ(digestIn(emit(program, {.parameters = "P = 4", .source = "moved.sluice"})), digest);

  std::swap(program.ops[0], program.ops[1]); // two forwards of device 0
  EXPECT_NE(digestIn(emit(program)), digest);
  EXPECT_NE(digestIn(emit(oneFOneB(4, 9))), digest);
  EXPECT_NE(digestIn(emit(gpipe(4, 8))), digest);
}

TEST(EmitCpp, LossFactorsAreInTheDigest) {
  const Program program = oneFOneB(2, 2);
  CostModel costs = CostModel::ofTicks(2);
  const std::string even = digestIn(emitCpp(program, costs, {}));
  costs.samples = {3, 1};
  const auto files = emitCpp(program, costs, {});
  EXPECT_NE(digestIn(files), even);
  EXPECT_TRUE(contains(files[1].text, "    3.0 / 4.0,\n    1.0 / 4.0,\n"));
}

TEST(EmitCpp, OneLineAnInstructionWithItsComment) {
  const std::string text = emit(oneFOneB(2, 1)).at(1).text;
  EXPECT_TRUE(
      contains(text, "    {Op::Load,              0,   0,     0,    0, none, none, none}, // 0: load(0, 0), "
                     "into boundary 0\n"
                     "    {Op::Forward,           0,   0,     0,    0,    1,    0, none}, // 1: forward(0, "
                     "0), boundary 0 -> 1, saved 0\n"
                     "    {Op::SendActivation,    0,   0,     0,    1,    0, none, none}, // 2: "
                     "send_activation(0, 0), boundary 1 to device 1\n"))
      << text;
  EXPECT_TRUE(contains(text, "gradient 2 -> none, saved 0, first contribution, last contribution\n")) << text;
}

namespace {

/// Made by hand: every op and every table there is, in no order that makes sense.
ExecutorTables everything() {
  using enum runtime::Op;
  constexpr uint32_t none = runtime::noSlot, noMicrobatch = runtime::noMicrobatch;
  auto of = [](runtime::Op op) { return static_cast<uint32_t>(op); };
  ExecutorTables tables;
  tables.stages = 4;
  tables.microbatches = 4;
  tables.splits = 2;
  tables.replicas = 8;
  tables.devices = {{.rows =
                         {
                             {SkipInput, 0, 3, 1, 5, 0, none, none},
                             {Carry, 0, 3, 1, 2, none, none, none},
                             {Weights, 0, 3, 1, 1, none, none, none},
                             {Forward, runtime::KeepInput, 3, 1, 0, 1, none, none},
                             {SkipOutput, 0, 3, 1, 6, 0, none, none},
                             {Factor, 0, 3, 1, none, none, none, 0},
                             {BackwardInput, 0, 3, 1, 1, 2, 0, 4},
                             {Offload, runtime::Started, 3, 1, none, none, 7, 8},
                             {Wait, 0, 3, 1, none, of(Offload), 7, 8},
                             {Reload, 0, 3, 1, none, none, 7, 8},
                             {Drop, 0, 3, 1, none, none, none, 8},
                             {Drop, 0, 3, 1, none, none, none, none},
                             {SendActivation, runtime::GroupFirst, 3, 1, 1, 0, none, none},
                             {ReceiveGradient, runtime::GroupLast, 3, 1, 2, 1, none, none},
                             {Wait, 0, 3, 1, 1, of(SendActivation), none, none},
                             {Scale, 0, 3, noMicrobatch, none, none, none, 1},
                             {ReduceTied, runtime::Started, 0, noMicrobatch, none, none, none, 0},
                             {Wait, 0, 0, noMicrobatch, none, of(ReduceTied), none, 0},
                             {Norm, 0, 0, noMicrobatch, none, none, none, none},
                             {Norm, runtime::Local, 0, noMicrobatch, none, none, none, none},
                             {Unshard, runtime::Started, 3, noMicrobatch, none, none, none, none},
                             {Wait, 0, 3, noMicrobatch, none, of(Unshard), none, none},
                             {Update, 0, 3, noMicrobatch, 0, 1, none, none},
                             {Reshard, 0, 3, noMicrobatch, none, none, none, none},
                         },
                     .boundaries = 7,
                     .saveds = 8,
                     .pendings = 5,
                     .hosts = 9,
                     .carries = 3},
                    {}};
  tables.channels = {{0, 1}, {1, 0}};
  tables.copies = {{3, 0, 2, 1}};
  tables.lossFactors = {{1, 32}, {1, 32}, {3, 32}, {3, 32}};
  tables.factors = {{1, 4}, {-2, 1}};
  tables.reduction = {.mean = true, .sharded = true, .copied = false};
  tables.ties = {{"emb", {0, 3}, false}};
  tables.skips = {{0, 2, true}, {1, 3, false}};
  tables.uses = {};
  tables.uses.tied = tables.uses.carries = true;
  tables.verified = {true, true, false, false, false};
  return tables;
}

} // namespace

TEST(EmitCpp, SaysOfEachRowWhatItDoes) {
  const auto files = emitCpp(gpipe(1, 1), everything(), {});
  const std::string &text = files.at(1).text;
  size_t at = 0;
  auto next = [&](const std::string &part) {
    const size_t found = text.find(part, at);
    EXPECT_NE(found, std::string::npos) << part << "\nnot behind the line before it in\n" << text;
    if (found != std::string::npos)
      at = found + part.size();
  };
  next("// 0:   takes boundary 5 over edge 0 -> 2\n");
  next("// 1:   with carry 2\n");
  next("// 2:   reads weights 1\n");
  next("// 3: forward(3, 1), boundary 0 -> 1, keep input\n");
  next("// 4:   fills boundary 6 for edge 0 -> 2\n");
  next("// 5:   times 1/4\n");
  next("// 6: backward_input(3, 1), gradient 1 -> 2, saved 0, pending 4\n");
  next("// 7: start offload(3, 1), saved 7 -> host 8\n");
  next("// 8: wait offload(3, 1)\n");
  next("// 9: reload(3, 1), host 8 -> saved 7\n");
  next("// 10: drop(3, 1), host 8\n");
  next("// 11: drop(3, 1), the input\n");
  next("// 12: send_activation(3, 1), boundary 1 to device 1, first of a group\n");
  next("// 13: recv_gradient(3, 1), boundary 2 from device 1, last of its group\n");
  next("// 14: wait send_activation(3, 1)\n");
  next("// 15: scale(3, -2)\n");
  next("// 16: start reduce_tied(emb)\n");
  next("// 17: wait reduce_tied(emb)\n");
  next("// 18: norm\n");
  next("// 19: norm local\n");
  next("// 20: start unshard(3)\n");
  next("// 21: wait unshard(3)\n");
  next("// 22: update(3), weights 0 -> 1\n");
  next("// 23: reshard(3)\n");
}

TEST(EmitCpp, WritesEveryTable) {
  const auto files = emitCpp(gpipe(1, 1), everything(), {});
  const std::string &header = files.at(0).text, &text = files.at(1).text;
  EXPECT_TRUE(contains(header,
                       "4 stages, 2 microbatches, 2 devices, 2 splits of each microbatch, 8 replicas, 24 "
                       "instructions.\n"))
      << header;
  EXPECT_TRUE(contains(header, "// Channel models that it completes under: unbounded, eager.\n"));
  EXPECT_TRUE(contains(header, ".unbounded = true, .eager = true, .rendezvous = false,\n"));
  EXPECT_TRUE(contains(header, ".copies = false,\n    .tied = true,\n    .carries = true,\n};")) << header;
  EXPECT_TRUE(
      contains(text, "{device0, 7, 8, 5, 9, 3}, // device 0: boundary, saved, pending, host and carry slots\n"
                     "    {{}, 0, 0, 0}, // device 1: boundary, saved and pending slots\n"))
      << text;
  EXPECT_TRUE(contains(text, "copies[] = {\n    {3, 0, 2, 1},\n};"));
  EXPECT_TRUE(contains(text, "skips[] = {\n    {0, 2, true},\n    {1, 3, false},\n};"));
  EXPECT_TRUE(contains(text, "tie0[] = {0, 3};\n"));
  EXPECT_TRUE(contains(text, "ties[] = {\n    {\"emb\", tie0, false},\n};"));
  EXPECT_TRUE(contains(text, "factors[] = {\n    1.0 / 4.0,\n    -2.0 / 1.0,\n};"));
  EXPECT_TRUE(contains(text,
                       "    .splits = 2,\n    .replicas = 8,\n    .reduction = {.mean = true, .sharded = "
                       "true},\n    .factors = factors,\n    .ties = ties,\n    .skips = skips,\n}};"))
      << text;
}

TEST(EmitCpp, LeavesOutWhatIsAsByDefault) {
  const auto files = emit(oneFOneB(2, 2));
  for (const char *word : {"hosts", "splits", "replicas", "reduction", "skips", "ties", "repeats", "Pool"})
    for (const EmittedFile &file : files)
      EXPECT_FALSE(contains(file.text, word)) << word << " in\n" << file.text;
}

TEST(EmitCpp, DigestSeesEveryTableButNoSlots) {
  const std::string digest = digestOf(everything());
  auto changed = [&](auto change) {
    ExecutorTables tables = everything();
    change(tables);
    return digestOf(tables) != digest;
  };
  EXPECT_TRUE(changed([](auto &t) { t.splits = 4; }));
  EXPECT_TRUE(changed([](auto &t) { t.replicas = 7; }));
  EXPECT_TRUE(changed([](auto &t) { t.channels[0].to = 0; }));
  EXPECT_TRUE(changed([](auto &t) { t.copies[0].versions = 3; }));
  EXPECT_TRUE(changed([](auto &t) { t.copies[0].newest = 0; }));
  EXPECT_TRUE(changed([](auto &t) { t.lossFactors[3] = {1, 32}; }));
  EXPECT_TRUE(changed([](auto &t) { t.factors[1] = {2, 1}; }));
  EXPECT_TRUE(changed([](auto &t) { t.reduction.copied = true; }));
  EXPECT_TRUE(changed([](auto &t) { t.ties[0].name = "out"; }));
  EXPECT_TRUE(changed([](auto &t) { t.ties[0].stages[1] = 2; }));
  EXPECT_TRUE(changed([](auto &t) { t.ties[0].isLocal = true; }));
  EXPECT_TRUE(changed([](auto &t) { t.skips[1].hasGradient = true; }));
  EXPECT_TRUE(changed([](auto &t) { t.verified.rendezvous = true; }));
  EXPECT_TRUE(changed([](auto &t) { t.devices[0].rows[2].a = 0; }));  // version read
  EXPECT_TRUE(changed([](auto &t) { t.devices[0].rows[5].d = 1; }));  // factor
  EXPECT_TRUE(changed([](auto &t) { t.devices[0].rows[12].b = 1; })); // channel
  EXPECT_TRUE(changed([](auto &t) { t.devices[0].rows[12].flags = 0; }));
  EXPECT_TRUE(changed([](auto &t) { t.devices[0].rows.pop_back(); }));
  EXPECT_TRUE(changed([](auto &t) { t.devices.pop_back(); }));
  EXPECT_FALSE(changed([](auto &t) { t.devices[0].rows[3].b = 4; })); // boundary
  EXPECT_FALSE(changed([](auto &t) { t.devices[0].rows[8].d = 4; })); // host
  EXPECT_FALSE(changed([](auto &t) { t.devices[0].boundaries = 9; }));
}

TEST(EmitCpp, NamesAndNamespaces) {
  const auto files = emit(gpipe(2, 2), {.name = "switch", .nameSpace = "a::b"});
  EXPECT_EQ(files[0].name, "switch_.h");
  const std::string digest = digestIn(files);
  EXPECT_TRUE(contains(files[0].text, "namespace a::b::switch_ {\ninline namespace d" + digest + " {\n"));
  std::string upper = digest;
  for (char &c : upper)
    c = static_cast<char>(std::toupper(c));
  EXPECT_TRUE(contains(files[0].text, "#ifndef SLUICE_GENERATED_A_B_SWITCH__" + upper + "_H\n"));
}

TEST(EmitCpp, QuotesInParametersStayInsideTheirString) {
  const std::string text = emit(gpipe(2, 2), {.parameters = R"(kind = "a\b")"}).at(1).text;
  EXPECT_TRUE(contains(text, R"(.parameters = "kind = \"a\\b\"")")) << text;
}

TEST(EmitCpp, WritesTheRuntimeBesideIt) {
  const auto files = emit(gpipe(2, 2), {.withRuntime = true});
  std::vector<std::string> names;
  for (size_t i = 2; i < files.size(); ++i) {
    names.push_back(files[i].name);
    EXPECT_FALSE(contains(files[i].text, "llvm/"));
    EXPECT_FALSE(contains(files[i].text, "fmt/"));
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "sluice/Schedule.h", "sluice/Expand.h", "sluice/Context.h", "sluice/Supervisor.h",
                       "sluice/Threads.h", "sluice/Requirements.h", "sluice/Worker.h", "sluice/Executor.h"}));
}

TEST(EmitCpp, AProgramThatCannotRunGivesNoFiles) {
  ScheduleBuilder builder("headless", {2, 1, 2});
  builder.place([](Stage s, Microbatch) { return Device(s); });
  builder.program(0, [](DeviceProgram &p) { p.backward(0, 0); });
  builder.program(1, [](DeviceProgram &p) {
    p.backward(1, 0);
    p.forward(1, 0);
  });
  EXPECT_TRUE(emit(builder.build()).empty());
}
