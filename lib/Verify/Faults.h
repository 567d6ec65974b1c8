// Places where a rule is broken, before they become findings: kept as plain values while the walks run,
// then reduced to first causes, merged by line and put into words. Internal to lib/Verify; only reached
// when something is wrong.
#pragma once

#include "Support/Words.h"
#include "Verify/Context.h"

namespace sluice {

struct Fault {
  Rule rule;
  /// Tells causes apart that must not share a finding (the state an activation was in).
  uint8_t cause = 0;
  uint32_t device = noDevice;
  uint32_t stage = 0;
  uint32_t microbatch = noMicrobatch;
  OpId op = noOp; ///< noOp: something is missing; the fault lies at the `place` line of the pair.
  OpId other = noOp;
};
/// Faults that make one finding, never empty; the first, on the lowest device, gives its words.
using FaultGroup = std::vector<Fault>;

/// Of the faults of one (stage, microbatch), or of one (device, stage), keeps the first by `blame` (then
/// by op); drops those that an earlier family has explained.
enum class Scope { Pair, Copy };
void keepFirstCauses(const VerifyContext &context, Scope scope, llvm::ArrayRef<Rule> blame,
                     std::vector<Fault> &faults);
/// Equal rule, cause and source line: one group. Groups and their members are in program order.
std::vector<FaultGroup> groupByLine(const VerifyContext &context, std::vector<Fault> faults);
/// Lets the errors among `faults` explain what later families find at the same places.
void blame(VerifyContext &context, llvm::ArrayRef<Fault> faults);

/// Reports a group at its first fault with span, device, op and loops filled in.
Finding &report(VerifyContext &context, const FaultGroup &group, const Values &values);
/// Notes for the members beyond the first: further microbatches unless `listed`, further copies.
void noteOthers(const VerifyContext &context, const FaultGroup &group, bool listed, Finding &finding);
/// A note at `op` with its device, loops and name.
void noteOp(const VerifyContext &context, Finding &finding, OpId op, const std::string &message);

/// `forward(0, 5)` of an op of the program.
std::string opText(const VerifyContext &context, OpId op);
/// `line 7`, or `line 7 of other.sluice` where that is not the file of `from`; empty if not known.
std::string lineText(const VerifyContext &context, Span span, Span from);
/// ` at line 7`, or ` earlier` if no line is known; with a leading blank.
std::string atLine(const VerifyContext &context, OpId op, OpId from, llvm::StringRef preposition = "at");

/// Microbatches of the faults that share device and stage with the first.
std::vector<uint32_t> microbatchesOfFirst(const FaultGroup &group);
/// Ops of equal kind and stage merged: `backward(0, 5 to 7), backward(1, 2)`.
std::string opList(const VerifyContext &context, llvm::ArrayRef<OpId> ops);

} // namespace sluice
