#include "MegatronOptions.h"

#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace sluice::tool {

namespace {

enum class Form : uint8_t { Count, Word, Words, Flag };
struct Option {
  llvm::StringRef name;
  Form form;
  int64_t least = 1; ///< Of a count.
};
constexpr llvm::StringLiteral pipeline = "--pipeline-model-parallel-size", layersFlag = "--num-layers",
                              perChunk = "--num-layers-per-virtual-pipeline-stage",
                              chunksFlag = "--num-virtual-stages-per-pipeline-rank",
                              chunksName = "--virtual-pipeline-model-parallel-size",
                              groupFlag = "--microbatch-group-size-per-virtual-pipeline-stage",
                              layoutFlag = "--pipeline-model-parallel-layout",
                              firstFlag = "--decoder-first-pipeline-num-layers",
                              lastFlag = "--decoder-last-pipeline-num-layers",
                              embeddingFlag = "--account-for-embedding-in-pipeline-split",
                              lossFlag = "--account-for-loss-in-pipeline-split",
                              microFlag = "--micro-batch-size", globalFlag = "--global-batch-size",
                              worldFlag = "--world-size", predictionsFlag = "--mtp-num-layers",
                              granularity = "--recompute-granularity", method = "--recompute-method",
                              recomputed = "--recompute-num-layers",
                              noOverlap = "--no-overlap-p2p-communication",
                              expertOverlap = "--overlap-moe-expert-parallel-comm";

// What says something about the pipeline. torchrun's options give the world size where it is not named.
constexpr Option options[] = {{pipeline, Form::Count},
                              {"--tensor-model-parallel-size", Form::Count},
                              {"--context-parallel-size", Form::Count},
                              {"--expert-model-parallel-size", Form::Count},
                              {layersFlag, Form::Count},
                              {perChunk, Form::Count},
                              {chunksFlag, Form::Count},
                              {chunksName, Form::Count},
                              {groupFlag, Form::Count},
                              {layoutFlag, Form::Word},
                              {firstFlag, Form::Count},
                              {lastFlag, Form::Count},
                              {embeddingFlag, Form::Flag},
                              {lossFlag, Form::Flag},
                              {microFlag, Form::Count},
                              {globalFlag, Form::Count},
                              {worldFlag, Form::Count},
                              {"--nnodes", Form::Count},
                              {"--nproc-per-node", Form::Count},
                              {"--nproc_per_node", Form::Count},
                              {predictionsFlag, Form::Count, 0},
                              {"--overlap-p2p-communication", Form::Flag},
                              {noOverlap, Form::Flag},
                              {expertOverlap, Form::Flag},
                              {"--delay-wgrad-compute", Form::Flag},
                              {"--recompute-activations", Form::Flag},
                              {granularity, Form::Word},
                              {method, Form::Word},
                              {recomputed, Form::Count},
                              {"--recompute-modules", Form::Words},
                              {"--seq-length", Form::Count},
                              {"--hidden-size", Form::Count},
                              {"--sequence-parallel", Form::Flag},
                              {"--bf16", Form::Flag},
                              {"--fp16", Form::Flag}};

/// Of stage and microbatch: what a file to start from is simulated with.
constexpr int64_t maxPairs = 10'000'000;

/// As a shell splits a line: blanks, quotes of both kinds, backslashes before a character or line end.
std::vector<std::string> splitWords(llvm::StringRef text) {
  std::vector<std::string> words;
  bool inWord = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quote && llvm::isSpace(c)) {
      inWord = false;
      continue;
    }
    if (!quote && c == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
      ++i;
      inWord = false;
      continue;
    }
    if (!inWord)
      words.emplace_back();
    inWord = true;
    if (c == '\\' && quote != '\'' && i + 1 < text.size())
      words.back() += text[++i];
    else if (quote ? c == quote : c == '"' || c == '\'')
      quote = quote ? 0 : c;
    else
      words.back() += c;
  }
  return words;
}

/// Whole numbers below and above `value` that `divisor` divides.
std::string multiplesNear(int64_t value, int64_t divisor) {
  const int64_t below = value / divisor * divisor;
  return below > 0 ? fmt::format("{} or {}", below, below + divisor) : fmt::format("{}", divisor);
}
/// `1, 2, 4 or 8`
std::string divisorsOf(int64_t value) {
  std::vector<std::string> list;
  for (int64_t d = 1; d <= value && d <= 4096 && list.size() < 16; ++d)
    if (value % d == 0)
      list.push_back(std::to_string(d));
  std::string last = list.back();
  list.pop_back();
  return list.empty() ? last : llvm::join(list, ", ") + " or " + last;
}

