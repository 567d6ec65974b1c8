// EXPECT: missing callback: unshard(const Context &)
#include "Chain.h"

static_assert(sizeof(On<with(&Uses::unshard)>) > 0);
