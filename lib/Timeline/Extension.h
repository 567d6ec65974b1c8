// Carries a simulation over the part of a program that repeats: once the last ends on all devices are those
// some blocks before moved on by one same time, so are all that follow, as far as the blocks repeat. Costs
// must be the same for all microbatches, and sums must not overflow. Private to lib/Timeline.
#pragma once

#include "Timeline/Repetition.h"

#include "llvm/ADT/ArrayRef.h"

namespace sluice {

class Extension {
public:
  /// Nothing where too little repeats to be worth a look. The repetition is narrowed to edges already.
  static std::optional<Extension> of(const Program &program, const ProgramIndex &index);

  /// Where the simulation should pause on `device` for the next look: an op that no overlap passes over. The
  /// end of its program once there is nothing more to gain.
  OpId pauseOf(uint32_t device) const;
  /// At a pause: `next` is the first op of each device without an end. Fills `ends` where they repeat, moves
  /// `next` behind them, and sets the next pause. False if times do not repeat yet.
  bool extend(llvm::MutableArrayRef<int64_t> ends, llvm::MutableArrayRef<OpId> next);

private:
  /// A device and how far it may be filled by another: so many blocks fewer at most.
  struct Need {
    uint32_t device, producer;
    int64_t ahead;
  };
  Extension(const Program &program, const ProgramIndex &index, Repetition repetition);

  bool findNeeds(llvm::ArrayRef<OpId> next);
  bool need(uint32_t device, OpId producer, llvm::ArrayRef<OpId> next);
  uint32_t repeatedBlocks(llvm::ArrayRef<int64_t> ends, llvm::ArrayRef<OpId> next, int64_t &period) const;
  bool repeats(llvm::ArrayRef<int64_t> ends, llvm::ArrayRef<OpId> next, uint32_t blocks,
               int64_t &period) const;
  bool shareOut(llvm::ArrayRef<OpId> next, std::vector<int64_t> &blocks) const;

  const Program &program;
  const ProgramIndex &index;
  Repetition repetition;
  uint64_t paused = 0; // blocks from the beginning of each part to its pause
  bool isDone = false;
  std::vector<Need> needs;
  std::vector<uint32_t> window; // ops before `next` that later ones may need, per device
};

} // namespace sluice
