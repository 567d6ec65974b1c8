// The parts of the text of figures below a chart, a file each. All give rows that FiguresText.cpp puts in
// their place; times are as formatUnits writes them. Private to lib/Emit.
#pragma once

#include "Emit/Chart.h"

namespace sluice {

/// What the critical path is made of: its stages and links, then its kinds of work. PathLines.cpp
std::vector<std::string> pathRows(const CostModel &costs, const Figures &figures);
/// What a stage or link that is a hundredth faster saves, most first. None where that is not known, but one
/// that says how to ask where it was only too long to do unasked. PathLines.cpp
std::vector<std::string> sensitivityRows(const Program &program, const CostModel &costs,
                                         const Figures &figures);
/// A line a link: what passes over it. PathLines.cpp
std::string linkLines(const CostModel &costs, const Figures &figures);

/// Every form with its value and what vouches for it: the order of the ops, or who states it. Else why those
/// of the known orders do not apply. ClosedFormsText.cpp
std::string closedFormsText(const Program &program, const CostModel &costs, const Figures &figures,
                            const ChartOptions &options);
/// The device with the largest peak and what is live then; with ChartOptions::memory every device.
/// MemoryText.cpp
std::string memoryText(const Program &program, const CostModel &costs, const Figures &figures,
                       const ChartOptions &options);
/// Per device and kind of op how much later its ops could end. SlackText.cpp
std::string slackText(const Program &program, const CostModel &costs, const Figures &figures,
                      const ChartOptions &options);

} // namespace sluice
