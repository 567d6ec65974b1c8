#include "Timeline/Steady.h"

#include <algorithm>

namespace sluice {

namespace {

/// Of how many blocks of Repetition a block whose times repeat may consist: a cycle of waits passes through a
/// device a few times at most.
uint32_t mostBlocks(const Program &program) { return 4 * program.devices + 16; }

class Search {
public:
  Search(const Program &program, const Timeline &timeline, const Repetition &repetition)
      : program(program), ends(timeline.end.data()), repetition(repetition) {}

  /// Looks around `quarter` / 4 of each part.
  std::optional<Steady> at(uint32_t quarter) const {
    for (uint32_t blocks = 1; blocks <= mostBlocks(program); ++blocks)
      if (int64_t period = periodAt(quarter, blocks); period > 0)
        if (auto steady = extended(quarter, blocks, period))
          return steady;
    return std::nullopt;
  }

private:
  static OpId anchor(const RepeatedOps &part, uint32_t quarter) {
    return part.first + static_cast<OpId>(static_cast<uint64_t>(part.end - part.first) * quarter / 4);
  }

  /// The time after which all devices repeat `blocks` blocks around the anchor; 0 if they do not.
  int64_t periodAt(uint32_t quarter, uint32_t blocks) const {
    int64_t period = 0;
    for (const RepeatedOps &part : repetition.devices) {
      if (part.length == 0)
        continue;
      const uint64_t length = static_cast<uint64_t>(part.length) * blocks;
      const OpId middle = anchor(part, quarter);
      if (middle - part.first < length || part.end - middle < length)
        return 0;
      const auto distance = static_cast<OpId>(length);
      if (period == 0)
        period = ends[middle - 1 + distance] - ends[middle - 1];
      // The nearest first: they differ soonest.
      for (OpId op = middle; op != middle - distance; --op)
        if (ends[op - 1 + distance] - ends[op - 1] != period)
          return 0;
    }
    return period;
  }

  std::optional<Steady> extended(uint32_t quarter, uint32_t blocks, int64_t period) const {
    Steady steady{period, {repetition.microbatches * blocks, {}}};
    for (const RepeatedOps &part : repetition.devices) {
      RepeatedOps &result = steady.blocks.devices.emplace_back();
      if (part.length == 0)
        continue;
      const OpId length = part.length * blocks;
      OpId from = anchor(part, quarter), to = from;
      while (to + length < part.end && ends[to + length] - ends[to] == period)
        ++to;
      while (from > part.first && ends[from - 1 + length] - ends[from - 1] == period)
        --from;
      result = {from, to + length, length};
      if (to - from < length)
        return std::nullopt;
    }
    return steady;
  }

  const Program &program;
  const int64_t *ends;
  const Repetition &repetition;
};

} // namespace

std::optional<Steady> findSteady(const Program &program, const Timeline &timeline,
                                 const Repetition &repetition) {
  const Search search(program, timeline, repetition);
  for (uint32_t quarter : {2, 3, 1})
    if (auto steady = search.at(quarter))
      return steady;
  return std::nullopt;
}

bool isWhole(const Program &program, const Steady &steady) {
  uint64_t forwards = 0, contributions = 0;
  for (const RepeatedOps &part : steady.blocks.devices)
    for (const Op &op : llvm::ArrayRef(program.ops).slice(part.first, part.length)) {
      forwards += op.kind == OpKind::Forward;
      contributions += op.contributes();
    }
  const uint64_t all = static_cast<uint64_t>(steady.blocks.microbatches) * program.stages;
  return forwards == all && (contributions == all || (contributions == 0 && program.isEvaluation));
}

uint64_t fewestBlocks(const Steady &steady) {
  uint64_t fewest = ~uint64_t(0);
  for (const RepeatedOps &part : steady.blocks.devices)
    if (part.length > 0)
      fewest = std::min<uint64_t>(fewest, (part.end - part.first) / part.length);
  return fewest;
}

bool isSameThroughout(const Program &program, const CostModel &costs) {
  for (const auto *table :
       {&costs.forward, &costs.backward, &costs.backwardInput, &costs.backwardWeight, &costs.recompute,
        &costs.activationTransfer, &costs.gradientTransfer, &costs.offload, &costs.reload, &costs.activation,
        &costs.keptInput, &costs.pending, &costs.boundary})
    if (table->rowCount() > 1)
      return false;
  return program.placement.rowCount() <= 1 && costs.laneCount == 0;
}

/// Shortens each part to the ops of which whatever comes from another stage is made within the parts.
static std::vector<RepeatedOps> withinReach(const Program &program, const ProgramIndex &index,
                                            const std::vector<RepeatedOps> &parts) {
  std::vector<RepeatedOps> result = parts;
  for (RepeatedOps &part : result) {
    const RepeatedOps whole = part;
    // By its place in the first block: how many blocks on the producer is the first and the last within.
    for (OpId id = whole.first; id < whole.first + whole.length; ++id) {
      const Op &op = program.ops[id];
      OpId producer = noOp;
      if (op.kind == OpKind::Forward && op.stage > 0)
        producer = index.forward(op.stage - 1u, op.microbatch);
      if (op.makesGradient() && op.stage + 1u < program.stages)
        producer = index.backward(op.stage + 1u, op.microbatch);
      if (producer == noOp)
        continue;
      const RepeatedOps &from = parts[program.deviceOf(producer)];
      const uint64_t before =
          producer < from.first ? (from.first - producer + from.length - 1) / from.length : 0;
      const uint64_t within = producer < from.end ? (from.end - 1 - producer) / from.length + 1 : 0;
      // The op before the first good one, and the one behind the last, are bad.
      if (before > 0)
        part.first = static_cast<OpId>(std::max<uint64_t>(part.first, id + (before - 1) * whole.length + 1));
      part.end = static_cast<OpId>(std::min<uint64_t>(part.end, id + within * whole.length));
    }
    part.end = std::max(part.end, part.first);
  }
  return result;
}

std::optional<Steady> repeatedParts(const Program &program, const ProgramIndex &index, const CostModel &costs,
                                    const std::optional<Steady> &steady) {
  if (!steady || program.isExplicit || !program.skips.empty() || !isSameThroughout(program, costs))
    return std::nullopt;
  for (const RepeatedOps &part : steady->blocks.devices)
    if (!llvm::all_of(llvm::ArrayRef(program.ops).slice(part.first, part.length), isPlain))
      return std::nullopt;
  std::optional<Steady> result = steady;
  if (!narrowToEdges(program, index, result->blocks))
    return std::nullopt;
  result->blocks.devices = withinReach(program, index, result->blocks.devices);
  return result;
}

} // namespace sluice
