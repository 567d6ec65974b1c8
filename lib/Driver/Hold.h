// What a sweep holds while parameters change: the samples of a step, or those of each microbatch. Throughput
// at two numbers of microbatches can be compared only under one of the two, and they mean different things.
//
// The held number is that of the file, with every parameter that changes the number of microbatches or of
// replicas at its default: `batch = 8 * M` and `microbatch_samples` at the default of M say what is held
// while M changes. Other parameters keep their values, so `batch = B` can itself be swept. What the file
// gives only in the other way is converted there.
#pragma once

#include "Driver/Compilation.h"

namespace sluice {

struct Hold {
  HeldSamples::Of of = HeldSamples::Of::Batch;
  std::vector<HeldSamples> at; ///< Of each setting.
  /// Of each setting why it cannot be told what to hold there; empty where it can.
  std::vector<std::string> refused;
  /// Where the number comes from, if not from a line that gives it: `microbatch_samples = 8 at M=8`.
  std::string origin;
  /// The file writes the `samples(m)` that are held.
  bool bySamples = false;

  /// The held number, if it is the same at all settings.
  std::optional<int64_t> number() const;
};

/// Nothing if the file does not say what to hold at any setting; `error` says why then, with what to do.
/// `settings` is a product as parseDefinitions gives it, and not empty.
std::optional<Hold> holdSamples(const Compilation &compilation, llvm::ArrayRef<Setting> settings,
                                const CompileOptions &options, HeldSamples::Of of, std::string &error);

} // namespace sluice
