// A measured timeline of one schedule, for `sluice calibrate` and `sluice compare`.
#pragma once

#include <string>

namespace transformer {
struct Setup;

/// Trains with 1F1B on two devices and writes what happened when. Throws if it cannot write.
void writeTrace(const Setup &setup, const std::string &path);

} // namespace transformer
