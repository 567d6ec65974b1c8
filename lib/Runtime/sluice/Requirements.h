// What a stage type, a transport and an observer must offer. Requirements on stages follow from what a
// schedule uses; each missing callback is named, with its signature, by a static_assert of its own.
#pragma once

#include "StageTypes.h"
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

// Optional in a transport: `beginGroup(worker)` and `endGroup(worker)` around messages that are posted
// together, `isLocal(worker)` (default: all are), `finishRun()` after the workers of this process have ended
// a run.

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

  static_assert(
      !uses.offload || requires { typename Stage::Host; },
      "the schedule offloads activations, so the stage type needs a type Host: what is kept of one in host "
      "memory");
  static_assert(
      !uses.carries || requires { typename Stage::Carry; },
      "the schedule splits sequences, so the stage type needs a type Carry: what the splits of a microbatch "
      "hand to each other");

  using Boundary = typename Stage::Boundary;
  using Saved = typename Stage::Saved;
  using Pending = typename PendingOf<Stage>::type;
  using Host = typename HostOf<Stage>::type;
  using Carry = typename CarryOf<Stage>::type;

  // What is handed over behind the usual arguments.
  template <class... Types> struct List {};
  static constexpr bool hasMore = uses.skips || uses.carries;
  using More = std::conditional_t<
      uses.skips,
      std::conditional_t<uses.carries, List<const Skips<Boundary>, Carry>, List<const Skips<Boundary>>>,
      std::conditional_t<uses.carries, List<Carry>, List<>>>;

  // A requires-expression is only false, not wrong, where its types depend on a template parameter.
  template <class S>
  static constexpr bool loads = requires(S &s, const Context &c, Boundary &boundary) { s.load(c, boundary); };
  template <class S, class... Types> static constexpr bool forwards(List<Types...>) {
    return requires(S &s, const Context &c, const Boundary &input, Boundary &output, Saved &saved,
                    Types &...more) { s.forward(c, input, output, saved, more...); };
  }
  template <class S>
  static constexpr bool losses = requires(S &s, const Context &c, const Boundary &output,
                                          Boundary &gradient) { s.loss(c, output, gradient); };
  template <class S, class... Types> static constexpr bool backwards(List<Types...>) {
    return requires(S &s, const Context &c, const Boundary &gradient, Saved &saved, Boundary &inputGradient,
                    Types &...more) { s.backward(c, gradient, saved, inputGradient, more...); };
  }
  template <class S, class... Types> static constexpr bool inputHalves(List<Types...>) {
    return requires(S &s, const Context &c, const Boundary &gradient, Saved &saved, Boundary &inputGradient,
                    Pending &pending,
                    Types &...more) { s.backwardInput(c, gradient, saved, inputGradient, pending, more...); };
  }
  template <class S>
  static constexpr bool weightHalves =
      requires(S &s, const Context &c, Pending &pending) { s.backwardWeight(c, pending); };
  template <class S, class... Types> static constexpr bool recomputes(List<Types...>) {
    return requires(S &s, const Context &c, const Boundary &input, Saved &saved, Types &...more) {
      s.recompute(c, input, saved, more...);
    };
  }
  template <class S>
  static constexpr bool offloads =
      requires(S &s, const Context &c, Saved &saved, Host &host) { s.offload(c, saved, host); };
  template <class S>
  static constexpr bool reloads =
      requires(S &s, const Context &c, Host &host, Saved &saved) { s.reload(c, host, saved); };
  template <class S> static constexpr bool zeroes = requires(S &s, const Context &c) { s.zero(c); };
  template <class S> static constexpr bool scales = requires(S &s, const Context &c) { s.scale(c); };
  template <class S> static constexpr bool reduces = requires(S &s, const Context &c) { s.reduce(c); };
  template <class S>
  static constexpr bool reducesTied = requires(S &s, const Context &c) { s.reduceTied(c); };
  template <class S> static constexpr bool norms = requires(S &s, const Context &c) { s.norm(c); };
  template <class S> static constexpr bool gathers = requires(S &s, const Context &c) { s.unshard(c); };
  template <class S> static constexpr bool resharding = requires(S &s, const Context &c) { s.reshard(c); };
  template <class S> static constexpr bool updates = requires(S &s, const Context &c) { s.update(c); };
  template <class S> static constexpr bool appliesFactors = requires { requires S::appliesFactor; };

  static_assert(loads<Stage>, "missing callback: load(const Context &, Boundary &input)");
  static_assert(
      hasMore || forwards<Stage>(More()),
      "missing callback: forward(const Context &, const Boundary &input, Boundary &output, Saved &)");
  static_assert(
      !hasMore || forwards<Stage>(More()),
      "missing callback: forward(const Context &, const Boundary &input, Boundary &output, Saved &), and "
      "behind that const Skips<Boundary> & for a schedule with skip edges, Carry & for one with splits");
  static_assert(!(uses.backward || uses.splitBackward) || losses<Stage>,
                "missing callback: loss(const Context &, const Boundary &output, Boundary &gradient)");
  static_assert(!uses.backward || hasMore || backwards<Stage>(More()),
                "missing callback: backward(const Context &, const Boundary &gradient, Saved &, Boundary "
                "&inputGradient)");
  static_assert(!uses.backward || !hasMore || backwards<Stage>(More()),
                "missing callback: backward(const Context &, const Boundary &gradient, Saved &, Boundary "
                "&inputGradient), and behind that const Skips<Boundary> & for a schedule with skip edges, "
                "Carry & for one with splits");
  static_assert(
      !uses.splitBackward || hasMore || inputHalves<Stage>(More()),
      "missing callback: backwardInput(const Context &, const Boundary &gradient, Saved &, Boundary "
      "&inputGradient, Pending &)");
  static_assert(
      !uses.splitBackward || !hasMore || inputHalves<Stage>(More()),
      "missing callback: backwardInput(const Context &, const Boundary &gradient, Saved &, Boundary "
      "&inputGradient, Pending &), and behind that const Skips<Boundary> & for a schedule with skip edges, "
      "Carry & for one with splits");
  static_assert(!uses.splitBackward || weightHalves<Stage>,
                "missing callback: backwardWeight(const Context &, Pending &)");
  static_assert(!uses.recompute || hasMore || recomputes<Stage>(More()),
                "missing callback: recompute(const Context &, const Boundary &input, Saved &)");
  static_assert(!uses.recompute || !hasMore || recomputes<Stage>(More()),
                "missing callback: recompute(const Context &, const Boundary &input, Saved &), and behind "
                "that const Skips<Boundary> & for a schedule with skip edges, Carry & for one with splits");
  static_assert(!uses.offload || offloads<Stage>,
                "missing callback: offload(const Context &, Saved &, Host &)");
  static_assert(!uses.offload || reloads<Stage>,
                "missing callback: reload(const Context &, Host &, Saved &)");
  static_assert(!uses.zero || zeroes<Stage>, "missing callback: zero(const Context &)");
  static_assert(!uses.scale || scales<Stage>, "missing callback: scale(const Context &)");
  static_assert(!uses.norm || norms<Stage>, "missing callback: norm(const Context &)");
  static_assert(!uses.unshard || gathers<Stage>, "missing callback: unshard(const Context &)");
  static_assert(!uses.unshard || resharding<Stage>, "missing callback: reshard(const Context &)");
  static_assert(!uses.update || updates<Stage>, "missing callback: update(const Context &)");
  static_assert(!uses.factors || appliesFactors<Stage>,
                "the schedule scales gradients of single backwards: multiply by Context::factor and say "
                "`static constexpr bool appliesFactor = true;` in the stage type");

  // Joint work: by all of pack, add and unpack, or by the stage itself.
  static constexpr bool isJoint = uses.reduce || uses.tied || uses.norm || uses.unshard;
  static constexpr bool offersParts = OffersPack<Stage> || OffersAdd<Stage> || OffersUnpack<Stage>;
  static_assert(!isJoint || !offersParts || OffersPack<Stage>,
                "missing callback: pack(const Context &, Boundary &part), which goes with add and unpack");
  static_assert(
      !isJoint || !offersParts || OffersAdd<Stage>,
      "missing callback: add(const Context &, const Boundary &part), which goes with pack and unpack");
  static_assert(
      !isJoint || !offersParts || OffersUnpack<Stage>,
      "missing callback: unpack(const Context &, const Boundary &part), which goes with pack and add");
  static_assert(
      !uses.reduce || reduces<Stage> || offersParts,
      "missing callback: reduce(const Context &), or pack(const Context &, Boundary &part), "
      "add(const Context &, const Boundary &part) and unpack(const Context &, const Boundary &part)");
  static_assert(
      !uses.tied || reducesTied<Stage> || offersParts,
      "missing callback: reduceTied(const Context &), or pack(const Context &, Boundary &part), "
      "add(const Context &, const Boundary &part) and unpack(const Context &, const Boundary &part)");
  static_assert(
      !(uses.copies && uses.reduce) || offersParts || saysReducesByItself<Stage>(),
      "the schedule has stages with copies on several devices; missing callback: pack(const Context &, "
      "Boundary &part), add(const Context &, const Boundary &part) and unpack(const Context &, const "
      "Boundary "
      "&part), or `static constexpr bool reducesByItself = true;` where reduce adds over them by other "
      "means");
  static_assert(
      !(uses.norm || uses.tied) || offersParts || saysReducesByItself<Stage>(),
      "the schedule joins stages (norm, reduce_tied); missing callback: pack(const Context &, Boundary "
      "&part), "
      "add(const Context &, const Boundary &part) and unpack(const Context &, const Boundary &part), or "
      "`static constexpr bool reducesByItself = true;` where the stage does that by other means");
  static constexpr bool value = true;
};

} // namespace sluice::runtime
