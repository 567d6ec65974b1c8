#include "Events/RepairCandidates.h"

#include "Events/LocalOrder.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace sluice {

using Kind = RepairEdit::Kind;
using Scope = RepairEdit::Scope;

//===-- Where devices stand -------------------------------------------------------------------------===//

/// The wait for a started request; noOp if there is none.
static OpId waitOf(const Requests &requests, RequestId r) {
  const Program &program = requests.program;
  const uint32_t device = requests.device(r);
  uint32_t number = requests.waitBegin[device];
  for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
    const Op &op = program.ops[id];
    if (op.isWait() && (op.isCommunication() || requests.joins(op)) && requests.waits[number++] == r)
      return id;
  }
  return noOp;
}

/// The request that the wait `at` is for.
static RequestId awaitedAt(const Requests &requests, uint32_t device, OpId at) {
  const Program &program = requests.program;
  uint32_t number = requests.waitBegin[device];
  for (OpId id = program.deviceBegin[device]; id < at; ++id) {
    const Op &op = program.ops[id];
    number += op.isWait() && (op.isCommunication() || requests.joins(op));
  }
  return requests.waits[number];
}

std::vector<Standing> standingOn(const Requests &requests, const ChannelRules &rules,
                                 const Execution &execution, const WaitCycle &cycle) {
  const Program &program = requests.program;
  std::vector<Standing> found;
  auto add = [&](uint32_t device, OpId stands, OpId needed) {
    const bool isKnown = llvm::any_of(
        found, [&](const Standing &known) { return known.stands == stands && known.needed == needed; });
    if (!isKnown && stands != noOp && needed != noOp)
      found.push_back({device, stands, needed});
  };
  auto addInOrder = [&](uint32_t device, OpId stands, OpId needed) {
    if (needed != noOp && stands != noOp && statementBegin(program, stands) < statementBegin(program, needed))
      add(device, stands, needed);
  };
  auto addGroupOf = [&](uint32_t device, OpId member) {
    if (statementEnd(program, member) - statementBegin(program, member) > 1)
      add(device, member, member);
  };
  for (const WaitHop &hop : cycle) {
    OpId stands = hop.stands, needed = hop.needed;
    if (rules.progressInWait)
      for (OpId *id : {&stands, &needed})
        if (program.ops[*id].isStarted())
          *id = waitOf(requests, requests.of(*id));
    addInOrder(hop.device, stands, needed);
    if (!execution.isStuck(hop.device))
      continue;
    const OpId front = execution.fronts()[hop.device];
    if (front != stands)
      addInOrder(hop.device, front, needed);
    if (program.ops[front].isWait())
      if (const RequestId r = awaitedAt(requests, hop.device, front); r != noRequest)
        addInOrder(hop.device, stands, requests.op[r]);
    if (!rules.atomicGroups)
      continue;
    // A group may be held up by any of its members, or of those of its partners.
    const OpId begin = statementBegin(program, front);
    for (OpId member = begin, end = statementEnd(program, front); member < end; ++member) {
      if (!isPlainPost(program.ops[member]))
        continue;
      addGroupOf(hop.device, member);
      const RequestId r = requests.of(member);
      if (const RequestId partner = requests.partner(r); partner != noRequest)
        addGroupOf(requests.peer(r), requests.op[partner]);
    }
  }
  return found;
}

//===-- Candidates ----------------------------------------------------------------------------------===//

namespace {

class Candidates {
public:
  explicit Candidates(const Program &program) : program(program) {}

  void add(Kind kind, uint32_t device, OpId op, OpId other, bool wholeGroup = false, bool atPlaceOfOp = true);
  /// With and without the group of `op`, or for a group of what moves.
  void addMoves(Kind kind, uint32_t device, OpId op, OpId other, bool atPlaceOfOp = true);
  void addSplits(uint32_t device, OpId member);
  std::vector<RepairCandidate> take();

private:
  bool isInGroup(OpId op) const { return statementEnd(program, op) - statementBegin(program, op) > 1; }
  unsigned rank(const RepairEdit &edit) const {
    const Op &op = program.ops[edit.op];
    if (edit.kind == Kind::Group || edit.kind == Kind::Split)
      return 0;
    return edit.kind == Kind::Lift && op.isCommunication() && !op.isSend() ? 1 : 2;
  }

  const Program &program;
  std::vector<RepairCandidate> found;
};

} // namespace

