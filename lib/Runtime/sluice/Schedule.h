// The tables of a generated schedule: what every device runs, in order, with its buffers assigned.
// Light on purpose: generated headers include only this file; whoever runs a schedule includes Executor.h.
//
// A device owns three pools of slots: boundaries (activations and gradients that cross an edge between
// stages), saveds (what a forward leaves for its backward) and pendings (what an input half leaves for
// its weight half). Instructions name slots by index; `noSlot` means none.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::runtime {

/// Changes whenever the meaning of a row changes; generated code asserts the one it was written for.
inline constexpr int tableFormat = 1;
inline constexpr uint32_t noSlot = ~0u;
inline constexpr uint32_t noMicrobatch = ~0u;

/// What a row does, and what its slots a, b, c, d are. Load and Loss are no ops of a schedule: they belong
/// to the first stage's forward and to the last stage's backward, whose rows follow them.
enum class Op : uint8_t {
  Load,              ///< a: boundary that receives the model's input.
  Forward,           ///< a: input, b: output, c: saved (none where nothing or only the input is kept).
  Loss,              ///< a: output of the last stage, b: its gradient.
  Backward,          ///< a: gradient of the output, b: gradient of the input, c: saved.
  BackwardInput,     ///< As Backward, and d: pending.
  BackwardWeight,    ///< d: pending.
  Recompute,         ///< a: kept input, c: saved.
  Drop,              ///< c: saved.
  Zero,              ///< No slots, as Reduce and Update.
  Reduce,            ///< Joint with all devices that hold a copy of the stage.
  Update,            ///<
  SendActivation,    ///< a: boundary, b: channel. Starts; the slot's next use waits.
  ReceiveActivation, ///< As above.
  SendGradient,      ///< As above.
  ReceiveGradient,   ///< As above.
};

constexpr std::string_view name(Op op) {
  constexpr std::string_view names[] = {
      "load",         "forward", "loss",   "backward", "backward_input",  "backward_weight", "recompute",
      "drop",         "zero",    "reduce", "update",   "send_activation", "recv_activation", "send_gradient",
      "recv_gradient"};
  return names[static_cast<unsigned>(op)];
}
constexpr bool isSend(Op op) { return op == Op::SendActivation || op == Op::SendGradient; }
constexpr bool isReceive(Op op) { return op == Op::ReceiveActivation || op == Op::ReceiveGradient; }
/// True for the ops a schedule is written in; false for load, loss and communication, which are added.
constexpr bool isScheduled(Op op) { return op < Op::SendActivation && op != Op::Load && op != Op::Loss; }

/// Bits of Instruction::flags.
enum Flag : uint8_t {
  FirstContribution = 1, ///< The gradient is empty before this op: overwrite instead of adding.
  LastContribution = 2,  ///< No contribution follows before the reduction (or the update).
  KeepInput = 4,         ///< forward: only the input stays, for a recompute.
  KeepNothing = 8,       ///< forward: nothing stays.
};

struct Instruction {
  Op op;
  uint8_t flags;
  uint16_t stage;      ///< The stage that is here, for sends and receives too.
  uint32_t microbatch; ///< noMicrobatch for zero, reduce, update.
  uint32_t a, b, c, d;
};
static_assert(sizeof(Instruction) == 24);

struct Device {
  std::span<const Instruction> instructions;
  uint32_t boundaries, saveds, pendings; ///< Slots of each pool.
};

/// A first-in first-out connection from one device to another; the n-th send pairs with the n-th receive.
struct Channel {
  uint32_t from, to;
};

/// A stage lives on a device. Listed by stage, then device.
struct Copy {
  uint32_t stage, device;
};

/// What blocks: a send ends when its receive has started, when a slot of the channel is free, or at once.
enum class ChannelModel : uint8_t { rendezvous, eager, unbounded };
/// The channel models that a schedule completes under.
struct ChannelModels {
  bool rendezvous, eager, unbounded;
  constexpr bool contains(ChannelModel model) const {
    return model == ChannelModel::rendezvous ? rendezvous : model == ChannelModel::eager ? eager : unbounded;
  }
};

/// Which callbacks a schedule calls.
struct Uses {
  bool backward, splitBackward, recompute, zero, reduce, update;
  bool copies; ///< Some stage lives on several devices, so that a reduction adds over them.
};

/// Where a table comes from.
struct Provenance {
  std::string_view schedule;   ///< Its name.
  std::string_view parameters; ///< `P = 4, M = 8`.
  std::string_view digest;     ///< Of placement, ops and loss factors, not of source lines.
};

struct Tables {
  Provenance provenance;
  uint32_t stages, microbatches;
  std::span<const Device> devices;
  std::span<const Channel> channels;
  std::span<const Copy> copies;
  /// Per microbatch: what its mean loss counts in the loss of the step, samples(m) / batch.
  std::span<const double> lossFactor;
};

/// A schedule as generated code defines it: tables, and in the type what is checked at compile time.
template <Uses usesOf, ChannelModels verifiedUnder> struct Schedule : Tables {
  static constexpr Uses uses = usesOf;
  static constexpr ChannelModels verified = verifiedUnder;
};

} // namespace sluice::runtime
