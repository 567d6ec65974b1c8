// One walk over a device's program that keeps account of what is live. Private to lib/Timeline.
#pragma once

#include "IR/GradientSets.h"
#include "Timeline/Memory.h"
#include "Timeline/Steady.h"

#include "llvm/ADT/DenseMap.h"

#include <array>
#include <limits>

namespace sluice {

/// Walks devices one after the other, reusing its columns. Keeps references to what it is made from.
class MemoryWalk {
public:
  /// With `repeated` a block is walked once for all that repeat it.
  MemoryWalk(const Program &program, const ProgramIndex &index, const CostModel &costs,
             const Timeline &timeline, const Versions *versions, const Steady *repeated = nullptr);

  /// Peaks of one device, without the list of what is live.
  DeviceMemory peaksOf(uint32_t device, int64_t limit = std::numeric_limits<int64_t>::max());
  /// What is live at the peak that peaksOf has just found for the same device.
  std::vector<LiveItem> liveAtPeak(uint32_t device) { return liveAt(device, peakMoment); }
  /// The same where the limit was first exceeded, which it must have been, and the op that ran.
  std::vector<LiveItem> liveAtExcess(uint32_t device) { return liveAt(device, excessMoment); }
  std::vector<MemoryPoint> curveOf(uint32_t device);
  OpId opAtExcess() const { return excessOp; }
  /// After peaksOf: raises `inFlight` of the device's stages to what it has seen.
  void raiseInFlight(std::vector<uint32_t> &inFlight) const;
  bool hasOverflowed() const { return overflowed; }

private:
  enum class State : uint8_t { None, Input, Host, Saved, Half };
  static constexpr unsigned dynamicKinds = static_cast<unsigned>(LiveKind::Weights);
  struct Live {
    uint32_t stage = 0;
    uint32_t inFlight = 0, mostInFlight = 0;
    uint32_t versions = 1;                                    ///< Of its weights.
    bool unshards = false, reshards = false, reduces = false; ///< Has such ops on this device.
    bool isPresent = true;                                    ///< Else a shard of its weights is.
    GradientSets sets;
    int64_t statics = 0; ///< Its part of `total` that no op brings.
    std::array<uint32_t, dynamicKinds> count{};
    std::array<int64_t, dynamicKinds> bytes{};
  };
  struct Arrival {
    int64_t time;
    int64_t bytes;
    OpId consumer;
    uint16_t stage; // of the consumer
    LiveKind kind;
  };
  /// Which repeated blocks of a device may be left out; MemoryJump.cpp.
  struct Jump {
    OpId begin = 0, end = 0; ///< What ops in here receive comes `length` ops later one period later.
    uint32_t length = 0;
    int64_t soonest = 0; ///< The first arrival for an op of the first block.
  };
  /// All that is counted now, apart from the states.
  struct Account {
    int64_t total;
    uint32_t activations, saved, pending;
    std::vector<Live> locals;
    bool operator==(const Account &other) const;
  };
  struct Kept {
    size_t local;
    uint32_t microbatch;
    State state;
  };

  std::vector<LiveItem> liveAt(uint32_t device, uint64_t moment);
  void begin(uint32_t device);
  void findStages(uint32_t device);
  void collectAllArrivals(uint32_t device);
  void collectArrivals(llvm::ArrayRef<std::pair<OpId, OpId>> consumers);
  void findReceives(uint32_t device);
  int64_t underWaySince(OpId producer, uint32_t consumerStage) const;
  void walk(uint32_t device);
  void walkOps(OpId begin, OpId end);
  bool walkWithJump(uint32_t device);
  std::optional<Jump> findJump(uint32_t device) const;
  void jump(uint32_t device, const Jump &jump, OpId from, llvm::ArrayRef<Kept> kept);
  void dropTaken();
  std::vector<Kept> keptStates(uint32_t microbatches) const;
  Account account() const { return {total, activations, saved, pending, locals}; }
  bool isListed() const { return listedMoment != 0 && moment >= listedMoment; }
  void takeArrival(const Arrival &arrival);
  void takeArrivals(int64_t before, OpId next);
  void beginOp(const Op &op);
  void endOp(const Op &op);
  void beginState(const Op &op);
  void endState(const Op &op);
  void exchange(State before, State after, const Op &op);
  void take(LiveKind kind, uint32_t stage, int64_t bytes);
  void release(LiveKind kind, uint32_t stage, int64_t bytes);
  void measure(int64_t time, OpId op);
  void extendCurve(const MemoryPoint &now);
  void addStatics(uint32_t device);
  void keepVersions(OpId id);
  void beginStatics(const Op &op);
  void endStatics(const Op &op);
  void recount(Live &local);
  int64_t times(int64_t bytes, uint32_t count);
  int64_t shard(int64_t bytes) const;
  int64_t weightBytes(const Live &local);
  int64_t optimizerBytes(uint32_t stage) const;
  template <typename Visit> void eachReceived(EdgeKind kind, const Op &op, Visit visit) const;
  void releaseReceived(EdgeKind kind, const Op &op);
  std::vector<LiveItem> items();

