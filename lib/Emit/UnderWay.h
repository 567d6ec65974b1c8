// What is under way beside the programs of the devices: messages, collectives that were started and go on
// while their device does, and saved activations on their way to the host and back.
#pragma once

#include "Emit/TimedSchedule.h"
#include "Timeline/Transfers.h"

namespace sluice {

/// Times in CostModel::unit.
struct UnderWay {
  enum class Kind : uint8_t { Message, Collective, Host };
  Kind kind = Kind::Message;
  bool isGradient = false;
  OpId op = noOp; ///< What began it: of a written message its send, of an inferred one what makes the value.
  OpId receive = noOp;                       ///< Of a written message.
  OpId producer = noOp, consumer = noOp;     ///< Of a message: what makes its value, and what uses it.
  uint32_t device = noDevice, to = noDevice; ///< `to`: of a message alone.
  uint32_t link = noLink, lane = noLane;
  int64_t ready = 0, begin = 0, end = 0, bytes = 0; ///< As Transfer's.
};

/// Messages as forEachTransfer has them, then the rest in the order of the ops. 72 bytes each.
std::vector<UnderWay> underWay(const TimedSchedule &schedule);

/// `activation(0, 3)`, the output of stage 0 for microbatch 3, `gradient(4, 3) to 2`, `reduce(0)`: what it
/// is.
std::string str(const Program &program, const UnderWay &item);

} // namespace sluice
