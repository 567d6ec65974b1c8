// A stage whose type is chosen at run time: virtual functions in place of callbacks that the compiler finds.
// Derive from it, override what the schedule calls, and give the executor the base:
//
//   using Layers = AnyStage<Tensor, Activations>;
//   Executor<Layers, Schedule> executor(schedule, [&](const Copy &copy) -> std::unique_ptr<Layers> { ... });
//
// Every callback is there, so what a schedule calls and a stage lacks shows when it is called: that throws
// std::logic_error, which names it, and the executor adds op, device and step. Arguments mean what they mean
// to any stage; a call costs one more indirection. AnyReducingStage is for stages that do joint work alone.
#pragma once

#include "StageTypes.h"

#include <stdexcept>
#include <string>
#include <type_traits>

namespace sluice::runtime {

/// What some schedules hand over behind the usual arguments: of skip edges, and of sequence splits.
template <class Boundary, class Carry> struct Beside {
  Skips<Boundary> skips{};
  Carry *carry = nullptr;
};

template <class BoundaryType, class SavedType, class PendingType = Nothing, class HostType = Nothing,
          class CarryType = Nothing>
class AnyStage {
public:
  using Boundary = BoundaryType;
  using Saved = SavedType;
  using Pending = PendingType;
  using Host = HostType;
  using Carry = CarryType;
  /// Of backwards with a factor: whoever overrides them multiplies by Context::factor.
  static constexpr bool appliesFactor = true;

  virtual ~AnyStage() = default;

  virtual void load(const Context &, Boundary &) { lacks("load(c, input)"); }
  virtual void forward(const Context &, const Boundary &, Boundary &, Saved &) {
    lacks("forward(c, input, output, saved)");
  }
  virtual void loss(const Context &, const Boundary &, Boundary &) { lacks("loss(c, output, gradient)"); }
  virtual void backward(const Context &, const Boundary &, Saved &, Boundary &) {
    lacks("backward(c, gradient, saved, inputGradient)");
  }
  virtual void backwardInput(const Context &, const Boundary &, Saved &, Boundary &, Pending &) {
    lacks("backwardInput(c, gradient, saved, inputGradient, pending)");
  }
  virtual void backwardWeight(const Context &, Pending &) { lacks("backwardWeight(c, pending)"); }
  virtual void recompute(const Context &, const Boundary &, Saved &) { lacks("recompute(c, input, saved)"); }
  virtual void offload(const Context &, Saved &, Host &) { lacks("offload(c, saved, host)"); }
  virtual void reload(const Context &, Host &, Saved &) { lacks("reload(c, host, saved)"); }
  virtual void zero(const Context &) { lacks("zero(c)"); }
  virtual void scale(const Context &) { lacks("scale(c)"); }
  virtual void norm(const Context &) { lacks("norm(c)"); }
  virtual void unshard(const Context &) { lacks("unshard(c)"); }
  virtual void reshard(const Context &) { lacks("reshard(c)"); }
  virtual void update(const Context &) { lacks("update(c)"); }

  // Joint work.
  virtual void pack(const Context &, Boundary &) { lacks("pack(c, part)"); }
  virtual void add(const Context &, const Boundary &) { lacks("add(c, part)"); }
  virtual void unpack(const Context &, const Boundary &) { lacks("unpack(c, part)"); }

  // In schedules with skip edges or sequence splits these are called, in place of those without Beside.
  virtual void forwardBeside(const Context &, const Boundary &, Boundary &, Saved &,
                             const Beside<Boundary, Carry> &) {
    lacks("forwardBeside(c, input, output, saved, beside)");
  }
  virtual void backwardBeside(const Context &, const Boundary &, Saved &, Boundary &,
                              const Beside<Boundary, Carry> &) {
    lacks("backwardBeside(c, gradient, saved, inputGradient, beside)");
  }
  virtual void backwardInputBeside(const Context &, const Boundary &, Saved &, Boundary &, Pending &,
                                   const Beside<Boundary, Carry> &) {
    lacks("backwardInputBeside(c, gradient, saved, inputGradient, pending, beside)");
  }
  virtual void recomputeBeside(const Context &, const Boundary &, Saved &, const Beside<Boundary, Carry> &) {
    lacks("recomputeBeside(c, input, saved, beside)");
  }

  // Optional, with what is done where a stage says nothing.
  virtual void drop(const Context &, Saved &saved) { saved = Saved(); }
  virtual void dropHost(const Context &, Host &host) { host = Host(); }
  virtual void finish(const Context &) {}
  virtual void finishMove(const Context &c, Saved &, Host &) { finish(c); }
  virtual void shape(const Context &, Boundary &) {}
  virtual void prepare(std::span<Boundary>, std::span<Saved>) {}

  // What the executor calls; the functions above are what it means. Derived classes may hide these.
  template <class... More>
    requires(sizeof...(More) > 0)
  void forward(const Context &c, const Boundary &input, Boundary &output, Saved &saved, More &...more) {
    forwardBeside(c, input, output, saved, beside(more...));
  }
  template <class... More>
    requires(sizeof...(More) > 0)
  void backward(const Context &c, const Boundary &gradient, Saved &saved, Boundary &inputGradient,
                More &...more) {
    backwardBeside(c, gradient, saved, inputGradient, beside(more...));
  }
  template <class... More>
    requires(sizeof...(More) > 0)
  void backwardInput(const Context &c, const Boundary &gradient, Saved &saved, Boundary &inputGradient,
                     Pending &pending, More &...more) {
    backwardInputBeside(c, gradient, saved, inputGradient, pending, beside(more...));
  }
  template <class... More>
    requires(sizeof...(More) > 0)
  void recompute(const Context &c, const Boundary &input, Saved &saved, More &...more) {
    recomputeBeside(c, input, saved, beside(more...));
  }
  template <class Dropped>
    requires(std::is_same_v<Dropped, Host> && !std::is_same_v<Host, Saved>)
  void drop(const Context &c, Dropped &host) {
    dropHost(c, host);
  }
  void finish(const Context &c, Saved &saved, Host &host) { finishMove(c, saved, host); }

protected:
  [[noreturn]] static void lacks(const char *callback) {
    throw std::logic_error(std::string("the schedule calls ") + callback +
                           ", which this stage does not override");
  }

private:
  static Beside<Boundary, Carry> beside(const Skips<Boundary> &skips) { return {skips, nullptr}; }
  static Beside<Boundary, Carry> beside(const Skips<Boundary> &skips, Carry &carry) {
    return {skips, &carry};
  }
  static Beside<Boundary, Carry> beside(Carry &carry) { return {{}, &carry}; }
};

/// A stage that reaches its copies and replicas by other means than messages of the executor.
template <class Boundary, class Saved, class Pending = Nothing, class Host = Nothing, class Carry = Nothing>
class AnyReducingStage : public AnyStage<Boundary, Saved, Pending, Host, Carry> {
public:
  static constexpr bool reducesByItself = true;
  virtual void reduce(const Context &) { this->lacks("reduce(c)"); }
  virtual void reduceTied(const Context &) { this->lacks("reduceTied(c)"); }
};

} // namespace sluice::runtime
