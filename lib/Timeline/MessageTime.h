// What a message takes on its way by itself, without what queues in front of it: over which link and lane,
// and the two parts of its transfer time.
#pragma once

#include "Events/Messages.h"
#include "IR/CostModel.h"
#include "IR/Program.h"

namespace sluice {

/// Times in CostModel::unit. Without routes (costs made by hand) all of the time counts as moving.
struct MessageTime {
  uint32_t link = noLink, lane = noLane;
  int64_t latency = 0;
  int64_t moving = 0; ///< Size ÷ bandwidth.

  int64_t sum() const { return latency + moving; }
};
MessageTime messageTime(const Program &program, const CostModel &costs, const Message &message);
/// Its size.
int64_t bytesOf(const Program &program, const CostModel &costs, const Message &message);
/// Of an offload, or a reload, of `device`.
MessageTime hostTime(const CostModel &costs, const Op &op, uint32_t device);

/// `ib`, as declared; of messages without a link `transfers`.
llvm::StringRef linkName(const CostModel &costs, uint32_t link);

} // namespace sluice
