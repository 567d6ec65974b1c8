#include "StepMachine.h"

#include "StepRun.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::machine {

static Name nameOf(const Statement &op) {
  return {op.word, op.stage, op.microbatch, op.neighbour.value_or(~0u)};
}

Machine::Machine(const StepProgram &program)
    : program(program), setting(program.setting), gradients(program, wrongs),
      steps(setting.isAsynchronous ? 1 : 2), devices(setting.devices) {
  for (uint32_t device = 0; device < setting.devices; ++device) {
    for (uint32_t stage = 0; stage < setting.stages; ++stage)
      if (setting.isOn(stage, device))
        weights[{device, stage}] = {};
  }
  // Weights of a copy are always there, unless it gathers them, or drops what some copy of the stage gathers.
  std::set<uint32_t> gathered;
  for (const std::vector<Statement> &ops : program.devices)
    for (const Statement &op : ops)
      if (op.word == Word::Unshard)
        gathered.insert(op.stage);
  for (auto &[copy, held] : weights) {
    bool gathers = false, drops = false;
    for (const Statement &op : program.devices[copy.first])
      if (op.stage == copy.second) {
        gathers |= op.word == Word::Unshard;
        drops |= op.word == Word::Reshard || (op.word == Word::Reduce && setting.isReshardedAfterReduce);
      }
    held.isTracked = gathers || (drops && gathered.count(copy.second));
    held.isPresent = !held.isTracked || !drops;
  }
}

std::vector<Wrong> Machine::run() {
  for (uint32_t device = 0; device < setting.devices; ++device)
    while (!isDone(device) && program.devices[device].empty())
      endStep(device);
  for (;;) {
    bool moved = false, isAnyLeft = false;
    for (uint32_t device = 0; device < setting.devices; ++device)
      while (!isDone(device) && advance(device, false))
        moved = true;
    for (uint32_t device = 0; device < setting.devices && !moved; ++device)
      if (!isDone(device)) {
        isAnyLeft = true;
        advance(device, true);
        break;
      }
    if (!moved && !isAnyLeft)
      break;
  }
  for (const auto &[ends, queue] : queues) {
    if (queue.sent.size() > queue.awaited.size())
      wrongs.push_back(
          {4, 4, ends.first, 0, fmt::format("messages to device {} are never received", ends.second)});
    for (size_t i = 0; i < std::min(queue.sent.size(), queue.awaited.size()); ++i)
      if (!(queue.sent[i] == queue.awaited[i])) {
        wrongs.push_back(
            {4, 4, ends.second, 0, fmt::format("message {} of device {} is another", i, ends.first)});
        break;
      }
  }
  return wrongs;
}

size_t Machine::blockEnd(uint32_t device) const {
  const std::vector<Statement> &ops = program.devices[device];
  size_t end = devices[device].at + 1;
  while (end < ops.size() && ops[end].follows)
    ++end;
  return end;
}

bool Machine::advance(uint32_t device, bool isForced) {
  Device &here = devices[device];
  const std::vector<Statement> &ops = program.devices[device];
  const size_t end = blockEnd(device);
  if (!here.isPosted) {
    here.isPosted = true;
    for (size_t at = here.at; at < end; ++at)
      here.posted.push_back(post(device, ops[at]));
  }
  for (const Posted &posted : here.posted)
    if (const unsigned family = posted.isVoid ? 0 : blocks(device, posted)) {
      if (!isForced)
        return false;
      wrong(family, device, *posted.op, "waits for ever");
    }
  // A pair is in one state: two members of an overlap cannot both change it.
  for (const Posted &a : here.posted)
    for (const Posted &b : here.posted)
      if (&a < &b && !a.op->isMessage() && a.op->hasMicrobatch() && a.op->stage == b.op->stage &&
          a.op->microbatch == b.op->microbatch)
        wrong(2, device, *b.op, "is in one overlap with another op of its pair");
  for (const Posted &posted : here.posted)
    if (!posted.isVoid && (posted.op->isCompute() || posted.op->word == Word::Drop))
      check(device, *posted.op);
  for (const Posted &posted : here.posted)
    if (!posted.isVoid)
      execute(device, posted);
  here.posted.clear();
  here.isPosted = false;
  here.at = end;
  if (end == ops.size())
    endStep(device);
  return true;
}

