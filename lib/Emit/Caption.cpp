#include "Emit/Caption.h"

#include "Support/Quantity.h"

#include <algorithm>

namespace sluice {

std::vector<CaptionFigure> captionFigures(const TimedSchedule &schedule) {
  const Figures &figures = schedule.figures;
  std::vector<CaptionFigure> list;
  list.push_back({"makespan", formatUnits(schedule.costs, figures.makespan), ""});
  auto ratio = [&](const char *name, const std::optional<Rational> &value, const char *meaning) {
    if (value)
      list.push_back({name, percentText(*value), meaning});
  };
  ratio("idle fraction", figures.idleFraction, "bubble ÷ elapsed");
  ratio("overhead ratio", figures.overheadRatio, "bubble ÷ ideal");
  ratio("utilization", figures.utilization, "mean useful ÷ elapsed");
  list.push_back({"bubble", formatUnits(schedule.costs, figures.bubbleTime), "mean idle time of a device"});
  if (figures.transferExposed != 0)
    list.push_back({"transfer exposed", formatUnits(schedule.costs, figures.transferExposed),
                    "makespan less the one with free transfers"});
  uint32_t activations = 0;
  int64_t bytes = 0;
  for (const DeviceMemory &memory : figures.memory.devices) {
    activations = std::max(activations, memory.peakActivation);
    bytes = std::max(bytes, memory.peakBytes);
  }
  list.push_back({"peak activation", std::to_string(activations),
                  "pairs of stage and microbatch alive on the fullest device"});
  if (figures.missingSetting("peak_memory").empty())
    list.push_back({"peak memory", formatSize(bytes), "of the fullest device"});
  return list;
}

std::string captionTitle(const TimedSchedule &schedule) {
  const std::string parameters = schedule.parameterText();
  return schedule.program.name + (parameters.empty() ? "" : " at " + parameters);
}

std::vector<std::string> captionNotes(const TimedSchedule &schedule) {
  std::vector<std::string> notes{"modeled, not measured"};
  if (schedule.costs.isDefault)
    notes.push_back("no model in the file: forward, backward_input and backward_weight take 1 tick each, "
                    "transfers none");
  std::string left;
  for (const std::string &setting : schedule.costs.notCounted)
    left += (left.empty() ? "" : ", ") + setting;
  if (!left.empty())
    notes.push_back("not counted, as the file does not give them: " + left);
  return notes;
}

} // namespace sluice
