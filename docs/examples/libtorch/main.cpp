// Trains a network of libtorch layers with two generated executors and compares every gradient of every step
// with one backward of autograd through the whole network. Ends in PASS or FAIL.
#include "TorchStage.h"

#include <sluice/Executor.h>

#include "recomputing.h"
#include "zb_h1.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

using namespace torching;
using sluice::runtime::Copy;

static constexpr uint64_t seed = 2024, steps = 30;
static constexpr unsigned stages = 4, layersOfStage = 2;
static constexpr double rate = 0.2, tolerance = 1e-12;

/// All samples, in an order that mixes the classes, each feature of mean 0 and deviation 1.
struct Data {
  Tensor features, classes;
  static Data read(const std::string &path) {
    std::ifstream file(path);
    std::vector<double> values;
    std::vector<int64_t> classes;
    std::string line;
    std::getline(file, line); // names of the columns
    while (std::getline(file, line)) {
      std::istringstream cells(line);
      std::vector<double> row;
      for (std::string cell; std::getline(cells, cell, ',');)
        row.push_back(std::stod(cell));
      values.insert(values.end(), row.begin(), row.end() - 1);
      classes.push_back(static_cast<int64_t>(row.back()));
    }
    const auto rows = static_cast<int64_t>(classes.size());
    if (rows == 0)
      throw std::runtime_error("cannot read " + path);
    const Tensor order = torch::arange(rows) * 53 % rows;
    Tensor all = torch::tensor(values, torch::kDouble).reshape({rows, -1}).index_select(0, order);
    all = (all - all.mean(0)) / all.std(0);
    return {all, torch::tensor(classes).index_select(0, order)};
  }
  std::pair<Tensor, Tensor> of(unsigned microbatch, unsigned microbatches) const {
    const int64_t count = features.size(0) / microbatches;
    return {features.narrow(0, microbatch * count, count), classes.narrow(0, microbatch * count, count)};
  }
};

/// The same weights in every call.
static std::vector<Segment> segmentsOf(unsigned stage, int64_t width = 32) {
  std::vector<Segment> segments;
  for (unsigned i = 0; i < layersOfStage; ++i) {
    const unsigned layer = stage * layersOfStage + i;
    const int64_t inputs = layer == 0 ? 4 : width, outputs = layer + 1 == stages * layersOfStage ? 3 : width;
    Segment &segment = segments.emplace_back();
    segment.linear = torch::nn::Linear(inputs, outputs);
    segment.linear->to(torch::kDouble);
    segment.activates = layer != 0;
    segment.dropout = stage == 1 || stage == 2 ? 0.1 : 0;
    torch::NoGradGuard withoutGraph;
    at::Generator generator = at::detail::createCPUGenerator(layer + 1);
    const double size = std::sqrt(3.0 / static_cast<double>(inputs));
    segment.linear->weight.uniform_(-size, size, generator);
    segment.linear->bias.zero_();
  }
  return segments;
}

/// The whole network at once, and autograd's own backward.
class Unpipelined {
public:
  explicit Unpipelined(const Data &ofAll) : data(ofAll) {
    for (unsigned stage = 0; stage < stages; ++stage)
      segments.push_back(segmentsOf(stage));
  }
  /// Gradients of a step, by stage; then descends.
  std::vector<std::vector<Tensor>> run(uint64_t step, unsigned microbatches) {
    std::vector<Tensor> losses;
    for (unsigned m = 0; m < microbatches; ++m) { // dropout draws a mask for each
      auto [value, classes] = data.of(m, microbatches);
      for (unsigned stage = 0; stage < stages; ++stage)
        for (std::size_t s = 0; s < layersOfStage; ++s)
          value =
              segments[stage][s].forward(value, maskKey(sluice::runtime::randomKey(seed, step, stage, m), s));
      outputs.push_back(value), targets.push_back(classes);
    }
    const Tensor loss = torch::cross_entropy_loss(torch::cat(outputs), torch::cat(targets));
    outputs.clear(), targets.clear();
    std::vector<Tensor> weights;
    for (auto &ofStage : segments)
      for (Segment &segment : ofStage)
        for (const Tensor &weight : segment.linear->parameters())
          weights.push_back(weight);
    const auto gradients = torch::autograd::grad({loss}, weights);
    torch::NoGradGuard withoutGraph;
    std::vector<std::vector<Tensor>> byStage(stages);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      byStage[i / (2 * layersOfStage)].push_back(gradients[i]);
      weights[i].sub_(gradients[i], rate);
    }
    return byStage;
  }

private:
  const Data &data;
  std::vector<std::vector<Segment>> segments;
  std::vector<Tensor> outputs, targets;
};

static double relativeDifference(const Tensor &found, const Tensor &wanted) {
  return ((found - wanted).abs().max() / wanted.abs().max()).item<double>();
}

