// EXPECT: and behind that const Skips<Boundary> & for a schedule with skip edges
#include <sluice/Executor.h>

using namespace sluice::runtime;
struct Stage {
  struct Boundary {};
  struct Saved {};
  void load(const Context &, Boundary &) {}
  void forward(const Context &, const Boundary &, Boundary &, Saved &) {}
  void loss(const Context &, const Boundary &, Boundary &) {}
  void backward(const Context &, const Boundary &, Saved &, Boundary &) {}
};
constexpr Uses uses = [] {
  Uses all{};
  all.backward = all.skips = true;
  return all;
}();
using Refused = Schedule<uses, ChannelModels{true, true, true, true, true}>;
template class sluice::runtime::Executor<Stage, Refused>;
