#include "VerifyInterpreter.h"

#include <map>
#include <set>

namespace sluice::test {

namespace {

using Pair = std::pair<uint32_t, uint32_t>; // stage and microbatch, or device and stage

struct Gradient {
  std::multiset<uint32_t> microbatches;
  int reductions = 0;
  bool updated = false;
};

struct Interpreter {
  const Program &program;
  std::optional<int64_t> replicas;
  std::vector<std::vector<Op>> todo; // per device, next op first
  std::set<Pair> outputs, inputGradients;
  std::map<Pair, std::string> kept;
  std::map<Pair, Gradient> gradients; // by device and stage
  std::string accident;
  bool anyReduce = false, anyUpdate = false;

  bool fail(const Op &op, const std::string &why) {
    accident = str(op) + " " + why;
    return false;
  }
  bool take(const Op &op, const std::string &before, const std::string &after) {
    std::string &state = kept[{op.stage, op.microbatch}];
    if (state != before)
      return fail(op, "finds '" + state + "' kept");
    state = after;
    return true;
  }
  bool isIdentity(uint32_t stage) const { return replicas == 1 && program.devicesOf(stage).size() == 1; }
  bool needsReduction(uint32_t stage) const {
    return program.devicesOf(stage).size() > 1 || (replicas ? *replicas > 1 : anyReduce);
  }

  bool waits(uint32_t device, const Op &op) const;
  bool contribute(uint32_t device, const Op &op);
  bool execute(uint32_t device, const Op &op);
  void run();
  void checkEnd();
};

} // namespace

bool Interpreter::waits(uint32_t device, const Op &op) const {
  switch (op.kind) {
  case OpKind::Forward:
    return op.stage > 0 && !outputs.count({op.stage - 1, op.microbatch});
  case OpKind::Backward:
  case OpKind::BackwardInput:
    return op.stage + 1u < program.stages && !inputGradients.count({op.stage + 1, op.microbatch});
  case OpKind::Reduce:
    // All others must stand at the same reduction; who asks as the last executes it for all.
    for (uint32_t other : program.devicesOf(op.stage))
      if (other != device && (todo[other].empty() || !(todo[other].front() == op)))
        return true;
    return false;
  default:
    return false;
  }
}

bool Interpreter::contribute(uint32_t device, const Op &op) {
  Gradient &gradient = gradients[{device, op.stage}];
  if (gradient.updated)
    return fail(op, "comes after its update");
  if (gradient.reductions > 0 && !isIdentity(op.stage))
    return fail(op, "comes after its reduction");
  gradient.microbatches.insert(op.microbatch);
  return true;
}

bool Interpreter::execute(uint32_t device, const Op &op) {
  switch (op.kind) {
  case OpKind::Forward:
    outputs.insert({op.stage, op.microbatch});
    return take(op, "", op.has(KeepInput) ? "input" : op.has(KeepNothing) ? "nothing" : "activation");
  case OpKind::Recompute:
    return take(op, "input", "activation");
  case OpKind::Drop:
    return take(op, "activation", op.has(KeepInput) ? "input" : "nothing");
  case OpKind::Backward:
    inputGradients.insert({op.stage, op.microbatch});
    return take(op, "activation", "done") && contribute(device, op);
  case OpKind::BackwardInput:
    inputGradients.insert({op.stage, op.microbatch});
    return take(op, "activation", "half");
  case OpKind::BackwardWeight:
    return take(op, "half", "done") && contribute(device, op);
  case OpKind::Zero:
  case OpKind::SendActivation:
  case OpKind::RecvActivation:
  case OpKind::SendGradient:
  case OpKind::RecvGradient:
  case OpKind::Unshard:
  case OpKind::Reshard:
  case OpKind::Offload:
  case OpKind::Reload:
  case OpKind::Scale:
  case OpKind::ReduceTied:
  case OpKind::Norm:
    return true; // no schedule of this test has written communication
  case OpKind::Reduce:
    for (uint32_t each : program.devicesOf(op.stage)) {
      Gradient &gradient = gradients[{each, op.stage}];
      if (!gradient.microbatches.empty() && !gradient.updated && ++gradient.reductions > 1 &&
          !isIdentity(op.stage))
        return fail(op, "reduces a second time");
      if (gradient.microbatches.empty() && !isIdentity(op.stage))
        ++gradient.reductions; // and closes the accumulator
      if (each != device)
        todo[each].erase(todo[each].begin());
    }
    return true;
  case OpKind::Update:
    Gradient &gradient = gradients[{device, op.stage}];
    if (gradient.updated || gradient.microbatches.empty())
      return fail(op, "has nothing to apply");
    if (needsReduction(op.stage) && gradient.reductions == 0)
      return fail(op, "applies what is not reduced");
    gradient.updated = true;
    return true;
  }
  return true;
}

void Interpreter::run() {
  for (bool moved = true; moved && accident.empty();) {
    moved = false;
    for (uint32_t device = 0; device < program.devices; ++device)
      while (!todo[device].empty() && !waits(device, todo[device].front())) {
        Op op = todo[device].front();
        bool here = op.hasMicrobatch() ? program.deviceOf(op.stage, op.microbatch) == device
                                       : gradients.count({device, op.stage}) != 0;
        if (!here ? !fail(op, "is on the wrong device") : !execute(device, op))
          return;
        todo[device].erase(todo[device].begin());
        moved = true;
      }
  }
}

void Interpreter::checkEnd() {
  for (uint32_t device = 0; device < program.devices; ++device)
    if (!todo[device].empty())
      accident = str(todo[device].front()) + " waits for ever";
  for (uint32_t s = 0; s < program.stages; ++s)
    for (uint32_t m = 0; m < program.microbatches; ++m)
      if (kept[{s, m}] != "done")
        accident = "a pair ends with '" + kept[{s, m}] + "'";
  for (auto &[copy, gradient] : gradients)
    if (anyUpdate && !gradient.updated && !gradient.microbatches.empty())
      accident = "a copy is not updated";
}

std::string accidentIn(const Program &program, std::optional<int64_t> replicas) {
  Interpreter interpreter{program, replicas, {}, {}, {}, {}, {}, "", false, false};
  for (uint32_t device = 0; device < program.devices; ++device) {
    interpreter.todo.push_back(program.opsOf(device).vec());
    for (uint32_t stage : program.stagesOn(device))
      interpreter.gradients[{device, stage}];
  }
  for (const Op &op : program.ops) {
    interpreter.anyReduce |= op.kind == OpKind::Reduce;
    interpreter.anyUpdate |= op.kind == OpKind::Update;
  }
  interpreter.run();
  if (interpreter.accident.empty())
    interpreter.checkEnd();
  return interpreter.accident;
}

} // namespace sluice::test
