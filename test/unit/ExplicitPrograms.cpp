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
  op.flags = Waits;
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

Program explicitProgram(const PlacementRows &rows, const DeviceOps &devices) {
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
  for (const std::vector<Op> &ops : devices) {
    program.ops.insert(program.ops.end(), ops.begin(), ops.end());
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
  return explicitProgram(rows, devices);
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

Action actionOf(const Program &program, const Op &op, OpId id) {
  Action action;
  action.tag = id;
  if (!op.isCommunication()) {
    action.kind = Action::Joint;
    action.name = op.kind == OpKind::Reduce ? fmt::format("reduce {}", op.stage) : "norm";
    for (uint32_t device = 0; device < program.devices; ++device)
      if (op.kind != OpKind::Reduce || llvm::is_contained(program.devicesOf(op.stage), device))
        action.members.push_back(device);
    return action;
  }
  const bool isActivation = op.kind == OpKind::SendActivation || op.kind == OpKind::RecvActivation;
  action.kind = op.isSend() ? Action::Send : Action::Receive;
  const uint32_t other = isActivation == op.isSend() ? op.stage + 1u : op.stage - 1u;
  action.carried = {!isActivation, op.isSend() ? op.stage : other, op.isSend() ? other : op.stage,
                    op.microbatch};
  action.peer = program.deviceOf(other, op.microbatch);
  return action;
}

bool isJoint(const Program &program, const Op &op) {
  return (op.kind == OpKind::Reduce && program.devicesOf(op.stage).size() > 1) ||
         (op.kind == OpKind::Norm && program.devices > 1);
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
        statement.kind = first.has(Waits)     ? Statement::Wait
                         : first.has(Started) ? Statement::Start
                                              : Statement::Post;
        for (OpId op = id; op < end; ++op)
          statement.actions.push_back(actionOf(program, program.ops[op], op));
      }
      result[device].push_back(statement);
      id = end;
    }
  return result;
}

namespace {

class Draw {
public:
  explicit Draw(uint64_t seed) : random(seed) {}

  Program program() {
    devices = 2 + random.below(3);
    stages = 3 + random.below(6);
    microbatches = 1 + random.below(3);
    drawPlacement();
    // One order of all messages and collectives, followed by every device but for a few moves, completes
    // often; an order of its own for each device hardly ever.
    std::vector<Step> steps;
    drawMessages(steps);
    drawCollectives(steps);
    shuffle(steps);
    DeviceOps lists(devices);
    for (const Step &step : steps)
      for (auto [device, op] : step)
        if (!random.chance(2))
          for (uint32_t times = random.chance(2) ? 2 : 1; times > 0; --times)
            lists[device].push_back(op);
    const bool isFree = random.chance(40);
    for (std::vector<Op> &ops : lists) {
      if (isFree)
        shuffle(ops);
      else if (ops.size() > 1)
        for (uint32_t moves = random.below(3); moves > 0; --moves)
          std::swap(ops[random.below(size(ops))], ops[random.below(size(ops))]);
    }
    groupPercent = random.chance(40) ? 0 : random.below(60);
    startPercent = random.chance(50) ? 0 : random.below(70);
    for (uint32_t device = 0; device < devices; ++device)
      lists[device] = posted(lists[device], device);
    return explicitProgram(rows, lists);
  }

private:
  /// The two ends of a message, or the calls of a joint op, with their devices.
  using Step = std::vector<std::pair<uint32_t, Op>>;

  template <typename T> static uint32_t size(const std::vector<T> &list) {
    return static_cast<uint32_t>(list.size());
  }
  template <typename T> void shuffle(std::vector<T> &list) {
    for (uint32_t i = size(list); i > 1; --i)
      std::swap(list[i - 1], list[random.below(i)]);
  }

  /// Loops, a V, blocks, anything, or two copies in opposite directions.
  void drawPlacement() {
    const uint32_t kind = random.below(5);
    rows.assign(microbatches, std::vector<uint32_t>(stages));
    for (uint32_t s = 0; s < stages; ++s) {
      const uint32_t turn = s % (2 * devices), any = random.below(devices);
      for (uint32_t m = 0; m < microbatches; ++m) {
        const uint32_t where[] = {s % devices, turn < devices ? turn : 2 * devices - 1 - turn,
                                  s * devices / stages, any,
                                  m % 2 == 0 ? s % devices : devices - 1 - s % devices};
        rows[m][s] = where[kind];
      }
    }
  }

