#include "MegatronReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::tool {

using namespace megatron;

/// Of stage and microbatch: what a file to start from is simulated with.
static constexpr int64_t maxPairs = 10'000'000;

std::string multiplesNear(int64_t value, int64_t divisor) {
  const int64_t below = value / divisor * divisor;
  return below > 0 ? fmt::format("{} or {}", below, below + divisor) : fmt::format("{}", divisor);
}

std::optional<MegatronJob> MegatronReader::read() {
  job.text = flags.text;
  job.ignored = flags.ignored;
  if (!errors.empty())
    return std::nullopt;
  sizes();
  if (errors.empty())
    splitLayers();
  if (errors.empty())
    batches();
  if (errors.empty())
    interleaving();
  if (!errors.empty())
    return std::nullopt;
  recompute();
  boundary();
  return std::move(job);
}

void MegatronReader::sizes() {
  job.devices = count(pipeline);
  job.tensor = count("--tensor-model-parallel-size");
  job.context = count("--context-parallel-size");
  job.origin["P"] = has(pipeline) ? pipeline.str() : pipeline.str() + " is not given: 1";
  if (job.devices > 4096)
    error(fmt::format("{} {}: at most 4096", pipeline.str(), job.devices));
  const llvm::StringRef exclusive[] = {perChunk, chunksFlag, layoutFlag};
  std::vector<std::string> both;
  for (llvm::StringRef name : exclusive)
    if (has(name))
      both.push_back(name.str());
  if (both.size() > 1)
    error(llvm::join(both, " and ") + " say the same in two ways: give one of them");
  for (llvm::StringRef uneven : {firstFlag, lastFlag})
    for (llvm::StringRef other : {embeddingFlag, lossFlag})
      if (has(uneven) && has(other))
        error(fmt::format("{} and {} exclude each other: give one of them, or {}", uneven.str(), other.str(),
                          layoutFlag.str()));
  if (has(layoutFlag))
    for (llvm::StringRef other : {firstFlag, lastFlag, embeddingFlag, lossFlag})
      if (has(other))
        error(fmt::format("{} already says where every layer goes: leave out {}", layoutFlag.str(),
                          other.str()));
  if (has("--overlap-p2p-communication") && has(noOverlap))
    error(fmt::format("--overlap-p2p-communication and {} exclude each other", noOverlap.str()));
  for (llvm::StringRef size : {"--tensor-model-parallel-size", "--context-parallel-size"})
    if (count(size) > 65'536)
      error(fmt::format("{} {}: at most 65536", size.str(), count(size)));
  recomputeWords();
  if (errors.empty())
    world();
}

void MegatronReader::recomputeWords() {
  const bool selective = has("--recompute-activations");
  if (has(granularity) && flags.word(granularity) != "full" && flags.word(granularity) != "selective")
    error(fmt::format("{} {}: full or selective", granularity.str(), flags.word(granularity)));
  if (has(method) && flags.word(method) != "uniform" && flags.word(method) != "block")
    error(fmt::format("{} {}: uniform or block", method.str(), flags.word(method)));
  if (!errors.empty())
    return;
  const std::string kind = selective ? "selective" : has(granularity) ? flags.word(granularity) : "";
  if (kind == "full" && (!has(method) || !has(recomputed)))
    error(fmt::format("{} full wants {} uniform or block, and {}", granularity.str(), method.str(),
                      recomputed.str()));
  if (kind != "full")
    for (llvm::StringRef name : {method, recomputed})
      if (has(name))
        error(fmt::format("{} goes with {} full only", name.str(), granularity.str()));
}

void MegatronReader::world() {
  const llvm::StringRef perNode = has("--nproc_per_node") ? "--nproc_per_node" : "--nproc-per-node";
  const int64_t model = job.devices * job.tensor * job.context;
  int64_t world = model;
  std::string from;
  if (has(worldFlag)) {
    world = count(worldFlag);
    from = fmt::format("{} {}", worldFlag.str(), world);
  } else if (has("--nnodes") || has(perNode)) {
    world = count("--nnodes") * count(perNode);
    from = fmt::format("--nnodes {} with {} {}", count("--nnodes"), perNode.str(), count(perNode));
  }
  if (world % model != 0) {
    error(fmt::format(
        "{} cannot be divided into groups of {} devices ({} {} x --tensor-model-parallel-size {} "
        "x --context-parallel-size {}): {} would fit",
        from, model, pipeline.str(), job.devices, job.tensor, job.context, multiplesNear(world, model)));
    return;
  }
  job.replicas = world / model;
  job.origin["replicas"] = from.empty() ? worldFlag.str() + " is not given: one replica"
                                        : fmt::format("{} / ({} pipeline x {} tensor x {} context)", from,
                                                      job.devices, job.tensor, job.context);
}

void MegatronReader::batches() {
  if (!has(microFlag)) {
    error(fmt::format("{} is missing: Megatron-LM asks for it", microFlag.str()));
    return;
  }
  job.microbatchSize = count(microFlag);
  const int64_t each = job.microbatchSize * job.replicas;
  job.batch = count(globalFlag, each);
  if (job.batch % each != 0) {
    error(fmt::format("{} {} is no multiple of {} {} x {} data parallel replicas: {} would fit",
                      globalFlag.str(), job.batch, microFlag.str(), job.microbatchSize, job.replicas,
                      multiplesNear(job.batch, each)));
    return;
  }
  job.microbatches = job.batch / each;
  job.origin["M"] = has(globalFlag)
                        ? fmt::format("{} {} / ({} {} x {} replicas)", globalFlag.str(), job.batch,
                                      microFlag.str(), job.microbatchSize, job.replicas)
                        : globalFlag.str() + " is not given: one microbatch";
  const int64_t stages = job.devices * job.chunks;
  if (job.microbatches > maxPairs / stages)
    error(fmt::format("{} microbatches through {} stages are too many for one picture: at most {} in all; a "
                      "smaller {} shows the same order",
                      job.microbatches, stages, maxPairs, globalFlag.str()));
}

void MegatronReader::interleaving() {
  if (job.chunks == 1) {
    for (llvm::StringRef name : {groupFlag, noOverlap})
      if (has(name))
        job.remarks.push_back(name.str() + " matters to interleaved orders only, and this is plain 1F1B");
    if (has(expertOverlap) && job.devices > 1)
      error(fmt::format("{} wants an interleaved order when {} is above 1: add {} 2", expertOverlap.str(),
                        pipeline.str(), chunksFlag.str()));
    return;
  }
  if (job.devices == 1 || (has(noOverlap) && job.devices == 2))
    error(fmt::format("{} {} with {} chunks a device: interleaving wants {} devices", pipeline.str(),
                      job.devices, job.chunks,
                      has(noOverlap) ? "3 or more (2 without " + noOverlap.str() + ")" : "2 or more"));
  job.group = count(groupFlag, job.devices);
  job.origin["N"] = has(groupFlag) ? groupFlag.str() : groupFlag.str() + " is not given: P";
  if (job.group < job.devices || job.group > job.microbatches) {
    if (job.microbatches < job.devices)
      error(fmt::format("interleaving wants at least P = {} microbatches, and there are {} ({})", job.devices,
                        job.microbatches, job.origin["M"]));
    else
      error(fmt::format("{} {} is outside {} (P) to {} (M)", groupFlag.str(), job.group, job.devices,
                        job.microbatches));
    return;
  }
  const int64_t rest = job.microbatches % job.group;
  if (rest > 0 && rest < job.devices)
    error(
        fmt::format("{} microbatches in groups of {} ({}) leave a last group of {}, fewer than P = {}, which "
                    "Megatron-LM refuses: {} microbatches would fit{}",
                    job.microbatches, job.group, job.origin["N"], rest, job.devices,
                    multiplesNear(job.microbatches, job.group), groupsThatFit()));
  job.extraWarmup = has(expertOverlap);
}

std::string MegatronReader::groupsThatFit() const {
  std::vector<std::string> fits;
  for (int64_t group = job.devices; group <= job.microbatches && fits.size() < 6; ++group)
    if (int64_t rest = job.microbatches % group; rest == 0 || rest >= job.devices)
      fits.push_back(std::to_string(group));
  return fits.empty() ? "" : fmt::format(", or groups of {}", llvm::join(fits, ", "));
}

void MegatronReader::recompute() {
  const bool selective = has("--recompute-activations");
  const std::string kind = selective ? "selective" : has(granularity) ? flags.word(granularity) : "";
  job.fullRecompute = kind == "full";
  if (!kind.empty())
    job.remarks.push_back(fmt::format("recomputation is {}{}: measure `backward` and `activation` with it on",
                                      kind, has(method) ? ", " + flags.word(method) : ""));
  if (has("--delay-wgrad-compute"))
    job.remarks.push_back("--delay-wgrad-compute: the backward is taken as one piece here");
  if (has(noOverlap) && job.chunks > 1)
    job.remarks.push_back(noOverlap.str() + ": transfers are taken as overlapped here");
  if (has("--expert-model-parallel-size"))
    job.remarks.push_back("--expert-model-parallel-size changes no order: measure the layers with it");
}

void MegatronReader::boundary() {
  if (!has("--seq-length") || !has("--hidden-size"))
    return;
  const int64_t each = has("--bf16") || has("--fp16") ? 2 : 4;
  const int64_t parts = job.context * (has("--sequence-parallel") ? job.tensor : 1);
  __int128 bytes =
      static_cast<__int128>(count("--seq-length")) * count("--hidden-size") * job.microbatchSize * each;
  if (count("--seq-length") % parts != 0 || bytes / parts > INT64_MAX / 4)
    return;
  job.boundaryBytes = static_cast<int64_t>(bytes / parts);
  job.origin["boundary"] = fmt::format("--seq-length {}{} x {} {} x --hidden-size {} x {} B",
                                       count("--seq-length"), parts > 1 ? fmt::format(" / {}", parts) : "",
                                       microFlag.str(), job.microbatchSize, count("--hidden-size"), each);
}

std::optional<MegatronJob> readMegatronOptions(llvm::StringRef arguments, std::vector<std::string> &errors) {
  return MegatronReader(arguments, errors).read();
}

} // namespace sluice::tool
