#include "Formats/DeepSpeed.h"

#include "Formats/DeepSpeedText.h"
#include "Formats/Rows.h"
#include "Support/Words.h"

#include <deque>
#include <fmt/format.h>
#include <map>

namespace sluice {

using deepspeed::Instruction;
using deepspeed::Kind;

namespace {

/// The instructions of one device as ops: follows what lies in each buffer.
class DeviceReader {
public:
  DeviceReader(const deepspeed::Program &program, bool hasPhases, uint32_t device, uint32_t devices,
               Diagnostics &diagnostics)
      : program(program), hasPhases(hasPhases), device(device), devices(devices), diagnostics(diagnostics) {}

  bool run() {
    row.span = program.span;
    numberForwards();
    for (index = 0; index < program.instructions.size(); ++index)
      if (!take(program.instructions[index]))
        return false;
    if (queued.empty())
      return true;
    Finding &finding = diagnostics.report(
        Rule::SyntaxError, queued.front().second,
        {{"what", "CommitP2P() behind the last send or receive"}, {"token", "the end of the steps"}});
    finding.device = device;
    return false;
  }

  Row row;
  unsigned loads = 0, tiedReductions = 0;
  std::vector<std::pair<Op, uint32_t>> buffers; ///< Of the forwards.

private:
  using Buffer = std::pair<uint32_t, uint32_t>; // stage, buffer

  uint32_t stageOf(const Instruction &i) const { return i.phase == 0 ? device : 2 * devices - 1 - device; }

  /// A receive means the microbatch whose forward comes next in its buffer.
  void numberForwards() {
    std::map<uint32_t, uint32_t> forwards; // so far, by stage
    microbatchAt.resize(program.instructions.size());
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      commits |= program.instructions[i].kind == Kind::CommitP2P;
      if (program.instructions[i].kind == Kind::ForwardPass)
        microbatchAt[i] = forwards[stageOf(program.instructions[i])]++;
    }
    std::map<Buffer, uint32_t> next;
    for (size_t i = program.instructions.size(); i-- > 0;) {
      const Instruction &here = program.instructions[i];
      Buffer buffer{stageOf(here), here.buffer};
      if (here.kind == Kind::ForwardPass) {
        next[buffer] = microbatchAt[i];
      } else if (here.kind == Kind::RecvActivation) {
        auto found = next.find(buffer);
        // Nobody uses it: the one after all that are used.
        microbatchAt[i] = found != next.end() ? found->second : forwards[buffer.first]++;
      }
    }
  }

  void add(OpKind kind, uint32_t stage, uint32_t microbatch, Span place, uint8_t flags = 0) {
    row.add({kind, flags, static_cast<uint16_t>(stage), microbatch}, place);
  }
  /// A send or receive stands by itself and blocks, unless the schedule commits several at once.
  void post(OpKind kind, uint32_t stage, uint32_t microbatch, Span place) {
    if (!commits)
      return add(kind, stage, microbatch, place);
    queued.push_back({{kind, 0, static_cast<uint16_t>(stage), microbatch}, place});
  }
  void commit() {
    for (size_t i = 0; i < queued.size(); ++i) {
      auto &[op, place] = queued[i];
      if (queued.size() > 1)
        op.flags |= i == 0 ? GroupFirst : GroupFollower;
      row.add(op, place);
    }
    queued.clear();
  }
  /// What lies in a buffer; without anything the next in order, which the checker then finds wrong.
  uint32_t heldIn(const std::map<Buffer, uint32_t> &held, Buffer buffer, OpKind kind) {
    auto found = held.find(buffer);
    return found != held.end() ? found->second : counts[{kind, buffer.first}];
  }

