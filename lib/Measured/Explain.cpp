#include "Measured/Explain.h"

#include "Measured/RunFigures.h"
#include "Timeline/SimulateEvents.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sluice {

namespace {

using Times = StageTable<int64_t>;

class Explanation {
public:
  Explanation(const Measurement &measurement, const StepRun &run)
      : measurement(measurement), program(measurement.program), run(run),
        durations(ownDurations(program, run)), costs(measurement.costs),
        reached(measurement.predicted.makespan) {}

  llvm::Expected<std::vector<MakespanPart>> parts() {
    shareOverlaps();
    replace(OpKind::Forward, &ModelCosts::forward, "forwards");
    replace(OpKind::Backward, &ModelCosts::backward, "backwards");
    replace(OpKind::BackwardInput, &ModelCosts::backwardInput, "input halves");
    replace(OpKind::BackwardWeight, &ModelCosts::backwardWeight, "weight halves");
    replace(OpKind::Recompute, &ModelCosts::recompute, "recomputes");
    perStage(OpKind::Update, costs.update);
    step("updates");
    replaceTransfers();
    step("transfers");
    perStage(OpKind::Reduce, costs.reduce);
    perStage(OpKind::ReduceTied, costs.reduceTied);
    perStage(OpKind::Unshard, costs.unshard);
    moves(OpKind::Offload, costs.offload);
    moves(OpKind::Reload, costs.reload);
    step("collectives and host");
    if (measurement.hasWaits) {
      addBetween();
      step("between rows");
    }
    result.push_back({"waiting that no cost explains", run.makespan() - reached});
    if (failed)
      return refusal("a time overflows when the timeline is run again with measured costs");
    return std::move(result);
  }

private:
  /// The time of an overlap that was timed as one is shared as the model's times of its members are.
  void shareOverlaps() {
    for (OpId first = 0; first < program.size(); first = program.groupEnd(first)) {
      const OpId end = program.groupEnd(first);
      if (end - first < 2 || !run.has(first) || run.begin[first] != run.begin[end - 1])
        continue;
      int64_t left = run.duration(first), whole = 0;
      for (OpId op = first; op < end; ++op)
        whole += durationOf(measurement.costs, program.ops[op]);
      for (OpId op = first; op < end; ++op) {
        const __int128 own = durationOf(measurement.costs, program.ops[op]);
        durations[op] = op + 1 == end || whole == 0
                            ? left
                            : std::min(left, static_cast<int64_t>(own * run.duration(first) / whole));
        left -= durations[op];
      }
    }
  }

  void replace(OpKind kind, Times ModelCosts::*table, const char *what) {
    if (rewrite(kind, costs.*table, [&](OpId op, int64_t) { return durations[op]; })) {
      // Where the model gives overlaps a time, it is replaced with the forwards, for both of their members.
      if (!costs.overlapped.empty() && kind == OpKind::Forward) {
        rewrite(OpKind::Backward, costs.backward,
                [&](OpId op, int64_t old) { return isOverlapped(op) ? durations[op] : old; });
        costs.overlapped.clear();
      }
      step(what);
    }
  }
  bool isOverlapped(OpId op) const {
    return program.ops[op].has(OverlapFirst) || program.ops[op].has(OverlapFollower);
  }

  /// Gives each op of a kind that was measured a new time; false if there is none.
  template <typename NewTime> bool rewrite(OpKind kind, Times &table, NewTime newTime) {
    std::vector<std::pair<uint32_t, OpId>> ops; // by microbatch
    for (OpId op = 0; op < program.size(); ++op)
      if (program.ops[op].kind == kind && run.has(op))
        ops.push_back({program.ops[op].microbatch, op});
    if (ops.empty() || table.empty())
      return false;
    llvm::sort(ops);
    Times replaced;
    std::vector<int64_t> row(table.stageCount());
    auto next = ops.begin();
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      for (uint32_t s = 0; s < row.size(); ++s)
        row[s] = table.at(s, m);
      for (; next != ops.end() && next->first == m; ++next)
        row[program.ops[next->second].stage] = newTime(next->second, row[program.ops[next->second].stage]);
      replaced.addMicrobatch(row);
    }
    replaced.finish();
    table = std::move(replaced);
    return true;
  }

  /// Costs with one time a stage (or weight): the mean of what was measured in the step.
  void perStage(OpKind kind, std::vector<int64_t> &times) {
    std::map<uint32_t, std::pair<int64_t, int64_t>> sums;
    for (OpId op = 0; op < program.size(); ++op) {
      const Op &one = program.ops[op];
      if (one.kind != kind || !run.has(op) || one.isStarted() || one.isWait())
        continue;
      auto &[sum, count] = sums[kind == OpKind::ReduceTied ? one.microbatch : one.stage];
      sum += durations[op];
      ++count;
    }
    for (const auto &[which, sum] : sums) {
      if (times.size() <= which)
        times.resize(
            std::max<size_t>(kind == OpKind::ReduceTied ? program.ties.size() : program.stages, which + 1),
            0);
      times[which] = sum.first / sum.second;
    }
  }
  void moves(OpKind kind, Times &table) {
    if (!table.empty() && costs.hostRoutes.empty())
      rewrite(kind, table, [&](OpId op, int64_t old) {
        return program.ops[op].isStarted() || program.ops[op].isWait() ? old : durations[op];
      });
  }

