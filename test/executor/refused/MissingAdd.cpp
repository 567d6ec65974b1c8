// EXPECT: missing callback: add(const Context &, const Boundary &part), which goes with pack and unpack
#include <sluice/Executor.h>

using namespace sluice::runtime;
struct Stage {
  struct Boundary {};
  struct Saved {};
  void load(const Context &, Boundary &) {}
  void forward(const Context &, const Boundary &, Boundary &, Saved &) {}
  void loss(const Context &, const Boundary &, Boundary &) {}
  void backward(const Context &, const Boundary &, Saved &, Boundary &) {}
  void pack(const Context &, Boundary &) {}
  void unpack(const Context &, const Boundary &) {}
};
constexpr Uses uses = [] {
  Uses all{};
  all.backward = all.reduce = true;
  return all;
}();
using Refused = Schedule<uses, ChannelModels{true, true, true, true, true}>;
template class sluice::runtime::Executor<Stage, Refused>;
