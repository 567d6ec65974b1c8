#include "RandomExplicit.h"

#include "Passes/LowerCommunication.h"
#include "Passes/Rewrite.h"

#include <fmt/format.h>

namespace sluice::slow {

namespace {

/// Whether `op` takes what `receive` brings.
bool uses(const Op &op, const Op &receive) {
  if (op.stage != receive.stage || op.microbatch != receive.microbatch)
    return false;
  return receive.kind == OpKind::RecvActivation ? op.kind == OpKind::Forward : op.makesGradient();
}

/// A communication of one device on its way to starts, waits and groups.
class Writer {
public:
  Writer(const Program &lowered, Random &random, Writing writing)
      : lowered(lowered), random(random),
        starts(writing == Writing::WithStarts || writing == Writing::WithBoth),
        groups(writing == Writing::WithGroups || writing == Writing::WithBoth) {}

  Program run(RandomExplicit &result) {
    Rewriter rewriter(lowered, 2 * lowered.size());
    for (uint32_t device = 0; device < lowered.devices; ++device) {
      rewriter.beginDevice();
      open.clear();
      previous = noOp;
      for (OpId id = lowered.deviceBegin[device]; id < lowered.deviceBegin[device + 1];) {
        const OpId end = lowered.groupEnd(id);
        write(id, end, rewriter, result);
        id = end;
      }
      while (!open.empty())
        wait(0, rewriter);
    }
    return rewriter.take();
  }

private:
  void wait(size_t i, Rewriter &rewriter) {
    Op ends = lowered.ops[open[i]];
    ends.flags = Waits;
    rewriter.insert(ends, open[i]);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    previous = noOp;
  }
  void write(OpId id, OpId end, Rewriter &rewriter, RandomExplicit &result) {
    for (size_t i = open.size(); i-- > 0;) {
      bool isUsed = false;
      for (OpId member = id; member < end; ++member)
        isUsed |= !lowered.ops[open[i]].isSend() && uses(lowered.ops[member], lowered.ops[open[i]]);
      if (isUsed || random.chance(10))
        wait(i, rewriter);
    }
    Op op = lowered.ops[id];
    if (!op.isCommunication()) {
      rewriter.copy(id, end);
      previous = noOp;
      return;
    }
    const bool isStarted = starts && random.chance(40);
    const bool joins = groups && previous != noOp && (previousFlags & Started) == (isStarted ? Started : 0) &&
                       random.chance(60);
    if (groups && !joins)
      previousFlags = GroupFirst; // alone it is a group of one
    if (isStarted) {
      op.flags |= Started;
      open.push_back(id);
      result.hasStarts = true;
    }
    op.flags |= joins ? GroupFollower : groups ? GroupFirst : 0;
    result.hasGroups |= joins;
    rewriter.insert(op, id);
    previous = id;
    previousFlags = isStarted ? Started : 0;
  }

  const Program &lowered;
  Random &random;
  const bool starts, groups;
  std::vector<OpId> open; // started
  OpId previous = noOp;   // the send or receive right before
  uint8_t previousFlags = 0;
};

} // namespace

RandomExplicit randomExplicit(uint64_t seed, Writing writing) {
  RandomSchedule schedule = randomSchedule(seed);
  Program inferred = schedule.build();
  return randomExplicit(std::move(schedule), std::move(inferred), seed, writing);
}

RandomExplicit randomExplicit(RandomSchedule schedule, Program inferred, uint64_t seed, Writing writing) {
  RandomExplicit result;
  result.schedule = std::move(schedule);
  result.inferred = std::move(inferred);
  Random random(seed + 77);
  constexpr CommunicationPlacement placements[] = {
      CommunicationPlacement::Early, CommunicationPlacement::JustInTime, CommunicationPlacement::Deferred};
  const uint32_t chosen = random.below(3);
  result.placement = std::array{"early", "just in time", "deferred"}[chosen];
  const Program lowered =
      *lowerCommunication(result.inferred, ProgramIndex(result.inferred), placements[chosen]);
  result.program = Writer(lowered, random, writing).run(result);
  return result;
}

ChannelRules randomRules(Random &random) {
  ChannelRules rules;
  rules.depth = std::array{0u, 1u, 2u, ChannelRules::unbounded}[random.below(4)];
  rules.key = static_cast<ChannelRules::Key>(random.below(4));
  rules.deviceService = random.chance(30);
  rules.atomicGroups = random.chance(30);
  rules.progressInWait = random.chance(30);
  rules.connectOnFirstUse = random.chance(20);
  return rules;
}

std::string str(const ChannelRules &rules) {
  return fmt::format("{} key {}{}{}{}{}", channelText(rules), name(rules.key).str(),
                     rules.deviceService ? " device service" : "", rules.atomicGroups ? " atomic" : "",
                     rules.progressInWait ? " in_wait" : "", rules.connectOnFirstUse ? " first_use" : "");
}

} // namespace sluice::slow
