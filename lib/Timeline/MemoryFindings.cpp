// 701 memory-exceeded: the first op at which a device holds more than its limit, what it holds then, and
// which of that would have to end earlier.
#include "Timeline/MemoryFindings.h"

#include "Support/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

static bool hasSizes(const CostModel &costs) {
  auto isSome = [](int64_t bytes) { return bytes != 0; };
  auto hasSome = [&](const StageTable<int64_t> &sizes) { return llvm::any_of(sizes.all(), isSome); };
  return llvm::any_of(costs.skipBoundary, hasSome) || llvm::any_of(costs.activation.all(), isSome) ||
         llvm::any_of(costs.keptInput.all(), isSome) || llvm::any_of(costs.pending.all(), isSome) ||
         llvm::any_of(costs.boundary.all(), isSome) || llvm::any_of(costs.weights, isSome) ||
         llvm::any_of(costs.gradients, isSome) || llvm::any_of(costs.optimizerState, isSome) ||
         llvm::any_of(costs.workspace, isSome) || llvm::any_of(costs.reserved, isSome);
}

bool hasMemoryQuestions(const Program &program, const CostModel &costs) {
  return hasSizes(costs) && (!costs.memoryLimit.empty() || holdsTooLong(program));
}

/// `saved activations of stage 0 (5, 50 GiB)`: how many where there are more than one.
static std::string text(const LiveItem &item) {
  std::string result = name(item.kind).str();
  if (item.stage != noStage)
    result += fmt::format(" of stage {}", item.stage);
  return result + (item.count > 1 ? fmt::format(" ({}, {})", item.count, formatSize(Rational(item.bytes)))
                                  : fmt::format(" ({})", formatSize(Rational(item.bytes))));
}

static std::string list(llvm::ArrayRef<LiveItem> items) {
  constexpr size_t most = 6;
  std::string result;
  for (const LiveItem &item : items.take_front(most))
    result += (result.empty() ? "" : ", ") + text(item);
  if (items.size() > most)
    result += fmt::format(" and {} more", items.size() - most);
  return result;
}

static bool isStatic(const LiveItem &item) { return item.kind >= LiveKind::Weights; }

static bool isReceived(const LiveItem &item) {
  return item.kind == LiveKind::ReceivedActivation || item.kind == LiveKind::ReceivedGradient;
}

static bool isOfPair(const Op &op, const Op &pair) {
  return op.hasMicrobatch() && op.stage == pair.stage && op.microbatch == pair.microbatch;
}

/// Whether `op` ends what an item of this kind counts.
static bool ends(const Op &op, LiveKind kind) {
  switch (kind) {
  case LiveKind::Saved:
    return op.makesGradient() || op.kind == OpKind::Drop || op.kind == OpKind::Offload;
  case LiveKind::KeptInput:
    return op.makesGradient() || op.kind == OpKind::Drop || op.kind == OpKind::Recompute;
  case LiveKind::Pending:
    return op.kind == OpKind::BackwardWeight;
  case LiveKind::ReceivedActivation:
    return op.kind == OpKind::Forward;
  case LiveKind::ReceivedGradient:
  case LiveKind::LastOutput:
    return op.makesGradient();
  default:
    return false;
  }
}

/// The first op behind the excess that ends one of the item's tensors, of those that were there before it.
static OpId endOf(const Program &program, const ProgramIndex &index, const MemoryExcess &excess,
                  const LiveItem &item) {
  for (OpId id = excess.op + 1; id < program.deviceBegin[excess.device + 1]; ++id) {
    const Op &op = program.ops[id];
    if (op.stage != item.stage || !ends(op, item.kind))
      continue;
    // Nothing of a pair can end before the op that is only now at work on it.
    if (excess.op < program.size() && isOfPair(program.ops[excess.op], op))
      continue;
    if (isReceived(item) || index.forward(op.stage, op.microbatch) < excess.op)
      return id;
  }
  return noOp;
}

