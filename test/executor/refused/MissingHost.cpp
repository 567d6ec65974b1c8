// EXPECT: the schedule offloads activations, so the stage type needs a type Host
#include "Chain.h"

static_assert(sizeof(On<with(&Uses::offload)>) > 0);
