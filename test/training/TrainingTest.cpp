// Does a schedule train the model that unpipelined training trains? Every schedule of the library over P and
// M, with microbatches of equal and of unlike size, one replica and two: gradients against those of the full
// batch, the same bits from run to run.
#include "InMemory.h"
#include "Programs.h"
#include "Unpipelined.h"

#include "llvm/ADT/StringRef.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr uint64_t steps = 3;
constexpr double tolerance = 1e-14;

constexpr runtime::Uses trainingUses{.backward = true,
                                     .splitBackward = true,
                                     .recompute = true,
                                     .zero = true,
                                     .reduce = true,
                                     .update = true,
                                     .copies = true,
                                     .carries = true,
                                     .versions = true};
using AnyTraining = runtime::Schedule<trainingUses, runtime::ChannelModels{true, true, true, true, true}>;
using Pipeline = runtime::Executor<TrainingStage, AnyTraining>;

double difference(const Matrix &a, const Matrix &b) {
  double worst = a.values.size() == b.values.size() ? 0 : 1;
  for (std::size_t i = 0; worst < 1 && i < a.values.size(); ++i)
    worst = std::max(worst, std::abs(a.values[i] - b.values[i]));
  return worst;
}

/// A compiled schedule, ready to be run any number of times.
class Trial {
public:
  explicit Trial(const Compiled &ofProgram)
      : compiled(ofProgram), tables(assignSlots(compiled.program, compiled.costs).value()),
        memory(compiled.name, tables) {
    static_cast<runtime::Tables &>(schedule) = memory.schedule;
    lesson.stages = compiled.program.stages;
    lesson.replicas = schedule.replicas;
    lesson.splits = schedule.splits;
    lesson.firstRow = {0};
    for (uint32_t unit = 0; unit < schedule.microbatches; ++unit) {
      const std::size_t whole = unit / schedule.splits;
      lesson.firstRow.push_back(lesson.firstRow.back() +
                                static_cast<std::size_t>(compiled.costs.samples.at(whole)));
    }
  }
  std::unique_ptr<Pipeline> start() const {
    return std::make_unique<Pipeline>(
        schedule, [&](const runtime::Copy &copy) { return std::make_unique<TrainingStage>(lesson, copy); },
        runtime::Options{.seed = lesson.seed});
  }
  /// Largest difference of a gradient or weight on any copy after any step; all copies agree bit by bit.
  template <class Unpipelined> double differenceFrom(Unpipelined training) const {
    double worst = 0;
    const auto pipeline = start();
    for (uint64_t step = 0; step < steps; ++step) {
      pipeline->run();
      training.run(step);
      std::vector<const TrainingStage *> firstCopy(lesson.stages);
      for (const auto &stage : pipeline->copies()) {
        const mlp::Layer &wanted = training.layers[stage->copy.stage];
        const uint32_t newest = newestAfter(stage->copy, step);
        worst = std::max({worst, difference(stage->gradient(), wanted.gradient),
                          difference(stage->weights(newest), wanted.weights)});
        const TrainingStage *&first = firstCopy[stage->copy.stage];
        first = first ? first : stage.get();
        EXPECT_EQ(stage->gradient().values, first->gradient().values) << compiled.name;
        EXPECT_EQ(stage->weights(newest).values, first->weights(newest).values) << compiled.name;
      }
    }
    return worst;
  }
  uint64_t hashOfOneRun() const {
    const auto pipeline = start();
    pipeline->run(steps);
    uint64_t hash = 0;
    for (const auto &stage : pipeline->copies())
      hash = runtime::mixBits(hash ^ stage->gradientHash);
    return hash;
  }
  std::vector<double> lossFactors() const { return {schedule.lossFactor.begin(), schedule.lossFactor.end()}; }

  const Compiled &compiled;
  Lesson lesson;

private:
  /// Where the newest weights lie: a step leaves them in slot `newest`, and the executor then calls that one
  /// 0.
  static uint32_t newestAfter(const runtime::Copy &copy, uint64_t step) {
    return copy.newest == 0 || step % 2 == 1 ? 0 : copy.newest;
  }
  const ExecutorTables tables;
  const InMemory memory;
  AnyTraining schedule{};
};

std::vector<int64_t> samplesOf(int64_t M, bool isEven) {
  std::vector<int64_t> samples;
  for (int64_t m = 0; m < M; ++m)
    samples.push_back(isEven ? 2 : 1 + 5 * m % 4);
  return samples;
}

