// A stage with virtual callbacks that checks what it is handed: every buffer names the stage, microbatch and
// step it belongs to, and an update finds the contributions of all microbatches, whichever copies made them.
#pragma once

#include <sluice/AnyStage.h>
#include <sluice/Executor.h>

#include <memory>

namespace sluice::test {

using runtime::Context;

struct Value {
  enum Kind : uint8_t { Nothing, Activation, Gradient, Saved, Pending, Sum } kind = Nothing;
  uint32_t stage = 0, microbatch = 0; ///< An activation names the stage it goes into. Sum: how many.
  uint64_t step = 0;
  friend bool operator==(const Value &, const Value &) = default;
};

class CheckedStage : public runtime::AnyStage<Value, Value, Value, Value, Value> {
public:
  using Any = runtime::AnyStage<Value, Value, Value, Value, Value>;
  explicit CheckedStage(uint32_t microbatches) : microbatches(microbatches) {}
  static auto makeFor(const runtime::Tables &tables) {
    return [microbatches = tables.microbatches](const runtime::Copy &) -> std::unique_ptr<Any> {
      return std::make_unique<CheckedStage>(microbatches);
    };
  }

  void load(const Context &c, Value &input) override { input = own(c, Value::Activation); }
  void forward(const Context &c, const Value &input, Value &output, Value &saved) override {
    check(input, own(c, Value::Activation));
    output = {Value::Activation, c.stage + 1, c.microbatch, c.step};
    saved = own(c, Value::Saved);
  }
  void loss(const Context &c, const Value &output, Value &gradient) override {
    check(output, {Value::Activation, c.stage + 1, c.microbatch, c.step});
    gradient = own(c, Value::Gradient);
  }
  void backward(const Context &c, const Value &gradient, Value &saved, Value &inputGradient) override {
    pass(c, gradient, saved, inputGradient);
    contribute(c);
  }
  void backwardInput(const Context &c, const Value &gradient, Value &saved, Value &inputGradient,
                     Value &pending) override {
    pass(c, gradient, saved, inputGradient);
    pending = own(c, Value::Pending);
  }
  void backwardWeight(const Context &c, Value &pending) override {
    check(pending, own(c, Value::Pending));
    contribute(c);
  }
  void recompute(const Context &c, const Value &input, Value &saved) override {
    check(input, own(c, Value::Activation));
    saved = own(c, Value::Saved);
  }
  void zero(const Context &) override { contributions = 0; }
  void pack(const Context &c, Value &part) override { part = {Value::Sum, c.stage, contributions, c.step}; }
  void unpack(const Context &c, const Value &part) override {
    sum = 0;
    add(c, part);
  }
  void add(const Context &c, const Value &part) override {
    check(part, {Value::Sum, c.stage, part.microbatch, c.step});
    sum += part.microbatch;
    isJoint = true;
  }
  void update(const Context &) override {
    if ((isJoint ? sum : contributions) != microbatches)
      throw std::runtime_error("an update after " + std::to_string(isJoint ? sum : contributions) +
                               " contributions");
    contributions = 0;
  }

private:
  static Value own(const Context &c, Value::Kind kind) { return {kind, c.stage, c.microbatch, c.step}; }
  static void check(const Value &found, const Value &wanted) {
    if (found != wanted)
      throw std::runtime_error("a buffer of stage " + std::to_string(found.stage) + ", microbatch " +
                               std::to_string(found.microbatch) + ", step " + std::to_string(found.step));
  }
  static void pass(const Context &c, const Value &gradient, Value &saved, Value &inputGradient) {
    check(gradient, own(c, Value::Gradient));
    check(saved, own(c, Value::Saved));
    inputGradient = {Value::Gradient, c.stage - 1, c.microbatch, c.step};
  }
  void contribute(const Context &c) { contributions = c.firstContribution ? 1 : contributions + 1; }

  const uint32_t microbatches;
  uint32_t contributions = 0, sum = 0;
  bool isJoint = false;
};

} // namespace sluice::test