  static State stateAfter(const Op &op);
  static LiveKind kindOf(State state);
  int64_t sizeOf(State state, const Op &op) const;
  bool receives(EdgeKind kind, const Op &op) const;
  bool isLast(const Op &op) const { return op.stage + 1u == program.stages; }
  int64_t workspace(const Op &op) const { return op.isCompute() ? costs.workspace[op.stage] : 0; }
  Live &live(uint32_t stage) { return locals[localOf[stage]]; }
  State &state(const Op &op) {
    return states[static_cast<size_t>(localOf[op.stage]) * program.microbatches + op.microbatch];
  }

  const Program &program;
  const ProgramIndex &index;
  const CostModel &costs;
  const Timeline &timeline;
  const Versions *versions; // null: one version of all weights
  const Steady *repeated;   // null: every op is walked
  bool countsBoundaries;
  std::vector<llvm::SmallVector<uint32_t, 2>> skipsInto, skipsFrom; // per stage; empty without skip edges
  bool hasZero = false;        // asked for only where contributions are kept apart
  bool changesStatics = false; // on the device at hand, other than by versions

  std::vector<uint32_t> localOf; // per stage, into `locals`, where the device has ops of it
  std::vector<Live> locals;
  std::vector<State> states; // local stage times microbatches
  std::vector<Arrival> arrivals;
  uint32_t arrivalsOf = noDevice;      // the device of which they are all there
  int64_t lastStart = 0, lastStop = 0; // of the op walked last
  /// Where communication is written, by what is sent and its receiving stage: when its transfer starts.
  llvm::DenseMap<std::pair<uint64_t, uint32_t>, int64_t> receivedFrom;
  size_t nextArrival = 0;
  uint32_t activations = 0, saved = 0, pending = 0; // slots now
  int64_t total = 0;                                // bytes now
  DeviceMemory peaks;
  uint64_t moment = 0, peakMoment = 0, listedMoment = 0; // measurements of this walk, from 1
  int64_t limit = std::numeric_limits<int64_t>::max();
  std::vector<MemoryPoint> *curve = nullptr; // where it is asked for
  uint64_t excessMoment = 0;                 // the first above the limit
  OpId excessOp = noOp;
  bool overflowed = false;
};

/// Calls `visit(producer, bytes)` for each boundary that `op` gets from another device.
template <typename Visit> void MemoryWalk::eachReceived(EdgeKind kind, const Op &op, Visit visit) const {
  const uint32_t s = op.stage, m = op.microbatch;
  const bool isActivation = kind == EdgeKind::Activation;
  if (receives(kind, op)) {
    if (isActivation)
      visit(index.forward(s - 1, m), costs.boundary.at(s - 1, m));
    else
      visit(index.backward(s + 1, m), costs.boundary.at(s, m));
  }
  if (skipsInto.empty() || (isActivation ? op.kind != OpKind::Forward : !op.makesGradient()))
    return;
  for (uint32_t skip : isActivation ? skipsInto[s] : skipsFrom[s]) {
    const uint32_t other = isActivation ? program.skips[skip].from : program.skips[skip].to;
    const OpId producer = isActivation ? index.forward(other, m) : index.backward(other, m);
    if (producer != noOp && program.deviceOf(other, m) != program.deviceOf(s, m))
      visit(producer, costs.skipBoundary[skip].at(0, m));
  }
}

} // namespace sluice