  /// A modeled message took what it took, a measured one at least the shortest time of its kind. Lanes go:
  /// what messages wait for each other is in their times.
  void replaceTransfers() {
    const bool hostShares =
        llvm::any_of(costs.hostRoutes, [](const Route &route) { return route.lane != noLane; });
    if (measurement.messages.empty() || hostShares)
      return;
    costs.laneCount = 0;
    for (Route &route : costs.routes)
      route.lane = noLane;
    std::map<std::tuple<bool, uint32_t, uint32_t>, int64_t> least;
    std::map<std::tuple<bool, uint32_t, uint32_t, uint32_t>, int64_t> exact;
    for (const MessageClass &group : messageClasses(measurement))
      least[{group.isGradient, group.from, group.to}] = group.least;
    if (measurement.isModeled)
      for (const MessageRun &message : measurement.messages)
        exact[{message.isGradient, message.from, message.to, message.microbatch}] = message.time;
    auto timeOf = [&](bool isGradient, uint32_t from, uint32_t to, uint32_t m, int64_t old) {
      if (program.deviceOf(from, m) == program.deviceOf(to, m))
        return old;
      if (auto found = exact.find({isGradient, from, to, m}); found != exact.end())
        return found->second;
      auto found = least.find({isGradient, from, to});
      return found == least.end() || measurement.isModeled ? old : found->second;
    };
    auto rebuild = [&](Times &table, auto cell) {
      Times replaced;
      std::vector<int64_t> row(table.stageCount());
      for (uint32_t m = 0; m < program.microbatches; ++m) {
        for (uint32_t s = 0; s < row.size(); ++s)
          row[s] = cell(s, m, table.at(s, m));
        replaced.addMicrobatch(row);
      }
      replaced.finish();
      table = std::move(replaced);
    };
    if (!costs.activationTransfer.empty())
      rebuild(costs.activationTransfer, [&](uint32_t s, uint32_t m, int64_t old) {
        return s + 1 < program.stages ? timeOf(false, s, s + 1, m, old) : old;
      });
    if (!costs.gradientTransfer.empty())
      rebuild(costs.gradientTransfer, [&](uint32_t s, uint32_t m, int64_t old) {
        return s > 0 ? timeOf(true, s, s - 1, m, old) : old;
      });
    for (size_t i = 0; i < costs.skipTransfer.size(); ++i) {
      const SkipEdge &skip = program.skips[i];
      rebuild(costs.skipTransfer[i], [&](uint32_t column, uint32_t m, int64_t old) {
        return column == 0 ? timeOf(false, skip.from, skip.to, m, old)
                           : timeOf(true, skip.to, skip.from, m, old);
      });
    }
  }

  /// What stands between ops that are timed, and ops that the model counts no time, is time of the next op.
  void addBetween() {
    std::vector<int64_t> extra(program.size(), 0);
    for (uint32_t device = 0; device < program.devices; ++device) {
      int64_t carried = 0;
      OpId last = noOp;
      for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op) {
        if (!run.has(op))
          continue;
        carried += run.between[op];
        if (program.ops[op].isCompute()) {
          extra[op] = std::exchange(carried, 0);
          last = op;
        } else if (durationOf(costs, program.ops[op]) == 0) {
          carried += durations[op];
        }
      }
      if (last != noOp)
        extra[last] += carried;
    }
    for (auto [kind, table] : {std::pair(OpKind::Forward, &costs.forward),
                               {OpKind::Backward, &costs.backward},
                               {OpKind::BackwardInput, &costs.backwardInput},
                               {OpKind::BackwardWeight, &costs.backwardWeight},
                               {OpKind::Recompute, &costs.recompute}})
      rewrite(kind, *table, [&](OpId op, int64_t old) { return old + extra[op]; });
  }

  /// The part that the costs replaced since the last step have.
  void step(const char *what) {
    Diagnostics diagnostics;
    auto timeline = simulate(program, measurement.index, costs, diagnostics);
    if (!timeline) {
      failed = true;
      return;
    }
    result.push_back({what, timeline->makespan - reached});
    reached = timeline->makespan;
  }

  const Measurement &measurement;
  const Program &program;
  const StepRun &run;
  std::vector<int64_t> durations;
  CostModel costs;
  int64_t reached; // makespan so far
  bool failed = false;
  std::vector<MakespanPart> result;
};

} // namespace

llvm::Expected<std::vector<MakespanPart>> explain(const Measurement &measurement, const StepRun &run) {
  return Explanation(measurement, run).parts();
}

std::vector<MessageClass> messageClasses(const Measurement &measurement) {
  std::map<std::tuple<bool, uint32_t, uint32_t>, std::vector<const MessageRun *>> groups;
  for (const MessageRun &message : measurement.messages)
    groups[{message.isGradient, message.from, message.to}].push_back(&message);
  std::vector<MessageClass> classes;
  for (auto &[key, members] : groups) {
    MessageClass group;
    std::tie(group.isGradient, group.from, group.to) = key;
    llvm::stable_sort(members,
                      [](const MessageRun *a, const MessageRun *b) { return a->ownTime() < b->ownTime(); });
    group.count = members.size();
    group.least = members.front()->ownTime();
    group.median = members[(members.size() - 1) / 2]->ownTime();
    group.most = members.back()->ownTime();
    group.bytes = members.front()->bytes;
    __int128 sum = 0;
    for (const MessageRun *member : members) {
      if (member->bytes != group.bytes)
        group.bytes = -1;
      sum += transferOf(measurement.program, measurement.costs,
                        Message{group.from, group.to, member->microbatch, group.isGradient});
    }
    group.predicted = static_cast<int64_t>(sum / static_cast<__int128>(members.size()));
    classes.push_back(group);
  }
  return classes;
}

} // namespace sluice
