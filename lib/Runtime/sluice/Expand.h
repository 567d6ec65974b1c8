// Rows plus repeats, written out. Large tables say what comes again and again once, and how its operands
// move from turn to turn; they are made plain when an executor is built, so that nothing else knows of it.
#pragma once

#include "Schedule.h"

#include <array>
#include <optional>
#include <vector>

namespace sluice::runtime {

/// What the operands a, b, c, d of a row are numbers of. None: of nothing that moves in a repeat, such as
/// factors and skip edges.
constexpr std::array<std::optional<Pool>, 4> poolsOf(const Instruction &row) {
  constexpr std::optional<Pool> fixed = std::nullopt;
  switch (row.op) {
  case Op::Load:
  case Op::Loss:
    return {Pool::Boundary, Pool::Boundary, fixed, fixed};
  case Op::Forward:
  case Op::Backward:
  case Op::BackwardInput:
  case Op::BackwardWeight:
  case Op::Recompute:
    return {Pool::Boundary, Pool::Boundary, Pool::Saved, Pool::Pending};
  case Op::Drop:
  case Op::Offload:
  case Op::Reload:
    return {fixed, fixed, Pool::Saved, Pool::Host};
  case Op::Update:
    return {Pool::Version, Pool::Version, fixed, fixed};
  case Op::SendActivation:
  case Op::ReceiveActivation:
  case Op::SendGradient:
  case Op::ReceiveGradient:
    return {Pool::Boundary, Pool::Channel, fixed, fixed};
  case Op::Wait: {
    const Op waited = static_cast<Op>(row.b);
    if (waited == Op::Offload || waited == Op::Reload)
      return {fixed, fixed, Pool::Saved, Pool::Host};
    return {Pool::Boundary, fixed, fixed, fixed};
  }
  case Op::SkipInput:
  case Op::SkipOutput:
    return {Pool::Boundary, fixed, fixed, fixed};
  case Op::Carry:
    return {Pool::Carry, fixed, fixed, fixed};
  case Op::Weights:
    return {Pool::Version, fixed, fixed, fixed};
  case Op::Zero:
  case Op::Scale:
  case Op::Reduce:
  case Op::ReduceTied:
  case Op::Norm:
  case Op::Unshard:
  case Op::Reshard:
  case Op::Factor:
    return {};
  }
  return {};
}

/// Rows of `device` with its repeats written out.
constexpr uint64_t rowCount(const Device &device) {
  uint64_t count = device.instructions.size();
  for (const Repeat &repeat : device.repeats)
    count += uint64_t{repeat.rows} * (repeat.times - 1);
  return count;
}

/// What operands of one repeat become from turn to turn.
class OperandMoves {
public:
  explicit OperandMoves(std::span<const Move> moves) {
    for (const Move &move : moves) {
      std::vector<uint32_t> &next = nexts[static_cast<unsigned>(move.pool)];
      uint32_t operand = move.first;
      for (uint32_t i = 0; i < move.count; ++i, operand += static_cast<uint32_t>(move.stride)) {
        for (uint32_t stays = static_cast<uint32_t>(next.size()); stays <= operand; ++stays)
          next.push_back(stays);
        next[operand] = operand + static_cast<uint32_t>(move.shift);
      }
    }
  }
  void apply(Instruction &row) const {
    const std::array<std::optional<Pool>, 4> pools = poolsOf(row);
    uint32_t *const operands[] = {&row.a, &row.b, &row.c, &row.d};
    for (unsigned i = 0; i < 4; ++i) {
      if (!pools[i])
        continue;
      const std::vector<uint32_t> &next = nexts[static_cast<unsigned>(*pools[i])];
      if (*operands[i] < next.size())
        *operands[i] = next[*operands[i]];
    }
  }

private:
  std::array<std::vector<uint32_t>, poolCount> nexts; // shorter than the pool: the others stay
};

/// Every row of `device`, in order.
inline std::vector<Instruction> expand(const Device &device) {
  std::vector<Instruction> rows;
  rows.reserve(rowCount(device));
  uint32_t at = 0;
  size_t moved = 0;
  auto copyUntil = [&](uint32_t end) {
    for (; at < end; ++at)
      rows.push_back(device.instructions[at]);
  };
  for (const Repeat &repeat : device.repeats) {
    copyUntil(repeat.first + repeat.rows);
    const OperandMoves moves(device.moves.subspan(moved, repeat.moves));
    moved += repeat.moves;
    for (uint64_t left = uint64_t{repeat.rows} * (repeat.times - 1); left > 0; --left) {
      Instruction row = rows[rows.size() - repeat.rows];
      moves.apply(row);
      if (row.microbatch != noMicrobatch)
        row.microbatch += static_cast<uint32_t>(repeat.microbatches);
      rows.push_back(row);
    }
  }
  copyUntil(static_cast<uint32_t>(device.instructions.size()));
  return rows;
}

/// Tables without repeats. Those that have none are taken as they are; rows that are written out live here.
class PlainTables {
public:
  explicit PlainTables(const Tables &packed) : plain(packed) {
    bool isPlain = true;
    for (const Device &device : packed.devices)
      isPlain = isPlain && device.repeats.empty();
    if (isPlain)
      return;
    rows.reserve(packed.devices.size());
    for (const Device &device : packed.devices) {
      rows.push_back(expand(device));
      devices.push_back(device);
      devices.back().instructions = rows.back();
      devices.back().repeats = {};
      devices.back().moves = {};
    }
    plain.devices = devices;
  }
  PlainTables(const PlainTables &) = delete;
  PlainTables &operator=(const PlainTables &) = delete;
  const Tables &tables() const { return plain; }

private:
  Tables plain;
  std::vector<Device> devices;
  std::vector<std::vector<Instruction>> rows; // by device
};

} // namespace sluice::runtime
