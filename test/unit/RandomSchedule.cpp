#include "RandomSchedules.h"

#include <fmt/format.h>

namespace sluice::slow {

RandomSchedule emptySchedule(uint32_t stages, uint32_t microbatches, uint32_t devices) {
  RandomSchedule schedule;
  schedule.stages = stages;
  schedule.microbatches = microbatches;
  schedule.devices = devices;
  schedule.placement.assign(microbatches, std::vector<uint32_t>(stages, 0));
  schedule.steps.resize(devices);
  schedule.costs = CostModel::ofTicks(stages);
  return schedule;
}

Program RandomSchedule::build() const {
  Program program;
  program.name = "random";
  program.stages = stages;
  program.microbatches = microbatches;
  program.devices = devices;
  for (const std::vector<uint32_t> &row : placement)
    program.placement.addMicrobatch(row);
  program.placement.finish();
  program.programSpan.resize(devices);
  program.deviceBegin = {0};
  for (const std::vector<std::vector<Op>> &device : steps) {
    for (const std::vector<Op> &step : device)
      for (size_t i = 0; i < step.size(); ++i) {
        Op op = step[i];
        if (step.size() > 1)
          op.flags |= i == 0 ? OverlapFirst : OverlapFollower;
        program.ops.push_back(op);
        program.siteOf.push_back(static_cast<uint32_t>(program.sites.size()));
        program.frameOf.push_back(0);
        program.sites.push_back({Span{program.size(), program.size() + 1}, 0});
      }
    program.deviceBegin.push_back(program.size());
  }
  return program;
}

std::string str(const std::vector<Op> &step) {
  std::string text;
  for (const Op &op : step) {
    text += (text.empty() ? "" : " ") + sluice::str(op) + (op.has(KeepNothing) ? " keep nothing" : "") +
            (op.has(KeepInput) ? " keep input" : "") + (op.has(Replay) ? " replay" : "") + ";";
  }
  return step.size() > 1 ? "overlap { " + text + " }" : text;
}

static std::string str(const char *name, const StageTable<int64_t> &table, uint32_t microbatches) {
  std::string text = fmt::format("  {}:", name);
  for (uint32_t m = 0; m < (table.rowCount() > 1 ? microbatches : 1); ++m) {
    text += m ? " |" : "";
    for (uint32_t s = 0; s < table.stageCount(); ++s)
      text += fmt::format(" {}", table.at(s, m));
  }
  return text + "\n";
}

std::string RandomSchedule::str() const {
  std::string text = fmt::format("{} stages, {} microbatches, {} devices; changed: {}\n", stages,
                                 microbatches, devices, mutation.empty() ? "nothing" : mutation);
  text += fmt::format("  replicas {}, asynchronous {}, random stages:", costs.replicas.value_or(-1),
                      costs.asynchronous);
  for (bool isRandom : costs.randomStage)
    text += isRandom ? " yes" : " no";
  text += "\n";
  for (uint32_t m = 0; m < microbatches; ++m) {
    text += fmt::format("  place microbatch {}:", m);
    for (uint32_t device : placement[m])
      text += device == noDevice ? " none" : fmt::format(" {}", device);
    text += "\n";
  }
  using slow::str;
  text += str("forward", costs.forward, microbatches) + str("backward", costs.backward, microbatches) +
          str("backward_input", costs.backwardInput, microbatches) +
          str("backward_weight", costs.backwardWeight, microbatches) +
          str("recompute", costs.recompute, microbatches) +
          str("activation transfer", costs.activationTransfer, microbatches) +
          str("gradient transfer", costs.gradientTransfer, microbatches) +
          str("activation", costs.activation, microbatches) +
          str("kept_input", costs.keptInput, microbatches) + str("pending", costs.pending, microbatches) +
          str("boundary", costs.boundary, microbatches);
  for (auto [pair, cost] : costs.overlapped)
    text += fmt::format("  overlapped({}, {}) = {}\n", pair.first, pair.second, cost);
  for (uint32_t s = 0; s < stages; ++s)
    text += fmt::format("  stage {}: weights {} gradients {} optimizer_state {} workspace {}\n", s,
                        costs.weights[s], costs.gradients[s], costs.optimizerState[s], costs.workspace[s]);
  for (uint32_t device = 0; device < devices; ++device) {
    text += fmt::format("  device {}, reserved {}:\n   ", device,
                        costs.reserved.empty() ? 0 : costs.reserved[device]);
    for (const std::vector<Op> &step : steps[device])
      text += " " + str(step);
    text += "\n";
  }
  return text;
}

} // namespace sluice::slow
