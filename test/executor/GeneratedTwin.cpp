// Another parameterisation of the schedule that GeneratedTest.cpp runs under the same name.
#include "TokenStage.h"

#include "b/twin.h"

void runOtherTwin();
void runOtherTwin() {
  if (generated::twin::schedule.devices.size() != 3)
    throw std::logic_error("the twins were mixed up");
  sluice::test::runTokens<true>(generated::twin::schedule, 3);
}
