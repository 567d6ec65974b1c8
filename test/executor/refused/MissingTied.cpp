// EXPECT: missing callback: reduceTied(const Context &), or pack(const Context &, Boundary &part)
#include "Chain.h"

static_assert(sizeof(On<with(&Uses::tied)>) > 0);
