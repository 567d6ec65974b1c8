// What a stage type may bring beside Boundary and Saved, and how it does its joint work.
#pragma once

#include "Context.h"

#include <span>

namespace sluice::runtime {

/// What goes over skip edges in one op, ascending by edge. A forward finds activations in `inputs` and fills
/// `outputs` with its own; a backward finds gradients of its outputs, and fills those of its inputs.
template <class Boundary> struct Skips {
  std::span<const Boundary *const> inputs;
  std::span<Boundary *const> outputs;
};

/// In place of types that a stage does not declare.
struct Nothing {};
template <class Stage> struct PendingOf {
  using type = Nothing;
};
template <class Stage>
  requires requires { typename Stage::Pending; }
struct PendingOf<Stage> {
  using type = typename Stage::Pending;
};
template <class Stage> struct HostOf {
  using type = Nothing;
};
template <class Stage>
  requires requires { typename Stage::Host; }
struct HostOf<Stage> {
  using type = typename Stage::Host;
};
template <class Stage> struct CarryOf {
  using type = Nothing;
};
template <class Stage>
  requires requires { typename Stage::Carry; }
struct CarryOf<Stage> {
  using type = typename Stage::Carry;
};

template <class Stage>
concept OffersPack =
    requires(Stage &s, const Context &c, typename Stage::Boundary &parcel) { s.pack(c, parcel); };
template <class Stage>
concept OffersAdd =
    requires(Stage &s, const Context &c, const typename Stage::Boundary &parcel) { s.add(c, parcel); };
template <class Stage>
concept OffersUnpack =
    requires(Stage &s, const Context &c, const typename Stage::Boundary &parcel) { s.unpack(c, parcel); };

/// The stage says that it reaches copies and replicas by its own means.
template <class Stage> consteval bool saysReducesByItself() {
  if constexpr (requires { Stage::reducesByItself; })
    return Stage::reducesByItself;
  return false;
}
/// The executor does its joint work, by pack, add and unpack.
template <class Stage>
inline constexpr bool reducesByPacking =
    OffersPack<Stage> && OffersAdd<Stage> && OffersUnpack<Stage> && !saysReducesByItself<Stage>();

} // namespace sluice::runtime
