// A stage of libtorch modules under a Sluice schedule, with a backward that splits into halves for nothing.
//
// Where to cut: autograd gives what it is asked for, so asking once for the gradient of the input and once
// for those of the weights walks the layers twice and costs half as much again. Cut instead at the
// pre-activation of each layer: a segment is an activation and the linear layer behind it, its input a leaf.
// The input half asks each segment, last first, for the gradient of its input, which is that of the output of
// the segment before; the weight half asks each for the gradients of its weights. Nothing is computed twice.
#pragma once

#include <sluice/Context.h>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

namespace torching {

using sluice::runtime::Context;
using torch::Tensor;

/// Activation of what came before (none in front of the first layer of all), dropout, a linear layer.
struct Segment {
  torch::nn::Linear linear = nullptr;
  bool activates = true;
  double dropout = 0;

  /// `key`: of the dropout mask. A generator of its own, since the global one depends on the order of ops.
  Tensor forward(const Tensor &input, uint64_t key) {
    Tensor value = activates ? torch::tanh(input) : input;
    if (dropout > 0)
      value = value * mask(value, key);
    return linear(value);
  }
  Tensor mask(const Tensor &like, uint64_t key) const {
    at::Generator generator = at::detail::createCPUGenerator(key);
    return (torch::rand(like.sizes(), generator, like.options()) >= dropout).to(like.dtype()) / (1 - dropout);
  }
};
inline uint64_t maskKey(uint64_t randomKey, std::size_t segment) {
  return sluice::runtime::mixBits(randomKey + segment + 1);
}

class TorchStage {
public:
  using Boundary = Tensor;
  struct Link {
    Tensor input, output; ///< Of a segment: a leaf, and what autograd knows of it.
  };
  using Saved = std::vector<Link>;
  struct Pending {
    Saved links;
    std::vector<Tensor> gradients; ///< Of the output of each segment.
  };
  /// Rows of a microbatch, and the classes of these rows.
  using Source = std::function<std::pair<Tensor, Tensor>(unsigned microbatch)>;

  TorchStage(std::vector<Segment> ofStage, Source ofData, double learningRate)
      : segments(std::move(ofStage)), source(std::move(ofData)), rate(learningRate) {
    for (const Tensor &weight : weights())
      gradients.push_back(torch::zeros_like(weight));
  }

  void load(const Context &c, Tensor &input) const { input = source(c.microbatch).first; }

  void forward(const Context &c, const Tensor &input, Tensor &output, Saved &saved) {
    saved.clear();
    Tensor value = input;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const Tensor leaf = value.detach().requires_grad_();
      saved.push_back({leaf, segments[s].forward(leaf, maskKey(c.randomKey, s))});
      value = saved.back().output;
    }
    output = value.detach();
  }
  void recompute(const Context &c, const Tensor &input, Saved &saved) {
    Tensor output;
    forward(c, input, output, saved);
  }

  void loss(const Context &c, const Tensor &output, Tensor &gradient) {
    const Tensor leaf = output.detach().requires_grad_();
    const Tensor loss = c.lossFactor * torch::cross_entropy_loss(leaf, source(c.microbatch).second);
    gradient = torch::autograd::grad({loss}, {leaf})[0];
    lossOfStep += loss.item<double>();
  }

  void backwardInput(const Context &, const Tensor &gradient, Saved &saved, Tensor &inputGradient,
                     Pending &pending) {
    pending.gradients.assign(saved.size(), {});
    Tensor above = gradient;
    for (std::size_t s = saved.size(); s-- > 0;) {
      pending.gradients[s] = above;
      above = torch::autograd::grad({saved[s].output}, {saved[s].input}, {above}, /*retain_graph=*/true)[0];
    }
    inputGradient = above;
    pending.links = std::move(saved);
  }

  void backwardWeight(const Context &c, Pending &pending) {
    std::size_t number = 0;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const auto parts = torch::autograd::grad({pending.links[s].output}, segments[s].linear->parameters(),
                                               {pending.gradients[s]});
      for (const Tensor &part : parts) {
        Tensor &sum = gradients[number++];
        c.firstContribution ? sum.copy_(part) : sum.add_(part);
      }
    }
    pending = {};
  }

  void backward(const Context &c, const Tensor &gradient, Saved &saved, Tensor &inputGradient) {
    Pending pending;
    backwardInput(c, gradient, saved, inputGradient, pending);
    backwardWeight(c, pending);
  }

  /// One copy, one replica: nothing to add.
  void reduce(const Context &) {}
  void update(const Context &) {
    torch::NoGradGuard withoutGraph;
    const std::vector<Tensor> all = weights();
    for (std::size_t i = 0; i < all.size(); ++i)
      Tensor(all[i]).sub_(gradients[i], rate);
    lastLoss = lossOfStep;
    lossOfStep = 0;
  }

  std::vector<Tensor> weights() const {
    std::vector<Tensor> all;
    for (const Segment &segment : segments)
      for (const Tensor &weight : segment.linear->parameters())
        all.push_back(weight);
    return all;
  }

  std::vector<Tensor> gradients; ///< Of each of `weights()`.
  double lastLoss = 0;           ///< Of the step before; last stage only.

private:
  std::vector<Segment> segments;
  Source source;
  double rate, lossOfStep = 0;
};

} // namespace torching
