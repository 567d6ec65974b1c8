// Takes the ops of all devices in rounds: each round goes over the devices in ascending order, and a device
// whose next op (or overlap) has its inputs runs it. The order is that of PyTorch's placement of
// communication (torch.distributed.pipelining, _add_send_recv).
//
// What several devices make together, a reduction of copies say, runs on none of them before all have come to
// it: else a receive would be placed behind a call that the sender makes only after its send.
//
// A device that lacks an input is not asked again in vain: what it lacks wakes it when it is made, in the
// same round if its turn is still to come. So the work is linear in ops whatever the number of devices.
#pragma once

#include "Passes/JointCalls.h"

#include "llvm/Support/Compiler.h"

#include <algorithm>
#include <bit>

namespace sluice {

/// Devices as bits, with a summary bit for each word, so that the next one is found in a few steps.
class DeviceSet {
public:
  explicit DeviceSet(uint32_t devices) : words(devices / 64 + 1), summary(words.size() / 64 + 1) {}
  void insert(uint32_t device) {
    words[device / 64] |= bit(device);
    summary[device / 4096] |= bit(device / 64);
  }
  /// Removes and returns the first device from `from` on; noDevice if there is none.
  uint32_t takeFrom(uint32_t from) {
    size_t word = from / 64;
    if (word >= words.size())
      return noDevice;
    uint64_t bits = words[word] & (~uint64_t(0) << from % 64);
    if (bits == 0) {
      word = nextWord(word + 1);
      if (word == words.size())
        return noDevice;
      bits = words[word];
    }
    const auto device = static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
    words[word] &= ~bit(device);
    if (words[word] == 0)
      summary[word / 64] &= ~bit(static_cast<uint32_t>(word));
    return device;
  }
  void swap(DeviceSet &other) {
    words.swap(other.words);
    summary.swap(other.summary);
  }

private:
  static uint64_t bit(uint32_t index) { return uint64_t(1) << index % 64; }
  /// First word from `word` on that holds a device.
  size_t nextWord(size_t word) const {
    size_t group = word / 64;
    if (group >= summary.size())
      return words.size();
    uint64_t bits = summary[group] & (~uint64_t(0) << word % 64);
    while (bits == 0) {
      if (++group == summary.size())
        return words.size();
      bits = summary[group];
    }
    return group * 64 + static_cast<size_t>(std::countr_zero(bits));
  }

  std::vector<uint64_t> words, summary;
};

/// The op that takes what `op` hands to a neighbouring stage; noOp if it hands on nothing.
inline OpId consumerOf(const Program &program, const ProgramIndex &index, const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
    return op.stage + 1u < program.stages ? index.forward(op.stage + 1u, op.microbatch) : noOp;
  case OpKind::Backward:
  case OpKind::BackwardInput:
    return op.stage > 0 ? index.backward(op.stage - 1u, op.microbatch) : noOp;
  default:
    return noOp;
  }
}

/// What each device waits for. Inputs from its own earlier ops are there when an op's turn comes; those from
/// other devices are delivered when they are made.
class Deliveries {
public:
  /// `isPossible` turns false if an op needs a later one of its own device, or of its own overlap.
  Deliveries(const Program &program, const ProgramIndex &index, bool &isPossible)
      : program(program), missing(program.size()), consumer(program.size(), noOp) {
    for (uint32_t d = 0; d < program.devices; ++d) {
      const OpId first = program.deviceBegin[d], last = program.deviceBegin[d + 1];
      for (OpId op = first, begin = first; op < last; ++op) {
        if (!program.ops[op].has(OverlapFollower))
          begin = op;
        for (const Edge &edge : inputsOf(program, index, program.ops[op]))
          if (edge.from < first || edge.from >= last)
            expect(edge.from, op);
          else if (edge.from >= begin)
            isPossible = false;
      }
    }
    std::sort(furtherConsumers.begin(), furtherConsumers.end());
  }

