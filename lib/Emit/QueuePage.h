// The queue lab as a page of its own: a backlog that the reader steps through, from the values of a file. It
// counts in fractions, so that nothing drifts, and says why its drain is no bubble.
#pragma once

#include "Support/Rational.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace sluice {

/// Where a queue of the page starts. Rates are requests a second, `step` seconds.
struct QueueStart {
  std::string name;
  Rational backlog, arrival, service, step;
};

/// The whole document.
std::string queuePage(llvm::ArrayRef<QueueStart> queues);

} // namespace sluice
