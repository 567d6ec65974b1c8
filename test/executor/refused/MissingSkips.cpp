// EXPECT: and behind that const Skips<Boundary> & for a schedule with skip edges
#include "Chain.h"

static_assert(sizeof(On<with(&Uses::skips)>) > 0);
