// The dependency IR: every schedule, whatever it was written in, becomes one Program. Ops lie device by
// device in program order as flat columns; op ids are dense, so `deviceBegin[d] + i` is the i-th op of
// device d. Edges between ops are not stored but found through ProgramIndex and Placement: they are
// functions of (stage, microbatch), which keeps the IR at 16 bytes an op and a walk at streaming speed.
#pragma once

#include "IR/StageTable.h"
#include "Support/Rational.h"
#include "Support/Source.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

using OpId = uint32_t;
inline constexpr OpId noOp = ~0u;
inline constexpr uint32_t noMicrobatch = ~0u;
inline constexpr uint32_t noDevice = ~0u;
/// Stages are 16 bits wide in an op.
inline constexpr uint32_t maxStages = 1u << 16;
inline constexpr uint64_t maxOps = 0xffff'fffe;

enum class OpKind : uint8_t {
  Forward,
  Backward,       ///< Both gradients at once.
  BackwardInput,  ///< The half that the stage before waits for.
  BackwardWeight, ///< The half that only the update waits for.
  Recompute,
  Drop,
  Offload,        ///< The saved activation moves to host memory.
  Reload,         ///< It comes back.
  SendActivation, ///< Of this stage's output. Sends and receives are named by the stage that is here.
  RecvActivation, ///< Of the output of the stage before.
  SendGradient,   ///< Of this stage's input gradient.
  RecvGradient,   ///< Of the input gradient of the stage behind.
  Zero,
  Reduce,
  Update,
  Unshard,    ///< The gathered weights of a stage appear.
  Reshard,    ///< They go.
  Scale,      ///< Multiplies what the accumulator of a stage holds here by a factor of Program::factors.
  ReduceTied, ///< Adds the gradients of one weight over its stages: `stage` is one of them, `microbatch` the
              ///< index of the weight in Program::ties.
  Norm,       ///< The norm over every gradient, agreed by all devices; `stage` is 0.
};
inline constexpr unsigned opKindCount = 20;
llvm::StringRef name(OpKind kind);

/// Bits of Op::flags. Some mean another thing for other kinds of ops.
enum OpFlag : uint8_t {
  KeepInput = 1,        ///< forward: only the stage input stays. drop: the input stays.
  KeepNothing = 2,      ///< forward: nothing stays.
  Started = 1,          ///< `start`, of ops that Op::mayStart: it goes on while its device does.
  Waits = 2,            ///< `wait`: no op of its own, but the end of the started one.
  Replay = 4,           ///< recompute: the random state of the forward is restored.
  Scaled = 4,           ///< backward and its halves: a factor in Program::factors.
  OverlapFirst = 8,     ///< First member of an overlap; the members follow each other.
  OverlapFollower = 16, ///< A later member: starts and ends with the first.
  GroupFirst = 32,      ///< First of the sends and receives of a group; the members follow each other.
  GroupFollower = 64,   ///< A later member: posted at the same moment.
  Overwrite = 128,      ///< backward, backward_weight: the accumulator is emptied first.
  NamesPeer = 128,      ///< send, receive: over a skip edge, to or from a stage of Program::peers.
  Local = 128           ///< norm: of this device's stages alone.
};

struct Op {
  OpKind kind;
  uint8_t flags = 0;
  uint16_t stage = 0;
  uint32_t microbatch = noMicrobatch; ///< noMicrobatch from Zero on, but for ReduceTied.

