// Writes out inferred communication: each activation and gradient that crosses to another device becomes a
// send and a receive of the program, which is explicit from then on. Ops that are no part of the exchange
// (reductions, updates, unshards) stay where they are. Linear in ops.
//
//  early         Rounds over the devices in ascending order; a device whose next op (or overlap) has its
//                inputs runs it, and each message it makes is placed at once on both sides: the send after
//                the op, the receive at the end of what the receiver has so far. So all follow one global
//                order, and complete under every channel model (PyTorch's _add_send_recv).
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

/// None where early and deferred cannot place: the compute order is cyclic. None either where deferred, which
/// is PyTorch's alone, meets skip edges, which PyTorch has not. Messages of one op: along the chain, then
/// over its skip edges, ascending. A program whose communication is written is returned as it is. Without
/// places the ops of the result have none in the source, and take half the room.
std::optional<Program> lowerCommunication(const Program &program, const ProgramIndex &index,
                                          CommunicationPlacement placement, bool withPlaces = true);

} // namespace sluice
