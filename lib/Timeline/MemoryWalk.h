// One walk over a device's program that keeps account of what is live. Private to lib/Timeline.
#pragma once

#include "Timeline/Memory.h"

#include <array>

namespace sluice {

/// Walks devices one after the other, reusing its columns. Keeps references to what it is made from.
class MemoryWalk {
public:
  MemoryWalk(const Program &program, const ProgramIndex &index, const CostModel &costs,
             const Timeline &timeline, const Versions *versions);

  /// Peaks of one device, without the list of what is live.
  DeviceMemory peaksOf(uint32_t device);
  /// What is live at the peak that peaksOf has just found for the same device.
  std::vector<LiveItem> liveAtPeak(uint32_t device);
  /// After peaksOf: raises `inFlight` of the device's stages to what it has seen.
  void raiseInFlight(std::vector<uint32_t> &inFlight) const;
  bool hasOverflowed() const { return overflowed; }

private:
  enum class State : uint8_t { None, Input, Saved, Half };
  static constexpr unsigned dynamicKinds = static_cast<unsigned>(LiveKind::Weights);
  struct Live {
    uint32_t stage = 0;
    uint32_t inFlight = 0, mostInFlight = 0;
    uint32_t versions = 1; ///< Of its weights.
    std::array<uint32_t, dynamicKinds> count{};
    std::array<int64_t, dynamicKinds> bytes{};
  };
  struct Arrival {
    int64_t time;
    uint32_t stage, microbatch; // of the consumer
    LiveKind kind;
  };

  void begin(uint32_t device);
  void collectArrivals(uint32_t device);
  void walk(uint32_t device);
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
  void addStatics(uint32_t device);
  void keepVersions(OpId id);
  std::vector<LiveItem> items() const;

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
  bool countsBoundaries;

  std::vector<uint32_t> localOf; // per stage, into `locals`, where the device has ops of it
  std::vector<Live> locals;
  std::vector<State> states; // local stage times microbatches
  std::vector<Arrival> arrivals;
  size_t nextArrival = 0;
  uint32_t activations = 0, saved = 0, pending = 0; // slots now
  int64_t total = 0;                                // bytes now
  DeviceMemory peaks;
  uint64_t moment = 0, peakMoment = 0, listedMoment = 0; // measurements of this walk, from 1
  bool overflowed = false;
};

} // namespace sluice
