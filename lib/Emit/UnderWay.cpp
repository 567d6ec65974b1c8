#include "Emit/UnderWay.h"

#include "Events/Messages.h"

#include <fmt/format.h>

namespace sluice {

static UnderWay messageItem(const TimedSchedule &schedule, const Transfer &transfer) {
  UnderWay item;
  item.isGradient = transfer.isGradient;
  item.op = item.producer = transfer.from;
  item.consumer = transfer.to;
  item.device = transfer.fromDevice;
  item.to = transfer.toDevice;
  item.link = transfer.link;
  item.lane = transfer.lane;
  item.ready = transfer.ready;
  item.begin = transfer.begin;
  item.end = transfer.end;
  item.bytes = transfer.bytes;
  if (schedule.program.ops[transfer.from].isCommunication()) {
    const Message message = messageOf(schedule.program, transfer.from);
    auto opOf = [&](uint32_t stage) {
      return message.isGradient ? schedule.index.backward(stage, message.microbatch)
                                : schedule.index.forward(stage, message.microbatch);
    };
    item.receive = transfer.to;
    item.producer = opOf(message.from);
    item.consumer = opOf(message.to);
  }
  return item;
}

std::vector<UnderWay> underWay(const TimedSchedule &schedule) {
  const Program &program = schedule.program;
  const Timeline &timeline = schedule.timeline;
  std::vector<UnderWay> items;
  forEachTransfer(program, schedule.index, schedule.costs, timeline,
                  [&](const Transfer &transfer) { items.push_back(messageItem(schedule, transfer)); });
  if (timeline.met.empty() || timeline.done.empty())
    return items; // nothing else takes time beside the devices
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op) {
      if (!program.ops[op].isStarted() || program.ops[op].isCommunication() ||
          timeline.done[op] <= timeline.met[op])
        continue;
      UnderWay item;
      const bool isHost = program.ops[op].kind == OpKind::Offload || program.ops[op].kind == OpKind::Reload;
      item.kind = isHost ? UnderWay::Kind::Host : UnderWay::Kind::Collective;
      item.op = op;
      item.device = device;
      item.ready = item.begin = timeline.met[op];
      item.end = timeline.done[op];
      if (isHost)
        item.bytes = schedule.costs.activation.empty()
                         ? 0
                         : schedule.costs.activation.at(program.ops[op].stage, program.ops[op].microbatch);
      items.push_back(item);
    }
  return items;
}

std::string str(const Program &program, const UnderWay &item) {
  const Op &op = program.ops[item.op];
  if (item.kind != UnderWay::Kind::Message) {
    const std::string text = str(program, item.op);
    llvm::StringRef name = text;
    name.consume_front("start ");
    return name.str();
  }
  Message message;
  if (op.isCommunication())
    message = messageOf(program, item.op);
  else
    message = {op.stage, program.ops[item.consumer].stage, op.microbatch, item.isGradient};
  return sendText(message).substr(llvm::StringRef("send_").size());
}

} // namespace sluice
