// Takes the ops of all devices in rounds: each round goes over the devices in ascending order, and a device
// whose next op (or overlap) has its inputs runs it. The order is that of PyTorch's placement of
// communication (torch.distributed.pipelining, _add_send_recv).
//
// A device that lacks an input is not asked again in vain: it waits at the op it lacks, which wakes it, in
// the same round if its turn is still to come. So the work is linear in ops whatever the number of devices.
#pragma once

#include "IR/Program.h"

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

/// Calls `visit(device, begin, end)` for each op or overlap when it runs. False if some device cannot go
/// on: the compute order is cyclic.
template <typename Visit> bool runInRounds(const Program &program, const ProgramIndex &index, Visit visit) {
  constexpr uint32_t nobody = noDevice, ran = noDevice - 1;
  // Per op: who waits for it first, or that it ran. More waiters follow in `otherWaiter`.
  std::vector<uint32_t> waiter(program.size(), nobody);
  std::vector<uint32_t> otherWaiter(program.devices, nobody);
  std::vector<OpId> next(program.deviceBegin.begin(), program.deviceBegin.end() - 1);
  auto firstLacking = [&](OpId begin, OpId end) {
    for (OpId op = begin; op < end; ++op)
      for (const Edge &edge : inputsOf(program, index, program.ops[op]))
        if (waiter[edge.from] != ran)
          return edge.from;
    return noOp;
  };
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
      if (OpId lacking = firstLacking(begin, end); lacking != noOp) {
        otherWaiter[d] = waiter[lacking];
        waiter[lacking] = d;
        continue;
      }
      for (OpId op = begin; op < end; ++op) {
        for (uint32_t other = waiter[op]; other != nobody; other = otherWaiter[other])
          if (other > d) {
            round.insert(other);
          } else {
            later.insert(other);
            ++woken;
          }
        waiter[op] = ran;
      }
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
