// Settings shared out over threads: what is found is the same for every number of threads.
#include "Driver/Sweep.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace sluice;

namespace {

/// Costs that call each other, a template used twice, refused settings, faults of three kinds,
/// one of them in a loop of the template.
constexpr const char *text = R"(param P = 2 in 1..8;
param M = 4;
model x { stages = P; forward(s) = s == 0 ? 2 ms : 1 ms; backward(s) = 2 * forward(s); activation = 1 MiB; }
training { microbatches = M; }
schedule template(k = 1) {
  require mod(M, 7) != 6, "not by seven";
  place s on s;
  device d {
    for m in 0..M { forward(m); }
    for m in 0..min(M, 6 + k) { backward(m); }
    reduce;
    update;
  }
}
schedule first = template(k = 1);
schedule second = template(k = 3);
expect first { makespan <= 40 ms; }
expect second { peak_activation(0) <= 5; }
)";

std::string describe(const Sweep &sweep) {
  std::string out = fmt::format("{} allowed\n", sweep.allowed);
  for (const SweptFinding &swept : sweep.findings) {
    const Finding &finding = swept.finding;
    out += fmt::format("{} {} in {}", finding.span.begin, finding.message, finding.schedule);
    for (const std::string &other : finding.alsoIn)
      out += ", " + other;
    for (const Note &note : finding.notes)
      out += fmt::format("; {} {}", note.span.begin, note.message);
    for (uint32_t setting : swept.settings)
      out += fmt::format(" {}", setting);
    out += "\n";
  }
  for (const Sweep::Schedule &schedule : sweep.schedules) {
    out += fmt::format("{} {}:", schedule.name, schedule.communication);
    for (uint8_t state : schedule.states)
      out += fmt::format(" {}", state);
    out += "\n";
  }
  return out;
}

} // namespace

TEST(Sweep, SameForEveryNumberOfThreads) {
  SourceManager sources;
  FileLoader loader(sources);
  Diagnostics diagnostics;
  Compilation compilation(sources, loader);
  ASSERT_TRUE(compilation.load(*sources.addFile("a.sluice", text), diagnostics))
      << diagnostics.findings().front().message;
  std::string error;
  std::vector<Setting> settings = parseDefinitions({"P=1..10", "M=1..15"}, error);
  ASSERT_EQ(settings.size(), 126u);
  // First, so that what is made on first use is made by threads.
  const std::string together = describe(sweep(compilation, settings, {}, {8, {}, {}}));
  const std::string alone = describe(sweep(compilation, settings, {}, {1, {}, {}}));
  EXPECT_EQ(together, alone);
  for (unsigned threads : {0u, 2u, 3u, 500u})
    EXPECT_EQ(describe(sweep(compilation, settings, {}, {threads, {}, {}})), alone);

  Sweep swept = sweep(compilation, settings, {}, {4, {}, {}});
  ASSERT_EQ(swept.schedules.size(), 3u);
  EXPECT_EQ(swept.named()[0].name, "first");
  EXPECT_EQ(swept.named()[1].communication, "early");
  for (size_t i = 0; i < settings.size(); ++i) {
    int64_t P = settings[i][0].value.number.num, M = settings[i][1].value.number.num;
    bool outside = P > 7, refused = M % 7 == 6 && !outside;
    EXPECT_EQ((swept.file().states[i] & Sweep::Faulty) != 0, outside);
    for (size_t k : {0, 1}) {
      uint8_t state = swept.named()[k].states[i];
      EXPECT_EQ((state & Sweep::Refused) != 0, refused) << str(settings[i]);
      EXPECT_EQ((state & Sweep::Ran) != 0, !refused && !outside) << str(settings[i]);
      EXPECT_EQ((state & Sweep::Hiding) != 0, !refused && !outside && M > (k == 0 ? 7 : 9))
          << str(settings[i]);
    }
  }
}

/// A fault of one template belongs to every schedule that has it anywhere, not only at the first setting.
TEST(Sweep, SchedulesOfAFaultOverAllSettings) {
  SourceManager sources;
  FileLoader loader(sources);
  Diagnostics diagnostics;
  Compilation compilation(sources, loader);
  ASSERT_TRUE(compilation.load(*sources.addFile("a.sluice", R"(param M = 4;
schedule template(k = 1) {
  place s in 0..1 on s for m in 0..M;
  device 0 { for m in 0..M { forward(m); } for m in 0..min(M, k) { backward(m); } }
}
schedule first = template(k = 2);
schedule second = template(k = 3);
)"),
                               diagnostics));
  std::string error;
  std::vector<Setting> settings = parseDefinitions({"M=1..6"}, error);
  for (unsigned threads : {1u, 3u}) {
    Sweep swept = sweep(compilation, settings, {}, {threads, {}, {}});
    ASSERT_EQ(swept.findings.size(), 1u);
    EXPECT_EQ(swept.findings[0].finding.schedule, "first");
    EXPECT_EQ(swept.findings[0].finding.alsoIn, std::vector<std::string>{"second"});
    EXPECT_EQ(swept.findings[0].settings, (std::vector<uint32_t>{2, 3, 4}));
  }
}
