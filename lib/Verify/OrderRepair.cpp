// The smallest repair of a cyclic order: any move that frees
// the program brings, on some device of every cycle, the op that is waited for before the op that the
// device stands at. So the hops of one cycle give all candidates: first the two nearest places of each,
// then farther ones for the op that the device stands at. (An op lifted before it needs no farther place:
// all that stands there has run.)
#include "Verify/Activations.h"
#include "Verify/Gradients.h"
#include "Verify/Order.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

/// On one device: an op (or whole overlap) at [first, middle) changes places with what follows it up to
/// `end`. `lift`: the later one moves up to the earlier; otherwise the earlier one moves down.
struct Move {
  uint32_t device;
  OpId first, middle, end;
  bool lift;
  std::string words;
  uint32_t distance() const { return end - first; }
};

/// How far the program runs after a move.
struct Outcome {
  uint64_t finished; ///< Ops, over all devices.
  OpId front;        ///< Where the device of the move stands.
};

class Repair {
public:
  Repair(const VerifyContext &context, bool joinCollectives)
      : context(context), joinCollectives(joinCollectives), current(context.program) {
    faultsBefore = faultsIn(current);
    // Each try walks the whole program; large ones get fewer, so that a finding stays prompt.
    constexpr uint64_t mostOpsWalked = 100'000'000;
    tries = std::max<uint64_t>(8, mostOpsWalked / std::max<uint64_t>(1, current.size()));
  }
  std::string run(Cycle cycle);

private:
  std::vector<Move> candidates(const Cycle &cycle) const;
  size_t faultsIn(const Program &program) const;
  /// Nothing if the move breaks an activation or a gradient, or no tries are left.
  std::optional<Outcome> outcomeOf(const Move &move);
  /// Of the nearest places: one that frees the program, or after which most ops run.
  std::optional<Move> nearestMove(const Cycle &cycle);
  /// A place farther down for an op that some device stands at, which frees the program.
  std::optional<Move> fartherMove(const Cycle &cycle);
  std::optional<Move> fartherMove(const Hop &hop);
  bool frees(const Move &move);
  ComputeOrder ordered(const Program &program) const;

  const VerifyContext &context;
  const bool joinCollectives;
  Program current;
  size_t faultsBefore = 0;
  uint64_t tries = 0; // moves that may still be tried
};

} // namespace

static OpId groupBegin(const Program &program, OpId op) {
  while (program.ops[op].has(OverlapFollower))
    --op;
  return op;
}

static void apply(const Move &move, Program &program) {
  auto rotate = [&](auto &column) {
    if (!column.empty())
      std::rotate(column.begin() + move.first, column.begin() + move.middle, column.begin() + move.end);
  };
  rotate(program.ops);
  rotate(program.siteOf);
  rotate(program.frameOf);
  // What ops name beside their stage and microbatch goes with them.
  auto follow = [&](auto &entries) {
    for (auto &entry : entries) {
      if (entry.op >= move.first && entry.op < move.middle)
        entry.op += move.end - move.middle;
      else if (entry.op >= move.middle && entry.op < move.end)
        entry.op -= move.middle - move.first;
    }
    llvm::sort(entries, [](const auto &a, const auto &b) { return a.op < b.op; });
  };
  follow(program.namedVersions);
  follow(program.factors);
  follow(program.peers);
  follow(program.payloads);
}

std::vector<Move> Repair::candidates(const Cycle &cycle) const {
  std::vector<Move> moves;
  for (const Hop &hop : cycle) {
    const OpId early = groupBegin(current, hop.stands), late = groupBegin(current, hop.needed);
    if (early == late)
      continue;
    const OpId earlyEnd = current.groupEnd(early), end = current.groupEnd(late);
    const std::string first = str(current, hop.stands), second = str(current, hop.needed);
    moves.push_back({hop.device, early, late, end, true,
                     fmt::format("on device {}, move {} before {}", hop.device, second, first)});
    moves.push_back({hop.device, early, earlyEnd, end, false,
                     fmt::format("on device {}, move {} behind {}", hop.device, first, second)});
  }
  llvm::stable_sort(moves, [](const Move &a, const Move &b) {
    return std::make_tuple(a.distance(), a.device, !a.lift) <
           std::make_tuple(b.distance(), b.device, !b.lift);
  });
  return moves;
}