  bool take(const Instruction &i) {
    const uint32_t stage = stageOf(i);
    const Buffer buffer{stage, i.buffer};
    switch (i.kind) {
    case Kind::LoadMicroBatch:
      ++loads;
      return true;
    case Kind::ReduceTiedGrads:
      ++tiedReductions;
      return true;
    case Kind::ForwardPass:
      add(OpKind::Forward, stage, forwarded[buffer] = microbatchAt[index], i.place, memberFlag());
      buffers.push_back({row.ops.back(), i.buffer});
      return true;
    case Kind::BackwardPass: {
      OpKind kind = i.defersWeight ? OpKind::BackwardInput : OpKind::Backward;
      uint32_t microbatch = heldIn(forwarded, buffer, OpKind::Backward);
      backwarded[buffer] = microbatch;
      ++counts[{OpKind::Backward, stage}];
      if (i.defersWeight)
        pending.push_back({stage, microbatch});
      add(kind, stage, microbatch, i.place, memberFlag());
      return true;
    }
    case Kind::ForwardBackwardPass:
      members = 2;
      return true;
    case Kind::WeightPass:
      return takeWeight(i);
    case Kind::SendActivation:
      post(OpKind::SendActivation, stage, heldIn(forwarded, buffer, OpKind::SendActivation), i.place);
      ++counts[{OpKind::SendActivation, stage}];
      return true;
    case Kind::RecvActivation:
      post(OpKind::RecvActivation, stage, microbatchAt[index], i.place);
      return true;
    case Kind::SendGrad:
      post(OpKind::SendGradient, stage, heldIn(backwarded, buffer, OpKind::SendGradient), i.place);
      ++counts[{OpKind::SendGradient, stage}];
      return true;
    case Kind::RecvGrad:
      post(OpKind::RecvGradient, stage, heldIn(forwarded, buffer, OpKind::RecvGradient), i.place);
      ++counts[{OpKind::RecvGradient, stage}];
      return true;
    case Kind::CommitP2P:
      commit();
      return true;
    case Kind::ReduceGrads:
    case Kind::OptimizerStep: {
      OpKind kind = i.kind == Kind::ReduceGrads ? OpKind::Reduce : OpKind::Update;
      add(kind, device, noMicrobatch, i.place);
      if (hasPhases)
        add(kind, 2 * devices - 1 - device, noMicrobatch, i.place);
      return true;
    }
    }
    return true;
  }
  bool takeWeight(const Instruction &i) {
    if (pending.empty()) {
      Finding &finding = diagnostics.report(Rule::NothingLeft, i.place,
                                            {{"op", "WeightPass()"},
                                             {"device", std::to_string(device)},
                                             {"what", "backward with enable_zb=True"}});
      finding.device = device;
      finding.fix.message = "one WeightPass() for each BackwardPass with enable_zb=True, behind it";
      return false;
    }
    auto [stage, microbatch] = pending.front();
    pending.pop_front();
    add(OpKind::BackwardWeight, stage, microbatch, i.place);
    return true;
  }
  uint8_t memberFlag() {
    if (members == 0)
      return 0;
    return members-- == 2 ? OverlapFirst : OverlapFollower;
  }

  const deepspeed::Program &program;
  bool hasPhases;
  uint32_t device, devices;
  Diagnostics &diagnostics;
  size_t index = 0;
  bool commits = false;
  unsigned members = 0;               // of the overlap at hand that are still to come
  std::vector<uint32_t> microbatchAt; // of forwards and receives of activations, by instruction
  std::map<Buffer, uint32_t> forwarded, backwarded;
  std::map<std::pair<OpKind, uint32_t>, uint32_t> counts; // so far, by kind and stage
  std::deque<std::pair<uint32_t, uint32_t>> pending;      // input halves: stage and microbatch
  std::vector<std::pair<Op, Span>> queued;
};

void setBuffers(Program &program, llvm::ArrayRef<std::pair<Op, uint32_t>> buffers) {
  std::vector<uint32_t> bufferOf(buffers.size());
  for (const auto &[op, buffer] : buffers)
    bufferOf[static_cast<size_t>(op.microbatch) * program.stages + op.stage] = buffer;
  for (auto row = bufferOf.begin(); row != bufferOf.end(); row += program.stages)
    program.buffers.addMicrobatch(std::vector<uint32_t>(row, row + program.stages));
  program.buffers.finish();
}

} // namespace

std::optional<FormattedSchedule> readDeepSpeed(SourceManager &sources, llvm::ArrayRef<Span> texts,
                                               const ReadOptions &options, Diagnostics &diagnostics,
                                               std::vector<std::string> &lost) {
  auto text = deepspeed::read(sources, texts, diagnostics);
  if (!text)
    return std::nullopt;
  const auto devices = static_cast<uint32_t>(text->stages.size());
  if (devices * (text->hasPhases ? 2u : 1u) > maxStages) {
    diagnostics.report(Rule::ValueOutOfRange, texts[0],
                       {{"what", fmt::format("there are more than {} stages", maxStages)}});
    return std::nullopt;
  }
  std::vector<Row> rows;
  std::vector<std::pair<Op, uint32_t>> buffers;
  unsigned loads = 0, tied = 0;
  for (uint32_t device = 0; device < devices; ++device) {
    DeviceReader reader(text->stages[device], text->hasPhases, device, devices, diagnostics);
    if (!reader.run())
      return std::nullopt;
    loads += reader.loads;
    tied += reader.tiedReductions;
    rows.push_back(std::move(reader.row));
    buffers.insert(buffers.end(), reader.buffers.begin(), reader.buffers.end());
  }
  auto program = programOfRows("deepspeed", rows, {}, texts[0], options, diagnostics);
  if (!program)
    return std::nullopt;
  for (const Op &op : program->ops)
    program->isExplicit |= op.isCommunication();
  if (loads > 0)
    lost.push_back(fmt::format("{}: reading the batch is no op of a schedule",
                               counted(loads, "LoadMicroBatch", "LoadMicroBatch instructions")));
  if (tied > 0)
    lost.push_back(fmt::format("{}: it does not say which weights are tied; add reduce_tied(NAME) if any are",
                               counted(tied, "ReduceTiedGrads", "ReduceTiedGrads instructions")));
  // Each pair has one forward, which is in one buffer. A pair without one lies in none.
  if (buffers.size() == static_cast<size_t>(program->stages) * program->microbatches)
    setBuffers(*program, buffers);
  else
    lost.push_back("numbers of buffers: some stage has no forward for some microbatch");
  FormattedSchedule schedule;
  schedule.costs = CostModel::ofTicks(program->stages);
  if (program->isExplicit)
    schedule.costs.communication = "explicit";
  schedule.program = std::move(*program);
  return schedule;
}

} // namespace sluice
