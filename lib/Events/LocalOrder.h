// What holds a send, receive or joint call in its place on its own device, whatever the other devices do.
#pragma once

#include "IR/Program.h"

namespace sluice {

/// Whether two ops of one device have to keep their order, where one of them is a send, receive or joint
/// call (or the `start` or `wait` of one; false for any others). A send stands behind its producer and
/// before the drop of its value, a receive or its wait before its consumer, a wait behind its start; a
/// buffer is taken only once it has been given back; a reduction stays among the ops of its stages. An op
/// that both kinds of order would allow is held rather than let go.
bool mustKeepOrder(const Program &program, OpId a, OpId b);

} // namespace sluice
