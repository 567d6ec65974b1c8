// Orders as torch.distributed.pipelining loads them (PipelineScheduleMulti._load_csv): a row a rank, cells
// such as `0F3`, in one of two kinds. `compute_only` holds forwards and backwards alone and PyTorch adds the
// rest; `compute_comms` is that rest written out: UNSHARD and RESHARD, REDUCE_GRAD, sends and receives.
//
// Source: torch/distributed/pipelining/schedules.py of PyTorch 2.6 to 2.14. REDUCE_GRAD is known from 2.10
// on (pytorch/pytorch#166449), OVERLAP_F_B from 2.9 on (pytorch/pytorch#158978).
#pragma once

#include "Formats/Format.h"
#include "Passes/LowerCommunication.h"

namespace sluice {

struct PytorchOptions {
  bool communication = false; ///< `compute_comms`.
  CommunicationPlacement placement = CommunicationPlacement::Early;
  enum class Halves : uint8_t { AsWritten, Merged, Split } halves = Halves::AsWritten;
  /// Stages whose gathered weights a device holds at once; 0: no UNSHARD and RESHARD beyond written ones.
  uint32_t activeStages = 3;
  uint32_t release = 14; ///< Of PyTorch 2.
};

/// Refuses stages with copies on several devices, idle devices, sequence splits and asynchronous programs,
/// which the rows would turn into something else.
std::optional<std::string> writePytorchCsv(const FormattedSchedule &schedule, const PytorchOptions &options,
                                           std::vector<std::string> &lost, std::string &error);
/// `compute_only`, as the order is written.
std::optional<std::string> writePytorch(const FormattedSchedule &schedule, std::vector<std::string> &lost,
                                        std::string &error);

} // namespace sluice