class Reader {
public:
  explicit Reader(std::vector<std::string> &errors) : errors(errors) {}

  std::optional<MegatronJob> read(llvm::StringRef arguments) {
    const std::vector<std::string> words = splitWords(arguments);
    job.text = llvm::join(words, " ");
    take(words);
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

private:
  bool has(llvm::StringRef name) const { return counts.contains(name) || given.contains(name); }
  int64_t count(llvm::StringRef name, int64_t otherwise = 1) const {
    auto found = counts.find(name);
    return found == counts.end() ? otherwise : found->second;
  }
  void error(std::string message) { errors.push_back(std::move(message)); }
  std::string shown(llvm::StringRef name) const {
    return has(name) ? fmt::format("{} {}", name.str(), count(name))
                     : fmt::format("{} 1 (the default)", name.str());
  }

  // -- words to options

  void take(llvm::ArrayRef<std::string> words) {
    for (size_t i = 0; i < words.size();) {
      llvm::StringRef word = words[i];
      if (!word.starts_with("-") || isNumber(word)) {
        if (llvm::StringRef(word).ends_with(".py") || word == "torchrun" || word == "python") {
          ++i; // of a whole command line
          continue;
        }
        error(fmt::format("\"{}\" belongs to no option: an option begins with --", word.str()));
        ++i;
        continue;
      }
      auto [name, value] = word.split('=');
      std::vector<std::string> values;
      if (word.contains('='))
        values.push_back(value.str());
      for (++i; i < words.size() && (!llvm::StringRef(words[i]).starts_with("-") || isNumber(words[i])) &&
                !isCommand(words[i]);
           ++i)
        values.push_back(words[i]);
      option(name, values);
    }
  }
  static bool isNumber(llvm::StringRef word) {
    return word.size() > 1 && word[0] == '-' && (llvm::isDigit(word[1]) || word[1] == '.');
  }
  static bool isCommand(llvm::StringRef word) { return word.ends_with(".py"); }

  void option(llvm::StringRef name, llvm::ArrayRef<std::string> values) {
    const auto *known = llvm::find_if(options, [&](const Option &o) { return o.name == name; });
    if (known == std::end(options)) {
      if (!llvm::is_contained(job.ignored, name.str()))
        job.ignored.push_back(name.str());
      suggest(name);
      return;
    }
    const size_t wanted = known->form == Form::Flag ? 0 : known->form == Form::Words ? values.size() : 1;
    if (values.size() != wanted) {
      error(fmt::format("{} takes {}, not {}", name.str(), wanted == 0 ? "no value" : "one value",
                        values.empty() ? "none" : "\"" + llvm::join(values, " ") + "\""));
      return;
    }
    if (known->form != Form::Count) {
      given[known->name] = wanted == 0 ? "" : llvm::join(values, " ");
      return;
    }
    int64_t number;
    if (llvm::StringRef(values[0]).getAsInteger(10, number) || number < known->least ||
        number > 1'000'000'000)
      error(fmt::format("{} {}: a whole number from {} is wanted", name.str(), values[0], known->least));
    else
      counts[known->name] = number;
  }
  /// A flag that is all but one of the known ones is more likely misspelt than another.
  void suggest(llvm::StringRef name) {
    std::vector<llvm::StringRef> names;
    for (const Option &o : options)
      names.push_back(o.name);
    llvm::StringRef near = nearest(name, names);
    if (!near.empty() && name.size() > 8 && near.edit_distance(name) <= 2)
      error(fmt::format("there is no {}: {}?", name.str(), near.str()));
  }

  // -- devices and stages

  void sizes() {
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
          error(fmt::format("{} and {} exclude each other: give one of them, or {}", uneven.str(),
                            other.str(), layoutFlag.str()));
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

  void recomputeWords() {
    const bool selective = has("--recompute-activations");
    if (has(granularity) && given[granularity] != "full" && given[granularity] != "selective")
      error(fmt::format("{} {}: full or selective", granularity.str(), given[granularity]));
    if (has(method) && given[method] != "uniform" && given[method] != "block")
      error(fmt::format("{} {}: uniform or block", method.str(), given[method]));
    if (!errors.empty())
      return;
    const std::string kind = selective ? "selective" : has(granularity) ? given[granularity] : "";
    if (kind == "full" && (!has(method) || !has(recomputed)))
      error(fmt::format("{} full wants {} uniform or block, and {}", granularity.str(), method.str(),
                        recomputed.str()));
    if (kind != "full")
      for (llvm::StringRef name : {method, recomputed})
        if (has(name))
          error(fmt::format("{} goes with {} full only", name.str(), granularity.str()));
  }

  void world() {
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

  // -- layers

  void splitLayers() {
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
    job.isEven =
        std::adjacent_find(perStage.begin(), perStage.end(), std::not_equal_to<>()) == perStage.end();
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

  void chunkCount() {
    const int64_t split = splitSize();
    if (has(perChunk)) {
      for (llvm::StringRef uneven : {firstFlag, lastFlag})
        if (has(uneven))
          error(fmt::format("{} splits evenly, {} does not: use {} instead of {}", perChunk.str(),
                            uneven.str(), chunksFlag.str(), perChunk.str()));
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
  int64_t splitSize() const { return job.layers + has(embeddingFlag) + has(lossFlag); }
  std::string splitText() const {
    return fmt::format("{} {}{}{}", layersFlag.str(), job.layers,
                       has(embeddingFlag) ? " and the embedding" : "", has(lossFlag) ? " and the loss" : "");
  }
  bool isDivisible(int64_t split) {
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

  std::vector<int64_t> transformerLayers() {
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

  void unevenLayers(std::vector<int64_t> &perDevice) {
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

  void fromLayout() {
    std::string why;
    const auto stages = parseMegatronLayout(given[layoutFlag], why);
    if (!stages) {
      error(fmt::format("{} {}: {}", layoutFlag.str(), given[layoutFlag], why));
      return;
    }
    const auto number = static_cast<int64_t>(stages->size());
    if (number % job.devices != 0 || number > 65'536) {
      error(fmt::format("{} has {} stages, which {} {} does not divide: {} stages would fit",
                        layoutFlag.str(), number, pipeline.str(), job.devices,
                        multiplesNear(number, job.devices)));
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

  void checkLayout(llvm::ArrayRef<std::vector<MegatronLayer>> stages) {
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

  // -- microbatches

  void batches() {
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
      error(
          fmt::format("{} microbatches through {} stages are too many for one picture: at most {} in all; a "
                      "smaller {} shows the same order",
                      job.microbatches, stages, maxPairs, globalFlag.str()));
  }

  void interleaving() {
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
        error(fmt::format("interleaving wants at least P = {} microbatches, and there are {} ({})",
                          job.devices, job.microbatches, job.origin["M"]));
      else
        error(fmt::format("{} {} is outside {} (P) to {} (M)", groupFlag.str(), job.group, job.devices,
                          job.microbatches));
      return;
    }
    const int64_t rest = job.microbatches % job.group;
    if (rest > 0 && rest < job.devices)
      error(fmt::format(
          "{} microbatches in groups of {} ({}) leave a last group of {}, fewer than P = {}, which "
          "Megatron-LM refuses: {} microbatches would fit{}",
          job.microbatches, job.group, job.origin["N"], rest, job.devices,
          multiplesNear(job.microbatches, job.group), groupsThatFit()));
    job.extraWarmup = has(expertOverlap);
  }
  std::string groupsThatFit() const {
    std::vector<std::string> fits;
    for (int64_t group = job.devices; group <= job.microbatches && fits.size() < 6; ++group)
      if (int64_t rest = job.microbatches % group; rest == 0 || rest >= job.devices)
        fits.push_back(std::to_string(group));
    return fits.empty() ? "" : fmt::format(", or groups of {}", llvm::join(fits, ", "));
  }

  // -- what the costs are measured with

  void recompute() {
    const bool selective = has("--recompute-activations");
    const std::string kind = selective ? "selective" : has(granularity) ? given[granularity] : "";
    job.fullRecompute = kind == "full";
    if (!kind.empty())
      job.remarks.push_back(
          fmt::format("recomputation is {}{}: measure `backward` and `activation` with it on", kind,
                      has(method) ? ", " + given[method] : ""));
    if (has("--delay-wgrad-compute"))
      job.remarks.push_back("--delay-wgrad-compute: the backward is taken as one piece here");
    if (has(noOverlap) && job.chunks > 1)
      job.remarks.push_back(noOverlap.str() + ": transfers are taken as overlapped here");
    if (has("--expert-model-parallel-size"))
      job.remarks.push_back("--expert-model-parallel-size changes no order: measure the layers with it");
  }

  void boundary() {
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

  std::vector<std::string> &errors;
  std::map<llvm::StringRef, int64_t> counts;
  std::map<llvm::StringRef, std::string> given;
  MegatronJob job;
};

} // namespace

std::optional<MegatronJob> readMegatronOptions(llvm::StringRef arguments, std::vector<std::string> &errors) {
  return Reader(errors).read(arguments);
}

} // namespace sluice::tool
