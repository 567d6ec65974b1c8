// The checked file: names resolved, expressions compiled, statements reduced to what elaboration walks.
// Nothing is evaluated yet, so one checked file serves every setting of its parameters.
#pragma once

#include "IR/Links.h"
#include "IR/Profile.h"
#include "IR/Program.h"
#include "Sema/Code.h"
#include "Support/Diagnostics.h"
#include "Syntax/Ast.h"

#include <map>
#include <memory>
#include <optional>

namespace sluice {

struct CheckedRange {
  NodeId first = noNode, last = noNode, step = noNode; ///< step may be noNode: 1.
};

struct CheckedParam {
  std::string name;
  SlotId slot = noSlot;
  NodeId value = noNode; ///< Default; noNode for a schedule parameter without one.
  std::optional<CheckedRange> range;
  Span span;
  std::string documentation;
};

/// A `let` or `require`, in source order: each may use the ones before.
struct CheckedStep {
  enum class Kind : uint8_t { Let, Require };
  Kind kind;
  SlotId slot = noSlot; ///< Let
  NodeId value = noNode;
  std::string message; ///< Require
  Span span;
};

/// A setting of model, cluster, training or queue with the code of its value.
struct CheckedSetting {
  std::string name;
  std::vector<SlotId> parameters;
  NodeId value = noNode;
  std::optional<CheckedRange> range;
  std::vector<std::string> words; ///< `mean over samples`, or one word (`nccl`).
  std::vector<NodeId> operands;   ///< Stages of `random on`; the depth of `eager`.
  bool isMeasured = false;        ///< Its value is a profile's.
  Span span;
};

/// `edge a -> b { boundary = …; no_gradient; }`
struct CheckedEdge {
  NodeId from = noNode, to = noNode;
  uint32_t boundary = ~0u; ///< Into CheckedFile::settings; ~0: that of its stage.
  bool hasGradient = true;
  Span span;
};

/// `tied NAME on s, t;`
struct CheckedTied {
  std::string name;
  std::vector<NodeId> stages;
  Span span;
};

/// `link ib (a, b) when c { latency = …; bandwidth = …; shared = fifo; lane = …; }`, `host(d) { … }` or
/// `collective(n) { … }`.
struct CheckedLink {
  static constexpr uint32_t none = ~0u;
  std::string name;               ///< `link at line N` of several without one.
  std::vector<SlotId> parameters; ///< As many as written: a and b, d, or n.
  NodeId condition = noNode;
  uint32_t latency = none, bandwidth = none, lane = none; ///< Into CheckedFile::settings.
  Sharing sharing = Sharing::No;
  Span span;
};

/// Settings of one block by name; a `layer` block's settings lie under `layer.forward` and so on, and the
/// ends of `layers(s)` under `layers.first` and `layers.last`.
struct CheckedBlock {
  Span span;
  std::optional<std::string> name;
  std::map<std::string, uint32_t> settings; ///< Into CheckedFile::settings.
  std::vector<CheckedLink> links;           ///< Of a cluster, in the order of the file.
  std::optional<CheckedLink> host, collective;
  std::vector<std::string> layerSums; ///< Settings of a model that are sums over layers.
  std::vector<CheckedEdge> edges;     ///< Of a model.
  std::vector<CheckedTied> tied;
};

/// How an op names its microbatch.
enum class MicrobatchForm : uint8_t { Number, Next, Oldest, Newest, All, None };

struct CheckedOp {
  OpKind kind;
  uint8_t flags = 0;
  NodeId stage = noNode; ///< noNode: the one stage here.
  NodeId microbatch = noNode;
  MicrobatchForm form = MicrobatchForm::Number;
  bool ifAny = false;
  NodeId version = noNode; ///< `using version e`
  NodeId factor = noNode;  ///< `scale q`, and the q of `scale(s, q)`
  NodeId peer = noNode;    ///< `to t`, `from t`
  uint32_t tied = 0;       ///< reduce_tied: into the model's tied weights
  /// Names more than its stage and microbatch.
  bool takesExtras() const { return version != noNode || factor != noNode || peer != noNode; }
  Span span;
  uint32_t site = 0;
  std::string text; ///< As written, for messages before its values are known.
};

struct CheckedStatement {
  enum class Kind : uint8_t { Op, Let, For, If, Repeat, Overlap, Group, At, Fill };
  Kind kind;
  Span span;
  CheckedOp op;
  SlotId slot = noSlot;  ///< Let, For
  NodeId value = noNode; ///< Let, If, Repeat, At
  CheckedRange range;    ///< For
  bool reversed = false;
  std::vector<CheckedStatement> body, otherwise;
};

struct CheckedPlace {
  SlotId stage = noSlot, microbatch = noSlot;
  std::optional<CheckedRange> stages, microbatches;
  NodeId device = noNode;
  Span span;
};

struct CheckedDevice {
  SlotId variable = noSlot;
  std::optional<CheckedRange> range;
  NodeId device = noNode; ///< Of `device 0`, `device (e)`.
  std::vector<CheckedStatement> body;
  Span span;
};

struct CheckedTimetable {
  std::vector<CheckedStatement> body;
  Span span;
};

/// A table's cells; their ops are read once, at elaboration.
struct CheckedTable {
  Span text; ///< The rows: between the braces, or a whole CSV file.
  bool isCsv = false;
  Span span;
};

struct CheckedSchedule {
  std::string name;
  Span span;
  std::string documentation;
  bool isImported = false;
  std::vector<CheckedParam> parameters;
  std::vector<CheckedStep> steps;
  std::vector<CheckedPlace> places;
  std::vector<CheckedDevice> devices;
  std::optional<CheckedTimetable> timetable;
  std::optional<CheckedTable> table;
  std::string communication = "early";   ///< Placement of inferred communication.
  bool isExplicit = false;               ///< `communication = explicit`
  CheckedSetting sequenceSplits, buffer; ///< No value where not written.
  bool isEvaluation = false;             ///< `phase = evaluation`
  Span phaseSpan;
  VersionRule versions = VersionRule::Stashed;
  CheckedSetting mostVersions; ///< The k of `stashed(k)`.
  Span firstCommunication;     ///< The first send or receive written, if any.
  Span communicationSpan;      ///< The `communication` line, if any.
  std::vector<Site> sites;     ///< Of the ops, with nests below.
  std::vector<std::vector<std::string>> nests = {{}};
  bool usesNext = false, usesPending = false;
  /// `schedule main = …`: a tree of conditionals over uses.
  struct Use {
    NodeId condition = noNode; ///< Conditional: then uses[0], else uses[1].
    std::vector<Use> branches;
    std::vector<Span> tightened; ///< Each `tighten` that takes this, the innermost first.
    uint32_t schedule = 0;       ///< Into CheckedFile::schedules.
    std::vector<std::pair<uint32_t, NodeId>> arguments; ///< Parameter index, value.
    Span span;
  };
  std::optional<Use> derived;
  bool isUsed = false; ///< By another schedule: a template then.
};

struct CheckedExpected {
  NodeId comparison = noNode;
  SlotId variable = noSlot;
  std::optional<CheckedRange> range;
  NodeId condition = noNode;
  std::vector<std::string> models; ///< deadlock_free under …
  Span span;
};

/// What an `expect` block says of a schedule and of each use of it.
struct CheckedExpect {
  uint32_t schedule = 0;   ///< Into CheckedFile::schedules.
  bool isImported = false; ///< Written in an imported file: closed forms of a library.
  Span span;
  std::vector<CheckedExpected> items;
};

struct CheckedAllow {
  Rule rule;
  std::string schedule; ///< Empty: everywhere.
  Span span;
};

struct CheckedFile {
  std::string name;
  Code code;
  std::vector<CheckedParam> params;
  std::vector<CheckedStep> steps;
  std::vector<CheckedSetting> settings;
  std::optional<CheckedBlock> model, cluster, training;
  std::vector<CheckedBlock> queues;
  std::vector<CheckedSchedule> schedules;
  std::vector<CheckedExpect> expects;
  std::vector<CheckedAllow> allows;
  /// Holds the samples of a microbatch where `samples(m)` is not written: batch, microbatches and
  /// replicas give them, so it is set once those are known. noSlot if the file has no training.
  SlotId uniformSamples = noSlot;
  /// Measured times that the model takes what it does not say from; null without `cost from`.
  std::shared_ptr<const Profile> profile;
  /// Holds the splits of a microbatch where times are measured and samples differ; else noSlot.
  SlotId splits = noSlot;
  /// The smallest time unit the file writes; empty if it writes none.
  std::string timeUnit;
};

} // namespace sluice
