// Cycles of the compute order. Internal to lib/Verify.
#pragma once

#include "Verify/ComputeOrder.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice {

/// One device of a cycle: it stands at `stands`, which lacks a result of the next hop's device, while the
/// hop before waits for `needed`, at or behind that place. The last hop is followed by the first.
struct Hop {
  uint32_t device;
  OpId stands, needed;
};
using Cycle = std::vector<Hop>;

/// The cycle of fewest hops among the devices that `order` has left standing; of several the one with the
/// lowest device, which comes first in it. `order` has run and is stuck.
Cycle shortestCycle(const Program &program, const ProgramIndex &index, const Copies &copies,
                    const ComputeOrder &order);

/// The same with another idea of what makes a result, of a stage, a microbatch and its backward or forward.
using ProducerOf = llvm::function_ref<OpId(uint32_t stage, uint32_t microbatch, bool isBackward)>;
Cycle shortestCycle(const Program &program, const ProducerOf &producerOf, const Copies &copies,
                    const ComputeOrder &order);
/// The cycle op by op, from hop `begin` on: where each device stands, and behind what the next one has to
/// come by.
void noteHops(const VerifyContext &context, const Cycle &cycle, size_t begin, Finding &finding);

/// Completion.cpp: 301, for an acyclic order of data whose communication is written.
void verifyCompletion(VerifyContext &context, bool joinCollectives);

/// OrderRepair.cpp: the fewest moves of ops, up to four, that make the order acyclic without breaking an
/// activation or a gradient, as words; found on a copy of the program and checked there. Empty if none
/// of the tried ones does.
std::string repairOf(const VerifyContext &context, const Cycle &cycle, bool joinCollectives);

/// Lets results that the program nowhere makes count as there, so that only cycles stop an order.
void assumeMissing(const Program &program, const ProgramIndex &index, ComputeOrder &order);

/// Collectives.cpp: 304 and 305. True if every call of a collective meets its partners.
bool verifyCollectives(VerifyContext &context);

} // namespace sluice