  bool has(OpFlag flag) const { return flags & flag; }
  bool isCompute() const { return kind <= OpKind::Recompute; }
  bool isUseful() const { return kind <= OpKind::BackwardWeight; }
  /// Makes, uses or frees what a stage keeps of a microbatch: compute and drop.
  bool touchesActivation() const { return kind <= OpKind::Reload; }
  bool contributes() const { return kind == OpKind::Backward || kind == OpKind::BackwardWeight; }
  /// Makes the gradient that the stage before waits for.
  bool makesGradient() const { return kind == OpKind::Backward || kind == OpKind::BackwardInput; }
  bool isCommunication() const { return kind >= OpKind::SendActivation && kind <= OpKind::RecvGradient; }
  bool isSend() const { return kind == OpKind::SendActivation || kind == OpKind::SendGradient; }
  bool hasMicrobatch() const { return kind <= OpKind::RecvGradient; }
  /// Takes `start` and `wait`.
  bool mayStart() const {
    return isCommunication() || kind == OpKind::Offload || kind == OpKind::Reload || kind == OpKind::Reduce ||
           kind == OpKind::ReduceTied || kind == OpKind::Unshard;
  }
  bool isStarted() const { return (flags & Started) && mayStart(); }
  bool isWait() const { return (flags & Waits) && mayStart(); }
  /// Has a factor of its own in Program::factors.
  bool hasFactor() const {
    return kind == OpKind::Scale ||
           ((flags & Scaled) && kind >= OpKind::Backward && kind <= OpKind::BackwardWeight);
  }
  bool overwrites() const { return (flags & Overwrite) && contributes(); }
  bool namesPeer() const { return (flags & NamesPeer) && isCommunication(); }
  friend bool operator==(const Op &, const Op &) = default;
};
static_assert(sizeof(Op) == 8);

/// `forward(2, 5)`, `reduce(0)`: the name used in findings. What only a program knows (the name of a tied
/// weight, a factor, the other stage of a skip edge) is left out.
std::string str(const Op &op);

/// A statement (or table cell) that ops were expanded from, and the loops around it.
struct Site {
  Span span;
  uint32_t nest = 0; ///< Into Program::nests.
};

/// One turn of one loop: `value` of the innermost loop variable, and the turn of the loop around it.
/// A frame's depth equals the length of its site's nest. Frame 0 is "in no loop".
struct Frame {
  uint32_t parent = 0;
  int32_t value = 0;
};

/// Which weights a backward reads where updates stand between it and its forward.
enum class VersionRule : uint8_t {
  Stashed, ///< Those its forward read, kept until then.
  Newest,
  Queued, ///< Forwards push what they read, backwards pop the oldest.
};
llvm::StringRef name(VersionRule rule);

/// `forward(s, m) using version v`: v updates of the copy have made it; 0 is the initial one.
struct NamedVersion {
  OpId op;
  uint32_t version;
  friend bool operator==(const NamedVersion &, const NamedVersion &) = default;
};

/// `scale(s, q)`, and `scale q` behind a backward or one of its halves.
struct OpFactor {
  OpId op;
  Rational factor;
  friend bool operator==(const OpFactor &, const OpFactor &) = default;
};

/// The other stage of a send or receive over a skip edge: `to t`, `from t`.
struct OpPeer {
  OpId op;
  uint32_t stage;
  friend bool operator==(const OpPeer &, const OpPeer &) = default;
};

/// Bytes that one side of a message expects it to have, where an imported order says so.
struct OpPayload {
  OpId op;
  int64_t bytes;
  friend bool operator==(const OpPayload &, const OpPayload &) = default;
};

/// `edge a -> b`: an output of stage a goes to a later stage b as well, beside the chain.
struct SkipEdge {
  uint32_t from, to;
  bool hasGradient = true; ///< False: nothing comes back over it.
  Span span;
  friend bool operator==(const SkipEdge &a, const SkipEdge &b) {
    return a.from == b.from && a.to == b.to && a.hasGradient == b.hasGradient;
  }
};

/// `tied NAME on s, t;`: one weight on several stages.
struct TiedWeight {
  std::string name;
  std::vector<uint32_t> stages; ///< As written: the first is the one whose accumulator holds the gradient.
  Span span;
  friend bool operator==(const TiedWeight &a, const TiedWeight &b) {
    return a.name == b.name && a.stages == b.stages;
  }
};