/// The largest that an op could end earlier; where all of it is static, what makes that less.
static std::string fixOf(const Program &program, const ProgramIndex &index, const CostModel &costs,
                         const MemoryExcess &excess) {
  for (const LiveItem &item : excess.live) {
    const OpId end = excess.op == noOp || isStatic(item) ? noOp : endOf(program, index, excess, item);
    if (end == noOp)
      continue;
    std::string fix = fmt::format("run {} before {}: {} of stage {} take the most", str(program, end),
                                  str(program, excess.op), name(item.kind).str(), item.stage);
    if (isReceived(item))
      fix += ", or have them sent later";
    if (item.kind == LiveKind::Saved)
      fix += "; or keep their input alone and recompute, or offload them";
    return fix;
  }
  const bool mayShard = !costs.isSharded && costs.replicas.value_or(1) > 1 &&
                        llvm::any_of(costs.optimizerState, [](int64_t bytes) { return bytes != 0; });
  return fmt::format("fewer or smaller stages on device {}{}", excess.device,
                     mayShard ? ", or `reduced = sharded`" : "");
}

static std::string whenText(const Program &program, OpId op) {
  return op == noOp ? "its start" : str(program, op);
}

static void reportExcess(const Program &program, const ProgramIndex &index, const CostModel &costs,
                         const MemoryExcess &excess, Diagnostics &diagnostics) {
  const int64_t limit = costs.memoryLimit[excess.device];
  Finding &finding =
      diagnostics.report(Rule::MemoryExceeded,
                         excess.op == noOp ? program.programSpan[excess.device] : program.spanOf(excess.op),
                         {{"device", std::to_string(excess.device)},
                          {"size", formatSize(Rational(excess.bytes))},
                          {"limit", formatSize(Rational(limit))},
                          {"op", whenText(program, excess.op)},
                          {"items", list(excess.live)}});
  finding.device = excess.device;
  if (excess.op != noOp) {
    finding.op = str(program, excess.op);
    for (auto &[variable, value] : program.loopsOf(excess.op))
      finding.loops.push_back({variable, value});
  }
  if (excess.peakBytes > excess.bytes)
    finding.notes.push_back({fmt::format("its peak is {}, at {}", formatSize(Rational(excess.peakBytes)),
                                         whenText(program, excess.peakOp)),
                             excess.peakOp == noOp ? Span{} : program.spanOf(excess.peakOp), excess.device,
                             excess.peakOp == noOp ? "" : str(program, excess.peakOp)});
  if (auto given = costs.declaredAt.find("memory"); given != costs.declaredAt.end())
    finding.notes.push_back({"the limit is given here", given->second, {}, ""});
  finding.fix.message = fixOf(program, index, costs, excess);
}

static void checkLimit(const Program &program, const ProgramIndex &index, const CostModel &costs,
                       const Timeline &timeline, const Versions *versions, Diagnostics &diagnostics) {
  std::vector<MemoryExcess> excesses = memoryExcesses(program, index, costs, timeline, diagnostics, versions);
  // Devices that exceed it at one line have one cause.
  std::vector<std::pair<Span, size_t>> reported;
  for (const MemoryExcess &excess : excesses) {
    const Span place = excess.op == noOp ? program.programSpan[excess.device] : program.spanOf(excess.op);
    auto known = llvm::find_if(reported, [&](const auto &entry) { return entry.first == place; });
    if (known == reported.end() || !place.isValid()) {
      reported.emplace_back(place, diagnostics.findings().size());
      reportExcess(program, index, costs, excess, diagnostics);
      continue;
    }
    diagnostics.findings()[known->second].notes.push_back(
        {fmt::format("device {} reaches {} at {}", excess.device, formatSize(Rational(excess.bytes)),
                     whenText(program, excess.op)),
         {},
         excess.device,
         excess.op == noOp ? "" : str(program, excess.op)});
  }
}

void checkMemory(const Program &program, const ProgramIndex &index, const CostModel &costs,
                 const Timeline &timeline, Diagnostics &diagnostics, const SourceManager *sources) {
  std::optional<Versions> versions;
  if (costs.asynchronous)
    versions = versionsOf(program);
  if (!costs.memoryLimit.empty())
    checkLimit(program, index, costs, timeline, versions ? &*versions : nullptr, diagnostics);
  if (!costs.asynchronous && holdsTooLong(program)) // where updates stand between, a move changes weights
    checkHeldTooLong(program, index, costs, timeline, diagnostics, sources);
}

} // namespace sluice
