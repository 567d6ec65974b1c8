// The rows of one device: each op of its program with its slots, each message and wait, and what training
// adds.
//
// An op takes its slots at its start and gives them back at its end, the members of an overlap together. The
// slot of a message that is written belongs to it until its wait; where waits are lazy a send gives its slot
// back at once, since the next use of the slot waits. Linear in ops.
#pragma once

#include "IR/CostModel.h"
#include "Passes/LossFactors.h"
#include "Passes/MessageChannels.h"
#include "Passes/SlotPool.h"
#include "Passes/TrainingRows.h"
#include "Passes/VersionSlots.h"

namespace sluice {

/// What the rows of all devices are made from. `program` has its communication written; `index` may be that
/// of the program it was made from.
struct RowSource {
  const Program &program;
  const ProgramIndex &index;
  const MessageChannels &channels;
  const VersionSlots &versions;
  TrainingRows &training;
  bool waitsLazily; ///< Messages have no Wait rows.
};

class DeviceRows {
public:
  explicit DeviceRows(const RowSource &source);
  /// How many boundary slots a device has in use at once.
  uint32_t boundariesOf(uint32_t device);
  /// With `boundaries` slots at hand from the start.
  DeviceTable lower(uint32_t device, uint32_t boundaries);

private:
  using RuntimeOp = runtime::Op;
  static constexpr uint32_t none = runtime::noSlot;

  /// Where a (stage, microbatch) of the device has its things at this point of the walk.
  struct Held {
    uint32_t input = none, output = none, gradient = none, saved = none, pending = none, host = none;
    uint32_t inputGradient = none; // made here, for a message or the stage before on this device
  };
  /// The same of a skip edge and microbatch: `made` at the end that sends, `come` at the other.
  struct SkipHeld {
    uint32_t activationMade = none, activationCome = none, gradientMade = none, gradientCome = none;
  };

  void begin(uint32_t device, uint32_t boundaries);
  void walk(uint32_t device, uint32_t boundaries);
  void giveBack();
  uint32_t local(uint32_t stage);
  Held &held(uint32_t stage, uint32_t microbatch) {
    return tables[static_cast<size_t>(local(stage)) * program.microbatches + microbatch];
  }
  SkipHeld &heldOver(uint32_t skip, uint32_t microbatch);
  void row(RuntimeOp kind, const Op &op, uint32_t a = none, uint32_t b = none, uint32_t c = none,
           uint32_t d = none, uint8_t flags = 0) {
    rows.push_back({kind, flags, op.stage, op.microbatch, a, b, c, d});
  }

  void run(OpId id);
  void forward(OpId id);
  void backward(OpId id, RuntimeOp kind);
  void recompute(OpId id);
  void drop(const Op &op);
  void offload(const Op &op);
  void reload(const Op &op);
  void withoutSlots(RuntimeOp kind, const Op &op, uint32_t weight = none);
  void update(OpId id);
  OpId messages(OpId first, OpId end);
  void message(OpId id, uint8_t flags);
  void wait(OpId id);
  uint32_t &slotOf(OpId id);

  void carryOperand(const Op &op);
  void weightsOperand(OpId id);
  void factorOperand(OpId id);
  void skipInputs(const Op &op);
  void skipOutputs(const Op &op);
  void releaseInputs(Held &here, const Op &op);
  void releaseCarry(const Op &op);
  uint32_t lowestMember(uint32_t weight) const;

  const Program &program;
  const ProgramIndex &index;
  const RowSource source;
  uint32_t device = 0;
  SlotPool boundaries, saveds, pendings, hosts, carries;
  std::vector<uint32_t> localOf; // per stage: its number here, or none
  std::vector<uint32_t> here;    // stages by local number
  std::vector<bool> hasVersions; // by local number
  std::vector<Held> tables;      // local stage times microbatches
  std::vector<std::vector<SkipHeld>> skipTables;
  std::vector<uint32_t> carryOf;          // local stage times whole microbatches
  std::vector<runtime::Instruction> rows; // of one device after the other
};

} // namespace sluice
