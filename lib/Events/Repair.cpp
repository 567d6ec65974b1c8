#include "Events/Repair.h"

#include "Events/GlobalChange.h"
#include "Events/RepairCandidates.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

namespace sluice {

namespace {

/// Work is counted in ops walked; every try costs something however small the program.
constexpr uint64_t allWork = 30'000'000, leastWork = 1'000;
/// What each stage of the search leaves for those behind it.
constexpr uint64_t leftByFarther = allWork / 2, leftByBranching = allWork / 6;
constexpr unsigned leastTries = 8, mostEdits = 4, mostGreedyEdits = 12;

class RepairSearch {
public:
  RepairSearch(const Program &program, const ChannelRules &rules) : original(program), rules(rules) {
    current.program = program;
    // The search needs no places in the source but the numbers of statements and turns.
    current.program.sites.clear();
    current.program.nests.clear();
    current.program.frames.clear();
    current.origin.resize(program.size());
    for (OpId id = 0; id < program.size(); ++id)
      current.origin[id] = id;
    crossedBefore = crossedPairs(Requests(program, rules));
  }

  std::optional<Repair> run(const WaitCycle &cycle);

private:
  struct State {
    Program program;
    std::vector<OpId> origin;
  };
  struct Outcome {
    bool isFree;
    uint64_t done;
  };

  bool hasWork(uint64_t left) const { return spent + left < allWork || tries < leastTries; }
  std::optional<Outcome> outcomeOf(const Program &program);
  /// Applies to `tried`, a copy of `current`; nothing if a local order or a pairing breaks.
  std::optional<Outcome> tryOut(const RepairCandidate &candidate, State &tried);
  bool takeIfFree(const std::vector<RepairCandidate> &candidates, uint64_t left);
  void take(const RepairCandidate &candidate, State &tried);
  std::vector<Standing> standing();
  bool branch(unsigned remaining);
  bool isNew(unsigned remaining);
  /// True once the program is free.
  bool goOnGreedily(unsigned most);
  std::optional<Repair> changeAll();
  Repair taken();

