// The orders that PyTorch has written with early and with late receives, under what runs them: posted as its
// runtime posts them, and as if every cell blocked.
#include "Driver/Compilation.h"
#include "Events/Completion.h"
#include "Passes/PostCells.h"

#include <filesystem>
#include <gtest/gtest.h>

namespace sluice {
namespace {

std::optional<Program> load(const std::filesystem::path &path) {
  SourceManager sources;
  FileLoader loader(sources);
  Diagnostics diagnostics;
  Compilation compilation(sources, loader);
  const FileLoader::Result file = loader.openSchedule(path.string());
  std::optional<Program> program;
  if (file.error.empty() && compilation.load(file.text, diagnostics))
    compilation.run({}, {}, Compilation::Depth::Elaborate, diagnostics,
                    [&](Instance &instance) { program = std::move(instance.program); });
  return program;
}

struct Counts {
  unsigned files = 0;
  unsigned stuckPosted = 0;   ///< Started, with the waits of the runtime, one queue a device.
  unsigned stuckStored = 0;   ///< The same where sends are stored.
  unsigned stuckBlocking = 0; ///< Each cell blocks until its message is there.
};

Counts countStuck(llvm::StringRef ending) {
  Counts counts;
  const ChannelRules nccl = *channelRulesNamed("nccl"), rendezvous = *channelRulesNamed("rendezvous");
  for (const auto &entry : std::filesystem::directory_iterator(SLUICE_PYTORCH)) {
    if (!llvm::StringRef(entry.path().filename().string()).ends_with(ending))
      continue;
    const std::optional<Program> program = load(entry.path());
    EXPECT_TRUE(program) << entry.path();
    if (!program)
      continue;
    const Program posted = postCells(*program);
    ++counts.files;
    counts.stuckPosted += stuckUnder(posted, nccl).has_value();
    counts.stuckStored += stuckUnder(posted, {}).has_value();
    counts.stuckBlocking += stuckUnder(*program, rendezvous).has_value();
  }
  return counts;
}

TEST(PytorchChannels, EarlyReceivesNeverStick) {
  const Counts counts = countStuck("_comms.csv");
  EXPECT_EQ(counts.files, 25u);
  EXPECT_EQ(counts.stuckPosted, 0u);
  EXPECT_EQ(counts.stuckStored, 0u);
  EXPECT_EQ(counts.stuckBlocking, 0u);
}

// All but those in which every forward comes first on one chunk a device (GPipe, LoopedBFS_2_4_1). Posting
// frees none: a receive that is posted late stands in its device's queue behind sends that the other device
// has not come to receive.
TEST(PytorchChannels, MostLateReceivesStick) {
  const Counts counts = countStuck("_comms_defer.csv");
  EXPECT_EQ(counts.files, 27u);
  EXPECT_EQ(counts.stuckPosted, 23u);
  EXPECT_EQ(counts.stuckStored, 0u);
  EXPECT_EQ(counts.stuckBlocking, 23u);
}

} // namespace
} // namespace sluice
