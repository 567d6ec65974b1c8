// Cycles of the compute order. Internal to lib/Verify.
#pragma once

#include "Events/WaitCycle.h"
#include "Verify/ComputeOrder.h"

namespace sluice {

/// Of a cycle of the compute order: as WaitCycle.h has it, with results in place of requests.
using Hop = WaitHop;
using Cycle = WaitCycle;

/// The cycle of fewest hops among the devices that `order` has left standing; of several the one with the
/// lowest device, which comes first in it. `order` has run and is stuck.
Cycle shortestCycle(const Program &program, const ProgramIndex &index, const ComputeOrder &order);

/// The cycle op by op, from hop `begin` on: where each device stands, and behind what the next one has to
/// come by.
void noteHops(const VerifyContext &context, const Cycle &cycle, size_t begin, Finding &finding);

/// Deadlock.cpp: 301, 303, 306, 307 and 310, for an acyclic order of data whose communication is written and
/// whose posts all have their partners.
void verifyCompletion(VerifyContext &context);

/// DeadlockRepair.cpp: the smallest repair of a program that is stuck in `cycle` under `rules`, checked again
/// on a copy, in words that begin the sentence of a fix; empty if none is known.
std::string repairOfDeadlock(const VerifyContext &context, const ChannelRules &rules, const WaitCycle &cycle);

/// OrderRepair.cpp: the fewest moves of ops, up to four, that make the order acyclic without breaking an
/// activation or a gradient, as words; found on a copy of the program and checked there. Empty if none
/// of the tried ones does.
std::string repairOf(const VerifyContext &context, const Cycle &cycle, bool joinCollectives);

/// Lets results that the program nowhere makes count as there, so that only cycles stop an order.
void assumeMissing(const Program &program, const ProgramIndex &index, ComputeOrder &order);

/// Collectives.cpp: 304 and 305. True if every call of a collective meets its partners.
bool verifyCollectives(VerifyContext &context);

} // namespace sluice
