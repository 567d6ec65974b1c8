// EXPECT: missing callback: backward(const Context &, const Boundary &gradient, Saved &, Boundary
// &inputGradient)
#include "gpipe_p4_m8.h"
#include <sluice/Executor.h>

using sluice::runtime::Context;
struct Stage {
  struct Boundary {};
  struct Saved {};
  void load(const Context &, Boundary &) {}
  void forward(const Context &, const Boundary &, Boundary &, Saved &) {}
  void loss(const Context &, const Boundary &, Boundary &) {}
  void reduce(const Context &) {}
  void update(const Context &) {}
};
template class sluice::runtime::Executor<Stage, generated::gpipe_p4_m8::Schedule>;
