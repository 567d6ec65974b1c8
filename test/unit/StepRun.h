// One run of the step machine: what stands where, and what each op does to it. Internal to the machine.
// StepMachine.cpp decides when ops run, StepOps.cpp what they do.
#pragma once

#include "StepGradients.h"
#include "StepMachine.h"

#include <deque>
#include <map>
#include <set>
#include <tuple>

namespace sluice::machine {

/// What is kept of a microbatch at a stage.
enum class State : uint8_t { None, Input, Saved, Leaving, Host, Coming, Half, Done, Gone };

/// A step, a stage and a microbatch.
using Value = std::tuple<uint32_t, uint32_t, uint32_t>;
/// One stage's output or input gradient on its way: step, is a gradient, from, to, microbatch.
using Message = std::tuple<uint32_t, bool, uint32_t, uint32_t, uint32_t>;
/// What starts and waits agree on.
using Name = std::tuple<Word, uint32_t, uint32_t, uint32_t>;

/// All messages from one device to another.
struct Queue {
  std::vector<Message> sent, awaited;
};
/// All joint ops of one set of devices.
struct Calls {
  std::map<uint32_t, std::vector<Name>> posted; // by device
  size_t completed = 0;
};

struct Weights {
  bool isTracked = false, isPresent = true, isComing = false;
  uint32_t newest = 0, content = 0, coming = 0; ///< Versions.
  std::deque<uint32_t> pushed;
};

/// A request or call that a device has posted and will see the end of.
struct Posted {
  const Statement *op;
  size_t index = 0;    ///< In its queue or calls.
  bool isVoid = false; ///< It has been reported; nothing comes of it.
};

struct Device {
  size_t at = 0;
  uint32_t step = 0;
  bool isPosted = false;
  std::vector<Posted> posted; ///< One an op of the block at hand.
  std::map<Name, std::deque<Posted>> started;
};

class Machine {
public:
  explicit Machine(const StepProgram &program);
  std::vector<Wrong> run();

private:
  bool advance(uint32_t device, bool isForced);
  size_t blockEnd(uint32_t device) const;
  bool isDone(uint32_t device) const { return devices[device].step == steps; }
  void endStep(uint32_t device);
  void wrong(unsigned family, uint32_t device, const Statement &op, const std::string &what,
             bool isUnpaired = false) {
    wrongs.push_back({family, family, device, devices[device].step, str(op) + " " + what, isUnpaired});
  }

  bool isHere(uint32_t device, const Statement &op) const;
  Posted post(uint32_t device, const Statement &op);
  Posted waited(uint32_t device, const Statement &op);
  void postMessage(uint32_t device, Posted &posted);
  void postCall(uint32_t device, Posted &posted);
  void complete(const std::vector<uint32_t> &members, uint32_t device);
  /// The family that names why the op cannot go on; 0 if it can.
  unsigned blocks(uint32_t device, const Posted &posted) const;
  unsigned blocksCompute(uint32_t device, const Statement &op) const;
  bool isMadeSomewhere(bool isGradient, uint32_t stage, uint32_t microbatch) const;

  std::optional<Message> messageOf(uint32_t device, const Statement &op) const;
  std::vector<uint32_t> membersOf(const Statement &op) const;
  const Queue *queueOf(uint32_t from, uint32_t to) const;
  uint32_t sender(const Message &message) const;

  void check(uint32_t device, const Statement &op);
  void checkInputs(uint32_t device, const Statement &op, bool isGradient);
  void checkWeights(uint32_t device, const Statement &op);
  void apply(uint32_t device, const Statement &op);
  void execute(uint32_t device, const Posted &posted);
  void moveActivation(uint32_t device, const Statement &op);
  void changeWeights(uint32_t device, const Statement &op);
  void update(uint32_t device, const Statement &op);
  Rational arriving(uint32_t device, const Statement &op);
  Rational lossFactor(uint32_t microbatch) const;
  State &stateOf(uint32_t device, const Statement &op) {
    return states[{devices[device].step, op.stage, op.microbatch}];
  }
  Value valueOf(uint32_t device, const Statement &op) const {
    return {devices[device].step, op.stage, op.microbatch};
  }

  const StepProgram &program;
  const Setting &setting;
  std::vector<Wrong> wrongs;
  Gradients gradients;
  uint32_t steps;
  std::vector<Device> devices;
  std::map<Value, State> states;
  std::set<Value> outputs;
  std::map<Value, Rational> inputGradients; ///< With the factor they carry.
  std::map<Value, Rational> arrived;        ///< The factor a stage's backward found.
  std::map<Value, uint32_t> versions;       ///< That the forward read.
  std::set<Message> sent, received;
  std::multiset<Value> leaving; ///< Outputs whose sends are started and not waited for.
  std::map<std::pair<uint32_t, uint32_t>, Queue> queues;    // by sender and receiver
  std::map<std::vector<uint32_t>, Calls> calls;             // by members
  std::map<std::pair<uint32_t, uint32_t>, Weights> weights; // by device and stage
};

} // namespace sluice::machine
