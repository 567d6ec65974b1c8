#include "Sema/Settings.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

using llvm::StringRef;

static constexpr StringRef losses[] = {"mean over samples", "mean over microbatches", "mean over tokens",
                                       "sum"};
static constexpr StringRef transports[] = {"nccl", "mpi", "gloo", "local"};
static constexpr StringRef channels[] = {"rendezvous", "unbounded", "eager"};
static constexpr StringRef channelKeys[] = {"direction", "pair", "edge", "message"};
static constexpr StringRef services[] = {"device"};
static constexpr StringRef groups[] = {"independent", "atomic"};
static constexpr StringRef progress[] = {"posted", "in_wait"};
static constexpr StringRef connects[] = {"upfront", "first_use"};
static constexpr StringRef transfers[] = {"overlapped", "blocking"};
static constexpr StringRef collectives[] = {"blocking", "overlapped"};
static constexpr StringRef sharing[] = {"no", "fifo", "fair"};
static constexpr StringRef scales[] = {"loss", "accumulator", "reduced", "program"};
static constexpr StringRef semantics[] = {"synchronous", "asynchronous"};
static constexpr StringRef microbatchLosses[] = {"mean", "sum"};
static constexpr StringRef reductions[] = {"sum", "mean"};
static constexpr StringRef reduced[] = {"full", "sharded", "full copied", "sharded copied"};
static constexpr StringRef contributions[] = {"accumulated", "separate"};
static constexpr StringRef afterReduces[] = {"resharded"};
static constexpr StringRef communications[] = {"inferred", "explicit"};
static constexpr StringRef versions[] = {"stashed", "newest", "queued"};
static constexpr StringRef phases[] = {"training", "evaluation"};

static constexpr SettingInfo count(StringRef block, StringRef name, unsigned parameters = 0) {
  return {block, name, SettingType::Count, noDimension, parameters, {}};
}
static constexpr SettingInfo quantity(StringRef block, StringRef name, Dimension dimension,
                                      unsigned parameters) {
  return {block, name, SettingType::Quantity, dimension, parameters, {}};
}
static constexpr SettingInfo word(StringRef block, StringRef name, llvm::ArrayRef<StringRef> words) {
  return {block, name, SettingType::Word, noDimension, 0, words};
}
static constexpr SettingInfo later(StringRef block, StringRef name) {
  return {block, name, SettingType::Other, noDimension, 2, {}, false};
}

