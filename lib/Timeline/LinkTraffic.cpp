#include "Timeline/LinkTraffic.h"

#include "Timeline/MessageTime.h"
#include "Timeline/Transfers.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <map>

namespace sluice {

namespace {

class Counter {
public:
  void add(const MessageTime &time, uint32_t from, uint32_t to, int64_t bytes) {
    LinkTraffic &traffic = links[time.link];
    traffic.link = time.link;
    ++traffic.transfers;
    traffic.bytes += bytes;
    // A shared lane has its number; a pair of devices is one where nothing is shared.
    const bool isShared = time.lane != noLane;
    const std::pair<uint64_t, uint64_t> lane{(static_cast<uint64_t>(time.link) << 1) | isShared,
                                             isShared ? time.lane : (static_cast<uint64_t>(from) << 32) | to};
    auto [entry, isNew] = moving.try_emplace(lane, 0);
    traffic.lanes += isNew;
    entry->second += time.moving;
    traffic.busiest = std::max(traffic.busiest, entry->second);
  }
  std::vector<LinkTraffic> take() {
    std::vector<LinkTraffic> result;
    for (auto &[link, traffic] : links) // noLink is the largest number
      result.push_back(traffic);
    return result;
  }

private:
  std::map<uint32_t, LinkTraffic> links;
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, int64_t> moving; // by link and lane
};

} // namespace

std::vector<LinkTraffic> linkTraffic(const Program &program, const ProgramIndex &index,
                                     const CostModel &costs, const Timeline &timeline) {
  Counter counter;
  forEachTransfer(program, index, costs, timeline, [&](const Transfer &transfer) {
    const Op &from = program.ops[transfer.from], &to = program.ops[transfer.to];
    const Message message = from.isCommunication()
                                ? messageOf(program, transfer.from)
                                : Message{from.stage, to.stage, from.microbatch, transfer.isGradient};
    counter.add(messageTime(program, costs, message), transfer.fromDevice, transfer.toDevice, transfer.bytes);
  });
  constexpr uint32_t host = ~0u; // no device has this number
  for (uint32_t device = 0; device < program.devices && !costs.hostRoutes.empty(); ++device)
    for (const Op &op : program.opsOf(device))
      if ((op.kind == OpKind::Offload || op.kind == OpKind::Reload) && !op.isWait())
        counter.add(hostTime(costs, op, device), op.kind == OpKind::Offload ? device : host,
                    op.kind == OpKind::Offload ? host : device, costs.activation.at(op.stage, op.microbatch));
  return counter.take();
}

} // namespace sluice
