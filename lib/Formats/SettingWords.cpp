#include "Formats/SettingWords.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

using llvm::StringRef;

static constexpr StringRef losses[] = {"mean over samples", "mean over microbatches", "mean over tokens",
                                       "sum"};
static constexpr StringRef scales[] = {"loss", "accumulator", "reduced", "program"};
static constexpr StringRef microbatchLosses[] = {"mean", "sum"};
static constexpr StringRef reductions[] = {"sum", "mean"};
static constexpr StringRef reduced[] = {"full", "sharded", "full copied", "sharded copied"};
static constexpr StringRef contributions[] = {"accumulated", "separate"};
static constexpr StringRef afterReduces[] = {"", "resharded"};

llvm::ArrayRef<SettingWords> trainingWords() {
  static constexpr SettingWords table[] = {
      {"loss", losses,
       [](const CostModel &costs) {
         return static_cast<size_t>(llvm::find(losses, StringRef(costs.loss)) - std::begin(losses));
       },
       [](CostModel &costs, size_t word) { costs.loss = losses[word].str(); }},
      {"scale", scales, [](const CostModel &costs) { return static_cast<size_t>(costs.scaling); },
       [](CostModel &costs, size_t word) { costs.scaling = static_cast<TrainingTerms::Scaling>(word); }},
      {"microbatch_loss", microbatchLosses,
       [](const CostModel &costs) -> size_t { return costs.microbatchLossIsSum; },
       [](CostModel &costs, size_t word) { costs.microbatchLossIsSum = word == 1; }},
      {"reduction", reductions, [](const CostModel &costs) -> size_t { return costs.reductionIsMean; },
       [](CostModel &costs, size_t word) { costs.reductionIsMean = word == 1; }},
      {"reduced", reduced,
       [](const CostModel &costs) -> size_t { return costs.isSharded + 2 * costs.isCopied; },
       [](CostModel &costs, size_t word) {
         costs.isSharded = word % 2 == 1;
         costs.isCopied = word >= 2;
       }},
      {"contributions", contributions,
       [](const CostModel &costs) -> size_t { return costs.keepsContributions; },
       [](CostModel &costs, size_t word) { costs.keepsContributions = word == 1; }},
      {"after_reduce", afterReduces,
       [](const CostModel &costs) -> size_t { return costs.reshardsAfterReduce; },
       [](CostModel &costs, size_t word) { costs.reshardsAfterReduce = word == 1; }},
  };
  return table;
}

static constexpr StringRef keys[] = {"direction", "pair", "edge", "message"};
static constexpr StringRef services[] = {"", "device"};
static constexpr StringRef groups[] = {"", "independent", "atomic"};
static constexpr StringRef progresses[] = {"", "posted", "in_wait"};
static constexpr StringRef connects[] = {"", "upfront", "first_use"};

static constexpr StringRef transfers[] = {"overlapped", "blocking"};
static constexpr StringRef collectives[] = {"blocking", "overlapped"};

/// Of a setting that may be written with the value it has anyway.
static constexpr size_t wordOf(bool isSaid, bool isStrict) { return isStrict ? 2 : isSaid ? 1 : 0; }

/// Whether `service = device` is written, not what the transport stands for anyway.
static bool saysService(const CostModel &costs) {
  const auto named = channelRulesNamed(costs.transport);
  return costs.channels.deviceService && !(named && named->deviceService);
}

llvm::ArrayRef<SettingWords> clusterWords() {
  static constexpr SettingWords table[] = {
      {"channel_key", keys, [](const CostModel &costs) { return static_cast<size_t>(costs.channels.key); },
       [](CostModel &costs, size_t word) { costs.channels.key = static_cast<ChannelRules::Key>(word); }},
      {"service", services, [](const CostModel &costs) -> size_t { return saysService(costs); },
       [](CostModel &costs, size_t word) { costs.channels.deviceService = word == 1; }},
      {"groups", groups,
       [](const CostModel &costs) { return wordOf(costs.saysGroups, costs.channels.atomicGroups); },
       [](CostModel &costs, size_t word) {
         costs.saysGroups = word > 0;
         costs.channels.atomicGroups = word == 2;
       }},
      {"progress", progresses,
       [](const CostModel &costs) { return wordOf(costs.saysProgress, costs.channels.progressInWait); },
       [](CostModel &costs, size_t word) {
         costs.saysProgress = word > 0;
         costs.channels.progressInWait = word == 2;
       }},
      {"connect", connects,
       [](const CostModel &costs) { return wordOf(costs.saysConnect, costs.channels.connectOnFirstUse); },
       [](CostModel &costs, size_t word) {
         costs.saysConnect = word > 0;
         costs.channels.connectOnFirstUse = word == 2;
       }},
      {"transfers", transfers, [](const CostModel &costs) -> size_t { return costs.transfersBlock; },
       [](CostModel &costs, size_t word) { costs.transfersBlock = word == 1; }},
      {"collectives", collectives, [](const CostModel &costs) -> size_t { return costs.collectivesOverlap; },
       [](CostModel &costs, size_t word) { costs.collectivesOverlap = word == 1; }},
  };
  return table;
}

bool setTransport(CostModel &costs, StringRef name) {
  ChannelRules written = costs.channels;
  written.deviceService = saysService(costs);
  const auto rules = channelRulesNamed(name);
  if (!rules)
    return false;
  costs.channels = written;
  costs.channels.depth = rules->depth;
  costs.channels.deviceService |= rules->deviceService;
  costs.transport = name.str();
  costs.hasChannelModel = true;
  return true;
}

} // namespace sluice
