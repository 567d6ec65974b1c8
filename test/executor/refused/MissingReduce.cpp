// EXPECT: missing callback: reduce(const Context &), or pack(const Context &, Boundary &part)
#include "Chain.h"

static_assert(sizeof(On<with(&Uses::reduce)>) > 0);
