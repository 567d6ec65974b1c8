#include "Elaborate/Counts.h"

namespace sluice {

static constexpr unsigned countedKinds = 5;

static unsigned countedKind(OpKind kind) {
  switch (kind) {
  case OpKind::Forward:
    return 0;
  case OpKind::Backward:
  case OpKind::BackwardInput:
    return 1;
  case OpKind::BackwardWeight:
    return 2;
  case OpKind::Recompute:
    return 3;
  default:
    return 4;
  }
}

void OpCounts::begin(size_t stages, uint32_t microbatchCount) {
  microbatches = microbatchCount;
  counts.assign(stages * countedKinds, {});
}

OpCounts::Count &OpCounts::at(size_t stage, OpKind kind) {
  return counts[stage * countedKinds + countedKind(kind)];
}

void OpCounts::add(size_t stage, OpKind kind, uint32_t microbatch) {
  llvm::BitVector &done = at(stage, kind).done;
  if (done.size() <= microbatch)
    done.resize(microbatches);
  done.set(microbatch);
}

static constexpr uint32_t noEntry = ~0u;

void PendingHalves::begin(size_t stages, uint32_t microbatchCount) {
  microbatches = microbatchCount;
  entries.clear();
  all = {};
  ofStage.assign(stages, {});
  last.assign(stages * microbatches, noEntry);
}

void PendingHalves::open(Half half) {
  auto entry = static_cast<uint32_t>(entries.size());
  entries.push_back({half});
  all.entries.push_back(entry);
  ofStage[half.stage].entries.push_back(entry);
  lastOf(half) = entry;
}

void PendingHalves::close(Half half) {
  if (uint32_t entry = lastOf(half); entry != noEntry)
    remove(entry);
}

std::optional<PendingHalves::Half> PendingHalves::take(bool newest, std::optional<uint32_t> stage) {
  const Queue &queue = stage ? ofStage[*stage] : all;
  if (queue.first == queue.entries.size())
    return std::nullopt;
  uint32_t entry = newest ? queue.entries.back() : queue.entries[queue.first];
  remove(entry);
  return entries[entry].half;
}

void PendingHalves::remove(uint32_t entry) {
  const Half half = entries[entry].half;
  entries[entry].isOpen = false;
  if (lastOf(half) == entry)
    lastOf(half) = noEntry;
  trim(ofStage[half.stage]);
  trim(all);
}

/// What is closed inside a queue stays until an end reaches it, so that each entry is dropped once.
void PendingHalves::trim(Queue &queue) const {
  while (queue.entries.size() > queue.first && !entries[queue.entries.back()].isOpen)
    queue.entries.pop_back();
  while (queue.first < queue.entries.size() && !entries[queue.entries[queue.first]].isOpen)
    ++queue.first;
}

} // namespace sluice
