// A stage with every callback there is, none of which does anything: for tests that add what they look at.
#pragma once

#include <sluice/Executor.h>

namespace sluice::test {

/// `Part`: the type of boundaries.
template <class Part = int> struct IdleStage {
  using Boundary = Part;
  using Saved = int;
  using Pending = int;
  using Host = int;
  using Carry = int;
  using Context = runtime::Context;
  static constexpr bool appliesFactor = true;

  void load(const Context &, Part &) {}
  template <class... More> void forward(const Context &, const Part &, Part &, int &, More &...) {}
  void loss(const Context &, const Part &, Part &) {}
  template <class... More> void backward(const Context &, const Part &, int &, Part &, More &...) {}
  template <class... More>
  void backwardInput(const Context &, const Part &, int &, Part &, int &, More &...) {}
  void backwardWeight(const Context &, int &) {}
  template <class... More> void recompute(const Context &, const Part &, int &, More &...) {}
  void offload(const Context &, int &, int &) {}
  void reload(const Context &, int &, int &) {}
  void zero(const Context &) {}
  void scale(const Context &) {}
  void norm(const Context &) {}
  void unshard(const Context &) {}
  void reshard(const Context &) {}
  void update(const Context &) {}
  void pack(const Context &, Part &) {}
  void add(const Context &, const Part &) {}
  void unpack(const Context &, const Part &) {}
};

} // namespace sluice::test
