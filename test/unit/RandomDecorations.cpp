#include "RandomDecorations.h"

#include <algorithm>
#include <random>

namespace sluice::test {

namespace {

class Decorator {
public:
  Decorator(const Program &program, uint64_t seed) : from(program), engine(seed), to(program) {}

  Program run() {
    declare();
    to.ops.clear();
    to.siteOf.clear();
    to.frameOf.clear();
    to.sites.clear();
    to.namedVersions.clear();
    to.deviceBegin = {0};
    for (uint32_t d = 0; d < from.devices; ++d) {
      for (OpId op = from.deviceBegin[d]; op < from.deviceBegin[d + 1];) {
        const OpId end = std::min(from.groupEnd(op), from.deviceBegin[d + 1]);
        for (; op < end; ++op)
          suffixed(from.ops[op]);
        while (below(3) == 0)
          insert(d);
      }
      to.deviceBegin.push_back(to.size());
    }
    to.isExplicit =
        std::any_of(to.ops.begin(), to.ops.end(), [](const Op &op) { return op.isCommunication(); });
    return std::move(to);
  }

private:
  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(engine() % bound); }
  uint16_t stage() { return static_cast<uint16_t>(below(from.stages)); }
  Rational factor() {
    const int64_t numerator = 1 + below(5);
    return *Rational::make(below(4) == 0 ? -numerator : numerator, 1 + below(9));
  }

  void declare() {
    for (uint32_t s = 0; s + 2 < from.stages; ++s)
      for (uint32_t t = s + 2; t < from.stages; ++t)
        if (below(3) == 0)
          to.skips.push_back({s, t, below(2) == 0, {}});
    for (uint32_t weight = below(3); weight > 0; --weight) {
      TiedWeight tied{"weight" + std::to_string(weight), {}, {}};
      for (uint32_t s = from.stages; s-- > 0;)
        if (below(2) == 0)
          tied.stages.push_back(s);
      if (!tied.stages.empty())
        to.ties.push_back(tied);
    }
    to.isEvaluation = below(6) == 0;
    to.versions = static_cast<VersionRule>(below(3));
    to.mostVersions = to.versions == VersionRule::Stashed ? below(3) : 0;
  }

  void append(OpKind kind, unsigned flags, uint32_t stage, uint32_t microbatch = noMicrobatch) {
    to.ops.push_back({kind, static_cast<uint8_t>(flags), static_cast<uint16_t>(stage), microbatch});
  }
  void suffixed(Op op) {
    if (op.kind == OpKind::Forward && below(6) == 0)
      to.namedVersions.push_back({to.size(), below(3)});
    if (op.kind >= OpKind::Backward && op.kind <= OpKind::BackwardWeight && below(3) == 0) {
      op.flags |= Scaled;
      to.factors.push_back({to.size(), factor()});
    }
    if (op.contributes() && below(4) == 0)
      op.flags |= Overwrite;
    to.ops.push_back(op);
  }
  unsigned posting() { return below(3) == 0 ? Started : below(2) == 0 ? Waits : 0; }
  void communicate(unsigned flags) {
    const auto kind = static_cast<OpKind>(static_cast<unsigned>(OpKind::SendActivation) + below(4));
    if (below(3) == 0) {
      flags |= NamesPeer;
      to.peers.push_back({to.size(), stage()});
    }
    append(kind, flags, stage(), below(from.microbatches));
  }
  void insert(uint32_t device) {
    switch (below(9)) {
    case 0:
      to.factors.push_back({to.size(), factor()});
      return append(OpKind::Scale, 0, stage());
    case 1:
      return append(OpKind::Norm, below(2) == 0 ? Local : 0, 0);
    case 2:
      return append(below(2) == 0 ? OpKind::Offload : OpKind::Reload, posting(), stage(),
                    below(from.microbatches));
    case 3:
      return append(below(2) == 0 ? OpKind::Unshard : OpKind::Reduce, posting(), stage());
    case 4:
      return append(below(2) == 0 ? OpKind::Reshard : OpKind::Zero, 0, stage());
    case 5:
      return reduceTied(device);
    case 6:
      for (uint32_t members = 1 + below(3), i = 0; i < members; ++i)
        communicate(i == 0 ? GroupFirst : GroupFollower);
      return;
    default:
      return communicate(posting());
    }
  }
  /// The first of its stages that is here stands for a weight.
  void reduceTied(uint32_t device) {
    if (to.ties.empty())
      return;
    const uint32_t weight = below(static_cast<uint32_t>(to.ties.size()));
    const std::vector<uint32_t> &stages = to.ties[weight].stages, here = from.stagesOn(device);
    auto first = std::find_first_of(stages.begin(), stages.end(), here.begin(), here.end());
    append(OpKind::ReduceTied, posting(), first == stages.end() ? stages[0] : *first, weight);
  }

  const Program &from;
  std::mt19937_64 engine;
  Program to;
};

} // namespace

Program decorated(const Program &program, uint64_t seed) { return Decorator(program, seed).run(); }

void decorateCosts(const Program &program, CostModel &costs, uint64_t seed) {
  std::mt19937_64 engine(seed);
  auto below = [&](uint32_t bound) { return static_cast<uint32_t>(engine() % bound); };
  for (size_t i = 0; i < program.skips.size(); ++i) {
    StageTable<int64_t> bytes;
    const bool isUneven = below(2) == 0;
    int64_t size = below(9);
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      if (isUneven)
        size = below(9);
      bytes.addMicrobatch({size});
    }
    bytes.finish();
    costs.skipBoundary.push_back(below(4) == 0 ? StageTable<int64_t>({0}) : bytes);
    costs.skipTransfer.push_back(StageTable<int64_t>({0, 0}));
  }
  using Scaling = TrainingTerms::Scaling;
  costs.scaling = static_cast<Scaling>(below(4));
  static constexpr const char *losses[] = {"mean over samples", "mean over microbatches", "mean over tokens",
                                           "sum"};
  costs.loss = losses[below(4)];
  if (costs.loss == "mean over tokens" || below(3) == 0)
    for (uint32_t m = 0; m < program.wholeMicrobatches(); ++m)
      costs.tokens.push_back(below(5));
  costs.microbatchLossIsSum = below(2);
  costs.reductionIsMean = below(2);
  costs.isSharded = below(2);
  costs.isCopied = below(2);
  costs.keepsContributions = below(2);
  costs.reshardsAfterReduce = below(2);
  if (below(3) != 0) {
    static constexpr const char *names[] = {"nccl",       "mpi",       "gloo",    "local",
                                            "rendezvous", "unbounded", "eager(3)"};
    costs.transport = names[below(7)];
    costs.channels = *channelRulesNamed(costs.transport);
    costs.hasChannelModel = true;
  }
  costs.channels.key = static_cast<ChannelRules::Key>(below(4));
  costs.channels.deviceService |= below(2) == 0;
  costs.saysGroups = below(2);
  costs.channels.atomicGroups = costs.saysGroups && below(2);
  costs.saysProgress = below(2);
  costs.channels.progressInWait = costs.saysProgress && below(2);
  costs.saysConnect = below(2);
  costs.channels.connectOnFirstUse = costs.saysConnect && below(2);
}

} // namespace sluice::test
