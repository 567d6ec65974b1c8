// Places the communication of `inferred(early)`: rounds over the devices in ascending order; a device whose
// next op (or overlap) has its inputs runs it, and each message it makes is placed at once on both sides,
// the send after the op, the receive at the end of what the receiver has so far. Sends and receives thus
// follow one global order, which completes under every channel model.
//
// Source: PyTorch's rule (torch.distributed.pipelining, _add_send_recv). Messages between stages on one
// device are none: the consumer takes what the producer left. Linear in ops.
#pragma once

#include "IR/Program.h"

#include <optional>

namespace sluice {

/// One stage's output, or input gradient, that crosses to a neighbour on another device.
struct PlacedMessage {
  OpId producer, consumer;
  uint32_t channel;
  bool isGradient;
};

/// All messages from one device to another, in the order they are sent and received.
struct MessageChannel {
  uint32_t from, to;
};

/// An op of the program, or the send or receive of a message.
struct PlacedStep {
  enum class Kind : uint8_t { Run, Send, Receive } kind;
  uint32_t index; ///< OpId, or into `messages`.
};

struct PlacedCommunication {
  std::vector<MessageChannel> channels;       ///< By sender, then receiver.
  std::vector<PlacedMessage> messages;        ///< In the order they are placed.
  std::vector<std::vector<PlacedStep>> steps; ///< Per device, in order.
};

/// None where the compute order is cyclic or lacks an op (findings 302 and 2xx), so that no device can go on.
std::optional<PlacedCommunication> inferCommunication(const Program &program, const ProgramIndex &index);

} // namespace sluice
