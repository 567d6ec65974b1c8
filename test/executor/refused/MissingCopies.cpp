// EXPECT: the schedule has stages with copies on several devices; missing callback: pack(const Context
#include "bidirectional_p4_m8_s1.h"
#include <sluice/Executor.h>

using sluice::runtime::Context;
struct Stage {
  struct Boundary {};
  struct Saved {};
  void load(const Context &, Boundary &) {}
  void forward(const Context &, const Boundary &, Boundary &, Saved &) {}
  void loss(const Context &, const Boundary &, Boundary &) {}
  void backward(const Context &, const Boundary &, Saved &, Boundary &) {}
  void reduce(const Context &) {}
  void update(const Context &) {}
};
template class sluice::runtime::Executor<Stage, generated::bidirectional_p4_m8_s1::Schedule>;