void Candidates::add(Kind kind, uint32_t device, OpId op, OpId other, bool wholeGroup, bool atPlaceOfOp) {
  const uint32_t distance = op < other ? other - op : op - other;
  const bool areNeighbours = statementEnd(program, std::min(op, other)) == std::max(op, other);
  const bool mayRepeat = !program.siteOf.empty() && program.frameOf[op] == program.frameOf[other];
  for (Scope scope : {Scope::All, Scope::Device, Scope::One})
    if (mayRepeat || scope == Scope::One)
      found.push_back({{kind, scope, device, op, other, wholeGroup, atPlaceOfOp, areNeighbours}, distance});
}

void Candidates::addMoves(Kind kind, uint32_t device, OpId op, OpId other, bool atPlaceOfOp) {
  const OpId moved = kind == Kind::Group && atPlaceOfOp ? other : op;
  const bool isWithin = statementBegin(program, op) == statementBegin(program, other);
  if (!isWithin)
    add(kind, device, op, other, true, atPlaceOfOp);
  if (isWithin || (isInGroup(moved) && isPlainPost(program.ops[moved])))
    add(kind, device, op, other, false, atPlaceOfOp);
}

void Candidates::addSplits(uint32_t device, OpId member) {
  const OpId begin = statementBegin(program, member);
  for (OpId second = begin + 1, end = statementEnd(program, member); second < end; ++second)
    add(Kind::Split, device, second, begin);
}

std::vector<RepairCandidate> Candidates::take() {
  llvm::stable_sort(found, [&](const RepairCandidate &a, const RepairCandidate &b) {
    return std::make_tuple(a.distance, rank(a.edit), a.edit.device) <
           std::make_tuple(b.distance, rank(b.edit), b.edit.device);
  });
  auto isSame = [](const RepairCandidate &a, const RepairCandidate &b) {
    return a.edit.kind == b.edit.kind && a.edit.scope == b.edit.scope && a.edit.op == b.edit.op &&
           a.edit.other == b.edit.other && a.edit.wholeGroup == b.edit.wholeGroup &&
           a.edit.atPlaceOfOp == b.edit.atPlaceOfOp;
  };
  found.erase(std::unique(found.begin(), found.end(), isSame), found.end());
  return std::move(found);
}

std::vector<RepairCandidate> candidatesOf(const Program &program, const ChannelRules &rules,
                                          llvm::ArrayRef<Standing> standing) {
  Candidates candidates(program);
  for (const auto &[device, stands, needed] : standing) {
    if (stands == needed) {
      if (rules.atomicGroups)
        candidates.addSplits(device, stands);
      continue;
    }
    if (isPlainPost(program.ops[stands]) && isPlainPost(program.ops[needed])) {
      candidates.addMoves(Kind::Group, device, stands, needed);
      if (statementEnd(program, stands) != statementBegin(program, needed))
        candidates.addMoves(Kind::Group, device, stands, needed, false);
    }
    candidates.addMoves(Kind::Lift, device, needed, stands);
    candidates.addMoves(Kind::Lower, device, stands, needed);
  }
  return candidates.take();
}

/// Whether a member of the statement that begins at `begin` keeps `moved` from passing.
static bool holds(const Program &program, OpId moved, OpId begin) {
  for (OpId id = begin, end = statementEnd(program, begin); id < end; ++id)
    if (id != moved && mustKeepOrder(program, moved, id))
      return true;
  return false;
}

std::vector<RepairCandidate> nearerCandidatesOf(const Program &program, llvm::ArrayRef<Standing> standing) {
  Candidates candidates(program);
  for (const auto &[device, stands, needed] : standing) {
    if (stands == needed)
      continue;
    const OpId early = statementBegin(program, stands), late = statementBegin(program, needed);
    OpId place = late;
    while (place > early && !holds(program, needed, statementBegin(program, place - 1)))
      place = statementBegin(program, place - 1);
    if (place > early && place < late)
      candidates.addMoves(Kind::Lift, device, needed, place);
    OpId last = early; // the last statement that can be passed
    for (place = statementEnd(program, early); place < late && !holds(program, stands, place);
         place = statementEnd(program, place))
      last = place;
    if (place < late && last > early)
      candidates.addMoves(Kind::Lower, device, stands, last);
  }
  return candidates.take();
}

