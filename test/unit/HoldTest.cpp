// What a sweep holds: read from the file, converted from what it gives, or refused with a reason.
#include "Driver/Hold.h"

#include <gtest/gtest.h>

using namespace sluice;

namespace {

using Of = HeldSamples::Of;

constexpr const char *head = "param M = 8; param B = 64; param R = 1;\n"
                             "model x { stages = 2; forward = 1; backward = 1; }\n";
constexpr const char *tail = "schedule a { place s on s; device d { for m in 0..M { forward(m); } "
                             "for m in 0..M { backward(m); } reduce; update; } }\n";

/// Of each setting what is held, or why nothing is.
std::string held(const std::string &training, std::vector<std::string> definitions, Of of,
                 const char *schedules = tail) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  if (!compilation.load(*sources.addFile("a.sluice", head + training + schedules), diagnostics))
    return diagnostics.findings().front().message;
  std::string error, text;
  const std::vector<Setting> settings = parseDefinitions(definitions, error);
  const auto hold = holdSamples(compilation, settings, {}, of, error);
  if (!hold)
    return error;
  for (const HeldSamples &each : hold->at)
    text += (text.empty() ? "" : " ") + (each.count ? std::to_string(*each.count) : "file");
  for (size_t i = 0; i < settings.size(); ++i)
    if (!hold->refused[i].empty())
      text += "; " + str(settings[i]) + ": " + hold->refused[i];
  return text + (hold->origin.empty() ? "" : "; " + hold->origin);
}

} // namespace

TEST(Hold, WhatTheFileGives) {
  EXPECT_EQ(held("training { microbatches = M; batch = 64; }", {"M=4,8,16"}, Of::Batch), "64 64 64");
  EXPECT_EQ(held("training { microbatches = M; microbatch_samples = 8; }", {"M=4,8"}, Of::Microbatch), "8 8");
}

TEST(Hold, ConvertedAtTheDefaults) {
  EXPECT_EQ(held("training { microbatches = M; batch = 64; }", {"M=4,16"}, Of::Microbatch),
            "8 8; batch = 64 at 8 microbatches");
  EXPECT_EQ(held("training { microbatches = M; microbatch_samples = 3; replicas = 2; }", {"M=4"}, Of::Batch),
            "48; microbatch_samples = 3 at 8 microbatches x 2 replicas");
}

TEST(Hold, WhatChangesTheStepStandsAtItsDefault) {
  EXPECT_EQ(held("training { microbatches = M; batch = 8 * M; }", {"M=4,16"}, Of::Batch), "64 64");
  EXPECT_EQ(
      held("training { microbatches = M; batch = 64; replicas = R; }", {"R=1,2", "M=4,8"}, Of::Microbatch),
      "8 8 8 8; batch = 64 at 8 microbatches");
}

TEST(Hold, OtherParametersKeepTheirValues) {
  EXPECT_EQ(held("training { microbatches = M; batch = B; }", {"B=32,64", "M=4,8"}, Of::Batch),
            "32 32 64 64");
  EXPECT_EQ(held("training { microbatches = M; batch = B; }", {"B=32,64", "M=4,8"}, Of::Microbatch),
            "4 4 8 8; batch = 64 at 8 microbatches");
}

/// One setting without a number of samples leaves the others theirs.
TEST(Hold, SomeSettingsOnly) {
  EXPECT_EQ(held("training { microbatches = M; batch = B; }", {"B=0,32"}, Of::Batch),
            "file 32; B=0: --hold batch: batch cannot be told at B=0: its value is no count");
  EXPECT_EQ(held("training { microbatches = M; batch = B; }", {"B=60,64"}, Of::Microbatch),
            "file 8; B=60: --hold microbatch_samples: a.sluice gives batch = 60 at 8 microbatches, which is "
            "15/2 samples a microbatch: write `microbatch_samples = …;` in its training instead, or hold the "
            "batch; batch = 64 at 8 microbatches");
}

TEST(Hold, MicrobatchesThatOnlyTheScheduleSays) {
  const char *own =
      "schedule a(K = 4) { place s on s for m in 0..K; device d { for m in 0..K { forward(m); } "
      "for m in 0..K { backward(m); } reduce; update; } }\n";
  EXPECT_EQ(held("training { batch = 64; }", {"K=2,8"}, Of::Microbatch, own),
            "16 16; batch = 64 at 4 microbatches");
}

TEST(Hold, SamplesThatTheFileWrites) {
  const std::string uneven = "training { microbatches = M; samples(m) = m == 0 ? 2 : 4; }";
  EXPECT_EQ(held(uneven, {"M=4,8"}, Of::Microbatch), "file file");
  EXPECT_EQ(held(uneven, {"M=4,8"}, Of::Batch), "30 30; the sum of samples(m)");
}

TEST(Hold, NothingToHold) {
  EXPECT_EQ(
      held("training { microbatches = M; }", {"M=4,8"}, Of::Batch),
      "a.sluice gives neither `batch` nor `microbatch_samples`, so there is nothing to hold: add to its "
      "training `batch = …;`");
  EXPECT_NE(held("", {"B=4,8"}, Of::Microbatch, "schedule a { place s on s for m in 0..2; device d { } }\n")
                .find("add to it `training { microbatches = M; microbatch_samples = …; }`"),
            std::string::npos);
  EXPECT_NE(held("training { microbatches = M; batch = 60; }", {"M=4,8"}, Of::Microbatch)
                .find("a.sluice gives batch = 60 at 8 microbatches, which is 15/2 samples a microbatch"),
            std::string::npos);
  EXPECT_NE(held("training { microbatches = M; batch = 1 / 0; }", {"M=4,8"}, Of::Batch)
                .find("--hold batch: batch cannot be told at the file's defaults: "),
            std::string::npos);
}
