// What tables promise of a copy of a stage, read off them once: TokenStage compares what it sees with this.
#pragma once

#include "Token.h"

#include <sluice/Expand.h>

#include <memory>
#include <vector>

namespace sluice::test {

/// Of a stage on a device.
struct CopyFacts {
  uint32_t contributions = 0, reductions = 0, updates = 0; ///< In a step.
  uint32_t members = 0; ///< Copies × replicas, where a reduction is done by parts; else 0.
  bool gathers = false, reshards = false, hasNorm = false, normIsLocal = false;
  uint64_t norm = 0; ///< That its updates must find.
  /// Joint tied weights that this stage updates: the lowest of their stages here, and a reduction of them.
  std::vector<uint32_t> ties;
};

class TokenFacts {
public:
  explicit TokenFacts(const runtime::Tables &packed) : plain(packed), tables(plain.tables()) {
    contributions.resize(tables.stages);
    for (const runtime::Device &device : tables.devices)
      for (const runtime::Instruction &row : device.instructions)
        if (contributes(row.op))
          contributions[row.stage].push_back(row.microbatch);
    for (const runtime::Copy &copy : tables.copies)
      facts.push_back(of(copy));
  }

  const CopyFacts &operator[](const runtime::Copy &copy) const {
    for (size_t i = 0; i < tables.copies.size(); ++i)
      if (tables.copies[i].stage == copy.stage && tables.copies[i].device == copy.device)
        return facts[i];
    throw Mismatch("a copy that is not in the tables");
  }
  /// All contributions to a stage, of all copies and replicas.
  uint64_t sumOf(uint32_t stage, uint64_t step) const {
    uint64_t sum = 0;
    for (uint32_t microbatch : contributions[stage])
      for (uint32_t replica = 0; replica < tables.replicas; ++replica)
        sum += contributionOf(step, stage, microbatch, replica);
    return sum;
  }
  uint64_t sumOfTie(uint32_t tie, uint64_t step) const {
    uint64_t sum = 0;
    for (uint32_t stage : tables.ties[tie].stages)
      sum += sumOf(stage, step);
    return sum;
  }
  /// The operand row of that kind in front of a row; null: it has none.
  const runtime::Instruction *operand(uint32_t device, uint32_t index, runtime::Op op) const {
    const auto rows = tables.devices[device].instructions;
    for (; index > 0 && runtime::isOperand(rows[index - 1].op); --index)
      if (rows[index - 1].op == op)
        return &rows[index - 1];
    return nullptr;
  }
  double factor(const runtime::Context &c) const {
    if (c.op == runtime::Op::Scale)
      return tables.factors[tables.devices[c.device].instructions[c.index].d];
    const runtime::Instruction *row = operand(c.device, c.index, runtime::Op::Factor);
    return row ? tables.factors[row->d] : 1;
  }

  static bool contributes(runtime::Op op) {
    return op == runtime::Op::Backward || op == runtime::Op::BackwardWeight;
  }

private:
  const runtime::PlainTables plain;

public:
  const runtime::Tables &tables;

private:
  CopyFacts of(const runtime::Copy &copy) const {
    using runtime::Op;
    CopyFacts result;
    for (const runtime::Instruction &row : tables.devices[copy.device].instructions) {
      if (row.op == Op::Norm) {
        result.hasNorm = true;
        result.normIsLocal = (row.flags & runtime::Local) != 0;
      }
      if (row.stage != copy.stage)
        continue;
      result.contributions += contributes(row.op);
      result.reductions += row.op == Op::Reduce;
      result.updates += row.op == Op::Update;
      result.gathers |= row.op == Op::Unshard;
      result.reshards |= row.op == Op::Reshard;
      if (row.op == Op::ReduceTied)
        result.ties.push_back(row.d);
    }
    uint32_t members = 0;
    for (const runtime::Copy &other : tables.copies) {
      members += other.stage == copy.stage ? tables.replicas : 0;
      if (result.normIsLocal && other.device == copy.device)
        result.norm += normOf(other.stage);
    }
    if (!result.normIsLocal)
      for (uint32_t stage = 0; stage < tables.stages; ++stage)
        result.norm += normOf(stage) * (tables.reduction.sharded ? tables.replicas : 1);
    if (members > 1 || tables.reduction.copied)
      result.members = members;
    return result;
  }

  std::vector<CopyFacts> facts;                     // by Tables::copies
  std::vector<std::vector<uint32_t>> contributions; // microbatches, by stage
};

} // namespace sluice::test
