#include "MegatronReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::tool {

using namespace megatron;

/// `1, 2, 4 or 8`
static std::string divisorsOf(int64_t value) {
  std::vector<std::string> list;
  for (int64_t d = 1; d <= value && d <= 4096 && list.size() < 16; ++d)
    if (value % d == 0)
      list.push_back(std::to_string(d));
  std::string last = list.back();
  list.pop_back();
  return list.empty() ? last : llvm::join(list, ", ") + " or " + last;
}

void MegatronReader::splitLayers() {
  job.predictions = count(predictionsFlag, 0);
  if (has(layoutFlag)) {
    fromLayout();
    return;
  }
  if (!has(layersFlag)) {
    error(fmt::format("{} is missing: how many transformer layers has the model?", layersFlag.str()));
    return;
  }
  job.layers = count(layersFlag);
  if (job.layers > 65'536) {
    error(fmt::format("{} {}: at most 65536", layersFlag.str(), job.layers));
    return;
  }
  chunkCount();
  if (!errors.empty())
    return;
  std::vector<int64_t> perStage = transformerLayers();
  if (!errors.empty())
    return;
  job.isEven = std::adjacent_find(perStage.begin(), perStage.end(), std::not_equal_to<>()) == perStage.end();
  job.order.push_back(MegatronLayer::Embedding);
  job.firstLayer.push_back(0);
  for (int64_t number : perStage) {
    job.order.insert(job.order.end(), static_cast<size_t>(number), MegatronLayer::Transformer);
    job.firstLayer.push_back(static_cast<int64_t>(job.order.size()));
  }
  job.order.insert(job.order.end(), static_cast<size_t>(job.predictions), MegatronLayer::Prediction);
  job.order.push_back(MegatronLayer::Loss);
  job.firstLayer.back() = static_cast<int64_t>(job.order.size());
}

