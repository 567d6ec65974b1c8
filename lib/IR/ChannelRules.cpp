#include "IR/ChannelRules.h"

#include <fmt/format.h>

namespace sluice {

static constexpr llvm::StringRef keyNames[] = {"direction", "pair", "edge", "message"};

llvm::StringRef name(ChannelRules::Key key) { return keyNames[static_cast<unsigned>(key)]; }

std::optional<ChannelRules::Key> channelKeyNamed(llvm::StringRef name) {
  for (unsigned i = 0; i < std::size(keyNames); ++i)
    if (keyNames[i] == name)
      return static_cast<ChannelRules::Key>(i);
  return std::nullopt;
}

std::string channelText(const ChannelRules &rules) {
  return rules.isRendezvous()  ? "rendezvous"
         : rules.isUnbounded() ? "unbounded channels"
                               : fmt::format("eager({})", rules.depth);
}

llvm::ArrayRef<Transport> transports() {
  // Batched point-to-point calls on one communicator are one serial queue a device. MPI as MPI_Ssend blocks:
  // what completes then completes with every MPI.
  static const Transport known[] = {
      {"nccl", "batched point-to-point calls on one communicator", {.depth = 0, .deviceService = true}},
      {"mpi", "sends as MPI_Ssend", {.depth = 0}},
      {"gloo", "buffered sends", {}},
      {"local", "buffered sends between threads", {}},
  };
  return known;
}

std::optional<ChannelRules> channelRulesNamed(llvm::StringRef name, const ChannelRules &others) {
  for (const Transport &transport : transports())
    if (transport.name == name)
      return transport.rules;
  ChannelRules rules = others;
  if (name == "rendezvous") {
    rules.depth = 0;
  } else if (name == "unbounded") {
    rules.depth = ChannelRules::unbounded;
  } else if (!name.consume_front("eager(") || !name.consume_back(")") || name.getAsInteger(10, rules.depth) ||
             rules.depth == ChannelRules::unbounded) {
    return std::nullopt;
  }
  return rules;
}

} // namespace sluice
