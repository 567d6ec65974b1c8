// One reading of a Megatron-LM job's flags, from devices to microbatches. Private to the files that each read
// a part: MegatronOptions.cpp devices, microbatches and what costs are measured with, MegatronStages.cpp the
// layers.
#pragma once

#include "MegatronFlags.h"
#include "MegatronOptions.h"

namespace sluice::tool {

class MegatronReader {
public:
  MegatronReader(llvm::StringRef arguments, std::vector<std::string> &errors)
      : errors(errors), flags(arguments, errors) {}

  std::optional<MegatronJob> read();

private:
  bool has(llvm::StringRef name) const { return flags.has(name); }
  int64_t count(llvm::StringRef name, int64_t otherwise = 1) const { return flags.count(name, otherwise); }
  void error(std::string message) { errors.push_back(std::move(message)); }

  // MegatronOptions.cpp
  void sizes();
  void recomputeWords();
  void world();
  void batches();
  void interleaving();
  std::string groupsThatFit() const;
  void recompute();
  void boundary();

  // MegatronStages.cpp
  void splitLayers();
  void chunkCount();
  /// Layers that are split, with what counts as one.
  int64_t splitSize() const { return job.layers + has(megatron::embeddingFlag) + has(megatron::lossFlag); }
  std::string splitText() const;
  bool isDivisible(int64_t split);
  std::vector<int64_t> transformerLayers();
  void unevenLayers(std::vector<int64_t> &perDevice);
  void fromLayout();
  void checkLayout(llvm::ArrayRef<std::vector<MegatronLayer>> stages);

  std::vector<std::string> &errors;
  MegatronFlags flags;
  MegatronJob job;
};

/// Whole numbers below and above `value` that `divisor` divides.
std::string multiplesNear(int64_t value, int64_t divisor);

} // namespace sluice::tool
