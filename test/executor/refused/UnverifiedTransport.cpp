// EXPECT: the transport offers a channel model that the schedule was not verified under
// EXPECT: TransportFitsSchedule<sluice::runtime::ChannelModel::rendezvous
#include <sluice/Executor.h>

using namespace sluice::runtime;
struct Stage {
  struct Boundary {};
  struct Saved {};
  void load(const Context &, Boundary &) {}
  void forward(const Context &, const Boundary &, Boundary &, Saved &) {}
};
using EagerOnly = Schedule<Uses{}, ChannelModels{.unbounded = true, .eager = true}>;
template class sluice::runtime::Executor<Stage, EagerOnly>;