template <class Schedule> static bool report(const char *name, const Schedule &schedule, const Data &data) {
  auto makeStage = [&](const Copy &copy) {
    auto source = [&](unsigned m) { return data.of(m, schedule.microbatches); };
    return std::make_unique<TorchStage>(segmentsOf(copy.stage), source, rate);
  };
  using Pipeline = sluice::runtime::Executor<TorchStage, Schedule>;
  Pipeline pipeline(schedule, makeStage, {.seed = seed}), again(schedule, makeStage, {.seed = seed});
  Unpipelined reference(data);
  double worst = 0, firstLoss = 0, lastLoss = 0;
  for (uint64_t step = 0; step < steps; ++step) {
    pipeline.run();
    const auto wanted = reference.run(step, schedule.microbatches);
    for (unsigned stage = 0; stage < stages; ++stage)
      for (std::size_t i = 0; i < wanted[stage].size(); ++i)
        worst = std::max(worst, relativeDifference(pipeline.copies()[stage]->gradients[i], wanted[stage][i]));
    lastLoss = pipeline.copies()[stages - 1]->lastLoss;
    firstLoss = step == 0 ? lastLoss : firstLoss;
  }
  again.run(steps);
  bool same = true;
  for (unsigned stage = 0; stage < stages; ++stage)
    for (std::size_t i = 0; i < again.copies()[stage]->gradients.size(); ++i)
      same &= again.copies()[stage]->gradients[i].equal(pipeline.copies()[stage]->gradients[i]);
  std::printf("%-12s loss %.4f -> %.4f  difference %.1e  %s\n", name, firstLoss, lastLoss, worst,
              same ? "same bits" : "DIFFERENT BITS");
  return worst <= tolerance && same && lastLoss < 0.5 * firstLoss;
}

/// What a backward in halves takes, in shares of a whole one: cut at the pre-activations, and asked for
/// twice.
static void reportHalves() {
  std::vector<Segment> segments = segmentsOf(0, 256);
  segments.erase(segments.begin());
  for (unsigned stage = 1; stage < stages - 1; ++stage)
    for (Segment &segment : segmentsOf(stage, 256))
      segments.push_back(segment);
  std::vector<Tensor> weights;
  for (Segment &segment : segments)
    for (const Tensor &weight : segment.linear->parameters())
      weights.push_back(weight);
  TorchStage stage(segments, {}, rate);
  const Tensor input = torch::ones({128, 256}, torch::kDouble),
               gradient = torch::ones({128, 256}, torch::kDouble);
  auto timeOf = [&](auto &&backward) {
    double best = 1e9;
    for (int turn = 0; turn < 15; ++turn)
      best = std::min(best, backward());
    return best;
  };
  auto seconds = [](auto &&work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  auto graph = [&](Tensor &leaf) {
    leaf = input.detach().requires_grad_();
    Tensor value = leaf;
    for (std::size_t s = 0; s < segments.size(); ++s)
      value = segments[s].forward(value, s);
    return value;
  };
  const double whole = timeOf([&] {
    Tensor leaf;
    const Tensor output = graph(leaf);
    std::vector<Tensor> all = weights;
    all.push_back(leaf);
    return seconds([&] { torch::autograd::grad({output}, all, {gradient}); });
  });
  const double twice = timeOf([&] {
    Tensor leaf;
    const Tensor output = graph(leaf);
    return seconds([&] {
      torch::autograd::grad({output}, {leaf}, {gradient}, /*retain_graph=*/true);
      torch::autograd::grad({output}, weights, {gradient});
    });
  });
  const double cut = timeOf([&] {
    const Context context{};
    Tensor output, below;
    TorchStage::Saved saved;
    TorchStage::Pending pending;
    stage.forward(context, input, output, saved);
    return seconds([&] {
      stage.backwardInput(context, gradient, saved, below, pending);
      stage.backwardWeight(context, pending);
    });
  });
  std::printf(
      "\nhalves of a backward, in shares of the whole: %.2f cut at pre-activations, %.2f asked for twice\n",
      cut / whole, twice / whole);
}

int main(int argc, char **argv) try {
  torch::set_num_threads(1); // devices are threads already
  const Data data = Data::read(argc > 1 ? argv[1] : "../mlp/iris.csv");
  bool passed = report("recomputing", recomputing::schedule, data);
  passed &= report("zb_h1", zb_h1::schedule, data);
  reportHalves();
  std::printf("\ndifference: the largest of any gradient in any step from one backward of autograd through "
              "the whole\n"
              "network, relative to the largest of its weight; at most %.0e is demanded.\n\n%s\n",
              tolerance, passed ? "PASS" : "FAIL");
  return passed ? 0 : 1;
} catch (const std::exception &error) {
  std::printf("FAIL: %s\n", error.what());
  return 1;
}
