#include "Timeline/BlockedWork.h"

#include "IR/Reorder.h"
#include "Timeline/Figures.h"

#include "Events/Requests.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

/// Statements are tried one by one: more than a few are not worth the time.
constexpr size_t mostStatements = 8;

/// A receive, or a wait for one, that stands ahead of work.
struct Early {
  OpId receive;
  OpId work;     ///< The first compute op behind it, or its overlap; does not take the value.
  OpId consumer; ///< Takes the value.
  OpId place;    ///< It could stand right before this: the consumer, or the channel's next receive.
};

/// A receive that blocks by itself: no member of a group, and not just started.
bool blocks(const Program &program, OpId id) {
  const Op &op = program.ops[id];
  return op.isCommunication() && !op.isSend() && !op.isStarted() && !op.has(GroupFollower) &&
         (op.isWait() || program.postedEnd(id) == id + 1);
}

bool takes(const Op &op, const Op &receive) {
  return op.stage == receive.stage && op.microbatch == receive.microbatch &&
         (receive.kind == OpKind::RecvActivation ? op.kind == OpKind::Forward : op.makesGradient());
}

/// Whether an op of the overlap (or single op) at `work` takes what `receive` brings.
bool takesIt(const Program &program, OpId work, OpId receive) {
  return llvm::any_of(llvm::ArrayRef(program.ops).slice(work, program.groupEnd(work) - work),
                      [&](const Op &op) { return takes(op, program.ops[receive]); });
}

class EarlyReceives {
public:
  EarlyReceives(const Program &program, const ProgramIndex &index, const CostModel &costs)
      : program(program), index(index), requests(program, costs.channels) {}

  std::vector<Early> find() const {
    std::vector<Early> found;
    for (uint32_t device = 0; device < program.devices; ++device) {
      const OpId end = program.deviceBegin[device + 1];
      llvm::DenseMap<OpId, OpId> newPlaces;
      OpId work = end; // the first behind `id`
      for (OpId id = end; id-- > program.deviceBegin[device];) {
        if (program.ops[id].isCompute())
          work = id; // of an overlap at last the first
        if (!blocks(program, id) || work == end)
          continue;
        const OpId consumer = consumerOf(program.ops[id]);
        if (consumer == noOp || consumer <= work || consumer >= end || takesIt(program, work, id))
          continue;
        const OpId place = placeOf(id, consumer, newPlaces);
        if (place <= work)
          continue;
        newPlaces[id] = place;
        found.push_back({id, work, consumer, place});
      }
    }
    llvm::sort(found, [](const Early &a, const Early &b) { return a.receive < b.receive; });
    return found;
  }

private:
  OpId consumerOf(const Op &receive) const {
    OpId consumer = receive.kind == OpKind::RecvActivation
                        ? index.forward(receive.stage, receive.microbatch)
                        : index.backward(receive.stage, receive.microbatch);
    while (consumer != noOp && program.ops[consumer].has(OverlapFollower))
      --consumer;
    return consumer;
  }
  /// A receive stays ahead of the next on its channel, since pairs are made by their order. One of the same
  /// statement moves with it.
  OpId placeOf(OpId id, OpId consumer, const llvm::DenseMap<OpId, OpId> &newPlaces) const {
    if (program.ops[id].isWait())
      return consumer;
    const RequestId r = requests.of(id), direction = requests.direction[r];
    const uint32_t next = requests.receiveBegin[direction] + requests.ordinal[r] + 1;
    if (next >= requests.receiveBegin[direction + 1])
      return consumer;
    const RequestId behind = requests.receives[next];
    auto moved = newPlaces.find(requests.op[behind]);
    if (moved != newPlaces.end() && program.siteOf[moved->first] == program.siteOf[id])
      return std::min(consumer, moved->second);
    return std::min(consumer, requests.op[requests.statement[behind]]);
  }

  const Program &program;
  const ProgramIndex &index;
  const Requests requests;
};

/// Each receive right before its place; `placeOf` is where each op then stands.
Program moved(const Program &program, llvm::ArrayRef<Early> receives, std::vector<OpId> &placeOf) {
  // Twice its number leaves room between two ops; receives moved to one place keep their order.
  std::vector<uint64_t> key(program.size());
  std::vector<OpId> order(program.size());
  for (OpId id = 0; id < program.size(); ++id) {
    key[id] = 2 * static_cast<uint64_t>(id) + 1;
    order[id] = id;
  }
  for (const Early &early : receives)
    key[early.receive] = 2 * static_cast<uint64_t>(early.place);
  llvm::stable_sort(order, [&](OpId a, OpId b) { return key[a] < key[b]; });
  return reordered(program, order, placeOf);
}

