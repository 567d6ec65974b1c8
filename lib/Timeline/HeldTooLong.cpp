// 706 held-too-long: all recomputes of one line moved down to what uses the result, or all drops of one
// line moved up to the last use, tried on a copy: worth a finding if no device's peak rises, one falls and
// the step gets no longer. A recompute that fills a bubble passes, since its move would lengthen the step.
#include "Timeline/MemoryFindings.h"

#include "IR/Reorder.h"
#include "Support/Quantity.h"
#include "Timeline/Figures.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

bool isInOverlap(const Op &op) { return op.has(OverlapFirst) || op.has(OverlapFollower); }

bool isMovable(const Op &op) {
  return (op.kind == OpKind::Recompute || op.kind == OpKind::Drop) && !isInOverlap(op);
}

bool isOfSamePair(const Op &a, const Op &b) {
  return a.hasMicrobatch() && b.hasMicrobatch() && a.stage == b.stage && a.microbatch == b.microbatch;
}

/// What the moved program has.
struct Outcome {
  MemoryFigures memory;
  int64_t makespan;
};

/// One op and the op it could stand directly before (a recompute) or behind (a drop).
struct Move {
  OpId op, neighbour;
};

/// Lines are tried one by one: more than a few are not worth the time.
constexpr size_t mostLines = 8;
constexpr uint32_t mostOps = 1'000'000;

class MoveTrial {
public:
  MoveTrial(const Program &program, const CostModel &costs, const Timeline &timeline,
            const MemoryFigures &memory)
      : program(program), costs(costs), timeline(timeline), memory(memory) {}

  /// Peaks of the moved program; nothing if it is not better.
  std::optional<Outcome> better(llvm::ArrayRef<Move> moves) const;

private:
  Program moved(llvm::ArrayRef<Move> moves) const;

  const Program &program;
  const CostModel &costs;
  const Timeline &timeline;
  const MemoryFigures &memory;
};

/// The moves of one device, to the nearest op of the same pair in the direction in which each may go, if
/// other work stands between. One walk down for drops, one up for recomputes.
class MoveSearch {
public:
  explicit MoveSearch(const Program &program)
      : program(program), nearest(static_cast<size_t>(program.stages) * program.microbatches) {}

  std::vector<Move> of(uint32_t device) {
    const OpId begin = program.deviceBegin[device], end = program.deviceBegin[device + 1];
    std::vector<Move> moves;
    computes = 0;
    std::fill(nearest.begin(), nearest.end(), Seen{});
    for (OpId id = begin; id < end; ++id)
      pass(id, OpKind::Drop, moves);
    computes = 0;
    std::fill(nearest.begin(), nearest.end(), Seen{});
    for (OpId id = end; id-- > begin;)
      pass(id, OpKind::Recompute, moves);
    llvm::sort(moves, [](const Move &a, const Move &b) { return a.op < b.op; });
    return moves;
  }

private:
  struct Seen {
    OpId op = noOp;
    uint32_t computes = 0; ///< With itself.
  };
  void pass(OpId id, OpKind kind, std::vector<Move> &moves) {
    const Op &op = program.ops[id];
    if (!op.hasMicrobatch())
      return;
    Seen &seen = nearest[static_cast<size_t>(op.stage) * program.microbatches + op.microbatch];
    if (op.kind == kind && isMovable(op) && seen.op != noOp && seen.computes != computes)
      moves.push_back({id, seen.op});
    computes += op.isCompute();
    seen = {id, computes};
  }

  const Program &program;
  std::vector<Seen> nearest; // per pair
  uint32_t computes = 0;     // ops passed that do work
};

std::vector<std::vector<Move>> movesByLine(const Program &program) {
  llvm::DenseMap<uint32_t, size_t> lineOf; // per site
  std::vector<std::vector<Move>> lines;
  MoveSearch search(program);
  for (uint32_t device = 0; device < program.devices; ++device)
    for (const Move &move : search.of(device)) {
      auto [found, isNew] = lineOf.try_emplace(program.siteOf[move.op], lines.size());
      if (isNew)
        lines.emplace_back();
      lines[found->second].push_back(move);
    }
  return lines;
}

Program MoveTrial::moved(llvm::ArrayRef<Move> moves) const {
  // Twice its place leaves room between two ops; ops moved to one place keep their order.
  std::vector<uint64_t> key(program.size());
  for (OpId id = 0; id < program.size(); ++id)
    key[id] = 2 * static_cast<uint64_t>(id) + 1;
  for (const Move &move : moves) {
    OpId first = move.neighbour, last = move.neighbour;
    auto follows = [&](OpId id) {
      return program.ops[id].has(OverlapFollower) || program.ops[id].has(GroupFollower);
    };
    while (follows(first))
      --first;
    while (last + 1 < program.size() && follows(last + 1))
      ++last;
    const bool isDown = program.ops[move.op].kind == OpKind::Recompute;
    key[move.op] = isDown ? key[first] - 1 : key[last] + 1;
  }
  std::vector<OpId> order(program.size()), placeOf(program.size());
  for (OpId id = 0; id < program.size(); ++id)
    order[id] = id;
  llvm::stable_sort(order, [&](OpId a, OpId b) { return key[a] < key[b]; });
  return reordered(program, order, placeOf);
}

