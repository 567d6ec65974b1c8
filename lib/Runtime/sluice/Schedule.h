// The tables of a generated schedule: what every device runs, in order, with its buffers assigned.
// Light on purpose: generated headers include only this file; whoever runs a schedule includes Executor.h.
//
// A device owns pools of slots: boundaries (activations and gradients that cross an edge between stages),
// saveds (what a forward leaves for its backward), pendings (what an input half leaves for its weight half),
// hosts (a saved activation that was moved to host memory) and carries (what the splits of one sequence hand
// to each other). Instructions name slots by index; `noSlot` means none.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice::runtime {

/// Changes whenever the meaning of a row changes; generated code asserts the one it was written for.
inline constexpr int tableFormat = 2;
inline constexpr uint32_t noSlot = ~0u;
inline constexpr uint32_t noMicrobatch = ~0u;
inline constexpr uint32_t noWeight = ~0u;

/// What a row does, and what its slots a, b, c, d are. Load and Loss are no ops of a schedule: they belong
/// to the first stage's forward and to the last stage's backward, whose rows follow them. Nor are the
/// operands, SkipInput to Factor: what the row behind them needs beside its own slots.
enum class Op : uint8_t {
  Load,              ///< a: boundary that receives the model's input.
  Forward,           ///< a: input, b: output, c: saved (none where nothing or only the input is kept).
  Loss,              ///< a: output of the last stage, b: its gradient.
  Backward,          ///< a: gradient of the output, b: gradient of the input, c: saved.
  BackwardInput,     ///< As Backward, and d: pending.
  BackwardWeight,    ///< d: pending.
  Recompute,         ///< a: kept input, c: saved.
  Drop,              ///< c: saved.
  Offload,           ///< c: saved, d: host. Started: both are in use until the wait.
  Reload,            ///< As Offload.
  Zero,              ///< No slots, as Reduce, Norm, Unshard and Reshard.
  Scale,             ///< d: factor, an index into Tables::factors.
  Reduce,            ///< Joint with all copies of the stage on all replicas.
  ReduceTied,        ///< d: weight, an index into Tables::ties. `stage`: its lowest one here.
  Norm,              ///< Joint with all devices on all replicas, or Local.
  Update,            ///< a: version of the weights that is read, b: that is written; none: 0.
  Unshard,           ///< Joint with the other replicas of this device.
  Reshard,           ///<
  SendActivation,    ///< a: boundary, b: channel, c: skip edge (none: along the chain). Starts; a Wait or the
                     ///< slot's next use waits.
  ReceiveActivation, ///< As above.
  SendGradient,      ///< As above.
  ReceiveGradient,   ///< As above.
  Wait,              ///< Until what was started is done. b: its Op; of messages a: boundary, of Offload and
                     ///< Reload c, d, of ReduceTied d: as in the row that started it.
  SkipInput,         ///< Operand. a: boundary that comes over a skip edge, b: edge, into Tables::skips.
  SkipOutput,        ///< Operand. a: boundary to fill for a skip edge, b: edge.
  Carry,             ///< Operand. a: carry.
  Weights,           ///< Operand. a: version of the weights to read.
  Factor,            ///< Operand. d: factor, into Tables::factors.
};
inline constexpr unsigned opCount = 28;

constexpr std::string_view name(Op op) {
  constexpr std::string_view names[opCount] = {"load",
                                               "forward",
                                               "loss",
                                               "backward",
                                               "backward_input",
                                               "backward_weight",
                                               "recompute",
                                               "drop",
                                               "offload",
                                               "reload",
                                               "zero",
                                               "scale",
                                               "reduce",
                                               "reduce_tied",
                                               "norm",
                                               "update",
                                               "unshard",
                                               "reshard",
                                               "send_activation",
                                               "recv_activation",
                                               "send_gradient",
                                               "recv_gradient",
                                               "wait",
                                               "skip_input",
                                               "skip_output",
                                               "carry",
                                               "weights",
                                               "factor"};
  return names[static_cast<unsigned>(op)];
}
constexpr bool isSend(Op op) { return op == Op::SendActivation || op == Op::SendGradient; }
constexpr bool isReceive(Op op) { return op == Op::ReceiveActivation || op == Op::ReceiveGradient; }
constexpr bool isMessage(Op op) { return op >= Op::SendActivation && op <= Op::ReceiveGradient; }
constexpr bool isOperand(Op op) { return op >= Op::SkipInput; }
/// True for the ops a schedule is written in, but for communication; false for what is added: load, loss,
/// messages, waits and operands.
constexpr bool isScheduled(Op op) { return op < Op::SendActivation && op != Op::Load && op != Op::Loss; }

/// Bits of Instruction::flags. Their meaning depends on the op.
enum Flag : uint8_t {
  FirstContribution = 1, ///< The gradient is empty before this op: overwrite instead of adding.
  LastContribution = 2,  ///< No contribution follows before the reduction (or the update).
  KeepInput = 4,         ///< forward: only the input stays, for a recompute.
  KeepNothing = 8,       ///< forward: nothing stays.
  Started = 16,          ///< Offload, reload, unshard and reductions: only starts; a Wait follows.
  GroupFirst = 32,       ///< Messages: the first of several that are posted together.
  GroupLast = 64,        ///< The last of them.
  Local = 128,           ///< norm: of this device's stages alone.
};