  void drawMessages(std::vector<Step> &steps) {
    for (uint32_t m = 0; m < microbatches; ++m)
      for (uint32_t s = 0; s + 1 < stages; ++s) {
        const uint32_t here = rows[m][s], behind = rows[m][s + 1];
        if (here == behind)
          continue;
        steps.push_back({{here, sendActivation(s, m)}, {behind, recvActivation(s + 1, m)}});
        steps.push_back({{behind, sendGradient(s + 1, m)}, {here, recvGradient(s, m)}});
      }
    shuffle(steps);
    steps.resize(std::min<size_t>(steps.size(), 2 + random.below(7)));
  }

  void drawCollectives(std::vector<Step> &steps) {
    for (uint32_t s = 0; s < stages; ++s) {
      Step step;
      for (uint32_t device = 0; device < devices; ++device)
        if (std::any_of(rows.begin(), rows.end(), [&](auto &row) { return row[s] == device; }))
          step.push_back({device, {OpKind::Reduce, 0, static_cast<uint16_t>(s), noMicrobatch}});
      if (random.chance(step.size() > 1 ? 30 : 5))
        steps.push_back(step);
    }
    for (uint32_t calls = random.chance(30) ? 1 + random.below(2) : 0; calls > 0; --calls) {
      Step step;
      for (uint32_t device = 0; device < devices; ++device)
        step.push_back({device, {OpKind::Norm, 0, 0, noMicrobatch}});
      steps.push_back(step);
    }
  }

  /// `ops` of a device as statements, with some of its forwards in between.
  std::vector<Op> posted(const std::vector<Op> &ops, uint32_t device) {
    std::vector<Op> result, open;
    auto wait = [&](uint32_t which) {
      if (!random.chance(3))
        result.push_back(waits(open[which]));
      open.erase(open.begin() + which);
    };
    for (size_t i = 0; i < ops.size();) {
      std::vector<Op> members = {ops[i++]};
      if (members[0].isCommunication())
        while (i < ops.size() && ops[i].isCommunication() && random.chance(groupPercent))
          members.push_back(ops[i++]);
      const bool canStart = members[0].kind != OpKind::Norm;
      if (canStart && random.chance(startPercent))
        for (Op &op : members) {
          open.push_back(op);
          op = started(op);
        }
      result = result + group(members);
      while (!open.empty() && random.chance(35))
        wait(random.chance(70) ? 0 : random.below(size(open)));
      const uint32_t s = random.below(stages), m = random.below(microbatches);
      if (random.chance(10) && rows[m][s] == device)
        result.push_back({OpKind::Forward, 0, static_cast<uint16_t>(s), m});
    }
    while (!open.empty())
      wait(random.chance(70) ? 0 : random.below(size(open)));
    if (!ops.empty() && random.chance(2))
      result.push_back(waits(ops[random.below(size(ops))]));
    return result;
  }

  Random random;
  uint32_t devices = 0, stages = 0, microbatches = 0;
  PlacementRows rows;
  uint32_t groupPercent = 0, startPercent = 0;
};

} // namespace

Program randomCommunication(uint64_t seed) { return Draw(seed).program(); }

Transport randomTransport(Random &random) {
  static constexpr uint32_t depths[] = {0, 1, 2, Transport::unbounded};
  Transport transport;
  transport.key = static_cast<Transport::Key>(random.below(4));
  transport.depth = depths[random.below(4)];
  transport.servesDevice = random.chance(30);
  transport.atomicGroups = random.chance(30);
  transport.progressInWait = random.chance(30);
  transport.connectsOnFirstUse = random.chance(25);
  return transport;
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
      text += op.has(Waits) ? "wait " : op.has(Started) ? "start " : "";
      text += sluice::str(op) + ";";
    }
    text += '\n';
  }
  return text;
}

} // namespace sluice::slow