size_t Repair::faultsIn(const Program &program) const {
  return walkActivations(program, context.costs, false).faults.size() +
         findGradientFaults(program, context.costs, context.copies).size();
}

ComputeOrder Repair::ordered(const Program &program) const {
  ComputeOrder order(program, context.copies, joinCollectives);
  if (context.hasErrors)
    assumeMissing(program, context.index, order); // what is missing stays so, wherever ops move
  order.run();
  return order;
}

std::optional<Outcome> Repair::outcomeOf(const Move &move) {
  if (tries == 0)
    return std::nullopt;
  --tries;
  Program moved = current;
  apply(move, moved);
  if (faultsIn(moved) > faultsBefore)
    return std::nullopt;
  const ComputeOrder order = ordered(moved);
  return Outcome{order.finished(), order.fronts()[move.device]};
}

bool Repair::frees(const Move &move) {
  std::optional<Outcome> outcome = outcomeOf(move);
  return outcome && outcome->finished == current.size();
}

std::optional<Move> Repair::nearestMove(const Cycle &cycle) {
  std::optional<Move> best;
  uint64_t most = 0;
  for (const Move &move : candidates(cycle)) {
    std::optional<Outcome> outcome = outcomeOf(move);
    if (!outcome || (best && outcome->finished <= most))
      continue;
    best = move;
    most = outcome->finished;
    if (most == current.size())
      break;
  }
  return best;
}

/// Bisects: too near, and the device stands at the moved op again; too far, and it does not even get there.
std::optional<Move> Repair::fartherMove(const Hop &hop) {
  const OpId first = groupBegin(current, hop.stands), middle = current.groupEnd(first);
  OpId near = current.groupEnd(groupBegin(current, hop.needed)), far = current.deviceBegin[hop.device + 1];
  std::optional<Move> found;
  while (near < far) {
    const OpId at = groupBegin(current, near + (far - near) / 2), end = current.groupEnd(at);
    Move move{hop.device,
              first,
              middle,
              end,
              false,
              fmt::format("on device {}, move {} behind {}", hop.device, str(current, hop.stands),
                          str(current, end - 1))};
    std::optional<Outcome> outcome = outcomeOf(move);
    const bool isTooNear = outcome && outcome->front == end - (middle - first);
    if (outcome && outcome->finished == current.size())
      found = move;
    if (isTooNear)
      near = end;
    else
      far = at;
  }
  return found;
}

std::optional<Move> Repair::fartherMove(const Cycle &cycle) {
  for (const Hop &hop : cycle)
    if (hop.stands != hop.needed)
      if (std::optional<Move> move = fartherMove(hop))
        return move;
  return std::nullopt;
}

std::string Repair::run(Cycle cycle) {
  constexpr unsigned mostMoves = 4;
  std::string words;
  for (unsigned depth = 0; depth < mostMoves; ++depth) {
    std::optional<Move> move = nearestMove(cycle);
    if (!move || !frees(*move))
      if (std::optional<Move> farther = fartherMove(cycle))
        move = farther;
    if (!move)
      return "";
    apply(*move, current);
    words += (words.empty() ? "" : "; then ") + move->words;
    const ComputeOrder order = ordered(current);
    if (order.finished() == current.size())
      return words;
    cycle = shortestCycle(current, ProgramIndex(current), order);
  }
  return "";
}

std::string repairOf(const VerifyContext &context, const Cycle &cycle, bool joinCollectives) {
  return Repair(context, joinCollectives).run(cycle);
}

} // namespace sluice
