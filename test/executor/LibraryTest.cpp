// Runs executors over tokens: of the whole schedule library, for which CheckLibrary.cmake writes Library.inc,
// or of every construct, for which EmitExecutors does.
#include "TokenStage.h"

#include <cstdio>

#include "Library.inc"

static int failures = 0;

template <class ScheduleType> static void runOne(const ScheduleType &schedule) {
  const std::string name(schedule.provenance.schedule);
  try {
    sluice::test::runTokens<true>(schedule, 3);
    std::printf("%s: %s, %zu devices\n", name.c_str(), std::string(schedule.provenance.parameters).c_str(),
                schedule.devices.size());
  } catch (const std::exception &error) {
    std::printf("FAIL %s\n", error.what());
    ++failures;
  }
}

int main() {
  FOR_EACH_SCHEDULE(runOne)
  return failures != 0;
}
