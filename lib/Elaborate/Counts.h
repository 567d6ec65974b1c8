// What `next`, `oldest`, `newest` and `all` stand for while the program of one device is expanded: which
// microbatches have had which kind of op, and which input halves wait for their weight half. Stages are
// counted by their place among the stages of the device. All calls take constant time on average.
#pragma once

#include "IR/Program.h"

#include "llvm/ADT/BitVector.h"

#include <optional>

namespace sluice {

/// Which microbatches have had an op of each kind; `backward` and `backward_input` are one kind.
class OpCounts {
public:
  /// Forgets everything; the device at hand has `stages` stages.
  void begin(size_t stages, uint32_t microbatches);
  void add(size_t stage, OpKind kind, uint32_t microbatch);
  /// The lowest microbatch that `isHere` accepts and that has had no op of this kind; nothing if all have.
  template <typename IsHere> std::optional<uint32_t> lowest(size_t stage, OpKind kind, IsHere isHere) {
    Count &count = at(stage, kind);
    uint32_t &m = count.lowest;
    while (m < microbatches && ((m < count.done.size() && count.done.test(m)) || !isHere(m)))
      ++m;
    return m < microbatches ? std::optional(m) : std::nullopt;
  }

private:
  struct Count {
    uint32_t lowest = 0; ///< None below it is left.
    llvm::BitVector done;
  };
  Count &at(size_t stage, OpKind kind);

  uint32_t microbatches = 0;
  std::vector<Count> counts;
};

/// The input halves that wait for their weight half, in program order.
class PendingHalves {
public:
  struct Half {
    uint32_t stage; ///< Its place among the stages of the device.
    uint32_t microbatch;
  };
  void begin(size_t stages, uint32_t microbatches);
  void open(Half half);
  /// The weight half of this pair has run; nothing happens if none was pending.
  void close(Half half);
  /// Takes out the oldest or newest half, of one stage or of all.
  std::optional<Half> take(bool newest, std::optional<uint32_t> stage);

private:
  struct Entry {
    Half half;
    bool isOpen = true;
  };
  /// Entries in program order of which the first from `first` on and the last are open.
  struct Queue {
    std::vector<uint32_t> entries;
    size_t first = 0;
  };
  void remove(uint32_t entry);
  void trim(Queue &queue) const;
  uint32_t &lastOf(Half half) {
    return last[half.stage * static_cast<size_t>(microbatches) + half.microbatch];
  }

  uint32_t microbatches = 0;
  std::vector<Entry> entries;
  Queue all;
  std::vector<Queue> ofStage;
  std::vector<uint32_t> last; // per pair, its last entry that is open
};

} // namespace sluice
