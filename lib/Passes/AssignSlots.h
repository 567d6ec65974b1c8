// Lowers a verified program to the tables of an executor: communication as it is run, every activation,
// gradient and pending half in a slot known at compile time (DeviceRows.h), what training adds
// (TrainingRows.h).
//
// Saved and pending slots are as many as are held at once on the device (the figures peak_saved and
// peak_pending), boundary slots as many as are held at once and, on devices whose sends nothing waits for,
// one more, so that an op can write while the message before it is still under way. Linear in ops.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Passes/ExecutorTables.h"
#include "Passes/LossFactors.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace sluice {

/// What of the program no executor can do, in words; empty: all can be done.
llvm::StringRef unknownToExecutors(const Program &program, const CostModel &costs);

/// Communication that the program leaves to be inferred is placed as `communication` says: by early, each
/// send and receive waits where its slot is used next; else as it is written, with its waits. None where
/// early cannot place it: the program cannot run to its end. ExecutorTables::verified is for who knows what
/// blocks.
std::optional<ExecutorTables> assignSlots(const Program &program, const CostModel &costs);

} // namespace sluice
