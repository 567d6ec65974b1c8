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

namespace {

class Draw {
public:
  explicit Draw(uint64_t seed) : random(seed) {}

  Program program() {
    devices = 2 + random.below(3);
    stages = 3 + random.below(6);
    microbatches = 1 + random.below(3);
    drawPlacement();
    if (const uint32_t from = random.below(stages - 2); random.chance(30))
      skips = {{from, from + 2 + random.below(stages - from - 2), true, {}}};
    for (uint32_t tie = random.chance(25) ? 1 + random.below(2) : 0; tie > 0; --tie)
      ties.push_back({fmt::format("w{}", tie), {random.below(stages - 1), stages - 1}, {}});
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
    return explicitProgram(rows, lists, skips, ties);
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

  static Op beside(Op op) {
    op.flags |= NamesPeer;
    return op;
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
    for (SkipEdge skip : skips)
      for (uint32_t m = 0; m < microbatches; ++m) {
        const uint32_t here = rows[m][skip.from], behind = rows[m][skip.to];
        if (here == behind)
          continue;
        steps.push_back(
            {{here, beside(sendActivation(skip.from, m))}, {behind, beside(recvActivation(skip.to, m))}});
        steps.push_back(
            {{behind, beside(sendGradient(skip.to, m))}, {here, beside(recvGradient(skip.from, m))}});
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
    for (uint32_t tie = 0; tie < ties.size(); ++tie) {
      Step step;
      const Op op{OpKind::ReduceTied, 0, static_cast<uint16_t>(ties[tie].stages.front()), tie};
      for (uint32_t device = 0; device < devices; ++device)
        if (std::any_of(rows.begin(), rows.end(), [&](auto &row) {
              return row[ties[tie].stages[0]] == device || row[ties[tie].stages[1]] == device;
            }))
          step.push_back({device, op});
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
      const bool canStart = members[0].mayStart();
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
  std::vector<SkipEdge> skips;
  std::vector<TiedWeight> ties;
  uint32_t groupPercent = 0, startPercent = 0;
};

} // namespace

Program randomCommunication(uint64_t seed) { return Draw(seed).program(); }

Blocking randomBlocking(Random &random) {
  static constexpr uint32_t depths[] = {0, 1, 2, Blocking::unbounded};
  Blocking blocking;
  blocking.key = static_cast<Blocking::Key>(random.below(4));
  blocking.depth = depths[random.below(4)];
  blocking.servesDevice = random.chance(30);
  blocking.atomicGroups = random.chance(30);
  blocking.progressInWait = random.chance(30);
  blocking.connectsOnFirstUse = random.chance(25);
  return blocking;
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
