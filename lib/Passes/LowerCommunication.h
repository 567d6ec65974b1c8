// Writes out inferred communication: each activation and gradient that crosses to another device becomes a
// send and a receive of the program, which is explicit from then on. Ops that are no part of the exchange
// (reductions, updates, unshards) stay where they are. Linear in ops.
//
//  early         As InferCommunication.h: both ends are placed when the producer runs, in rounds over the
//                devices. Completes under every channel model (PyTorch's _add_send_recv).
//  just in time  The send follows its producer; the receive stands right before its consumer, but never
//                behind a later message of the same sender: receives keep the order of the sends.
//  deferred      Early, then each receive is moved back to right before its consumer; on the lower of two
//                devices it goes no further than the next send to that same device. PyTorch's late receives
//                (pytorch/pytorch#178815, _defer_recv_ops). Receives may leave the order of the sends.
#pragma once

#include "IR/Program.h"

#include <optional>

namespace sluice {

enum class CommunicationPlacement : uint8_t { Early, JustInTime, Deferred };

/// None where early and deferred cannot place: the compute order is cyclic. None either for a model with skip
/// edges, whose messages are not placed yet. A program whose communication is written is returned as it is.
std::optional<Program> lowerCommunication(const Program &program, const ProgramIndex &index,
                                          CommunicationPlacement placement);

} // namespace sluice