void Machine::endStep(uint32_t device) {
  Device &here = devices[device];
  for (uint32_t s = 0; s < setting.stages; ++s)
    for (uint32_t m = 0; m < setting.microbatches; ++m) {
      if (setting.device(s, m) != device)
        continue;
      const State state = states[{here.step, s, m}];
      const bool isEnd = state == (setting.isEvaluation ? State::Gone : State::Done);
      if (!isEnd)
        wrongs.push_back({setting.isEvaluation && state != State::None ? 7u : 2u,
                          setting.isEvaluation && state != State::None ? 7u : 2u, device, here.step,
                          fmt::format("stage {}, microbatch {} is not finished", s, m)});
    }
  for (const auto &[name, started] : here.started)
    for (const Posted &posted : started)
      wrong(3, device, *posted.op, "is never waited for", true);
  here.started.clear();
  gradients.endStep(device, here.step);
  ++here.step;
  here.at = 0;
}

bool Machine::isHere(uint32_t device, const Statement &op) const {
  if (op.word == Word::Norm)
    return true;
  if (op.word == Word::ReduceTied) {
    const std::vector<uint32_t> members = setting.devicesOf(setting.ties[op.stage]);
    return std::find(members.begin(), members.end(), device) != members.end();
  }
  return op.hasMicrobatch() ? setting.device(op.stage, op.microbatch) == device
                            : setting.isOn(op.stage, device);
}

static bool isTraining(Word word) {
  return (word >= Word::Backward && word <= Word::BackwardWeight) || word == Word::SendGradient ||
         word == Word::RecvGradient || (word >= Word::Zero && word <= Word::Update);
}

/// The device stands at the op for the first time.
Posted Machine::post(uint32_t device, const Statement &op) {
  Posted posted{&op};
  if (!isHere(device, op) || (setting.isEvaluation && isTraining(op.word))) {
    wrong(8, device, op, "does not belong here");
    posted.isVoid = true;
    return posted;
  }
  if (op.prefix == Prefix::Wait)
    return waited(device, op);
  if (op.isMessage())
    postMessage(device, posted);
  else if (op.isJoint())
    postCall(device, posted);
  if (op.prefix == Prefix::Start)
    devices[device].started[nameOf(op)].push_back(posted);
  return posted;
}

Posted Machine::waited(uint32_t device, const Statement &op) {
  std::deque<Posted> &started = devices[device].started[nameOf(op)];
  if (started.empty()) {
    wrong(3, device, op, "waits for what is not started", true);
    return {&op, 0, true};
  }
  Posted posted = started.front();
  started.pop_front();
  posted.op = &op;
  return posted;
}

std::optional<Message> Machine::messageOf(uint32_t device, const Statement &op) const {
  const bool isGradient = op.isGradientMessage();
  const bool goesUp = isGradient != op.isSend(); // the other stage stands behind this one
  const std::vector<uint32_t> others =
      goesUp ? setting.behind(op.stage, isGradient) : setting.before(op.stage, isGradient);
  const uint32_t other = op.neighbour.value_or(goesUp ? op.stage + 1 : op.stage - 1);
  if (std::find(others.begin(), others.end(), other) == others.end() ||
      setting.device(other, op.microbatch) == device)
    return std::nullopt;
  const uint32_t from = op.isSend() ? op.stage : other, to = op.isSend() ? other : op.stage;
  return Message{devices[device].step, isGradient, from, to, op.microbatch};
}

uint32_t Machine::sender(const Message &message) const {
  return setting.device(std::get<2>(message), std::get<4>(message));
}

void Machine::postMessage(uint32_t device, Posted &posted) {
  const Statement &op = *posted.op;
  const std::optional<Message> message = messageOf(device, op);
  if (!message) {
    wrong(4, device, op, "has no other end");
    posted.isVoid = true;
    return;
  }
  const uint32_t from = sender(*message), to = setting.device(std::get<3>(*message), op.microbatch);
  Queue &queue = queues[{from, to}];
  if (!op.isSend()) {
    posted.index = queue.awaited.size();
    queue.awaited.push_back(*message);
    return;
  }
  const bool isMade = op.word == Word::SendActivation ? outputs.count(valueOf(device, op)) != 0
                                                      : inputGradients.count(valueOf(device, op)) != 0;
  if (!isMade)
    wrong(4, device, op, "sends what is not made");
  if (!sent.insert(*message).second)
    wrong(4, device, op, "is sent again");
  queue.sent.push_back(*message);
}

