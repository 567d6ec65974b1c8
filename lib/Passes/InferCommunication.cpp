#include "Passes/InferCommunication.h"

#include <algorithm>
#include <map>

namespace sluice {

namespace {

class EarlyPlacement {
public:
  EarlyPlacement(const Program &program, const ProgramIndex &index) : program(program), index(index) {
    done.resize(program.size());
    next.assign(program.deviceBegin.begin(), program.deviceBegin.end() - 1);
    placed.steps.resize(program.devices);
  }

  std::optional<PlacedCommunication> run() {
    while (runRound())
      ;
    for (uint32_t device = 0; device < program.devices; ++device)
      if (next[device] != program.deviceBegin[device + 1])
        return std::nullopt;
    sortChannels();
    return std::move(placed);
  }

private:
  bool runRound() {
    bool moved = false;
    for (uint32_t device = 0; device < program.devices; ++device) {
      if (next[device] == program.deviceBegin[device + 1])
        continue;
      const OpId begin = next[device],
                 end = std::min(program.groupEnd(begin), program.deviceBegin[device + 1]);
      if (!hasInputs(begin, end))
        continue;
      runGroup(device, begin, end);
      next[device] = end;
      moved = true;
    }
    return moved;
  }

  bool hasInputs(OpId begin, OpId end) const {
    for (OpId op = begin; op < end; ++op)
      for (const Edge &edge : inputsOf(program, index, program.ops[op]))
        if (!done[edge.from])
          return false;
    return true;
  }

  void runGroup(uint32_t device, OpId begin, OpId end) {
    for (OpId op = begin; op < end; ++op) {
      done[op] = true;
      placed.steps[device].push_back({PlacedStep::Kind::Run, op});
    }
    for (OpId op = begin; op < end; ++op)
      if (OpId consumer = consumerOf(program.ops[op]); consumer != noOp)
        place(device, op, consumer);
  }

  OpId consumerOf(const Op &op) const {
    switch (op.kind) {
    case OpKind::Forward:
      return op.stage + 1u < program.stages ? index.forward(op.stage + 1u, op.microbatch) : noOp;
    case OpKind::Backward:
    case OpKind::BackwardInput:
      return op.stage > 0 ? index.backward(op.stage - 1u, op.microbatch) : noOp;
    default:
      return noOp;
    }
  }

  void place(uint32_t sender, OpId producer, OpId consumer) {
    const uint32_t receiver = program.deviceOf(consumer);
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
  std::vector<bool> done;
  std::vector<OpId> next; // per device
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> channelOf;
  PlacedCommunication placed;
};

} // namespace

std::optional<PlacedCommunication> inferCommunication(const Program &program, const ProgramIndex &index) {
  return EarlyPlacement(program, index).run();
}

} // namespace sluice