struct Program {
  std::string name;
  /// With sequence splits `microbatches` counts their units, whole microbatches times splits.
  uint32_t stages = 0, microbatches = 0, devices = 0;
  /// Units of a whole microbatch: unit u is split u % sequenceSplits of microbatch u / sequenceSplits.
  uint32_t sequenceSplits = 1;
  VersionRule versions = VersionRule::Stashed;
  uint32_t mostVersions = 0;               ///< `stashed(k)`: that many at once; 0: no bound.
  std::vector<NamedVersion> namedVersions; ///< Of the forwards that name one, ascending by op.
  std::vector<OpFactor> factors;           ///< Ascending by op, as all such lists.
  std::vector<OpPeer> peers;
  std::vector<OpPayload> payloads;
  std::vector<SkipEdge> skips; ///< Ascending by from, then to.
  std::vector<TiedWeight> ties;
  bool isEvaluation = false; ///< `phase = evaluation`: forwards only.
  Span phaseSpan;
  /// The buffer that holds each pair, as `buffer(s, m)` says; empty where nothing is said.
  StageTable<uint32_t> buffers;
  Span bufferSpan; ///< The `buffer` line.
  /// Sends and receives are written; else they are inferred from the compute order.
  bool isExplicit = false;
  /// Written receives go on at once, and who uses the value waits for it; else a receive blocks its device.
  /// So PyTorch runs the cells of a table.
  bool receivesWaitAtUse = false;
  /// Device of (stage, microbatch); noDevice where nothing is placed (an 801 finding).
  StageTable<uint32_t> placement;
  /// The `place` line of each pair, as an index into `placeSpans`; both empty where none is written.
  StageTable<uint32_t> placedBy;
  std::vector<Span> placeSpans;

  std::vector<uint32_t> deviceBegin; ///< devices + 1 offsets into the columns below.
  std::vector<Op> ops;
  std::vector<uint32_t> siteOf;  ///< Per op, into `sites`.
  std::vector<uint32_t> frameOf; ///< Per op, into `frames`.

  std::vector<Site> sites;
  std::vector<std::vector<std::string>> nests = {{}}; ///< Names of loop variables, outermost first.
  std::vector<Frame> frames = {{}};
  /// Span of each device's program (its `device` block, table row or timetable).
  std::vector<Span> programSpan;
  Span span; ///< The schedule's name where it is declared.

  uint32_t size() const { return static_cast<uint32_t>(ops.size()); }
  uint32_t wholeMicrobatches() const { return microbatches / sequenceSplits; }
  /// Whether unit `u` has a split of the same microbatch before it, or behind it.
  bool hasSplitBefore(uint32_t u) const { return sequenceSplits > 1 && u % sequenceSplits != 0; }
  bool hasSplitBehind(uint32_t u) const { return sequenceSplits > 1 && (u + 1) % sequenceSplits != 0; }
  llvm::ArrayRef<Op> opsOf(uint32_t device) const {
    return llvm::ArrayRef(ops).slice(deviceBegin[device], deviceBegin[device + 1] - deviceBegin[device]);
  }
  /// Device whose program holds `op`; a binary search.
  uint32_t deviceOf(OpId op) const;
  uint32_t deviceOf(uint32_t stage, uint32_t microbatch) const { return placement.at(stage, microbatch); }
  Span spanOf(OpId op) const { return siteOf.empty() ? Span{} : sites[siteOf[op]].span; }
  /// The `place` line of a pair, else the program of its device, else the schedule's name.
  Span placeSpanOf(uint32_t stage, uint32_t microbatch) const;
  /// `m = 5` and its enclosing loops' values, outermost first.
  std::vector<std::pair<std::string, int64_t>> loopsOf(OpId op) const;
  /// First op after the overlap (or single op) that starts at `op`.
  OpId groupEnd(OpId op) const {
    OpId end = op + 1;
    while (end < size() && ops[end].has(OverlapFollower))
      ++end;
    return end;
  }
  /// First op after the group of sends and receives (or single op) that starts at `op`.
  OpId postedEnd(OpId op) const {
    OpId end = op + 1;
    while (end < size() && ops[end].has(GroupFollower))
      ++end;
    return end;
  }
  /// The factor of an op that has one.
  const Rational &factorOf(OpId op) const;
  /// The stage at the other end of a send or receive; ~0 or `stages` in front of the first or behind the
  /// last.
  uint32_t peerStageOf(OpId op) const;
  /// Devices that take part in a joint op: the copies of the stage of a reduction or of the stages of a tied
  /// weight, all devices for a norm, ascending.
  std::vector<uint32_t> membersOf(const Op &op) const;
  /// Stages with a copy on `device`, ascending.
  std::vector<uint32_t> stagesOn(uint32_t device) const;
  /// Devices with a copy of `stage`, ascending.
  std::vector<uint32_t> devicesOf(uint32_t stage) const;
};

