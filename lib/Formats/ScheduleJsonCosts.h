// What schedule JSON says of costs, the cluster and the training.
#pragma once

#include "Formats/Format.h"
#include "Formats/JsonFields.h"

namespace sluice {

/// Reads `model`, `cluster` and `training` of `root` into `schedule.costs`, whose program is known.
void readCosts(const JsonValue &root, JsonFields &fields, FormattedSchedule &schedule);

} // namespace sluice
