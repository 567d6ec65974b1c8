// The smallest repair of a cyclic order (COMMUNICATION.md, part 5, for compute ops): any move that frees
// the program brings, on some device of every cycle, the op that is waited for before the op that the
// device stands at. So the hops of one cycle give all candidates.
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

class Repair {
public:
  Repair(const VerifyContext &context, bool joinCollectives)
      : context(context), joinCollectives(joinCollectives), current(context.program) {
    faultsBefore = faultsIn(current);
  }
  std::string run(Cycle cycle);

private:
  std::vector<Move> candidates(const Cycle &cycle) const;
  size_t faultsIn(const Program &program) const;
  /// Ops that run after the move; nothing if it breaks an activation or a gradient.
  std::optional<uint64_t> finishedAfter(const Move &move) const;
  ComputeOrder ordered(const Program &program) const;

  const VerifyContext &context;
  const bool joinCollectives;
  Program current;
  size_t faultsBefore = 0;
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
}

std::vector<Move> Repair::candidates(const Cycle &cycle) const {
  std::vector<Move> moves;
  for (const Hop &hop : cycle) {
    const OpId early = groupBegin(current, hop.stands), late = groupBegin(current, hop.needed);
    if (early == late)
      continue;
    const OpId earlyEnd = current.groupEnd(early), end = current.groupEnd(late);
    const std::string first = str(current.ops[hop.stands]), second = str(current.ops[hop.needed]);
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

std::optional<uint64_t> Repair::finishedAfter(const Move &move) const {
  Program moved = current;
  apply(move, moved);
  if (faultsIn(moved) > faultsBefore)
    return std::nullopt;
  return ordered(moved).finished();
}

std::string Repair::run(Cycle cycle) {
  constexpr unsigned mostMoves = 4;
  // Each candidate walks the whole program; large ones get fewer tries, so that a finding stays prompt.
  constexpr uint64_t mostOpsWalked = 100'000'000;
  uint64_t tries = std::max<uint64_t>(4, mostOpsWalked / std::max<uint64_t>(1, current.size()));
  std::string words;
  for (unsigned depth = 0; depth < mostMoves; ++depth) {
    std::optional<Move> best;
    uint64_t bestFinished = 0;
    for (const Move &move : candidates(cycle)) {
      if (tries == 0)
        return "";
      --tries;
      std::optional<uint64_t> finished = finishedAfter(move);
      if (!finished || (best && *finished <= bestFinished))
        continue;
      best = move;
      bestFinished = *finished;
      if (bestFinished == current.size())
        break;
    }
    if (!best)
      return "";
    apply(*best, current);
    words += (words.empty() ? "" : "; then ") + best->words;
    if (bestFinished == current.size())
      return words;
    cycle = shortestCycle(current, ProgramIndex(current), context.copies, ordered(current));
  }
  return "";
}

std::string repairOf(const VerifyContext &context, const Cycle &cycle, bool joinCollectives) {
  return Repair(context, joinCollectives).run(cycle);
}

} // namespace sluice
