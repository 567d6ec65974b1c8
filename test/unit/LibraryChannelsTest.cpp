// The schedules of the library under channels that block: early placement completes under every rule, just in
// time under any that stores two messages, and of the others exactly those below, the fewer the more an order
// lets sends run ahead of their receives.
#include "Driver/Compilation.h"
#include "Events/Completion.h"
#include "Passes/LowerCommunication.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

struct Case {
  const char *file, *call;
  bool storesOne;     ///< Completes just in time with one message stored.
  bool storesNothing; ///< Completes just in time with none.
};

void PrintTo(const Case &each, std::ostream *stream) { *stream << each.call; }

std::optional<Program> compiled(const Case &each) {
  SourceManager sources;
  FileLoader loader(sources);
  Diagnostics diagnostics;
  Compilation compilation(sources, loader);
  const Span text = *sources.addFile(
      "main.sluice", fmt::format("import \"std/{}\";\nschedule main = {};\n", each.file, each.call));
  std::optional<Program> result;
  if (compilation.load(text, diagnostics))
    compilation.run({}, {}, Compilation::Depth::Elaborate, diagnostics,
                    [&](Instance &instance) { result = std::move(instance.program); });
  return result;
}

class LibraryChannels : public testing::TestWithParam<Case> {};

TEST_P(LibraryChannels, EarlyCompletesUnderEveryRule) {
  const std::optional<Program> program = compiled(GetParam());
  ASSERT_TRUE(program);
  const auto written = lowerCommunication(*program, ProgramIndex(*program), CommunicationPlacement::Early);
  ASSERT_TRUE(written);
  using Key = ChannelRules::Key;
  for (Key key : {Key::Direction, Key::Pair, Key::Edge, Key::Message})
    for (bool deviceService : {false, true})
      for (bool connectOnFirstUse : {false, true}) {
        ChannelRules rules{.depth = 0, .key = key, .deviceService = deviceService};
        rules.connectOnFirstUse = connectOnFirstUse;
        EXPECT_FALSE(stuckUnder(*written, rules)) << name(key).str() << deviceService << connectOnFirstUse;
      }
}

TEST_P(LibraryChannels, JustInTimeCompletesWithTwoMessagesStored) {
  const Case &each = GetParam();
  const std::optional<Program> program = compiled(each);
  ASSERT_TRUE(program);
  const auto written =
      lowerCommunication(*program, ProgramIndex(*program), CommunicationPlacement::JustInTime);
  ASSERT_TRUE(written);
  for (uint32_t depth : {2u, 3u, ChannelRules::unbounded})
    EXPECT_FALSE(stuckUnder(*written, {.depth = depth})) << depth;
  EXPECT_EQ(!stuckUnder(*written, {.depth = 1}), each.storesOne);
  EXPECT_EQ(!stuckUnder(*written, {.depth = 0}), each.storesNothing);
  EXPECT_EQ(leastDepth(*written, {}), each.storesOne ? 1u : 2u);
}

constexpr Case cases[] = {
    {"gpipe", "gpipe(4, 8)", true, true},
    {"one_f_one_b", "one_f_one_b(4, 8)", true, false},
    {"eager_one_f_one_b", "eager_one_f_one_b(4, 8)", true, false},
    {"one_f_one_b_overlapped", "one_f_one_b_overlapped(4, 8)", true, false},
    {"looped_bfs", "looped_bfs(4, 8, v = 2)", false, false},
    {"interleaved_pytorch", "interleaved_pytorch(4, 8, v = 2)", true, false},
    {"interleaved_megatron", "interleaved_megatron(4, 8, v = 2)", true, false},
    {"group_interleaved", "group_interleaved(4, 8, v = 2)", false, false},
    {"zb_h1", "zb_h1(4, 8)", true, false},
    {"zb_h2", "zb_h2(4, 8)", true, false},
    {"interleaved_zero_bubble", "interleaved_zero_bubble(4, 8, v = 2)", false, false},
    {"zbv", "zbv(4, 8)", false, false},
    {"dualpipe", "dualpipe(4, 16)", false, false},
    {"dualpipev", "dualpipev(4, 8)", false, false},
    {"chimera", "chimera(4, 8)", true, false},
    {"wave", "wave(8, 8)", true, false},
};
INSTANTIATE_TEST_SUITE_P(Library, LibraryChannels, testing::ValuesIn(cases),
                         [](const auto &info) { return std::string(info.param.file); });

} // namespace
} // namespace sluice
