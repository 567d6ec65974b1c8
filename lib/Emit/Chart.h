// What `simulate` prints: one row a device with the time running to the right, then the figures. An op is a
// run of columns as wide as its time, beginning with its microbatch; the character that fills the run says
// its kind, so that colour only repeats what is there without it. Where ops are narrower than columns, each
// column shows the share of its time in which the device is busy.
#pragma once

#include "Timeline/Figures.h"

namespace sluice {

struct ChartOptions {
  unsigned width = 100;                       ///< Columns of the window.
  bool color = false;                         ///< ANSI colours that colour-blind readers can tell apart.
  bool ascii = false;                         ///< No characters beyond ASCII.
  std::optional<int64_t> from = std::nullopt; ///< Part of the time to show,
  std::optional<int64_t> to = std::nullopt;   ///< in CostModel::unit.
  uint32_t firstDevice = 0;                   ///< Devices to show: from here ...
  uint32_t deviceEnd = ~0u;                   ///< ... up to, without, here.
  uint32_t maxRows = 0;                       ///< More devices than this share rows; 0: a row each.
  bool memory = false;                        ///< What is live at the peak of every device, not of one.
  bool slack = false;                         ///< A table of Figures::slack.
  const SourceManager *sources = nullptr;     ///< To name lines; without it they are left out.
  bool transfers = false;                     ///< Pictures: what is under way, below each device.
  bool critical = false;                      ///< Pictures: the critical path, outlined.
  bool memoryStrip = false;                   ///< Pictures: memory over time, below each device.
};

/// Rows and figures, lines ended by '\n'. Deterministic.
std::string chart(const Program &program, const CostModel &costs, const Timeline &timeline,
                  const Figures &figures, const ChartOptions &options = {});

/// The rows alone, with axis and legend.
std::string chartRows(const Program &program, const CostModel &costs, const Timeline &timeline,
                      const ChartOptions &options);
/// The figures alone: ratios with their denominators, a table of devices, closed forms or what forbids them.
std::string figuresText(const Program &program, const CostModel &costs, const Figures &figures,
                        const ChartOptions &options);

/// `3/11 = 27.27 %`; fractions of more digits than a reader takes in are left out.
std::string percentText(const Rational &ratio);

} // namespace sluice
