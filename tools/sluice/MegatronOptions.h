// Options of a Megatron-LM job as far as they say something about its pipeline: names, meaning and the
// combinations that are refused as in megatron/training/arguments.py, transformer_config.py, schedules.py and
// transformer/pipeline_parallel_layer_layout.py of NVIDIA/Megatron-LM@d98e8a64.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sluice::tool {

/// What one layer of the model is, by its letter in a layout.
enum class MegatronLayer : char { Embedding = 'E', Transformer = 't', Prediction = 'm', Loss = 'L' };

struct MegatronJob {
  int64_t devices = 1;                 ///< Pipeline parallel size: P.
  int64_t chunks = 1;                  ///< Virtual stages a device: v.
  int64_t group = 1;                   ///< Microbatches a group of the interleaved order: N.
  int64_t microbatches = 1;            ///< M.
  int64_t layers = 0, predictions = 0; ///< Transformer and multi-token prediction layers.
  int64_t microbatchSize = 1, batch = 1, replicas = 1;
  int64_t tensor = 1, context = 1;
  bool extraWarmup = false; ///< Interleaved with overlapped expert parallelism.
  bool fullRecompute = false;
  /// All layers of the model in order: embedding, transformer, prediction, loss.
  std::vector<MegatronLayer> order;
  /// Per stage, the first of its layers in `order`; one more at the end. Stage c * P + d is chunk c of
  /// device d.
  std::vector<int64_t> firstLayer;
  bool isEven = false;                  ///< Every stage holds layers / (v * P) transformer layers.
  std::optional<int64_t> boundaryBytes; ///< Of one microbatch between stages, where the options give it.
  /// How a number came about, by the letter it has in a file: `M` from which flags.
  std::map<std::string, std::string> origin;
  std::vector<std::string> ignored; ///< Flags that say nothing about the pipeline, in order.
  std::vector<std::string> remarks; ///< Flags that say something that the file leaves to be measured.
  std::string text;                 ///< The options as given, on one line.
};

/// `arguments` as a shell would split them. Nothing if they are refused; `errors` names the flags then, and
/// what would fit.
std::optional<MegatronJob> readMegatronOptions(llvm::StringRef arguments, std::vector<std::string> &errors);

/// Stages of a layout such as `Et*3|(tt|)*29,m|L`, each with its layers. Nothing and an error if it is none.
std::optional<std::vector<std::vector<MegatronLayer>>> parseMegatronLayout(llvm::StringRef layout,
                                                                           std::string &error);

} // namespace sluice::tool
