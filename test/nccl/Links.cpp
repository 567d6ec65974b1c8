// Everything of the transport that is a template, made for a boundary in device memory: compiled and linked
// with CUDA and NCCL, not run.
#include <sluice/Executor.h>
#include <sluice/Nccl.h>

#include <cstdio>

using namespace sluice::runtime;

struct Tensor {
  float *data = nullptr;
  size_t count = 0;
};
template <> struct sluice::runtime::NcclBuffer<Tensor> {
  static void *data(Tensor &tensor) { return tensor.data; }
  static size_t count(const Tensor &tensor) { return tensor.count; }
  static ncclDataType_t type(const Tensor &) { return ncclFloat; }
};
struct Layers {
  using Boundary = Tensor;
  using Saved = Tensor;
  void load(const Context &, Tensor &) {}
  void forward(const Context &, const Tensor &, Tensor &, Tensor &) {}
  void loss(const Context &, const Tensor &, Tensor &) {}
  void backward(const Context &, const Tensor &, Tensor &, Tensor &) {}
  void update(const Context &) {}
};
using OneDevice = Schedule<Uses{true, false, false, false, false, true, false},
                           ChannelModels{true, true, true, true, true}>;

int main() {
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) {
    std::puts("no GPU");
    return 0;
  }
  const OneDevice none{};
  Executor<Layers, OneDevice, Nccl<Tensor>> executor(
      none, [](const Copy &) { return std::make_unique<Layers>(); }, {}, Nccl<Tensor>(id, {}));
  executor.run();
}
