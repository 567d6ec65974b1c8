// Lowers a verified program to the tables of an executor: communication placed early, every activation,
// gradient and pending half in a slot known at compile time.
//
// Saved and pending slots are as many as are held at once on the device (the figures peak_saved and
// peak_pending), boundary slots as many as are held at once and, on devices that send, one more, so that an
// op can write while the message before it is still under way. An op takes its slots at its start and gives
// them back at its end, the members of an overlap together; freed slots are reused in the order they were
// freed. Linear in ops.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Passes/ExecutorTables.h"

#include "llvm/ADT/StringRef.h"

#include <sluice/Schedule.h>

#include <optional>

namespace sluice {

/// What of the program an executor does not know yet, in words; empty: it knows all.
llvm::StringRef unknownToExecutors(const Program &program, const CostModel &costs);

/// None where the program cannot run to its end, as `inferCommunication`. Asks for a program that executors
/// know.
std::optional<ExecutorTables> assignSlots(const Program &program, const CostModel &costs);

/// What the loss of each microbatch, its mean over samples (tokens) unless `microbatch_loss` is their sum,
/// counts in the loss of the step. With R replicas and n samples or tokens of microbatch m, of N in all: n /
/// (R N) under `mean over samples` and `mean over tokens`, 1 / (R M) under `mean over microbatches`, n under
/// `sum`; of a sum, each divided by n.
std::vector<LossFactor> lossFactors(const Program &program, const CostModel &costs);

} // namespace sluice