class Trial {
public:
  Trial(const Program &program, const CostModel &costs, const Timeline &timeline)
      : program(program), costs(costs), timeline(timeline) {}

  /// Of the receives, moved together, the one whose move lets work start earliest, and by how much. Nothing
  /// if none does, or the moved program sticks or takes longer.
  std::optional<std::pair<Early, int64_t>> best(llvm::ArrayRef<Early> receives) const {
    std::vector<OpId> placeOf;
    const Program changed = moved(program, receives, placeOf);
    Diagnostics unheard;
    const auto times = simulate(changed, ProgramIndex(changed), costs, unheard);
    if (!times || times->makespan > timeline.makespan)
      return std::nullopt;
    std::optional<std::pair<Early, int64_t>> result;
    for (const Early &early : receives) {
      const int64_t gain =
          timeline.start(program, costs, early.work) - times->start(changed, costs, placeOf[early.work]);
      if (gain > (result ? result->second : 0))
        result = {early, gain};
    }
    return result;
  }

private:
  const Program &program;
  const CostModel &costs;
  const Timeline &timeline;
};

void reportBlocked(const Program &program, const CostModel &costs, const Early &early, int64_t time,
                   Diagnostics &diagnostics) {
  const std::string receive = str(program, early.receive), work = str(program, early.work);
  Finding &finding =
      diagnostics.report(Rule::BlocksReadyWork, program.spanOf(early.receive),
                         {{"receive", receive}, {"op", work}, {"time", formatUnits(costs, Rational(time))}});
  const uint32_t device = program.deviceOf(early.receive);
  finding.device = device;
  finding.op = receive;
  for (auto &[variable, value] : program.loopsOf(early.receive))
    finding.loops.push_back({variable, value});
  finding.notes.push_back({work + " could run here", program.spanOf(early.work), device, work});
  const std::string consumer = str(program, early.consumer);
  finding.notes.push_back({consumer + " is what needs it", program.spanOf(early.consumer), device, consumer});
  finding.fix.message = fmt::format("move {} right before {}", receive, str(program, early.place));
  if (early.place != early.consumer)
    finding.fix.message += ", the next receive on its channel";
}

} // namespace

// The walk asks for the next op that computes, so each device is gone through from its end.
bool mayBlockWork(const Program &program, const CostModel &costs) {
  if (!program.isExplicit || program.receivesWaitAtUse || costs.isDefault || program.siteOf.empty())
    return false;
  for (uint32_t device = 0; device < program.devices; ++device) {
    OpId work = noOp;
    for (OpId id = program.deviceBegin[device + 1]; id-- > program.deviceBegin[device];) {
      if (program.ops[id].isCompute())
        work = id;
      else if (work != noOp && blocks(program, id) && !takesIt(program, work, id))
        return true;
    }
  }
  return false;
}

void checkBlockedWork(const Program &program, const CostModel &costs, const Timeline &timeline,
                      Diagnostics &diagnostics) {
  const ProgramIndex index(program);
  /// Its receives, and how long a device stands at one of them at most.
  struct Statement {
    std::vector<Early> receives;
    int64_t longest = 0;
  };
  llvm::DenseMap<uint32_t, size_t> statementOf; // per site
  std::vector<Statement> statements;
  for (const Early &early : EarlyReceives(program, index, costs).find()) {
    const bool isFirst = early.receive == program.deviceBegin[program.deviceOf(early.receive)];
    const int64_t stands = timeline.end[early.receive] - (isFirst ? 0 : timeline.end[early.receive - 1]);
    auto [found, isNew] = statementOf.try_emplace(program.siteOf[early.receive], statements.size());
    if (isNew)
      statements.emplace_back();
    Statement &statement = statements[found->second];
    statement.receives.push_back(early);
    statement.longest = std::max(statement.longest, stands);
  }
  llvm::erase_if(statements, [](const Statement &statement) { return statement.longest == 0; });
  llvm::stable_sort(statements, [](const Statement &a, const Statement &b) { return a.longest > b.longest; });
  const Trial trial(program, costs, timeline);
  for (const Statement &statement : llvm::ArrayRef(statements).take_front(mostStatements)) {
    if (auto found = trial.best(statement.receives))
      reportBlocked(program, costs, found->first, found->second, diagnostics);
  }
}

} // namespace sluice
