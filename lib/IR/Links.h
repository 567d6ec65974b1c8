// Links: what a message between two devices passes through, and which messages delay each other there.
// docs/figures.md gives the rules.
#pragma once

#include "Support/Source.h"

#include <cstdint>
#include <string>

namespace sluice {

/// How transfers that are on a lane at once delay each other. Only the part size ÷ bandwidth of a transfer
/// occupies its lane; the latency follows behind and delays nothing else.
enum class Sharing : uint8_t {
  No,   ///< Not at all.
  Fifo, ///< One after the other, in the order in which they were ready.
  Fair, ///< Each of n gets 1/n of the bandwidth.
};

inline constexpr uint32_t noLink = ~0u, noLane = ~0u;

/// One `link` block of the cluster, or its `host` or `collective` block.
struct LinkKind {
  std::string name; ///< As declared; of blocks without a name `link`, `host`, `collective`.
  Sharing sharing = Sharing::No;
  Span span;
};

/// The way from one device to another, or to and from its host.
struct Route {
  uint32_t link = noLink; ///< Into ModelCosts::links.
  /// Transfers of one number share; below ModelCosts::laneCount, noLane where nothing is shared.
  uint32_t lane = noLane;
  int64_t latency = 0; ///< Part of the transfer time that follows behind; in CostModel::unit.

  friend bool operator==(const Route &, const Route &) = default;
};
inline constexpr uint32_t noRoute = ~0u;

} // namespace sluice