struct Instruction {
  Op op;
  uint8_t flags;
  uint16_t stage;      ///< The stage that is here, for sends and receives too. Norm: 0.
  uint32_t microbatch; ///< noMicrobatch for what has none.
  uint32_t a, b, c, d;
};
static_assert(sizeof(Instruction) == 24);

/// What an operand of a row is a number of. Version: of the weights of the row's stage.
enum class Pool : uint8_t { Boundary, Saved, Pending, Host, Carry, Version, Channel };
inline constexpr unsigned poolCount = 7;

/// Where operands go from one turn of a repeat to the next: first, first + stride … , `count` of them, each
/// become themselves + shift. Operands of which nothing is said stay what they are.
struct Move {
  Pool pool;
  uint32_t first, count;
  int32_t stride, shift;
};

/// Instructions [first, first + rows) stand `times` times behind each other. From turn to turn microbatches
/// grow by `microbatches`, and operands go where the next `moves` of Device::moves say.
struct Repeat {
  uint32_t first, rows, times;
  int32_t microbatches;
  uint32_t moves;
};

struct Device {
  std::span<const Instruction> instructions;
  uint32_t boundaries, saveds, pendings; ///< Slots of each pool.
  uint32_t hosts = 0, carries = 0;
  /// Ascending, apart from each other. Executors work on tables without: Expand.h.
  std::span<const Repeat> repeats = {};
  std::span<const Move> moves = {};
};

/// A first-in first-out connection from one device to another; the n-th send pairs with the n-th receive.
struct Channel {
  uint32_t from, to;
};

/// A stage lives on a device. Listed by stage, then device.
struct Copy {
  uint32_t stage, device;
  uint32_t versions = 1; ///< Of its weights, that exist at once.
  uint32_t newest = 0;   ///< Where the newest is at the end of a step; it is at 0 at the start.
  uint32_t replica = 0;  ///< Set by the executor: tables are of one replica.
};

/// A weight on several stages.
struct Tie {
  std::string_view name;
  std::span<const uint32_t> stages; ///< As written.
  /// All copies are on one device: the weight is there once, and its gradient is part of that of the first
  /// stage. Otherwise it is no part of any stage's: only ReduceTied adds it up.
  bool isLocal;
};

/// An output of stage `from` that goes to stage `to` beside the chain.
struct Skip {
  uint32_t from, to;
  bool hasGradient;
};

/// What blocks: a send ends when its receive has started, when a slot of the channel is free, or at once.
/// `rendezvousPair` and `rendezvousDevice`: as rendezvous, but all messages between two devices, or all of a
/// device, are served one after the other (NCCL, one communicator and stream).
enum class ChannelModel : uint8_t { unbounded, eager, rendezvous, rendezvousPair, rendezvousDevice };
/// The channel models that a schedule completes under.
struct ChannelModels {
  bool unbounded, eager, rendezvous, rendezvousPair, rendezvousDevice;
  constexpr bool contains(ChannelModel model) const {
    switch (model) {
    case ChannelModel::unbounded:
      return unbounded;
    case ChannelModel::eager:
      return eager;
    case ChannelModel::rendezvous:
      return rendezvous;
    case ChannelModel::rendezvousPair:
      return rendezvousPair;
    case ChannelModel::rendezvousDevice:
      return rendezvousDevice;
    }
    return false;
  }
};

/// Which callbacks a schedule calls.
struct Uses {
  bool backward, splitBackward, recompute, zero, reduce, update;
  bool copies; ///< Some stage lives on several devices, so that a reduction adds over them.
  bool offload = false, norm = false, unshard = false, scale = false;
  bool tied = false;     ///< ReduceTied.
  bool factors = false;  ///< Backwards with a factor.
  bool skips = false;    ///< Skip edges.
  bool carries = false;  ///< Sequence splits.
  bool versions = false; ///< Several versions of weights at once.
};

/// What a reduction leaves.
struct Reduction {
  bool mean = false;    ///< Divided by the number of replicas.
  bool sharded = false; ///< A replica keeps its shard.
  bool copied = false;  ///< In a buffer of its own, which only the update reads.
};

/// Where a table comes from.
struct Provenance {
  std::string_view schedule;   ///< Its name.
  std::string_view parameters; ///< `P = 4, M = 8`.
  std::string_view digest;     ///< Of placement, ops and loss factors, not of source lines.
};

struct Tables {
  Provenance provenance;
  uint32_t stages, microbatches; ///< With sequence splits `microbatches` counts their units.
  std::span<const Device> devices;
  std::span<const Channel> channels;
  std::span<const Copy> copies;
  /// Per microbatch: what its mean loss counts in the loss of the step, samples(m) / batch.
  std::span<const double> lossFactor;
  uint32_t splits = 1;   ///< Units of a whole microbatch: unit u is split u % splits of u / splits.
  uint32_t replicas = 1; ///< Data-parallel, each with all devices.
  Reduction reduction = {};
  std::span<const double> factors = {};
  std::span<const Tie> ties = {};
  std::span<const Skip> skips = {};
};

/// A schedule as generated code defines it: tables, and in the type what is checked at compile time.
template <Uses usesOf, ChannelModels verifiedUnder> struct Schedule : Tables {
  static constexpr Uses uses = usesOf;
  static constexpr ChannelModels verified = verifiedUnder;
};

} // namespace sluice::runtime
