// What a stage type, a transport and an observer must offer. Requirements on stages follow from what a
// schedule uses; each missing callback is named, with its signature, by a static_assert of its own.
#pragma once

#include "Threads.h"

#include <concepts>
#include <type_traits>

namespace sluice::runtime {

template <class Transport, class Boundary>
concept TransportOf =
    requires(Transport &transport, const Network &network, Supervisor &supervisor, Message message,
             Boundary &boundary, typename Transport::Request request, Waiter &waiter) {
      { Transport::channelModel } -> std::convertible_to<ChannelModel>;
      transport.open(network, supervisor);
      { transport.startSend(message, boundary) } -> std::same_as<typename Transport::Request>;
      { transport.startReceive(message, boundary) } -> std::same_as<typename Transport::Request>;
      { transport.wait(request, waiter) } -> std::same_as<bool>;
    };

/// Called by every worker from its own thread: an observer of several devices must be safe for that.
template <class Observer>
concept ObserverOfOps = requires(Observer &observer, const Context &context) {
  observer.onBegin(context);
  observer.onEnd(context);
};
/// Optional: around every wait for a message or for another member of a joint op. `row`: of the worker's
/// table, that started what is waited for; `peer`: the worker that has to do its part.
template <class Observer>
concept ObserverOfWaits = requires(Observer &observer, uint32_t worker, uint32_t row, uint32_t peer) {
  observer.onWaitBegin(worker, row, peer);
  observer.onWaitEnd(worker);
};
/// Optional: once, before the first row. `tables` outlive the observer's calls; `local`: the workers of this
/// process among `workers`.
template <class Observer>
concept ObserverOfTables = requires(Observer &observer, const Tables &tables, std::span<const uint32_t> local,
                                    uint32_t workers) { observer.open(tables, local, workers); };
/// The observer that is not there.
struct NoObserver {
  void onBegin(const Context &) {}
  void onEnd(const Context &) {}
};

struct NoPending {};
/// The stage's Pending, or nothing where it declares none.
template <class Stage> struct PendingOf {
  using type = NoPending;
};
template <class Stage>
  requires requires { typename Stage::Pending; }
struct PendingOf<Stage> {
  using type = typename Stage::Pending;
};

template <class Stage>
concept ReducesCopies = requires(Stage &stage, const Context &context, std::span<Stage *const> copies) {
  stage.reduce(context, copies);
};
template <class Stage>
concept ReducesAlone = requires(Stage &stage, const Context &context) { stage.reduce(context); };

template <ChannelModel offered, ChannelModels verified> struct TransportFitsSchedule {
  static_assert(verified.contains(offered),
                "the transport offers a channel model that the schedule was not verified under: see the two "
                "arguments of TransportFitsSchedule, offered and verified");
  static constexpr bool value = verified.contains(offered);
};

template <class Stage, Uses uses> struct StageFitsSchedule {
  static_assert(
      requires { typename Stage::Boundary; },
      "the stage type needs a type Boundary: what crosses an edge between stages");
  static_assert(
      requires { typename Stage::Saved; },
      "the stage type needs a type Saved: what a forward leaves for its backward");
  static_assert(
      !uses.splitBackward || requires { typename Stage::Pending; },
      "the schedule splits backwards, so the stage type needs a type Pending: what an input half leaves "
      "for its weight half");

  using Boundary = typename Stage::Boundary;
  using Saved = typename Stage::Saved;
  using Pending = typename PendingOf<Stage>::type;

  // A requires-expression is only false, not wrong, where its types depend on a template parameter.
  template <class S>
  static constexpr bool loads = requires(S &s, const Context &c, Boundary &boundary) { s.load(c, boundary); };
  template <class S>
  static constexpr bool forwards = requires(S &s, const Context &c, const Boundary &input, Boundary &output,
                                            Saved &saved) { s.forward(c, input, output, saved); };
  template <class S>
  static constexpr bool losses = requires(S &s, const Context &c, const Boundary &output,
                                          Boundary &gradient) { s.loss(c, output, gradient); };
  template <class S>
  static constexpr bool backwards =
      requires(S &s, const Context &c, const Boundary &gradient, Saved &saved, Boundary &inputGradient) {
        s.backward(c, gradient, saved, inputGradient);
      };
  template <class S>
  static constexpr bool inputHalves =
      requires(S &s, const Context &c, const Boundary &gradient, Saved &saved, Boundary &inputGradient,
               Pending &pending) { s.backwardInput(c, gradient, saved, inputGradient, pending); };
  template <class S>
  static constexpr bool weightHalves =
      requires(S &s, const Context &c, Pending &pending) { s.backwardWeight(c, pending); };
  template <class S>
  static constexpr bool recomputes =
      requires(S &s, const Context &c, const Boundary &input, Saved &saved) { s.recompute(c, input, saved); };
  template <class S> static constexpr bool zeroes = requires(S &s, const Context &c) { s.zero(c); };
  template <class S> static constexpr bool updates = requires(S &s, const Context &c) { s.update(c); };

  static_assert(loads<Stage>, "missing callback: load(const Context &, Boundary &input)");
  static_assert(
      forwards<Stage>,
      "missing callback: forward(const Context &, const Boundary &input, Boundary &output, Saved &)");
  static_assert(!(uses.backward || uses.splitBackward) || losses<Stage>,
                "missing callback: loss(const Context &, const Boundary &output, Boundary &gradient)");
  static_assert(!uses.backward || backwards<Stage>,
                "missing callback: backward(const Context &, const Boundary &gradient, Saved &, Boundary "
                "&inputGradient)");
  static_assert(
      !uses.splitBackward || inputHalves<Stage>,
      "missing callback: backwardInput(const Context &, const Boundary &gradient, Saved &, Boundary "
      "&inputGradient, Pending &)");
  static_assert(!uses.splitBackward || weightHalves<Stage>,
                "missing callback: backwardWeight(const Context &, Pending &)");
  static_assert(!uses.recompute || recomputes<Stage>,
                "missing callback: recompute(const Context &, const Boundary &input, Saved &)");
  static_assert(!uses.zero || zeroes<Stage>, "missing callback: zero(const Context &)");
  static_assert(
      !uses.reduce || uses.copies || ReducesAlone<Stage> || ReducesCopies<Stage>,
      "missing callback: reduce(const Context &) or reduce(const Context &, std::span<Stage *const> copies)");
  static_assert(
      !(uses.reduce && uses.copies) || ReducesCopies<Stage>,
      "the schedule has stages with copies; missing callback: reduce(const Context &, std::span<Stage "
      "*const> copies)");
  static_assert(!uses.update || updates<Stage>, "missing callback: update(const Context &)");
  static constexpr bool value = true;
};

} // namespace sluice::runtime
