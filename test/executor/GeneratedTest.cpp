// Runs generated executors over tokens, three steps with and without delays, and a stage that throws.
// Links without the compiler's libraries: this is what a user's program looks like.
#include "TokenStage.h"

#include "AllSchedules.h"
#include "a/twin.h"

#include <cstdio>

using namespace sluice;
using namespace sluice::test;

/// The other parameterisation of generated::twin, which links beside this one.
void runOtherTwin();

static int failures = 0;

template <class ScheduleType> static void runOne(const ScheduleType &schedule) {
  const std::string name(schedule.provenance.schedule);
  try {
    runTokens<false>(schedule, 3);
    runTokens<true>(schedule, 3);
  } catch (const std::exception &error) {
    std::printf("%s: %s\n", name.c_str(), error.what());
    ++failures;
  }
}

namespace {

struct ThrowingStage : TokenStage<true> {
  using TokenStage::TokenStage;
  void backward(const Context &c, const Token &gradient, Token &saved, Token &inputGradient) {
    if (c.stage == 2 && c.microbatch == 5 && c.step == 1)
      throw std::runtime_error("lost a card");
    TokenStage::backward(c, gradient, saved, inputGradient);
  }
};

} // namespace

static void runThrowing() {
  using generated::one_f_one_b_p4_m8::Schedule;
  const Schedule &schedule = generated::one_f_one_b_p4_m8::schedule;
  TokenStages<true> stages(schedule);
  runtime::Executor<ThrowingStage, Schedule> executor(
      schedule, [&](const runtime::Copy &copy) { return stages.make<ThrowingStage>(copy); });
  try {
    executor.run(3);
    ++failures;
  } catch (const runtime::ExecutionError &error) {
    const std::string message = error.what();
    std::printf("as planned: %s\n", message.c_str());
    failures += message.find("schedule one_f_one_b_p4_m8, device 2, backward(2, 5), row ") != 0 ||
                !message.ends_with(", step 1: lost a card");
  }
}

int main() {
#define SCHEDULE(name) runOne(generated::name::schedule);
  ALL_SCHEDULES
#undef SCHEDULE
  runOne(generated::twin::schedule);
  runOtherTwin();
  runThrowing();
  std::printf(failures == 0 ? "PASS\n" : "FAIL: %d\n", failures);
  return failures != 0;
}
