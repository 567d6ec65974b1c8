// One of four processes that train the perceptron of docs/examples/mlp over MPI: weights, and every gradient
// of every step, must have the bits that threads of one process give.
#include "MlpStage.h"

#include <sluice/Executor.h>
#include <sluice/Mpi.h>

#include "gpipe.h"
#include "one_f_one_b.h"
#include "recomputing.h"
#include "uneven.h"

#include <cmath>
#include <cstdio>

namespace mlp {
inline std::span<std::byte> bytes(Matrix &matrix) { return std::as_writable_bytes(std::span(matrix.values)); }
} // namespace mlp

using namespace mlp;
using sluice::runtime::ChannelModel, sluice::runtime::Copy, sluice::runtime::Executor, sluice::runtime::Mpi,
    sluice::runtime::MpiProcess, sluice::runtime::Options;

namespace {

/// Sizes what MPI receives: an activation of the stage before, or a gradient of the own output.
class SizedStage : public MlpStage {
public:
  SizedStage(const Setup &setup, unsigned stage) : MlpStage(setup, stage), setup(setup) {}
  void shape(const Context &c, Matrix &boundary) const {
    const bool isInput = c.op == sluice::runtime::Op::ReceiveActivation;
    boundary.resize(setup.rowsOf(c.microbatch), widths[isInput ? c.stage : c.stage + 1]);
  }

private:
  const Setup &setup;
};

template <class Transport, class Schedule>
auto train(const Schedule &schedule, const Setup &setup, uint64_t steps) {
  auto executor = std::make_unique<Executor<SizedStage, Schedule, Transport>>(
      schedule, [&](const Copy &copy) { return std::make_unique<SizedStage>(setup, copy.stage); },
      Options{.seed = 7});
  executor->run(steps / 2);
  executor->run(steps - steps / 2);
  return executor;
}

/// How many bits differ is not asked: none may.
template <class Transport, class Schedule>
bool isAsThreads(int rank, const char *name, const Schedule &schedule, Setup setup) {
  setup.firstRow = {0};
  for (double factor : schedule.lossFactor)
    setup.firstRow.push_back(
        setup.firstRow.back() +
        static_cast<std::size_t>(std::lround(factor * static_cast<double>(setup.data->classes.size()))));
  constexpr uint64_t steps = 40;
  const auto wanted = train<sluice::runtime::Threads<Matrix>>(schedule, setup, steps);
  const auto found = train<Transport>(schedule, setup, steps);
  bool same = !found->copies().empty();
  for (const auto &stage : found->copies()) {
    const SizedStage &other = wanted->stage(static_cast<unsigned>(rank)); // stage s lives on device s
    same &= stage->gradientHash == other.gradientHash && stage->gradientHash != 0 &&
            std::memcmp(stage->layer.weights.values.data(), other.layer.weights.values.data(),
                        other.layer.weights.values.size() * sizeof(double)) == 0 &&
            stage->lastLoss == other.lastLoss;
    std::printf("@%d %s %s, hash %016llx, loss %.6f\n", rank, name, same ? "same bits" : "DIFFERENT BITS",
                static_cast<unsigned long long>(stage->gradientHash), stage->lastLoss);
  }
  return same;
}

} // namespace

int main(int argc, char **argv) {
  const MpiProcess mpi(argc, argv);
  try {
    const Dataset data = readDataset(argc > 1 ? argv[1] : "iris.csv");
    const Setup setup{.data = &data, .firstRow = {}, .learningRate = 0.3, .dropout = 0.2};
    using Synchronous = Mpi<Matrix>;
    using Buffered = Mpi<Matrix, ChannelModel::unbounded>;
    bool same = isAsThreads<Synchronous>(mpi.rank(), "gpipe", gpipe::schedule, setup);
    same &= isAsThreads<Synchronous>(mpi.rank(), "one_f_one_b", one_f_one_b::schedule, setup);
    same &= isAsThreads<Synchronous>(mpi.rank(), "recomputing", recomputing::schedule, setup);
    same &= isAsThreads<Synchronous>(mpi.rank(), "uneven", uneven::schedule, setup);
    same &= isAsThreads<Buffered>(mpi.rank(), "uneven_buffered", uneven::schedule, setup);
    return same ? 0 : 1;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "@%d %s\n", mpi.rank(), error.what());
    MpiProcess::abandon(1);
  }
}
