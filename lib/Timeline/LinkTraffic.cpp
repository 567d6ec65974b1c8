#include "Timeline/LinkTraffic.h"

#include "Timeline/MessageTime.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>
#include <map>

namespace sluice {

namespace {

class TrafficCounter {
public:
  TrafficCounter(const Program &program, const ProgramIndex &index, const CostModel &costs)
      : program(program), index(index), costs(costs), isUniform(program.placement.rowCount() <= 1) {
    for (const auto *table : {&costs.activationTransfer, &costs.gradientTransfer, &costs.boundary})
      isUniform &= table->rowCount() <= 1;
    for (const auto *table : {&costs.activationRoute, &costs.gradientRoute})
      isUniform &= table->rowCount() <= 1;
  }

  std::vector<LinkTraffic> count() {
    if (program.isExplicit)
      countWritten();
    else
      countInferred();
    countHostMoves();
    std::vector<LinkTraffic> result;
    for (auto &[link, traffic] : links) // noLink is the largest number
      result.push_back(traffic);
    return result;
  }

private:
  void countWritten() {
    for (OpId id = 0; id < program.size(); ++id)
      if (program.ops[id].isSend() && !program.ops[id].isWait())
        addMessages(messageOf(program, id), 1);
  }

  void countInferred() {
    for (uint32_t s = 0; s + 1 < program.stages; ++s) {
      countEdge(s, s + 1, false, isUniform);
      countEdge(s + 1, s, true, isUniform);
    }
    for (const SkipEdge &skip : program.skips) {
      countEdge(skip.from, skip.to, false, false);
      if (skip.hasGradient)
        countEdge(skip.to, skip.from, true, false);
    }
  }
  /// What stage `from` sends to stage `to`: one microbatch after the other, unless they are all `alike`.
  void countEdge(uint32_t from, uint32_t to, bool isGradient, bool alike) {
    int64_t count = 0;
    uint32_t last = 0;
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      const OpId sends = isGradient ? index.backward(from, m) : index.forward(from, m);
      const OpId takes = isGradient ? index.backward(to, m) : index.forward(to, m);
      if (sends == noOp || takes == noOp)
        continue;
      last = m;
      if (alike)
        ++count;
      else
        addMessages({from, to, m, isGradient}, 1);
    }
    if (count > 0)
      addMessages({from, to, last, isGradient}, count);
  }

  void addMessages(const Message &message, int64_t count) {
    const uint32_t from = program.deviceOf(message.from, message.microbatch);
    const uint32_t to = program.deviceOf(message.to, message.microbatch);
    if (from != to)
      add(messageTime(program, costs, message), from, to, bytesOf(program, costs, message), count);
  }

  void countHostMoves() {
    constexpr uint32_t host = ~0u; // no device has this number
    for (uint32_t device = 0; device < program.devices && !costs.hostRoutes.empty(); ++device)
      for (const Op &op : program.opsOf(device)) {
        const bool isBack = op.kind == OpKind::Reload;
        if ((isBack || op.kind == OpKind::Offload) && !op.isWait())
          add(hostTime(costs, op, device), isBack ? host : device, isBack ? device : host,
              costs.activation.at(op.stage, op.microbatch), 1);
      }
  }

  void add(const MessageTime &time, uint32_t from, uint32_t to, int64_t bytes, int64_t count) {
    LinkTraffic &traffic = links[time.link];
    traffic.link = time.link;
    traffic.transfers += count;
    traffic.bytes += bytes * count;
    // A shared lane has its number; a pair of devices is one where nothing is shared.
    const bool isShared = time.lane != noLane;
    const std::pair<uint64_t, uint64_t> lane{(static_cast<uint64_t>(time.link) << 1) | isShared,
                                             isShared ? time.lane : (static_cast<uint64_t>(from) << 32) | to};
    auto [entry, isNew] = moving.try_emplace(lane, 0);
    traffic.lanes += isNew;
    entry->second += time.moving * count;
    traffic.busiest = std::max(traffic.busiest, entry->second);
  }

  const Program &program;
  const ProgramIndex &index;
  const CostModel &costs;
  bool isUniform; // no microbatch differs in its messages between neighbours
  std::map<uint32_t, LinkTraffic> links;
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, int64_t> moving; // by link and lane
};

} // namespace

std::vector<LinkTraffic> linkTraffic(const Program &program, const ProgramIndex &index,
                                     const CostModel &costs) {
  return TrafficCounter(program, index, costs).count();
}

} // namespace sluice
