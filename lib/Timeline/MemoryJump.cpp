// The part of MemoryWalk that leaves blocks out which repeat: once one of them has left all counts, and all
// states moved on by its microbatches, as it found them, the next ones do the same, and no new peak comes
// before they end.
#include "Timeline/MemoryWalk.h"

#include <algorithm>

namespace sluice {

namespace {

constexpr uint32_t blocksTried = 6; // until the account of one repeats; then the rest is walked as it is
constexpr uint32_t leastBlocks = 12;

} // namespace

bool MemoryWalk::Account::operator==(const Account &other) const {
  auto same = [](const Live &a, const Live &b) {
    return a.inFlight == b.inFlight && a.count == b.count && a.bytes == b.bytes && a.statics == b.statics;
  };
  return total == other.total && activations == other.activations && saved == other.saved &&
         pending == other.pending &&
         std::equal(locals.begin(), locals.end(), other.locals.begin(), other.locals.end(), same);
}

/// Where what is received comes one period later a block later.
std::optional<MemoryWalk::Jump> MemoryWalk::findJump(uint32_t device) const {
  const RepeatedOps &part = repeated->blocks.devices[device];
  if (part.length == 0 || part.end - part.first < static_cast<uint64_t>(leastBlocks) * part.length)
    return std::nullopt;
  Jump jump{part.first + part.length, part.end, part.length, timeline.makespan};
  while (jump.begin < part.end && program.ops[jump.begin].has(OverlapFollower))
    ++jump.begin;
  auto receive = [&](OpId producer, int64_t) {
    jump.soonest = std::min(jump.soonest, timeline.end[producer]);
  };
  for (OpId id = jump.begin; id != jump.begin + jump.length && countsBoundaries; ++id) {
    eachReceived(EdgeKind::Activation, program.ops[id], receive);
    eachReceived(EdgeKind::Gradient, program.ops[id], receive);
  }
  return jump;
}

/// What of the first microbatches is kept.
std::vector<MemoryWalk::Kept> MemoryWalk::keptStates(uint32_t microbatches) const {
  std::vector<Kept> kept;
  for (size_t local = 0; local < locals.size(); ++local)
    for (uint32_t m = 0; m < microbatches; ++m)
      if (State state = states[local * program.microbatches + m]; state != State::None)
        kept.push_back({local, m, state});
  return kept;
}

/// Walks all of the device but for what repeats. False, with nothing done that `begin` does not undo, if too
/// little repeats.
bool MemoryWalk::walkWithJump(uint32_t device) {
  if (!repeated || versions || curve)
    return false;
  begin(device);
  auto found = changesStatics ? std::nullopt : findJump(device);
  if (!found)
    return false;
  const OpId programBegin = program.deviceBegin[device], programEnd = program.deviceBegin[device + 1];
  // All that may arrive while the first blocks are walked: blocks behind `ahead` receive later.
  const OpId walked = found->begin + blocksTried * found->length;
  const int64_t missing = std::max<int64_t>(timeline.end[walked - 1] - found->soonest, 0);
  const auto blocksAhead = static_cast<uint64_t>(missing / repeated->period) + 1;
  const auto ahead = static_cast<OpId>(
      std::min<uint64_t>(std::max<uint64_t>(found->begin + blocksAhead * found->length, walked), found->end));
  collectArrivals({{programBegin, ahead}, {found->end, programEnd}});

  uint32_t reached = 0; // microbatches
  for (OpId id = programBegin; id != walked; ++id)
    if (program.ops[id].hasMicrobatch())
      reached = std::max(reached, program.ops[id].microbatch + 1);

  measure(0, programBegin);
  walkOps(programBegin, found->begin);
  Account before = account();
  std::optional<std::vector<Kept>> keptBefore; // where the accounts of two blocks are the same
  for (OpId at = found->begin; at != walked;) {
    walkOps(at, at + found->length);
    at += found->length;
    if (isListed())
      return true;
    Account now = account();
    if (!(now == before)) {
      before = std::move(now);
      keptBefore.reset();
      continue;
    }
    std::vector<Kept> kept = keptStates(reached);
    auto follows = [&](const Kept &a, const Kept &b) {
      return a.local == b.local && a.microbatch + repeated->blocks.microbatches == b.microbatch &&
             a.state == b.state;
    };
    if (keptBefore && std::equal(keptBefore->begin(), keptBefore->end(), kept.begin(), kept.end(), follows)) {
      jump(device, *found, at, kept);
      return true;
    }
    keptBefore = std::move(kept);
  }
  return false;
}

/// Leaves out the blocks from `from` on that repeat the one before, and walks what follows.
void MemoryWalk::jump(uint32_t device, const Jump &jump, OpId from, llvm::ArrayRef<Kept> kept) {
  // As far as what has come by then is for ops that repeat: it may be for later ones than those left out.
  OpId last = from;
  for (size_t i = 0; i < nextArrival; ++i)
    if (arrivals[i].consumer < jump.end)
      last = std::max(last, arrivals[i].consumer + 1);
  int64_t blocks = (jump.end - last) / jump.length;
  // What others receive must come behind.
  for (size_t i = nextArrival; i < arrivals.size(); ++i)
    if (arrivals[i].consumer >= jump.end) {
      blocks = std::min(blocks, (arrivals[i].time - 1 - lastStop) / repeated->period);
      break;
    }
  blocks = std::max<int64_t>(blocks, 0);
  from += static_cast<OpId>(blocks) * jump.length;
  lastStart += blocks * repeated->period;
  lastStop += blocks * repeated->period;
  for (const Kept &pair : kept)
    states[pair.local * program.microbatches + pair.microbatch] = State::None;
  for (const Kept &pair : kept)
    states[pair.local * program.microbatches + pair.microbatch +
           static_cast<size_t>(blocks) * repeated->blocks.microbatches] = pair.state;
  collectArrivals({{from, program.deviceBegin[device + 1]}});
  dropTaken();
  walkOps(from, program.deviceBegin[device + 1]);
}

/// Arrivals that the walk has passed.
void MemoryWalk::dropTaken() {
  nextArrival = 0;
  while (nextArrival < arrivals.size() &&
         (arrivals[nextArrival].time < lastStop || arrivals[nextArrival].time <= lastStart))
    ++nextArrival;
}

} // namespace sluice
