#include "Emit/TimedSchedule.h"

namespace sluice {

std::string TimedSchedule::parameterText() const {
  std::string text;
  for (const auto &[name, value] : parameters)
    text += (text.empty() ? "" : ", ") + name + "=" + value;
  return text;
}

} // namespace sluice