std::vector<uint32_t> Machine::membersOf(const Statement &op) const {
  if (op.word == Word::Reduce)
    return setting.devicesOf(op.stage);
  if (op.word == Word::ReduceTied)
    return setting.devicesOf(setting.ties[op.stage]);
  std::vector<uint32_t> all;
  for (uint32_t device = 0; device < setting.devices; ++device)
    all.push_back(device);
  return all;
}

void Machine::postCall(uint32_t device, Posted &posted) {
  gradients.post(device, devices[device].step, *posted.op);
  if (posted.op->word == Word::Norm && posted.op->local)
    return;
  const std::vector<uint32_t> members = membersOf(*posted.op);
  std::vector<Name> &own = calls[members].posted[device];
  posted.index = own.size();
  own.push_back(nameOf(*posted.op));
  complete(members, device);
}

/// Serves the calls of these devices in order, as far as all have posted the same.
void Machine::complete(const std::vector<uint32_t> &members, uint32_t device) {
  Calls &shared = calls[members];
  for (;; ++shared.completed) {
    std::optional<Name> name;
    for (uint32_t member : members) {
      const std::vector<Name> &own = shared.posted[member];
      if (own.size() <= shared.completed || (name && !(*name == own[shared.completed])))
        return;
      name = own[shared.completed];
    }
    const auto &[word, stage, microbatch, neighbour] = *name;
    if (word == Word::Reduce) {
      gradients.reduce(stage);
      for (uint32_t member : members)
        if (Weights &held = weights[{member, stage}]; setting.isReshardedAfterReduce)
          held.isPresent = false;
    } else if (word == Word::ReduceTied)
      gradients.reduceTied(device, devices[device].step, stage);
  }
}

const Queue *Machine::queueOf(uint32_t from, uint32_t to) const {
  auto found = queues.find({from, to});
  return found == queues.end() ? nullptr : &found->second;
}

unsigned Machine::blocks(uint32_t device, const Posted &posted) const {
  const Statement &op = *posted.op;
  if (op.prefix == Prefix::Start)
    return 0;
  if (op.isCompute())
    return blocksCompute(device, op);
  if (op.isMessage() && !op.isSend()) {
    const std::optional<Message> message = messageOf(device, op);
    const Queue *queue = queueOf(sender(*message), device);
    if (queue && queue->sent.size() > posted.index)
      return 0;
    // Is there a send for it at all?
    size_t sends = 0;
    for (const Statement &other : program.devices[sender(*message)])
      if (other.isSend() && other.prefix != Prefix::Wait && isHere(sender(*message), other))
        if (std::optional<Message> theirs = messageOf(sender(*message), other))
          sends += setting.device(std::get<3>(*theirs), std::get<4>(*theirs)) == device;
    return sends * steps > posted.index ? 3 : 4;
  }
  if (op.isJoint() && !op.local)
    return calls.at(membersOf(op)).completed > posted.index ? 0 : 3;
  return 0;
}

bool Machine::isMadeSomewhere(bool isGradient, uint32_t stage, uint32_t microbatch) const {
  for (const Statement &op : program.devices[setting.device(stage, microbatch)]) {
    const bool isKind =
        isGradient ? op.word == Word::Backward || op.word == Word::BackwardInput : op.word == Word::Forward;
    if (isKind && op.stage == stage && op.microbatch == microbatch)
      return true;
  }
  return false;
}

unsigned Machine::blocksCompute(uint32_t device, const Statement &op) const {
  const bool isGradient = op.word == Word::Backward || op.word == Word::BackwardInput;
  if ((op.word != Word::Forward && !isGradient) || setting.isExplicit)
    return 0;
  for (uint32_t other : isGradient ? setting.behind(op.stage, true) : setting.before(op.stage, false)) {
    if (setting.device(other, op.microbatch) == device)
      continue;
    const Value value{devices[device].step, other, op.microbatch};
    if (isGradient ? inputGradients.count(value) == 0 : outputs.count(value) == 0)
      return isMadeSomewhere(isGradient, other, op.microbatch) ? 3 : 2;
  }
  return 0;
}

std::vector<Wrong> run(const StepProgram &program) { return Machine(program).run(); }

} // namespace sluice::machine
