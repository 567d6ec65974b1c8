// EXPECT: multiply by Context::factor and say `static constexpr bool appliesFactor = true;`
#include "Chain.h"

static_assert(sizeof(On<with(&Uses::factors)>) > 0);