  /// Asks for what the ops some turns behind `op` will need: rounds touch every device a little at a time,
  /// too many places for the hardware to see what comes next.
  void prefetch(OpId op) const {
    LLVM_PREFETCH(program.ops.data() + op + 16, 0, 3);
    LLVM_PREFETCH(consumer.data() + op + 32, 0, 3);
    LLVM_PREFETCH(missing.data() + op + 64, 1, 3);
  }
  bool areHere(OpId begin, OpId end) const {
    return std::all_of(missing.begin() + begin, missing.begin() + end,
                       [](uint8_t count) { return count == 0; });
  }
  /// Calls `deliver(consumer)` for each op of another device that has waited for `op`.
  template <typename Deliver> void make(OpId op, Deliver deliver) {
    if (consumer[op] == noOp)
      return;
    --missing[consumer[op]];
    deliver(consumer[op]);
    if (furtherConsumers.empty())
      return;
    auto further = std::lower_bound(furtherConsumers.begin(), furtherConsumers.end(), std::pair(op, OpId(0)));
    for (; further != furtherConsumers.end() && further->first == op; ++further) {
      --missing[further->second];
      deliver(further->second);
    }
  }
  uint32_t deviceOf(OpId op) const {
    const uint32_t placed = program.deviceOf(program.ops[op].stage, program.ops[op].microbatch);
    const bool isThere =
        placed < program.devices && op >= program.deviceBegin[placed] && op < program.deviceBegin[placed + 1];
    return isThere ? placed : program.deviceOf(op);
  }

private:
  void expect(OpId from, OpId op) {
    ++missing[op];
    if (consumer[from] == noOp)
      consumer[from] = op;
    else
      furtherConsumers.push_back({from, op});
  }

  const Program &program;
  std::vector<uint8_t> missing;                        // inputs of each op
  std::vector<OpId> consumer;                          // the first, of each op
  std::vector<std::pair<OpId, OpId>> furtherConsumers; // by producer; hardly any
};

/// Calls `visit(device, begin, end)` for each op or overlap when it runs. False if some device cannot go
/// on: the compute order is cyclic.
template <typename Visit> bool runInRounds(const Program &program, const ProgramIndex &index, Visit visit) {
  bool isPossible = true;
  Deliveries deliveries(program, index, isPossible);
  if (!isPossible)
    return false;
  JointCalls calls(program);
  std::vector<OpId> next(program.deviceBegin.begin(), program.deviceBegin.end() - 1);
  std::vector<bool> isWaiting(program.devices);
  DeviceSet round(program.devices), later(program.devices);
  uint32_t unfinished = 0, woken = 0;
  for (uint32_t device = 0; device < program.devices; ++device)
    if (next[device] != program.deviceBegin[device + 1]) {
      round.insert(device);
      ++unfinished;
    }
  for (uint32_t turns = unfinished; turns > 0; turns = woken, round.swap(later)) {
    woken = 0; // for the next round
    for (uint32_t d = round.takeFrom(0); d != noDevice; d = round.takeFrom(d + 1)) {
      const OpId begin = next[d], last = program.deviceBegin[d + 1];
      const OpId end = std::min(program.groupEnd(begin), last);
      deliveries.prefetch(begin);
      auto wake = [&](uint32_t device) {
        isWaiting[device] = false;
        (device > d ? round : later).insert(device);
        woken += device < d;
      };
      if (!deliveries.areHere(begin, end) || !calls.comeTo(begin, d, wake)) {
        isWaiting[d] = true;
        continue;
      }
      for (OpId op = begin; op < end; ++op)
        deliveries.make(op, [&](OpId consumer) {
          const uint32_t device = deliveries.deviceOf(consumer);
          if (isWaiting[device] && consumer < program.groupEnd(next[device]))
            wake(device);
        });
      visit(d, begin, end);
      next[d] = end;
      if (end == last) {
        --unfinished;
      } else {
        later.insert(d);
        ++woken;
      }
    }
  }
  return unfinished == 0;
}

} // namespace sluice