std::optional<Outcome> MoveTrial::better(llvm::ArrayRef<Move> moves) const {
  const Program changed = moved(moves);
  const ProgramIndex index(changed);
  Diagnostics unheard;
  auto times = simulate(changed, index, costs, unheard);
  if (!times || times->makespan > timeline.makespan)
    return std::nullopt;
  auto peaks = memoryFigures(changed, index, costs, *times, unheard);
  if (!peaks)
    return std::nullopt;
  bool falls = false;
  for (uint32_t device = 0; device < program.devices; ++device) {
    if (peaks->devices[device].peakBytes > memory.devices[device].peakBytes)
      return std::nullopt;
    falls |= peaks->devices[device].peakBytes < memory.devices[device].peakBytes;
  }
  if (!falls)
    return std::nullopt;
  return Outcome{std::move(*peaks), times->makespan};
}

/// At the first moved op of the device whose peak falls most.
void reportHeld(const Program &program, const CostModel &costs, llvm::ArrayRef<Move> moves,
                const Outcome &before, const Outcome &after, Diagnostics &diagnostics,
                const SourceManager *sources) {
  const Move *worst = nullptr;
  int64_t most = 0;
  for (const Move &move : moves) {
    const uint32_t device = program.deviceOf(move.op);
    const int64_t less = before.memory.devices[device].peakBytes - after.memory.devices[device].peakBytes;
    if (less > most) {
      most = less;
      worst = &move;
    }
  }
  if (!worst)
    return;
  const uint32_t device = program.deviceOf(worst->op);
  const Span span = program.spanOf(worst->op);
  const std::string op = str(program, worst->op), neighbour = str(program, worst->neighbour);
  Finding &finding = diagnostics.report(
      Rule::HeldTooLong, span,
      {{"op", op},
       {"where",
        sources && span.isValid() ? fmt::format(" at line {}", sources->locate(span.begin).line) : ""},
       {"neighbour", neighbour},
       {"better", formatSize(Rational(after.memory.devices[device].peakBytes))},
       {"peak", formatSize(Rational(before.memory.devices[device].peakBytes))}});
  constexpr llvm::StringRef same = "same makespan";
  if (after.makespan < before.makespan && llvm::StringRef(finding.message).ends_with(same))
    finding.message.replace(finding.message.size() - same.size(), same.size(),
                            fmt::format("makespan {} instead of {}",
                                        formatUnits(costs, Rational(after.makespan)),
                                        formatUnits(costs, Rational(before.makespan))));
  finding.device = device;
  finding.op = op;
  for (auto &[variable, value] : program.loopsOf(worst->op))
    finding.loops.push_back({variable, value});
  finding.notes.push_back({neighbour + " stands here", program.spanOf(worst->neighbour), device, neighbour});
  const bool isDown = program.ops[worst->op].kind == OpKind::Recompute;
  finding.fix.message = fmt::format("move it directly {} {}", isDown ? "before" : "behind", neighbour);
}

} // namespace

bool holdsTooLong(const Program &program) {
  for (uint32_t device = 0; device < program.devices; ++device) {
    const OpId begin = program.deviceBegin[device], end = program.deviceBegin[device + 1];
    for (OpId id = begin; id < end; ++id) {
      if (!isMovable(program.ops[id]))
        continue;
      const bool isDown = program.ops[id].kind == OpKind::Recompute;
      const OpId next = isDown ? id + 1 : id - 1;
      if (id == (isDown ? end - 1 : begin) || isOfSamePair(program.ops[next], program.ops[id]))
        continue;
      return true;
    }
  }
  return false;
}

void checkHeldTooLong(const Program &program, const ProgramIndex &index, const CostModel &costs,
                      const Timeline &timeline, Diagnostics &diagnostics, const SourceManager *sources) {
  if (program.siteOf.empty() || program.size() > mostOps)
    return;
  std::vector<std::vector<Move>> lines = movesByLine(program);
  if (lines.empty())
    return;
  auto memory = memoryFigures(program, index, costs, timeline, diagnostics);
  if (!memory)
    return;
  const Outcome before{std::move(*memory), timeline.makespan};
  const MoveTrial trial(program, costs, timeline, before.memory);
  for (const std::vector<Move> &moves : llvm::ArrayRef(lines).take_front(mostLines))
    if (auto after = trial.better(moves))
      reportHeld(program, costs, moves, before, *after, diagnostics, sources);
}

} // namespace sluice
