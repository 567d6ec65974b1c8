// A schedule with its costs as a schedule file: comments on where it comes from, `model`, `cluster` and
// `training` as far as they say something, and the canonical text of its programs. Checked or simulated it
// gives the same findings and figures as the original.
#pragma once

#include "Formats/Format.h"

namespace sluice {

/// The blocks of a file whose words decide about a schedule as it stands: the training, where it asks for
/// more than the mean over samples in one synchronous step, and what blocks, if communication is written.
/// Empty where there are none.
std::string printTerms(const Program &program, const CostModel &costs);

/// `lost` receives what the language cannot say of the costs.
std::string printFile(const FormattedSchedule &schedule, std::vector<std::string> &lost);

} // namespace sluice
