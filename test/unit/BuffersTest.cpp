// Declared buffers against a slow reading of rule 703, and those of DeepSpeed's schedule in the library
// against DeepSpeed's own instruction lists.
#include "Driver/Compilation.h"
#include "RandomOrder.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::slow;

namespace {

Program withBuffers(const RandomOrder &order, const std::function<uint32_t(Stage, Microbatch)> &bufferOf) {
  ScheduleBuilder builder("buffers", order.sizes);
  builder.place([&](Stage s, Microbatch) { return order.deviceOf[s]; });
  builder.buffers(bufferOf);
  for (uint32_t device = 0; device < order.sizes.devices; ++device)
    builder.program(device, [&](DeviceProgram &program) {
      for (const Op &op : order.devices[device])
        write(program, op);
    });
  return builder.build();
}

std::vector<Finding> findingsOf(const Program &program) {
  Diagnostics diagnostics;
  verify(program, ProgramIndex(program), CostModel::ofTicks(program.stages), diagnostics);
  return diagnostics.findings();
}

/// Whether two microbatches of one stage lie in one buffer while both are under way.
bool isShared(const Program &program) {
  auto place = [&](auto isWanted, uint32_t s, uint32_t m) {
    OpId last = 0;
    for (OpId id = 0; id < program.size(); ++id)
      if (const Op &op = program.ops[id]; op.stage == s && op.microbatch == m && isWanted(op))
        last = id;
    return last;
  };
  auto isForward = [](const Op &op) { return op.kind == OpKind::Forward; };
  auto isBackward = [](const Op &op) { return op.kind != OpKind::Forward; };
  for (uint32_t s = 0; s < program.stages; ++s)
    for (uint32_t a = 0; a < program.microbatches; ++a)
      for (uint32_t b = 0; b < program.microbatches; ++b)
        if (a != b && program.buffers.at(s, a) == program.buffers.at(s, b) &&
            place(isForward, s, a) < place(isForward, s, b) &&
            place(isForward, s, b) < place(isBackward, s, a))
          return true;
  return false;
}

} // namespace

TEST(Buffers, AreSharedExactlyWhereAFindingSaysSo) {
  unsigned clean = 0, mended = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const RandomOrder order = randomOrder(random, 1);
    const uint32_t count = 1 + random.below(3);
    const Program program = withBuffers(order, [&](Stage, Microbatch m) { return m % count; });
    const std::vector<Finding> findings = findingsOf(program);
    ASSERT_EQ(!findings.empty(), isShared(program));
    clean += findings.empty();
    if (findings.empty())
      continue;
    ASSERT_EQ(findings[0].rule, Rule::BufferOccupied);
    // The number of buffers that the fix names for the stage does, and one fewer does not.
    uint32_t stage = 0, enough = 0;
    ASSERT_EQ(sscanf(findings[0].op.c_str(), "forward(%u,", &stage), 1);
    const std::string fix = findings[0].fix.message;
    ASSERT_EQ(sscanf(fix.substr(fix.find("mod(m, ")).c_str(), "mod(m, %u)", &enough), 1) << fix;
    auto blames = [&](uint32_t buffers) {
      const Program tried =
          withBuffers(order, [&](Stage s, Microbatch m) { return s == stage ? m % buffers : m; });
      return !findingsOf(tried).empty();
    };
    EXPECT_FALSE(blames(enough));
    EXPECT_TRUE(blames(enough - 1));
    ++mended;
  }
  EXPECT_GT(clean, 50u);
  EXPECT_GT(mended, 100u);
}

namespace {

/// `RA0 F0 SA0`: an instruction of DeepSpeed and its buffer each.
std::string instructionsOf(const Program &program, uint32_t device) {
  std::string text;
  for (const Op &op : program.opsOf(device)) {
    const char *name = op.kind == OpKind::RecvActivation   ? "RA"
                       : op.kind == OpKind::SendActivation ? "SA"
                       : op.kind == OpKind::RecvGradient   ? "RG"
                       : op.kind == OpKind::SendGradient   ? "SG"
                       : op.kind == OpKind::Forward        ? "F"
                       : op.kind == OpKind::Backward       ? "B"
                                                           : nullptr;
    if (name)
      text +=
          fmt::format("{}{}{}", text.empty() ? "" : " ", name, program.buffers.at(op.stage, op.microbatch));
  }
  return text;
}

Program deepspeed(uint32_t P, uint32_t M) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  Program program;
  const std::string text =
      fmt::format("import \"std/deepspeed\"; schedule main = deepspeed(P = {}, M = {});", P, M);
  if (compilation.load(*sources.addFile("test.sluice", text), diagnostics))
    compilation.run({}, {}, Compilation::Depth::Elaborate, diagnostics,
                    [&](Instance &instance) { program = instance.program; });
  EXPECT_TRUE(diagnostics.findings().empty());
  return program;
}

} // namespace

TEST(Buffers, OfTheLibraryAreDeepSpeeds) {
  std::ifstream file(SLUICE_GOLDENS "/deepspeed_buffers.txt");
  ASSERT_TRUE(file.good());
  unsigned lists = 0, counts = 0;
  for (std::string line; std::getline(file, line);) {
    uint32_t P = 0, M = 0, stage = 0;
    const std::string rest = line.substr(line.find(':') + 1);
    if (sscanf(line.c_str(), "P=%u M=%u stage %u:", &P, &M, &stage) == 3) {
      EXPECT_EQ(" " + instructionsOf(deepspeed(P, M), stage), rest) << line;
      ++lists;
    } else if (sscanf(line.c_str(), "P=%u M=%u buffers:", &P, &M) == 2) {
      const Program program = deepspeed(P, M);
      std::string found;
      for (uint32_t s = 0; s < P; ++s) {
        // How many a stage has is known by the highest it uses, or that all microbatches have their own.
        uint32_t most = 0;
        for (uint32_t m = 0; m < M; ++m)
          most = std::max(most, program.buffers.at(s, m) + 1);
        found += fmt::format(" {}", most);
      }
      EXPECT_EQ(found, rest) << line;
      ++counts;
    }
  }
  EXPECT_EQ(lists, 21u);
  EXPECT_EQ(counts, 5u);
}
