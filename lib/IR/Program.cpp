#include "IR/Program.h"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>

namespace sluice {

llvm::StringRef name(OpKind kind) {
  static constexpr const char *names[opKindCount] = {
      "forward", "backward",        "backward_input",  "backward_weight", "recompute",     "drop", "offload",
      "reload",  "send_activation", "recv_activation", "send_gradient",   "recv_gradient", "zero", "reduce",
      "update",  "unshard",         "reshard",         "scale",           "reduce_tied",   "norm"};
  return names[static_cast<unsigned>(kind)];
}

llvm::StringRef name(EdgeKind kind) {
  static constexpr const char *names[] = {"activation", "gradient",     "saved", "half",
                                          "split",      "contribution", "order"};
  return names[static_cast<unsigned>(kind)];
}

llvm::StringRef name(VersionRule rule) {
  static constexpr const char *names[] = {"stashed", "newest", "queued"};
  return names[static_cast<unsigned>(rule)];
}

std::string str(const Op &op) {
  if (op.kind == OpKind::Norm)
    return op.has(Local) ? "norm local" : "norm";
  if (!op.hasMicrobatch())
    return fmt::format("{}({})", name(op.kind).str(), op.stage);
  return fmt::format("{}({}, {})", name(op.kind).str(), op.stage, op.microbatch);
}

std::string str(const Program &program, OpId id) {
  const Op &op = program.ops[id];
  const char *prefix = op.isStarted() ? "start " : op.isWait() ? "wait " : "";
  if (op.kind == OpKind::ReduceTied)
    return fmt::format("{}reduce_tied({})", prefix, program.ties[op.microbatch].name);
  if (op.kind == OpKind::Scale)
    return fmt::format("scale({}, {})", op.stage, program.factorOf(id).str());
  if (op.namesPeer())
    return fmt::format("{}{} {} {}", prefix, str(op), op.isSend() ? "to" : "from", program.peerStageOf(id));
  return prefix + str(op);
}

/// The entry of `op` in one of the lists of a program that are ascending by op; it has one.
template <typename Entry> static const Entry &entryOf(const std::vector<Entry> &list, OpId op) {
  auto found = std::lower_bound(list.begin(), list.end(), op,
                                [](const Entry &entry, OpId id) { return entry.op < id; });
  assert(found != list.end() && found->op == op);
  return *found;
}

const Rational &Program::factorOf(OpId op) const { return entryOf(factors, op).factor; }

uint32_t Program::peerStageOf(OpId id) const {
  const Op &op = ops[id];
  if (op.namesPeer())
    return entryOf(peers, id).stage;
  const bool isBehind = op.kind == OpKind::SendActivation || op.kind == OpKind::RecvGradient;
  return isBehind ? op.stage + 1u : op.stage - 1u;
}

std::vector<uint32_t> Program::membersOf(const Op &op) const {
  if (op.kind != OpKind::ReduceTied && op.kind != OpKind::Norm)
    return devicesOf(op.stage);
  std::vector<uint32_t> members;
  if (op.kind == OpKind::Norm)
    for (uint32_t device = 0; device < devices; ++device)
      members.push_back(device);
  else
    for (uint32_t stage : ties[op.microbatch].stages)
      for (uint32_t device : devicesOf(stage))
        members.push_back(device);
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

uint32_t Program::deviceOf(OpId op) const {
  auto after = std::upper_bound(deviceBegin.begin(), deviceBegin.end(), op);
  return static_cast<uint32_t>(after - deviceBegin.begin()) - 1;
}

Span Program::placeSpanOf(uint32_t stage, uint32_t microbatch) const {
  if (uint32_t line = placedBy.empty() ? ~0u : placedBy.at(stage, microbatch); line < placeSpans.size())
    return placeSpans[line];
  uint32_t device = placement.empty() ? noDevice : deviceOf(stage, microbatch);
  return device == noDevice || programSpan.empty() ? span : programSpan[device];
}

std::vector<std::pair<std::string, int64_t>> Program::loopsOf(OpId op) const {
  std::vector<std::pair<std::string, int64_t>> loops;
  if (siteOf.empty())
    return loops;
  const std::vector<std::string> &names = nests[sites[siteOf[op]].nest];
  uint32_t frame = frameOf[op];
  for (size_t depth = names.size(); depth > 0; --depth) {
    loops.emplace_back(names[depth - 1], frames[frame].value);
    frame = frames[frame].parent;
  }
  std::reverse(loops.begin(), loops.end());
  return loops;
}

std::vector<uint32_t> Program::stagesOn(uint32_t device) const {
  std::vector<uint32_t> result;
  for (uint32_t s = 0; s < stages; ++s)
    for (uint32_t row = 0; row < placement.rowCount(); ++row)
      if (placement.inRow(row, s) == device) {
        result.push_back(s);
        break;
      }
  return result;
}

std::vector<uint32_t> Program::devicesOf(uint32_t stage) const {
  std::vector<uint32_t> result;
  for (uint32_t row = 0; row < placement.rowCount(); ++row)
    if (uint32_t device = placement.inRow(row, stage); device != noDevice)
      result.push_back(device);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

bool equal(const Program &a, const Program &b) {
  if (a.stages != b.stages || a.microbatches != b.microbatches || a.devices != b.devices ||
      a.isExplicit != b.isExplicit || a.sequenceSplits != b.sequenceSplits || a.versions != b.versions ||
      a.mostVersions != b.mostVersions || a.namedVersions != b.namedVersions || a.factors != b.factors ||
      a.peers != b.peers || a.payloads != b.payloads || a.skips != b.skips || a.ties != b.ties ||
      a.isEvaluation != b.isEvaluation || a.buffers.empty() != b.buffers.empty() ||
      a.deviceBegin != b.deviceBegin || a.ops != b.ops)
    return false;
  for (uint32_t m = 0; m < a.microbatches; ++m)
    for (uint32_t s = 0; s < a.stages; ++s)
      if (a.placement.at(s, m) != b.placement.at(s, m) ||
          (!a.buffers.empty() && a.buffers.at(s, m) != b.buffers.at(s, m)))
        return false;
  return true;
}

ProgramIndex::ProgramIndex(const Program &program) : microbatches(program.microbatches) {
  const size_t pairs = static_cast<size_t>(program.stages) * microbatches;
  forwards.assign(pairs, noOp);
  backwards.assign(pairs, noOp);
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &op = program.ops[id];
    std::vector<OpId> *column = nullptr;
    switch (op.kind) {
    case OpKind::Forward:
      column = &forwards;
      break;
    case OpKind::Backward:
    case OpKind::BackwardInput:
      column = &backwards;
      break;
    case OpKind::BackwardWeight:
      column = &weightHalves;
      break;
    case OpKind::Recompute:
      column = &recomputes;
      break;
    default:
      continue;
    }
    if (column->empty())
      column->assign(pairs, noOp);
    OpId &cell = (*column)[op.stage * microbatches + op.microbatch];
    if (cell == noOp)
      cell = id;
  }
}

Inputs inputsOf(const Program &program, const ProgramIndex &index, const Op &op) {
  Inputs inputs;
  const uint32_t s = op.stage, m = op.microbatch;
  switch (op.kind) {
  case OpKind::Forward:
    if (s > 0)
      inputs.add(EdgeKind::Activation, index.forward(s - 1, m));
    for (const SkipEdge &skip : program.skips)
      if (skip.to == s)
        inputs.add(EdgeKind::Activation, index.forward(skip.from, m));
    if (program.hasSplitBefore(m))
      inputs.add(EdgeKind::Split, index.forward(s, m - 1));
    break;
  case OpKind::Backward:
  case OpKind::BackwardInput: {
    if (s + 1 < program.stages)
      inputs.add(EdgeKind::Gradient, index.backward(s + 1, m));
    for (const SkipEdge &skip : program.skips)
      if (skip.from == s && skip.hasGradient)
        inputs.add(EdgeKind::Gradient, index.backward(skip.to, m));
    OpId recomputed = index.recompute(s, m);
    inputs.add(EdgeKind::Saved, recomputed == noOp ? index.forward(s, m) : recomputed);
    if (program.hasSplitBehind(m))
      inputs.add(EdgeKind::Split, index.backward(s, m + 1));
    break;
  }
  case OpKind::BackwardWeight:
    inputs.add(EdgeKind::Half, index.backward(s, m));
    break;
  case OpKind::Recompute:
    inputs.add(EdgeKind::Saved, index.forward(s, m));
    break;
  default:
    break;
  }
  return inputs;
}

} // namespace sluice