  const Program &original;
  const ChannelRules rules;
  State current, scratch;
  std::vector<RepairEdit> edits;
  uint64_t crossedBefore = 0, spent = 0;
  unsigned tries = 0;
  llvm::DenseMap<uint64_t, unsigned> seen; // programs that were branched on, with the edits that were left
};

} // namespace

std::optional<RepairSearch::Outcome> RepairSearch::outcomeOf(const Program &program) {
  ++tries;
  spent += std::max<uint64_t>(program.size(), leastWork);
  const Requests requests(program, rules);
  if (crossedPairs(requests) > crossedBefore)
    return std::nullopt;
  Execution execution(requests, rules);
  const bool isFree = execution.run();
  return Outcome{isFree, execution.doneCount()};
}

std::optional<RepairSearch::Outcome> RepairSearch::tryOut(const RepairCandidate &candidate, State &tried) {
  const std::vector<Move> moves = movesOf(candidate, current.program);
  if (moves.empty())
    return std::nullopt;
  tried = current;
  for (const Move &move : moves)
    apply(move, tried.program, tried.origin);
  return outcomeOf(tried.program);
}

/// The edit in terms of the program as it was.
void RepairSearch::take(const RepairCandidate &candidate, State &tried) {
  RepairEdit edit = candidate.edit;
  edit.op = current.origin[edit.op];
  edit.other = current.origin[edit.other];
  edits.push_back(edit);
  std::swap(current, tried);
}

bool RepairSearch::takeIfFree(const std::vector<RepairCandidate> &candidates, uint64_t left) {
  for (const RepairCandidate &candidate : candidates) {
    if (!hasWork(left))
      return false;
    const std::optional<Outcome> outcome = tryOut(candidate, scratch);
    if (!outcome || !outcome->isFree)
      continue;
    take(candidate, scratch);
    return true;
  }
  return false;
}

std::vector<Standing> RepairSearch::standing() {
  const Requests requests(current.program, rules);
  Execution execution(requests, rules);
  execution.run();
  return standingOn(requests, rules, execution, shortestWaitCycle(requests, rules, execution));
}

/// Whether the current program has not been branched on with as many edits left.
bool RepairSearch::isNew(unsigned remaining) {
  auto bytes = [](const auto &column) {
    return llvm::ArrayRef(reinterpret_cast<const uint8_t *>(column.data()),
                          column.size() * sizeof(column.front()));
  };
  const uint64_t hash =
      llvm::xxh3_64bits(bytes(current.origin)) * 31 + llvm::xxh3_64bits(bytes(current.program.ops));
  unsigned &known = seen[hash >> 2]; // not one of the map's own two keys
  if (known >= remaining)
    return false;
  known = remaining;
  return true;
}

/// Depth first over the candidates of one cycle after the other, `remaining` edits deep.
bool RepairSearch::branch(unsigned remaining) {
  if (!isNew(remaining))
    return false;
  const std::vector<Standing> stuck = standing();
  std::vector<RepairCandidate> candidates = candidatesOf(current.program, rules, stuck);
  if (remaining == 1)
    return takeIfFree(candidates, leftByBranching);
  llvm::append_range(candidates, nearerCandidatesOf(current.program, stuck));
  for (const RepairCandidate &candidate : candidates) {
    if (!hasWork(leftByBranching))
      return false;
    State tried;
    const std::optional<Outcome> outcome = tryOut(candidate, tried);
    if (!outcome)
      continue;
    take(candidate, tried); // `tried` now holds the program before it
    if (outcome->isFree || branch(remaining - 1))
      return true;
    std::swap(current, tried);
    edits.pop_back();
  }
  return false;
}

bool RepairSearch::goOnGreedily(unsigned most) {
  while (edits.size() < most && hasWork(0)) {
    std::optional<RepairCandidate> best;
    State after, tried;
    uint64_t done = 0;
    for (const RepairCandidate &candidate : candidatesOf(current.program, rules, standing())) {
      if (!hasWork(0))
        break;
      const std::optional<Outcome> outcome = tryOut(candidate, tried);
      if (!outcome || (best && outcome->done <= done))
        continue;
      best = candidate;
      done = outcome->done;
      std::swap(after, tried);
      if (outcome->isFree) {
        take(*best, after);
        return true;
      }
    }
    if (!best)
      return false;
    take(*best, after);
    if (!isNew(mostEdits + 1))
      return false; // back where it has been
  }
  return false;
}

Repair RepairSearch::taken() {
  Repair repair;
  repair.edits = edits;
  repair.repaired = std::move(current.program);
  repair.repaired.sites = original.sites;
  repair.repaired.nests = original.nests;
  repair.repaired.frames = original.frames;
  return repair;
}

std::optional<Repair> RepairSearch::changeAll() {
  Repair repair;
  auto offer = [&](std::optional<Program> changed, Repair::Change change) {
    if (!changed)
      return false;
    const std::optional<Outcome> outcome = outcomeOf(*changed);
    if (!outcome || !outcome->isFree)
      return false;
    repair.change = change;
    repair.repaired = std::move(*changed);
    return true;
  };
  if (offer(groupNeighbours(original), Repair::Change::GroupNeighbours) ||
      offer(inferEarly(original), Repair::Change::InferEarly))
    return repair;
  if (rules.isUnbounded())
    return std::nullopt;
  ChannelRules deeper = rules;
  deeper.depth = ChannelRules::unbounded;
  if (stuckUnder(original, deeper))
    return std::nullopt;
  deeper.depth = leastDepth(original, deeper);
  if (stuckUnder(original, deeper))
    return std::nullopt;
  repair.change = Repair::Change::Deepen;
  repair.depth = deeper.depth;
  repair.repaired = original;
  return repair;
}

std::optional<Repair> RepairSearch::run(const WaitCycle &cycle) {
  const Requests requests(original, rules);
  Execution execution(requests, rules);
  execution.run();
  const std::vector<Standing> first = standingOn(requests, rules, execution, cycle);
  if (takeIfFree(candidatesOf(current.program, rules, first), 0) ||
      takeIfFree(fartherCandidatesOf(current.program, first), leftByFarther))
    return taken();
  for (unsigned depth = 2; depth <= mostEdits; ++depth)
    if (branch(depth))
      return taken();
  if (goOnGreedily(mostEdits))
    return taken();
  if (std::optional<Repair> change = changeAll())
    return change;
  return goOnGreedily(mostGreedyEdits) ? std::optional(taken()) : std::nullopt;
}

std::optional<Repair> smallestRepair(const Program &program, const ChannelRules &rules,
                                     const WaitCycle &cycle) {
  return RepairSearch(program, rules).run(cycle);
}

} // namespace sluice
