#include "Passes/InferCommunication.h"

#include "Passes/Rounds.h"

#include <map>

namespace sluice {

namespace {

class EarlyPlacement {
public:
  EarlyPlacement(const Program &program, const ProgramIndex &index) : program(program), index(index) {
    placed.steps.resize(program.devices);
  }

  std::optional<PlacedCommunication> run() {
    if (!runInRounds(program, index, [this](uint32_t device, OpId begin, OpId end) {
          for (OpId op = begin; op < end; ++op)
            placed.steps[device].push_back({PlacedStep::Kind::Run, op});
          for (OpId op = begin; op < end; ++op)
            if (OpId consumer = consumerOf(program, index, program.ops[op]); consumer != noOp)
              place(device, op, consumer);
        }))
      return std::nullopt;
    sortChannels();
    return std::move(placed);
  }

private:
  void place(uint32_t sender, OpId producer, OpId consumer) {
    const Op &op = program.ops[consumer];
    const uint32_t receiver = program.deviceOf(op.stage, op.microbatch);
    if (receiver == sender)
      return;
    auto [channel, isNew] =
        channelOf.try_emplace({sender, receiver}, static_cast<uint32_t>(placed.channels.size()));
    if (isNew)
      placed.channels.push_back({sender, receiver});
    const auto message = static_cast<uint32_t>(placed.messages.size());
    const bool isGradient = program.ops[producer].kind != OpKind::Forward;
    placed.messages.push_back({producer, consumer, channel->second, isGradient});
    placed.steps[sender].push_back({PlacedStep::Kind::Send, message});
    placed.steps[receiver].push_back({PlacedStep::Kind::Receive, message});
  }

  // Channels were numbered by first use.
  void sortChannels() {
    std::vector<uint32_t> numberOf(placed.channels.size());
    uint32_t number = 0;
    for (const auto &[ends, channel] : channelOf) {
      placed.channels[number] = {ends.first, ends.second};
      numberOf[channel] = number++;
    }
    for (PlacedMessage &message : placed.messages)
      message.channel = numberOf[message.channel];
  }

  const Program &program;
  const ProgramIndex &index;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> channelOf;
  PlacedCommunication placed;
};

} // namespace

std::optional<PlacedCommunication> inferCommunication(const Program &program, const ProgramIndex &index) {
  return EarlyPlacement(program, index).run();
}

} // namespace sluice
