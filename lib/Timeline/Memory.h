// What is live on each device, in slots and in bytes. Slots and a device's own bytes follow from the order
// of its program alone: an op takes what its result needs at its start and frees what it used at its end.
// Bytes add the statics (weights, gradients, optimizer state, reserved), the boundaries that arrive from
// other devices (from the start of their transfer, which the timeline gives) and the workspace of the op
// that runs. Weights count once for each version of them that is kept, and their shard alone while they are
// resharded; what is offloaded counts nothing.
#pragma once

#include "IR/Versions.h"
#include "Timeline/Simulate.h"

namespace sluice {

enum class LiveKind : uint8_t {
  Saved,              ///< Between a stage's forward and its backward or input half.
  KeptInput,          ///< All that a forward with `keep input` leaves.
  Pending,            ///< Between the two halves of a backward.
  ReceivedActivation, ///< Until the consumer starts; with `keep nothing` until it ends.
  ReceivedGradient,   ///< Until the consumer ends.
  LastOutput,         ///< Of the last stage, later the loss gradient in its place.
  Workspace,
  Weights,
  Gradients,
  OptimizerState,
  Reserved,
};
inline constexpr unsigned liveKindCount = 11;
/// `saved activations`, `weights`: as in a list of what is live.
llvm::StringRef name(LiveKind kind);

struct Steady;

inline constexpr uint32_t noStage = ~0u;

/// `count` tensors of one kind and stage, `bytes` in all. Reserved memory has no stage.
struct LiveItem {
  LiveKind kind;
  uint32_t stage = noStage;
  uint32_t count = 1;
  int64_t bytes = 0;
};

struct DeviceMemory {
  uint32_t peakActivation = 0; ///< Most (stage, microbatch) pairs saved or half done at once.
  uint32_t peakSaved = 0;      ///< Most slots of saved activations; an input half holds one to its end.
  uint32_t peakPending = 0;    ///< Most slots of half-done backwards; an input half holds one from its start.
  int64_t peakBytes = 0;
  int64_t peakTime = 0;           ///< When the peak is first reached, in CostModel::unit.
  OpId peakOp = noOp;             ///< The op that runs then, or the next to run.
  std::vector<LiveItem> livePeak; ///< What adds up to peakBytes, largest first; items of 0 bytes left out.
};

/// What a device holds from `time` on.
struct MemoryPoint {
  int64_t time = 0; ///< In CostModel::unit.
  int64_t bytes = 0;
  uint32_t activations = 0; ///< Pairs of stage and microbatch saved or half done.
  friend bool operator==(const MemoryPoint &, const MemoryPoint &) = default;
};

/// The first moment at which a device holds more than its limit.
struct MemoryExcess {
  uint32_t device = 0;
  int64_t bytes = 0;
  OpId op = noOp; ///< That runs then or next; noOp on a device without ops.
  std::vector<LiveItem> live;
  int64_t peakBytes = 0; ///< Of the device.
  OpId peakOp = noOp;
};

struct MemoryFigures {
  std::vector<DeviceMemory> devices;
  /// Per stage: most microbatches between the start of their forward and the end of their backward or weight
  /// half, whatever they keep; of a stage with copies the most on one device.
  std::vector<uint32_t> inFlight;
};

/// Nothing if a size leaves 64 bits, which is finding 106. Bytes are 0 where the file gives no sizes. Without
/// `versions` one of each weight is kept, as a synchronous step does. With `repeated` (repeatedParts) a block
/// is walked once for all that repeat it, which changes no figure.
std::optional<MemoryFigures> memoryFigures(const Program &program, const ProgramIndex &index,
                                           const CostModel &costs, const Timeline &timeline,
                                           Diagnostics &diagnostics, const Versions *versions = nullptr,
                                           const Steady *repeated = nullptr);

/// What `device` holds over time: a point wherever bytes or activations change, the first at time 0, of one
/// moment the last. Its most bytes are DeviceMemory::peakBytes, unless they are held for no time.
std::vector<MemoryPoint> memoryCurve(const Program &program, const ProgramIndex &index,
                                     const CostModel &costs, const Timeline &timeline, uint32_t device,
                                     const Versions *versions = nullptr);

/// The devices that hold more than CostModel::memoryLimit allows, ascending; none where it is not given.
/// Bytes beyond 64 bits are finding 106, and nothing is returned.
std::vector<MemoryExcess> memoryExcesses(const Program &program, const ProgramIndex &index,
                                         const CostModel &costs, const Timeline &timeline,
                                         Diagnostics &diagnostics, const Versions *versions = nullptr);

} // namespace sluice
