// What every picture and every trace says of its schedule: name, parameters, figures with their denominators.
#pragma once

#include "Emit/TimedSchedule.h"

namespace sluice {

/// `idle fraction`, `3/11 = 27.27 %`, `bubble ÷ elapsed`.
struct CaptionFigure {
  std::string name, value;
  std::string meaning; ///< Empty: the name says it.
};
/// Those that have a value.
std::vector<CaptionFigure> captionFigures(const TimedSchedule &schedule);

/// `main at P=4, M=8`
std::string captionTitle(const TimedSchedule &schedule);

/// `modeled, not measured`, and what the model leaves out.
std::vector<std::string> captionNotes(const TimedSchedule &schedule);

} // namespace sluice