static const SettingInfo settings[] = {
    count("model", "stages"),
    quantity("model", "forward", timeDimension, 2),
    quantity("model", "backward", timeDimension, 2),
    quantity("model", "backward_input", timeDimension, 2),
    quantity("model", "backward_weight", timeDimension, 2),
    quantity("model", "recompute", timeDimension, 2),
    quantity("model", "overlapped", timeDimension, 2),
    quantity("model", "activation", sizeDimension, 2),
    quantity("model", "kept_input", sizeDimension, 2),
    quantity("model", "pending", sizeDimension, 2),
    quantity("model", "boundary", sizeDimension, 2),
    quantity("model", "workspace", sizeDimension, 1),
    quantity("model", "weights", sizeDimension, 1),
    quantity("model", "gradients", sizeDimension, 1),
    quantity("model", "optimizer_state", sizeDimension, 1),
    {"model", "layers", SettingType::Range, noDimension, 1, {}},
    count("model", "layer_count"),
    {"model", "layer", SettingType::LayerBlock, noDimension, 1, {}},
    {"model", "fused", SettingType::Flag, noDimension, 0, {}},
    {"model", "random", SettingType::Stages, noDimension, 0, {}},
    {"model", "batch_norm", SettingType::Stages, noDimension, 0, {}},
    quantity("model", "update", timeDimension, 1),
    quantity("model", "reduce", timeDimension, 1),
    {"model", "edge", SettingType::Edge, noDimension, 0, {}},
    {"model", "tied", SettingType::Tied, noDimension, 0, {}},
    {"model", "cost", SettingType::Profile, noDimension, 0, {}},

    // What adds up over the layers of a stage; their parameter is the microbatch.
    quantity("layer", "forward", timeDimension, 1),
    quantity("layer", "backward", timeDimension, 1),
    quantity("layer", "backward_input", timeDimension, 1),
    quantity("layer", "backward_weight", timeDimension, 1),
    quantity("layer", "recompute", timeDimension, 1),
    quantity("layer", "update", timeDimension, 0),
    quantity("layer", "activation", sizeDimension, 1),
    quantity("layer", "pending", sizeDimension, 1),
    quantity("layer", "weights", sizeDimension, 0),
    quantity("layer", "gradients", sizeDimension, 0),
    quantity("layer", "optimizer_state", sizeDimension, 0),

    quantity("edge", "boundary", sizeDimension, 1),
    {"edge", "no_gradient", SettingType::Flag, noDimension, 0, {}},

    count("cluster", "devices"),
    quantity("cluster", "memory", sizeDimension, 1),
    quantity("cluster", "reserved", sizeDimension, 1),
    {"cluster", "link", SettingType::LinkBlock, noDimension, 2, {}},
    {"cluster", "host", SettingType::LinkBlock, noDimension, 1, {}},
    {"cluster", "collective", SettingType::LinkBlock, noDimension, 1, {}},
    word("cluster", "transport", transports),
    word("cluster", "channel", channels),
    word("cluster", "channel_key", channelKeys),
    word("cluster", "service", services),
    word("cluster", "groups", groups),
    word("cluster", "progress", progress),
    word("cluster", "connect", connects),
    word("cluster", "transfers", transfers),
    word("cluster", "collectives", collectives),

    quantity("link", "latency", timeDimension, 0),
    quantity("link", "bandwidth", bandwidthDimension, 0),
    word("link", "shared", sharing),
    count("link", "lane"),

    quantity("host", "latency", timeDimension, 0),
    quantity("host", "bandwidth", bandwidthDimension, 0),
    word("host", "shared", sharing),

    quantity("collective", "latency", timeDimension, 0),
    quantity("collective", "bandwidth", bandwidthDimension, 0),

    count("training", "microbatches"),
    count("training", "batch"),
    count("training", "microbatch_samples"),
    count("training", "samples", 1),
    count("training", "replicas"),
    word("training", "loss", losses),
    word("training", "scale", scales),
    word("training", "semantics", semantics),
    word("training", "microbatch_loss", microbatchLosses),
    word("training", "reduction", reductions),
    word("training", "reduced", reduced),
    word("training", "contributions", contributions),
    word("training", "after_reduce", afterReduces),
    count("training", "tokens", 1),
    later("training", "steps"),

    quantity("queue", "backlog", noDimension, 0),
    quantity("queue", "arrival", rateDimension, 0),
    quantity("queue", "service", rateDimension, 0),
    quantity("queue", "step", timeDimension, 0),

    word("schedule", "communication", communications),
    word("schedule", "phase", phases),
    word("schedule", "versions", versions),
    count("schedule", "sequence_splits"),
    count("schedule", "buffer", 2),
};

const SettingInfo *findSetting(StringRef block, StringRef name) {
  const auto *found = llvm::find_if(
      settings, [&](const SettingInfo &info) { return info.block == block && info.name == name; });
  return found == std::end(settings) ? nullptr : found;
}

std::vector<StringRef> settingNames(StringRef block) {
  std::vector<StringRef> names;
  for (const SettingInfo &info : settings)
    if (info.block == block)
      names.push_back(info.name);
  return names;
}

llvm::ArrayRef<StringRef> costNames() {
  static constexpr StringRef names[] = {"balanced", "tightened",      "forward",
                                        "backward", "backward_input", "backward_weight"};
  return names;
}

} // namespace sluice
