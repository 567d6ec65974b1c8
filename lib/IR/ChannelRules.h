// What blocks: how sends and receives complete, and which of them share one queue. The words of `channel`,
// `channel_key`, `service`, `groups`, `progress` and `connect`; docs/language.md gives their meaning.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace sluice {

struct ChannelRules {
  enum class Key : uint8_t {
    Direction, ///< All messages from one device to another.
    Pair,      ///< Both directions between two devices.
    Edge,      ///< One stage-to-stage direction, activations and gradients apart.
    Message,   ///< Each message alone.
  };
  static constexpr uint32_t unbounded = std::numeric_limits<uint32_t>::max();

  /// Messages a channel holds in each direction; 0 is rendezvous: a send and its receive end together.
  uint32_t depth = unbounded;
  Key key = Key::Direction;
  /// One queue for all channels of a device.
  bool deviceService = false;
  /// No member of a group completes before every member could.
  bool atomicGroups = false;
  /// A started request moves on only while its device stands at its wait.
  bool progressInWait = false;
  /// The first request between two devices is preceded by a blocking joint op of both.
  bool connectOnFirstUse = false;

  bool isRendezvous() const { return depth == 0; }
  bool isUnbounded() const { return depth == unbounded; }
  friend bool operator==(const ChannelRules &, const ChannelRules &) = default;
};

/// `direction`, `pair`, `edge`, `message`.
llvm::StringRef name(ChannelRules::Key key);
std::optional<ChannelRules::Key> channelKeyNamed(llvm::StringRef name);

/// `rendezvous`, `eager(2)`, `unbounded channels`.
std::string channelText(const ChannelRules &rules);

/// What a transport stands for: its rules in one word.
struct Transport {
  llvm::StringRef name, meaning;
  ChannelRules rules;
};
/// nccl, mpi, gloo, local.
llvm::ArrayRef<Transport> transports();
/// The rules that a name of `transport` or `channel` stands for: `nccl`, `rendezvous`, `eager(2)`,
/// `unbounded`. A channel leaves everything but the depth to `others`. Nothing if there is no such name.
std::optional<ChannelRules> channelRulesNamed(llvm::StringRef name, const ChannelRules &others = {});

} // namespace sluice
