// The command line of a Megatron-LM job as flags and their values: words split as a shell does, flags that
// say something about the pipeline told from those that do not. What the values mean together is said
// elsewhere.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::tool {

namespace megatron {

inline constexpr llvm::StringLiteral pipeline = "--pipeline-model-parallel-size", layersFlag = "--num-layers",
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

} // namespace megatron

class MegatronFlags {
public:
  /// `arguments` as a shell would split them; `errors` names words that are no flags, values that are none,
  /// and flags that are misspelt.
  MegatronFlags(llvm::StringRef arguments, std::vector<std::string> &errors);

  bool has(llvm::StringRef name) const { return counts.contains(name) || words.contains(name); }
  int64_t count(llvm::StringRef name, int64_t otherwise = 1) const;
  /// Of a flag that takes a word or none; empty if it is not given.
  std::string word(llvm::StringRef name) const;
  /// `--num-layers 8`, or that the default holds.
  std::string shown(llvm::StringRef name) const;

  std::string text;                 ///< The arguments on one line.
  std::vector<std::string> ignored; ///< Flags that say nothing about the pipeline, in order.

private:
  void take(llvm::ArrayRef<std::string> arguments);
  void option(llvm::StringRef name, llvm::ArrayRef<std::string> values);
  void suggest(llvm::StringRef name);

  std::vector<std::string> &errors;
  std::map<llvm::StringRef, int64_t> counts;
  std::map<llvm::StringRef, std::string> words;
};

} // namespace sluice::tool