/// Leaves out what would only repeat another setting, and Megatron-LM's orders with a short last group, some
/// of which are cyclic.
bool isMeant(const LibrarySchedule &schedule, int64_t P, int64_t M, int64_t third) {
  const llvm::StringRef name = schedule.name;
  if (name == "interleaved_megatron" && M > P && M % P != 0)
    return false;
  if (!schedule.microbatches && M != P)
    return false;
  return third == 2 || (schedule.third && (third == 3 || name == "pipedream_2bw"));
}

class Library : public testing::TestWithParam<LibrarySchedule> {};

} // namespace

namespace sluice::test {
static void PrintTo(const LibrarySchedule &schedule, std::ostream *stream) { *stream << schedule.name; }
} // namespace sluice::test

TEST_P(Library, TrainsAsUnpipelined) {
  const LibrarySchedule &schedule = GetParam();
  unsigned tried = 0, turn = 0;
  double worst = 0;
  for (int64_t P : {1, 2, 3, 4, 6})
    for (int64_t M : {1, 2, 3, 4, 6, 8, 12})
      for (int64_t third : {2, 3, 6}) {
        if (!isMeant(schedule, P, M, third))
          continue;
        // Both kinds of sizes, and both counts of replicas, at each P.
        const Training training{samplesOf(M, turn % 2 == 0), schedule.isAsynchronous ? 1u : 1 + turn / 2 % 2};
        const std::optional<Compiled> compiled = compileLibrary(schedule, P, M, third, training);
        if (!compiled)
          continue;
        ++turn;
        const Trial trial(*compiled);
        const double found =
            schedule.isAsynchronous
                ? trial.differenceFrom(InOrder(trial.lesson, compiled->program, trial.lossFactors()))
                : trial.differenceFrom(FullBatch(trial.lesson));
        EXPECT_LE(found, tolerance) << compiled->name;
        EXPECT_EQ(trial.hashOfOneRun(), trial.hashOfOneRun()) << compiled->name;
        worst = std::max(worst, found);
        ++tried;
      }
  EXPECT_GE(tried, 3u);
  std::cout << fmt::format("{}: {} settings, at most {:.1e} from {}\n", schedule.name, tried, worst,
                           schedule.isAsynchronous ? "training in order" : "the full batch");
}
INSTANTIATE_TEST_SUITE_P(Schedules, Library, testing::ValuesIn(librarySchedules()),
                         [](const auto &info) { return std::string(info.param.name); });

static constexpr const char *recomputing = R"(
let counts = [2, 1, 3, 2, 1, 1];
model m { stages = 3; forward = 1; backward = 2; random on 0, 1; }
training { microbatches = 6; samples(m) = counts[m]; loss = mean over samples; replicas = 2; }
schedule main {
  place s on s;
  device d {
    for m in 0..6 { forward(m) keep input; }
    for m in 0..6 { recompute(m) replay; backward(m); }
    reduce; update;
  }
}
)";

TEST(Masks, RecomputesReplayTheMaskOfTheirForward) {
  const std::optional<Compiled> compiled = compileText(recomputing, "recomputing");
  ASSERT_TRUE(compiled);
  const Trial trial(*compiled);
  EXPECT_LE(trial.differenceFrom(FullBatch(trial.lesson)), tolerance);
}

TEST(Masks, AWrongMaskShows) {
  const std::optional<Compiled> compiled = compileText(recomputing, "recomputing");
  ASSERT_TRUE(compiled);
  Trial trial(*compiled);
  trial.lesson.wrongReplay = true;
  const double found = trial.differenceFrom(FullBatch(trial.lesson));
  EXPECT_GT(found, 1e-3);
  std::cout << fmt::format("a wrong mask: {:.1e} from the full batch\n", found);
}

TEST(Versions, ReadingTheNewestInsteadOfTheStashedShows) {
  const std::optional<Compiled> compiled =
      compileLibrary({"pipedream", "pipedream", nullptr, "M", true}, 3, 8, 0, {samplesOf(8, true)});
  ASSERT_TRUE(compiled);
  Compiled damaged{compiled->name, compiled->program, compiled->costs};
  const Trial right(*compiled);
  damaged.program.versions = VersionRule::Newest; // the executor's backwards then read what is newest
  const Trial wrong(damaged);
  EXPECT_LE(right.differenceFrom(InOrder(right.lesson, compiled->program, right.lossFactors())), tolerance);
  EXPECT_GT(wrong.differenceFrom(InOrder(wrong.lesson, compiled->program, wrong.lossFactors())), 1e-6);
}
