#include "IR/Builder.h"

#include <algorithm>
#include <cassert>

namespace sluice {

void DeviceProgram::append(Op op, const Where &where) {
  assert(op.stage < builder.program_.stages && "no such stage");
  assert((!op.hasMicrobatch() || op.microbatch < builder.program_.microbatches) && "no such microbatch");
  if (inOverlap)
    op.flags |= hasMember ? OverlapFollower : OverlapFirst;
  if (inGroup)
    op.flags |= hasMember ? GroupFollower : GroupFirst;
  hasMember = true;
  auto key = std::make_pair(std::string(where.file_name()), std::make_pair(where.line(), where.column()));
  auto [site, isNew] = builder.siteOf.try_emplace(key, static_cast<uint32_t>(builder.places.size()));
  if (isNew)
    builder.places.push_back(where);
  builder.written[device].push_back({op, site->second});
}

void DeviceProgram::appendAll(OpKind kind, const Where &where) {
  for (uint32_t stage : builder.program_.stagesOn(device))
    append({kind, 0, static_cast<uint16_t>(stage), noMicrobatch}, where);
}

static Op microbatchOp(OpKind kind, Stage s, Microbatch m, unsigned flags = 0) {
  assert(s < maxStages);
  return {kind, static_cast<uint8_t>(flags), static_cast<uint16_t>(s), m};
}

void DeviceProgram::forward(Stage s, Microbatch m, Keep keep, Where where) {
  unsigned flags = keep == Keep::Input ? KeepInput : keep == Keep::Nothing ? KeepNothing : 0;
  append(microbatchOp(OpKind::Forward, s, m, flags), where);
}
void DeviceProgram::forward(Stage s, Microbatch m, Version version, Where where) {
  append(microbatchOp(OpKind::Forward, s, m), where);
  builder.written[device].back().version = static_cast<uint32_t>(version);
}
void DeviceProgram::backward(Stage s, Microbatch m, Where where) {
  append(microbatchOp(OpKind::Backward, s, m), where);
}
void DeviceProgram::backwardInput(Stage s, Microbatch m, Where where) {
  append(microbatchOp(OpKind::BackwardInput, s, m), where);
}
void DeviceProgram::backwardWeight(Stage s, Microbatch m, Where where) {
  append(microbatchOp(OpKind::BackwardWeight, s, m), where);
}
void DeviceProgram::recompute(Stage s, Microbatch m, bool replay, Where where) {
  append(microbatchOp(OpKind::Recompute, s, m, replay ? Replay : 0), where);
}
void DeviceProgram::drop(Stage s, Microbatch m, bool keepInput, Where where) {
  append(microbatchOp(OpKind::Drop, s, m, keepInput ? KeepInput : 0), where);
}

void DeviceProgram::overlap(const std::function<void()> &members) {
  assert(!inOverlap && "an overlap inside an overlap");
  inOverlap = true;
  hasMember = false;
  members();
  inOverlap = false;
}

void DeviceProgram::group(const std::function<void()> &members) {
  assert(!inGroup && "a group inside a group");
  inGroup = true;
  hasMember = false;
  members();
  inGroup = false;
}

void DeviceProgram::offload(Stage s, Microbatch m, Where where) {
  append(microbatchOp(OpKind::Offload, s, m), where);
}
void DeviceProgram::reload(Stage s, Microbatch m, Where where) {
  append(microbatchOp(OpKind::Reload, s, m), where);
}
void DeviceProgram::sendActivation(Stage s, Microbatch m, Where where) {
  append(microbatchOp(OpKind::SendActivation, s, m), where);
}
void DeviceProgram::recvActivation(Stage s, Microbatch m, Where where) {
  append(microbatchOp(OpKind::RecvActivation, s, m), where);
}
void DeviceProgram::sendGradient(Stage s, Microbatch m, Where where) {
  append(microbatchOp(OpKind::SendGradient, s, m), where);
}
void DeviceProgram::recvGradient(Stage s, Microbatch m, Where where) {
  append(microbatchOp(OpKind::RecvGradient, s, m), where);
}
void DeviceProgram::unshard(Stage s, Where where) {
  append(microbatchOp(OpKind::Unshard, s, noMicrobatch), where);
}
void DeviceProgram::reshard(Stage s, Where where) {
  append(microbatchOp(OpKind::Reshard, s, noMicrobatch), where);
}
void DeviceProgram::scale(Stage s, Rational factor, Where where) {
  append(microbatchOp(OpKind::Scale, s, noMicrobatch), where);
  builder.written[device].back().factor = factor;
}
void DeviceProgram::reduceTied(uint32_t weight, Where where) {
  const std::vector<uint32_t> &stages = builder.program_.ties[weight].stages;
  const std::vector<uint32_t> here = builder.program_.stagesOn(device);
  auto first = std::find_first_of(stages.begin(), stages.end(), here.begin(), here.end());
  append(microbatchOp(OpKind::ReduceTied, first == stages.end() ? stages[0] : *first, weight), where);
}
void DeviceProgram::norm(bool local, Where where) {
  append(microbatchOp(OpKind::Norm, 0, noMicrobatch, local ? Local : 0), where);
}

void DeviceProgram::scaled(Rational factor) {
  builder.written[device].back().op.flags |= Scaled;
  builder.written[device].back().factor = factor;
}
void DeviceProgram::overwriting() { builder.written[device].back().op.flags |= Overwrite; }
void DeviceProgram::withPeer(Stage other) {
  builder.written[device].back().op.flags |= NamesPeer;
  builder.written[device].back().peer = other;
}
void DeviceProgram::carrying(int64_t bytes) { builder.written[device].back().bytes = bytes; }
void DeviceProgram::started() { builder.written[device].back().op.flags |= Started; }
void DeviceProgram::waited() { builder.written[device].back().op.flags |= Waits; }

void DeviceProgram::zero(Where where) { appendAll(OpKind::Zero, where); }
void DeviceProgram::reduce(Where where) { appendAll(OpKind::Reduce, where); }
void DeviceProgram::update(Where where) { appendAll(OpKind::Update, where); }
void DeviceProgram::zero(Stage s, Where where) { append(microbatchOp(OpKind::Zero, s, noMicrobatch), where); }
void DeviceProgram::reduce(Stage s, Where where) {
  append(microbatchOp(OpKind::Reduce, s, noMicrobatch), where);
}
void DeviceProgram::update(Stage s, Where where) {
  append(microbatchOp(OpKind::Update, s, noMicrobatch), where);
}

ScheduleBuilder::ScheduleBuilder(std::string name, Sizes sizes) : written(sizes.devices) {
  assert(sizes.stages <= maxStages && "stages are 16 bits wide");
  program_.name = std::move(name);
  program_.stages = sizes.stages;
  program_.microbatches = sizes.microbatches;
  program_.devices = sizes.devices;
  program_.sequenceSplits = sizes.sequenceSplits;
  assert(sizes.microbatches % sizes.sequenceSplits == 0 && "whole microbatches");
}

void ScheduleBuilder::versions(VersionRule rule, uint32_t most) {
  assert((most == 0 || rule == VersionRule::Stashed) && "only stashes are bounded");
  program_.versions = rule;
  program_.mostVersions = most;
}

uint32_t ScheduleBuilder::tie(std::string name, std::vector<Stage> stages) {
  assert(!stages.empty() && "a weight on no stage");
  program_.ties.push_back({std::move(name), std::move(stages), {}});
  return static_cast<uint32_t>(program_.ties.size() - 1);
}

void ScheduleBuilder::skip(Stage from, Stage to, bool hasGradient) {
  assert(to > from + 1 && to < program_.stages && "a skip edge passes over a stage");
  program_.skips.push_back({from, to, hasGradient, {}});
  std::sort(program_.skips.begin(), program_.skips.end(), [](const SkipEdge &a, const SkipEdge &b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
}

static StageTable<uint32_t> tableOf(const Program &sizes,
                                    const std::function<uint32_t(Stage, Microbatch)> &valueOf) {
  StageTable<uint32_t> table;
  std::vector<uint32_t> row(sizes.stages);
  for (uint32_t m = 0; m < sizes.microbatches; ++m) {
    for (uint32_t s = 0; s < sizes.stages; ++s)
      row[s] = valueOf(s, m);
    table.addMicrobatch(row);
  }
  table.finish();
  return table;
}

void ScheduleBuilder::place(const std::function<Device(Stage, Microbatch)> &deviceOf,
                            std::source_location where) {
  placedAt = where;
  program_.placement = tableOf(program_, deviceOf);
}

void ScheduleBuilder::buffers(const std::function<uint32_t(Stage, Microbatch)> &bufferOf,
                              std::source_location where) {
  buffersAt = where;
  program_.buffers = tableOf(program_, bufferOf);
}

void ScheduleBuilder::program(Device device, const std::function<void(DeviceProgram &)> &write) {
  assert(device < program_.devices && "no such device");
  DeviceProgram scope(*this, device);
  write(scope);
}

void ScheduleBuilder::program(const std::function<void(DeviceProgram &, Device)> &write) {
  for (Device device = 0; device < program_.devices; ++device)
    program(device, [&](DeviceProgram &scope) { write(scope, device); });
}

Program ScheduleBuilder::build(SourceManager *sources) const {
  Program result = program_;
  for (const std::source_location &place : places) {
    Site site;
    if (sources)
      if (auto span = sources->addPlace(place.file_name(), place.line(), place.column()))
        site.span = *span;
    result.sites.push_back(site);
  }
  if (sources && placedAt)
    if (auto span = sources->addPlace(placedAt->file_name(), placedAt->line(), placedAt->column())) {
      result.placeSpans = {*span};
      result.placedBy = StageTable<uint32_t>(std::vector<uint32_t>(result.stages, 0));
    }
  if (sources && buffersAt)
    if (auto span = sources->addPlace(buffersAt->file_name(), buffersAt->line(), buffersAt->column()))
      result.bufferSpan = *span;
  result.deviceBegin = {0};
  result.programSpan.resize(result.devices);
  for (const std::vector<Written> &ops : written) {
    for (const Written &entry : ops) {
      if (entry.version)
        result.namedVersions.push_back({result.size(), *entry.version});
      if (entry.factor)
        result.factors.push_back({result.size(), *entry.factor});
      if (entry.peer)
        result.peers.push_back({result.size(), *entry.peer});
      if (entry.bytes)
        result.payloads.push_back({result.size(), *entry.bytes});
      result.ops.push_back(entry.op);
      result.siteOf.push_back(entry.site);
      result.frameOf.push_back(0);
    }
    result.deviceBegin.push_back(result.size());
  }
  return result;
}

} // namespace sluice
