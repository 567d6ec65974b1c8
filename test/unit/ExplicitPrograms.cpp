#include "ExplicitPrograms.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::slow {

Op started(Op op) {
  op.flags |= Started;
  return op;
}

Op waits(Op op) {
  op.flags = static_cast<uint8_t>((op.flags & NamesPeer) | Waits);
  return op;
}

std::vector<Op> group(std::vector<Op> ops) {
  if (ops.size() > 1)
    for (size_t i = 0; i < ops.size(); ++i)
      ops[i].flags |= i == 0 ? GroupFirst : GroupFollower;
  return ops;
}

std::vector<Op> operator+(std::vector<Op> a, const std::vector<Op> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The stage at the other end of a send or receive over a skip edge.
static uint32_t skippedTo(const Op &op, const std::vector<SkipEdge> &skips) {
  const bool isForwards = op.kind == OpKind::SendActivation || op.kind == OpKind::RecvGradient;
  for (const SkipEdge &skip : skips)
    if ((isForwards ? skip.from : skip.to) == op.stage)
      return isForwards ? skip.to : skip.from;
  return ~0u;
}

Program explicitProgram(const PlacementRows &rows, const DeviceOps &devices,
                        const std::vector<SkipEdge> &skips, const std::vector<TiedWeight> &ties) {
  Program program;
  program.name = "explicit";
  program.isExplicit = true;
  program.stages = static_cast<uint32_t>(rows.front().size());
  program.microbatches = static_cast<uint32_t>(rows.size());
  program.devices = static_cast<uint32_t>(devices.size());
  for (const std::vector<uint32_t> &row : rows)
    program.placement.addMicrobatch(row);
  program.placement.finish();
  program.programSpan.resize(devices.size());
  program.deviceBegin = {0};
  program.skips = skips;
  program.ties = ties;
  for (const std::vector<Op> &ops : devices) {
    for (const Op &op : ops) {
      if (op.namesPeer())
        program.peers.push_back({program.size(), skippedTo(op, skips)});
      program.ops.push_back(op);
    }
    program.deviceBegin.push_back(program.size());
  }
  return program;
}

DeviceOps devicesOf(const Program &program) {
  DeviceOps devices;
  for (uint32_t device = 0; device < program.devices; ++device)
    devices.push_back(program.opsOf(device).vec());
  return devices;
}

Program withDevices(const Program &program, const DeviceOps &devices) {
  PlacementRows rows(program.microbatches, std::vector<uint32_t>(program.stages));
  for (uint32_t m = 0; m < program.microbatches; ++m)
    for (uint32_t s = 0; s < program.stages; ++s)
      rows[m][s] = program.deviceOf(s, m);
  return explicitProgram(rows, devices, program.skips, program.ties);
}

/// Without the op at `at`; the next member leads a group whose first has gone, and one alone is none.
static std::vector<Op> without(std::vector<Op> ops, size_t at) {
  const bool isFirst = ops[at].has(GroupFirst);
  ops.erase(ops.begin() + static_cast<ptrdiff_t>(at));
  if (isFirst)
    ops[at].flags = static_cast<uint8_t>((ops[at].flags & ~GroupFollower) | GroupFirst);
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].has(GroupFirst) && (i + 1 == ops.size() || !ops[i + 1].has(GroupFollower)))
      ops[i].flags &= static_cast<uint8_t>(~GroupFirst);
  return ops;
}

Program smallest(const Program &program, const std::function<bool(const Program &)> &isWanted) {
  DeviceOps devices = devicesOf(program);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::vector<Op> &ops : devices)
      for (size_t at = ops.size(); at-- > 0;) {
        std::vector<Op> fewer = without(ops, at);
        std::swap(ops, fewer);
        if (isWanted(withDevices(program, devices)))
          changed = true;
        else
          std::swap(ops, fewer);
      }
  }
  return withDevices(program, devices);
}

namespace {

Action actionOf(const Program &program, OpId id) {
  const Op &op = program.ops[id];
  Action action;
  action.tag = id;
  if (!op.isCommunication()) {
    action.kind = Action::Joint;
    action.name =
        fmt::format("{} {} {}", name(op.kind).str(), op.kind == OpKind::Reduce ? op.stage : 0, op.microbatch);
    action.members = program.membersOf(op);
    return action;
  }
  const bool isActivation = op.kind == OpKind::SendActivation || op.kind == OpKind::RecvActivation;
  const uint32_t other = program.peerStageOf(id);
  action.kind = op.isSend() ? Action::Send : Action::Receive;
  action.carried = {!isActivation, op.isSend() ? op.stage : other, op.isSend() ? other : op.stage,
                    op.microbatch};
  action.peer = program.deviceOf(other, op.microbatch);
  return action;
}

/// Whether it meets calls of other devices.
bool isJoint(const Program &program, const Op &op) {
  const bool mayBe = op.kind == OpKind::Reduce || op.kind == OpKind::ReduceTied ||
                     (op.kind == OpKind::Norm && !op.has(Local));
  return mayBe && program.membersOf(op).size() > 1;
}

} // namespace

ExplicitProgram machineProgram(const Program &program) {
  ExplicitProgram result(program.devices);
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1];) {
      const Op &first = program.ops[id];
      Statement statement;
      statement.tag = id;
      const OpId end = first.isCommunication() ? program.postedEnd(id) : id + 1;
      if (first.isCommunication() || isJoint(program, first)) {
        statement.kind = first.isWait()      ? Statement::Wait
                         : first.isStarted() ? Statement::Start
                                             : Statement::Post;
        for (OpId op = id; op < end; ++op)
          statement.actions.push_back(actionOf(program, op));
      }
      result[device].push_back(statement);
      id = end;
    }
  return result;
}

ChannelRules rulesOf(const Blocking &blocking) {
  ChannelRules rules;
  rules.depth = blocking.depth == Blocking::unbounded ? ChannelRules::unbounded : blocking.depth;
  rules.key = blocking.key == Blocking::Direction ? ChannelRules::Key::Direction
              : blocking.key == Blocking::Pair    ? ChannelRules::Key::Pair
              : blocking.key == Blocking::Edge    ? ChannelRules::Key::Edge
                                                  : ChannelRules::Key::Message;
  rules.deviceService = blocking.servesDevice;
  rules.atomicGroups = blocking.atomicGroups;
  rules.progressInWait = blocking.progressInWait;
  rules.connectOnFirstUse = blocking.connectsOnFirstUse;
  return rules;
}

std::string describe(const Program &program) {
  std::string text = fmt::format("{} stages, {} microbatches, {} devices\n", program.stages,
                                 program.microbatches, program.devices);
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    text += fmt::format("place microbatch {}:", m);
    for (uint32_t s = 0; s < program.stages; ++s)
      text += fmt::format(" {}", program.deviceOf(s, m));
    text += '\n';
  }
  for (uint32_t device = 0; device < program.devices; ++device) {
    text += fmt::format("{}:", device);
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      text += op.has(GroupFollower) ? " +" : " ";
      text += sluice::str(program, id) + ";";
    }
    text += '\n';
  }
  return text;
}

} // namespace sluice::slow
