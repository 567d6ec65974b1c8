// A schedule with its costs as a schedule file: comments on where it comes from, `model`, `cluster` and
// `training` as far as they say something, and the canonical text of its programs. Checked or simulated it
// gives the same findings and figures as the original.
#pragma once

#include "Formats/Format.h"

namespace sluice {

/// `lost` receives what the language cannot say of the costs.
std::string printFile(const FormattedSchedule &schedule, std::vector<std::string> &lost);

} // namespace sluice