std::vector<RepairCandidate> fartherCandidatesOf(const Program &program, llvm::ArrayRef<Standing> standing) {
  Candidates candidates(program);
  for (const auto &[device, stands, needed] : standing) {
    const OpId first = program.deviceBegin[device], last = program.deviceBegin[device + 1];
    const bool isWithin = stands == needed;
    auto mayJoin = [&](OpId moved, OpId place) {
      return isPlainPost(program.ops[moved]) && isPlainPost(program.ops[place]);
    };
    // Lower the one that stands, lift the one that is needed; a member of a group, out of it either way.
    OpId place = isWithin ? statementBegin(program, needed) : statementEnd(program, needed);
    while (place < last && !holds(program, stands, place)) {
      candidates.addMoves(Kind::Lower, device, stands, place);
      if (!isWithin && mayJoin(stands, place))
        candidates.addMoves(Kind::Group, device, stands, place, false);
      place = statementEnd(program, place);
    }
    for (place = isWithin ? statementEnd(program, needed) : statementBegin(program, stands); place > first;) {
      place = statementBegin(program, place - 1);
      if (holds(program, needed, place))
        break;
      candidates.addMoves(Kind::Lift, device, needed, place);
      if (!isWithin && mayJoin(needed, place))
        candidates.addMoves(Kind::Group, device, place, needed);
    }
  }
  return candidates.take();
}

//===-- Instances of statements -----------------------------------------------------------------------===//

static Move moveOf(const RepairEdit &edit, const Program &program, OpId op, OpId other) {
  auto moved = [&](OpId id, OpId to, Move::Join join) {
    const OpId begin = edit.wholeGroup ? statementBegin(program, id) : id;
    return Move{begin, edit.wholeGroup ? statementEnd(program, id) : id + 1, to, join};
  };
  switch (edit.kind) {
  case Kind::Group:
    return edit.atPlaceOfOp ? moved(other, statementEnd(program, op), Move::Join::Before)
                            : moved(op, statementBegin(program, other), Move::Join::Behind);
  case Kind::Lift:
    return moved(op, statementBegin(program, other), Move::Join::None);
  case Kind::Lower:
    return moved(op, statementEnd(program, other), Move::Join::None);
  case Kind::Split:
    break;
  }
  return {op, statementEnd(program, op), op, Move::Join::None};
}

/// Pairs of ops from the statements of `op` and `other`, both of the same turn of the same loops.
static std::vector<std::pair<OpId, OpId>> instancesOf(const RepairEdit &edit, const Program &program) {
  std::vector<std::pair<OpId, OpId>> pairs;
  const uint32_t site = program.siteOf[edit.op], otherSite = program.siteOf[edit.other];
  bool isAnyElsewhere = false;
  for (uint32_t device = 0; device < program.devices; ++device) {
    if (edit.scope == Scope::Device && device != edit.device)
      continue;
    std::map<uint32_t, std::pair<OpId, OpId>> turns;
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      if (program.siteOf[id] != site && program.siteOf[id] != otherSite)
        continue;
      auto &[op, other] = turns.try_emplace(program.frameOf[id], noOp, noOp).first->second;
      OpId &mine = program.siteOf[id] == site ? op : other;
      if (mine != noOp)
        return {}; // one statement, several ops a turn
      mine = id;
    }
    for (const auto &[frame, pair] : turns)
      if (pair.first != noOp && pair.second != noOp) {
        pairs.push_back(pair);
        isAnyElsewhere |= device != edit.device;
      }
  }
  const bool isNarrower = edit.scope == Scope::All ? !isAnyElsewhere : pairs.size() < 2;
  return isNarrower ? decltype(pairs){} : pairs;
}

std::vector<Move> movesOf(const RepairCandidate &candidate, const Program &program) {
  const RepairEdit &edit = candidate.edit;
  std::vector<std::pair<OpId, OpId>> pairs = {{edit.op, edit.other}};
  if (edit.scope != Scope::One)
    pairs = instancesOf(edit, program);
  std::vector<Move> moves;
  std::vector<std::pair<OpId, OpId>> ranges;
  for (const auto &[op, other] : pairs) {
    if ((op < other) != (edit.op < edit.other))
      return {};
    moves.push_back(moveOf(edit, program, op, other));
    if (!isAllowed(program, moves.back()))
      return {};
    ranges.push_back(rangeOf(program, moves.back()));
  }
  llvm::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second)
      return {};
  return moves;
}

} // namespace sluice
