// The text of generated executors: the same bytes for the same program, whatever file it came from.
#include "Schedules.h"

#include "Emit/Cpp.h"

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
static std::string digestOf(const std::vector<EmittedFile> &files) {
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
  const std::string digest = digestOf(emit(program));
  program.sites.clear();
  program.siteOf.clear();
  EXPECT_EQ(digestOf(emit(program)), digest);
  EXPECT_EQ(digestOf(emit(program, {.parameters = "P = 4", .source = "moved.sluice"})), digest);

  std::swap(program.ops[0], program.ops[1]); // two forwards of device 0
  EXPECT_NE(digestOf(emit(program)), digest);
  EXPECT_NE(digestOf(emit(oneFOneB(4, 9))), digest);
  EXPECT_NE(digestOf(emit(gpipe(4, 8))), digest);
}

TEST(EmitCpp, LossFactorsAreInTheDigest) {
  const Program program = oneFOneB(2, 2);
  CostModel costs = CostModel::ofTicks(2);
  const std::string even = digestOf(emitCpp(program, costs, {}));
  costs.samples = {3, 1};
  const auto files = emitCpp(program, costs, {});
  EXPECT_NE(digestOf(files), even);
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

TEST(EmitCpp, NamesAndNamespaces) {
  const auto files = emit(gpipe(2, 2), {.name = "switch", .nameSpace = "a::b"});
  EXPECT_EQ(files[0].name, "switch_.h");
  const std::string digest = digestOf(files);
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