/// The full name of an op as it is written but for suffixes: `reduce_tied(emb)`, `scale(0, 1/8)`,
/// `start send_activation(0, 1) to 3`.
std::string str(const Program &program, OpId op);

/// Same sizes, placement, ops and settings; spans and loop indices may differ.
bool equal(const Program &a, const Program &b);

/// Where each (stage, microbatch) has its ops: the typed edges in both directions. Row-major by stage.
/// Of repeated ops (rule 203) the first counts. Columns no op of that kind needs stay empty.
struct ProgramIndex {
  explicit ProgramIndex(const Program &program);

  OpId forward(uint32_t s, uint32_t m) const { return at(forwards, s, m); }
  /// The backward or input half: what makes the input gradient.
  OpId backward(uint32_t s, uint32_t m) const { return at(backwards, s, m); }
  /// The weight half; noOp where the backward is whole.
  OpId weightHalf(uint32_t s, uint32_t m) const { return at(weightHalves, s, m); }
  /// The backward or weight half: what makes the weight gradient's contribution.
  OpId contribution(uint32_t s, uint32_t m) const {
    OpId half = weightHalf(s, m);
    return half == noOp ? backward(s, m) : half;
  }
  OpId recompute(uint32_t s, uint32_t m) const { return at(recomputes, s, m); }

private:
  OpId at(const std::vector<OpId> &column, uint32_t s, uint32_t m) const {
    return column.empty() ? noOp : column[static_cast<size_t>(s) * microbatches + m];
  }
  size_t microbatches;
  std::vector<OpId> forwards, backwards, weightHalves, recomputes;
};

/// A typed edge of the IR: why `to` may not start before `from` has ended (and, across devices, arrived).
enum class EdgeKind : uint8_t {
  Activation,   ///< forward s -> forward s + 1, and over skip edges
  Gradient,     ///< backward s + 1 -> backward s, and over skip edges
  Saved,        ///< forward or recompute -> backward of the same microbatch
  Half,         ///< input half -> weight half
  Split,        ///< forward of one sequence split -> of the next; backward of one -> of the one before
  Contribution, ///< weight gradient -> reduce -> update
  Order,        ///< program order on a device
};
llvm::StringRef name(EdgeKind kind);

struct Edge {
  EdgeKind kind;
  OpId from;
};
/// Prerequisites of `op` that carry data (all kinds but Order and Contribution): at most three without skip
/// edges. A last stage's backward has no Gradient edge; missing producers give no edge.
struct Inputs {
  llvm::SmallVector<Edge, 3> edges;
  void add(EdgeKind kind, OpId from) {
    if (from != noOp)
      edges.push_back({kind, from});
  }
  const Edge *begin() const { return edges.begin(); }
  const Edge *end() const { return edges.end(); }
};
Inputs inputsOf(const Program &program, const ProgramIndex &index, const Op &op);

} // namespace sluice
