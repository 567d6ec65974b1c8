// What is under way between devices, and when: the bars of communication in every picture, and the messages
// of every trace.
#pragma once

#include "Timeline/Simulate.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice {

/// One message. Times in CostModel::unit.
struct Transfer {
  OpId from = noOp, to = noOp; ///< What makes the value and what uses it; of written communication the send
                               ///< and the receive.
  uint32_t fromDevice = noDevice, toDevice = noDevice;
  bool isGradient = false;
  uint32_t link = noLink; ///< Into ModelCosts::links.
  uint32_t lane = noLane; ///< Of the link, where it is shared.
  int64_t ready = 0;      ///< Ready to go: made, and under rendezvous awaited.
  int64_t begin = 0;      ///< Under way from here; later than `ready` while it queues for a link.
  int64_t end = 0;        ///< Arrived.
  int64_t bytes = 0;
};

/// Visits every message that crosses between devices, also those that take no time, in the order of the ops
/// that make them.
void forEachTransfer(const Program &program, const ProgramIndex &index, const CostModel &costs,
                     const Timeline &timeline, llvm::function_ref<void(const Transfer &)> visit);

} // namespace sluice