void MegatronReader::chunkCount() {
  const int64_t split = splitSize();
  if (has(perChunk)) {
    for (llvm::StringRef uneven : {firstFlag, lastFlag})
      if (has(uneven))
        error(fmt::format("{} splits evenly, {} does not: use {} instead of {}", perChunk.str(), uneven.str(),
                          chunksFlag.str(), perChunk.str()));
    if (!errors.empty() || !isDivisible(split))
      return;
    const int64_t perDevice = split / job.devices;
    if (perDevice % count(perChunk) != 0) {
      error(fmt::format("{} {} does not divide the {} layers of a device: {} would fit", perChunk.str(),
                        count(perChunk), perDevice, divisorsOf(perDevice)));
      return;
    }
    job.chunks = perDevice / count(perChunk);
    if (has(chunksName) && count(chunksName) != job.chunks)
      error(fmt::format("{} {} gives {} chunks a device, {} says {}: leave one of them out", perChunk.str(),
                        count(perChunk), job.chunks, chunksName.str(), count(chunksName)));
    job.origin["v"] =
        fmt::format("{} layers of a device / {} {}", perDevice, perChunk.str(), count(perChunk));
  } else if (has(chunksFlag) || has(chunksName)) {
    const llvm::StringRef name = has(chunksFlag) ? chunksFlag : chunksName;
    if (has(chunksFlag) && has(chunksName) && count(chunksFlag) != count(chunksName))
      error(fmt::format("{} {} and {} {} say the same differently: give one of them", chunksFlag.str(),
                        count(chunksFlag), chunksName.str(), count(chunksName)));
    job.chunks = count(name);
    job.origin["v"] = name.str();
  }
  if (job.chunks * job.devices > 65'536)
    error(fmt::format("{} chunks on {} devices are more than 65536 stages", job.chunks, job.devices));
}

/// Layers that are split: embedding and loss count where they are accounted for.
std::string MegatronReader::splitText() const {
  return fmt::format("{} {}{}{}", layersFlag.str(), job.layers,
                     has(embeddingFlag) ? " and the embedding" : "", has(lossFlag) ? " and the loss" : "");
}

bool MegatronReader::isDivisible(int64_t split) {
  if (split % job.devices == 0)
    return true;
  const int64_t extra = split - job.layers, below = split / job.devices * job.devices - extra;
  error(fmt::format(
      "{} cannot be split evenly over {} {}: {} layers would fit, or {}, {} or {} for an uneven "
      "split",
      splitText(), pipeline.str(), job.devices,
      below > 0 ? fmt::format("{} or {}", below, below + job.devices) : std::to_string(below + job.devices),
      firstFlag.str(), lastFlag.str(), layoutFlag.str()));
  return false;
}

std::vector<int64_t> MegatronReader::transformerLayers() {
  const bool isUneven = has(firstFlag) || has(lastFlag);
  std::vector<int64_t> perDevice(static_cast<size_t>(job.devices));
  if (isUneven)
    unevenLayers(perDevice);
  else if (isDivisible(splitSize()))
    std::fill(perDevice.begin(), perDevice.end(), splitSize() / job.devices);
  std::vector<int64_t> perStage;
  for (int64_t chunk = 0; errors.empty() && chunk < job.chunks; ++chunk)
    for (size_t device = 0; device < perDevice.size(); ++device) {
      if (perDevice[device] % job.chunks != 0) {
        error(fmt::format(
            "device {} has {} layers, which {} chunks (v: {}) cannot share evenly: {} would fit", device,
            perDevice[device], job.chunks, job.origin["v"], divisorsOf(perDevice[device])));
        return {};
      }
      perStage.push_back(perDevice[device] / job.chunks);
    }
  if (!errors.empty())
    return {};
  if (has(embeddingFlag) && --perStage.front() < 0)
    error(fmt::format("{}: the first stage has no layer to give up for it", embeddingFlag.str()));
  if (has(lossFlag) && --perStage.back() < 0)
    error(fmt::format("{}: the last stage has no layer to give up for it", lossFlag.str()));
  return perStage;
}

void MegatronReader::unevenLayers(std::vector<int64_t> &perDevice) {
  int64_t left = job.layers, devices = job.devices;
  for (llvm::StringRef name : {firstFlag, lastFlag})
    if (has(name)) {
      left -= count(name);
      --devices;
    }
  if (left < 0 || devices < 0) {
    error(fmt::format("the first and last device would have more than {} {} layers", layersFlag.str(),
                      job.layers));
    return;
  }
  if (devices == 0 ? left != 0 : left % devices != 0) {
    error(devices == 0
              ? fmt::format("{} layers are on no device: the first and last hold {} of {} {}", left,
                            job.layers - left, layersFlag.str(), job.layers)
              : fmt::format(
                    "the {} layers that {} {} leaves cannot be split evenly over {} devices: {} would "
                    "fit",
                    left, has(firstFlag) ? firstFlag.str() : lastFlag.str(),
                    count(has(firstFlag) ? firstFlag : lastFlag), devices, multiplesNear(left, devices)));
    return;
  }
  std::fill(perDevice.begin(), perDevice.end(), devices == 0 ? 0 : left / devices);
  if (has(firstFlag))
    perDevice.front() = count(firstFlag);
  if (has(lastFlag))
    perDevice.back() = count(lastFlag);
}

void MegatronReader::fromLayout() {
  std::string why;
  const auto stages = parseMegatronLayout(flags.word(layoutFlag), why);
  if (!stages) {
    error(fmt::format("{} {}: {}", layoutFlag.str(), flags.word(layoutFlag), why));
    return;
  }
  const auto number = static_cast<int64_t>(stages->size());
  if (number % job.devices != 0 || number > 65'536) {
    error(fmt::format("{} has {} stages, which {} {} does not divide: {} stages would fit", layoutFlag.str(),
                      number, pipeline.str(), job.devices, multiplesNear(number, job.devices)));
    return;
  }
  job.chunks = number / job.devices;
  job.origin["v"] = fmt::format("{} stages of {} / {} devices", number, layoutFlag.str(), job.devices);
  if (has(chunksName) && count(chunksName) != job.chunks)
    error(fmt::format("{} {} and {} disagree: the layout has {} stages, so {} a device", chunksName.str(),
                      count(chunksName), layoutFlag.str(), number, job.chunks));
  job.firstLayer.push_back(0);
  for (const auto &stage : *stages) {
    job.order.insert(job.order.end(), stage.begin(), stage.end());
    job.firstLayer.push_back(static_cast<int64_t>(job.order.size()));
  }
  checkLayout(*stages);
}

void MegatronReader::checkLayout(llvm::ArrayRef<std::vector<MegatronLayer>> stages) {
  auto say = [&](const std::string &what) { error(fmt::format("{}: {}", layoutFlag.str(), what)); };
  auto number = [&](MegatronLayer layer) { return static_cast<int64_t>(llvm::count(job.order, layer)); };
  if (job.order.empty() || job.order.front() != MegatronLayer::Embedding ||
      number(MegatronLayer::Embedding) != 1)
    say("the first layer, and no other, is the embedding E");
  if (job.order.empty() || job.order.back() != MegatronLayer::Loss || number(MegatronLayer::Loss) != 1)
    say("the last layer, and no other, is the loss L");
  job.layers = number(MegatronLayer::Transformer);
  if (has(layersFlag) && count(layersFlag) != job.layers)
    say(fmt::format("it has {} transformer layers t, {} says {}", job.layers, layersFlag.str(),
                    count(layersFlag)));
  const int64_t predictions = number(MegatronLayer::Prediction);
  if (predictions != count(predictionsFlag, 0))
    say(fmt::format("it has {} prediction layers m, {} says {}", predictions, predictionsFlag.str(),
                    count(predictionsFlag, 0)));
  const auto firstPrediction = llvm::find(job.order, MegatronLayer::Prediction);
  if (std::find(firstPrediction, job.order.end(), MegatronLayer::Transformer) != job.order.end())
    say("transformer layers t come before prediction layers m");
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const int64_t here = llvm::count(stages[stage], MegatronLayer::Prediction);
    if (here == 0)
      continue;
    if (here != predictions)
      say("all prediction layers m stand in one stage");
    else if (static_cast<int64_t>(stage) / job.devices != job.chunks - 1)
      say(fmt::format("prediction layers m stand in a last chunk: in one of the last {} stages",
                      job.devices));
    break;
  }
}

} // namespace sluice::tool
