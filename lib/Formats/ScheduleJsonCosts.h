// What schedule JSON says of costs, the cluster and the training.
#pragma once

#include "Formats/Format.h"
#include "Formats/JsonFields.h"

namespace sluice {

/// Reads `model`, `cluster` and `training` of `root` into `schedule.costs`, whose program is known.
void readCosts(const JsonValue &root, JsonFields &fields, FormattedSchedule &schedule);

/// Keys of the model that say which links there are and which way each transfer takes.
llvm::ArrayRef<llvm::StringRef> linkKeys();
/// Reads them into `costs`, whose times are known: a transfer takes at least the latency of its route.
void readLinks(const JsonValue &model, JsonFields &fields, const Program &program, CostModel &costs);

} // namespace sluice
