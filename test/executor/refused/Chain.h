// A stage that has what a plain schedule calls, and schedules that use one thing more.
#include <sluice/Executor.h>

using namespace sluice::runtime;

struct Chain {
  struct Boundary {};
  struct Saved {};
  void load(const Context &, Boundary &) {}
  void forward(const Context &, const Boundary &, Boundary &, Saved &) {}
  void loss(const Context &, const Boundary &, Boundary &) {}
  void backward(const Context &, const Boundary &, Saved &, Boundary &) {}
};

constexpr Uses with(auto... more) {
  Uses uses{};
  uses.backward = true;
  ((uses.*more = true), ...);
  return uses;
}
template <Uses uses> using On = Executor<Chain, Schedule<uses, ChannelModels{true, true, true, true, true}>>;

template class sluice::runtime::Executor<Chain,
                                         Schedule<with(), ChannelModels{true, true, true, true, true}>>;
