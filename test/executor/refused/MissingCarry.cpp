// EXPECT: the schedule splits sequences, so the stage type needs a type Carry
#include "Chain.h"

static_assert(sizeof(On<with(&Uses::carries)>) > 0);
