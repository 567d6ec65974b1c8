// 301 deadlock, 303 needs-buffering, and what a stricter transport would hold up: 306, 307, 310. Of written
// communication alone: what `early` infers completes under every rule.
#include "Events/Completion.h"
#include "Support/Words.h"
#include "Verify/Faults.h"
#include "Verify/Order.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

namespace {

class DeadlockCheck {
public:
  explicit DeadlockCheck(VerifyContext &context)
      : context(context), program(context.program), rules(context.costs.channels) {}

  void run() {
    if (auto cycle = stuckUnder(program, rules))
      return deadlock(*cycle);
    if (!context.costs.hasChannelModel)
      checkBuffering();
    checkStricter();
  }

private:
  Finding &reportAt(Rule rule, OpId op, const Values &values) {
    const Op &stands = program.ops[op];
    const FaultGroup group = {{rule, 0, program.deviceOf(op), stands.stage, noMicrobatch, op, noOp}};
    return report(context, group, values);
  }
  std::string text(OpId op) const { return opText(context, op); }
  /// Without `start` or `wait`.
  std::string bareText(OpId op) const {
    const std::string whole = text(op);
    llvm::StringRef name = whole;
    name.consume_front("start ");
    name.consume_front("wait ");
    return name.str();
  }

  void deadlock(WaitCycle cycle);
  void checkBuffering();
  void checkStricter();
  void connectCycle(const WaitCycle &cycle);
  void groupWaits(const ChannelRules &strict);
  void waitOutOfOrder(const WaitCycle &cycle);
  bool sharesChannel(const WaitHop &hop) const;

  VerifyContext &context;
  const Program &program;
  const ChannelRules rules;
};

} // namespace

/// `rendezvous`, and what else was declared.
static std::string rulesText(const ChannelRules &rules) {
  std::string text = channelText(rules);
  if (rules.deviceService)
    text += ", one queue a device";
  if (rules.atomicGroups)
    text += ", groups = atomic";
  if (rules.progressInWait)
    text += ", progress = in_wait";
  if (rules.connectOnFirstUse)
    text += ", connect = first_use";
  return text;
}

void DeadlockCheck::deadlock(WaitCycle cycle) {
  if (cycle.empty())
    return; // what is missing has been reported
  // Of the devices on the cycle the first whose neighbour really stands in front of what is needed.
  size_t at = 0;
  while (at + 1 < cycle.size() &&
         cycle[(at + 1) % cycle.size()].needed == cycle[(at + 1) % cycle.size()].stands)
    ++at;
  const WaitHop &hop = cycle[at], &next = cycle[(at + 1) % cycle.size()];
  const std::string model = context.costs.transport.empty() || context.costs.transport == channelText(rules)
                                ? rulesText(rules)
                                : fmt::format("{} ({})", context.costs.transport, rulesText(rules));
  Finding &finding = reportAt(Rule::Deadlock, hop.stands,
                              {{"op", text(hop.stands)},
                               {"device", fmt::format("{}", hop.device)},
                               {"partner", text(next.needed)},
                               {"blocker", text(next.stands)},
                               {"other", fmt::format("{}", next.device)},
                               {"hops", counted(cycle.size(), "hop", "hops")},
                               {"channel", model},
                               {"key", name(rules.key).str()}});
  noteHops(context, cycle, at, finding);
  if (context.costs.communication == "just_in_time")
    finding.notes.push_back({"sends and receives stand where just_in_time places them", {}, {}, ""});
  const std::string repair = repairOfDeadlock(context, rules, cycle);
  finding.fix.message =
      repair.empty() ? "no repair was found; bring the messages of all devices into one order" : repair;
  std::vector<Fault> faults;
  for (const WaitHop &each : cycle)
    for (OpId id : {each.stands, each.needed})
      faults.push_back({Rule::Deadlock, 0, each.device, program.ops[id].stage, noMicrobatch, id, noOp});
  blame(context, faults);
}

/// The file names no model: it completes under unbounded channels, but what if sends block?
void DeadlockCheck::checkBuffering() {
  std::vector<std::string> stuck;
  std::optional<WaitCycle> shown;
  for (uint32_t depth : {0u, 1u}) {
    ChannelRules model = rules;
    model.depth = depth;
    auto cycle = stuckUnder(program, model);
    if (!cycle || cycle->empty())
      break; // models are ordered
    stuck.push_back(channelText(model));
    if (!shown)
      shown = std::move(cycle);
  }
  if (!shown)
    return;
  // A send that stands, and its receive.
  auto sends = [&](const WaitHop &hop) { return program.ops[hop.stands].isSend(); };
  auto found = llvm::find_if(*shown, sends);
  const size_t at = found == shown->end() ? 0 : static_cast<size_t>(found - shown->begin());
  const WaitHop &hop = (*shown)[at], &next = (*shown)[(at + 1) % shown->size()];
  const uint32_t depth = leastDepth(program, rules);
  Finding &finding = reportAt(Rule::NeedsBuffering, hop.stands,
                              {{"free", stuck.size() == 1        ? "eager(1)"
                                        : depth < program.size() ? fmt::format("eager({})", depth)
                                                                 : "unbounded channels"},
                               {"stuck", llvm::join(stuck, " and ")},
                               {"op", text(hop.stands)},
                               {"partner", text(next.needed)}});
  noteHops(context, *shown, at, finding);
  ChannelRules model = rules;
  model.depth = 0;
  const std::string repair = repairOfDeadlock(context, model, *shown);
  finding.fix.message = (repair.empty() ? "" : repair + ", or ") + fmt::format("channel = eager({})", depth);
}

/// Settings that the file leaves open: would the strict ones hold it up?
void DeadlockCheck::checkStricter() {
  const bool hasGroups = llvm::any_of(program.ops, [](const Op &op) { return op.has(GroupFollower); });
  const bool hasStarts = llvm::any_of(program.ops, [](const Op &op) { return op.isStarted(); });
  auto tryWith = [&](bool ChannelRules::*setting, void (DeadlockCheck::*say)(const WaitCycle &)) {
    ChannelRules strict = rules;
    strict.*setting = true;
    if (auto cycle = stuckUnder(program, strict); cycle && !cycle->empty())
      (this->*say)(*cycle);
  };
  // A named transport settles what is not written.
  const bool isTransport = llvm::any_of(
      transports(), [&](const Transport &transport) { return transport.name == context.costs.transport; });
  if (!context.costs.saysConnect && !isTransport)
    tryWith(&ChannelRules::connectOnFirstUse, &DeadlockCheck::connectCycle);
  if (!context.costs.saysGroups && !isTransport && hasGroups) {
    // Groups that start as a whole are those of transports that do not store messages.
    ChannelRules strict = rules;
    strict.depth = 0;
    const bool completes = rules.isRendezvous() || !stuckUnder(program, strict);
    strict.atomicGroups = true;
    if (completes && stuckUnder(program, strict))
      groupWaits(strict);
  }
  if (!context.costs.saysProgress && !isTransport && hasStarts)
    tryWith(&ChannelRules::progressInWait, &DeadlockCheck::waitOutOfOrder);
}

void DeadlockCheck::connectCycle(const WaitCycle &cycle) {
  auto pairOf = [&](OpId op) {
    const Op &post = program.ops[op];
    if (!post.isCommunication())
      return text(op);
    const uint32_t here = program.deviceOf(op);
    const uint32_t there = program.deviceOf(program.peerStageOf(op), post.microbatch);
    return fmt::format("({}, {})", std::min(here, there), std::max(here, there));
  };
  std::vector<std::string> pairs;
  for (const WaitHop &hop : cycle)
    pairs.push_back(
        fmt::format("device {} uses {} before {}", hop.device, pairOf(hop.stands), pairOf(hop.needed)));
  Finding &finding = reportAt(Rule::ConnectCycle, cycle[0].stands, {{"pairs", llvm::join(pairs, ", ")}});
  for (const WaitHop &hop : llvm::ArrayRef(cycle).drop_front())
    noteOp(context, finding, hop.stands,
           fmt::format("device {} uses {} first, at {}", hop.device, pairOf(hop.stands), text(hop.stands)));
  finding.fix.message = "connect = upfront, or one order of first uses on all devices";
}

/// A group of which one member has met its partner, and another can only meet its own once that one is done.
void DeadlockCheck::groupWaits(const ChannelRules &strict) {
  const Requests requests(program, strict);
  Execution execution(requests, strict);
  execution.run();
  for (uint32_t device = 0; device < program.devices; ++device) {
    const OpId first = execution.fronts()[device];
    if (!execution.isStuck(device) || !program.ops[first].has(GroupFirst))
      continue;
    OpId member = noOp, other = noOp;
    for (RequestId r = requests.of(first), end = requests.endOfStatement(r); r < end; ++r)
      (execution.isReady(requests.partner(r)) ? other : member) = requests.op[r];
    if (member == noOp || other == noOp)
      continue;
    Finding &finding =
        reportAt(Rule::GroupWaitsForItself, member, {{"member", text(member)}, {"other", text(other)}});
    const OpId late = requests.op[requests.partner(requests.of(member))];
    const uint32_t elsewhere = program.deviceOf(late);
    const OpId stands = execution.fronts()[elsewhere];
    noteOp(context, finding, stands,
           fmt::format("device {} stands at {} until the group is done as a whole", elsewhere, text(stands)));
    noteOp(context, finding, late, fmt::format("{} stands behind it", text(late)));
    Program apart = program;
    Op &split = apart.ops[std::max(member, other)];
    split.flags = static_cast<uint8_t>((split.flags & ~GroupFollower) | GroupFirst);
    const bool helps = !stuckUnder(apart, rules) && !stuckUnder(apart, strict);
    finding.fix.message = helps
                              ? fmt::format("split the group before {}", text(std::max(member, other)))
                              : "groups = independent; in the cluster, if members complete each on its own; "
                                "splitting this group alone is not enough";
    return;
  }
}

/// Whether the two ops of a hop are both sends, or both receives, between the same two devices.
bool DeadlockCheck::sharesChannel(const WaitHop &hop) const {
  const Op &stands = program.ops[hop.stands], &needed = program.ops[hop.needed];
  if (!stands.isCommunication() || !needed.isCommunication() || stands.isSend() != needed.isSend())
    return false;
  return program.deviceOf(program.peerStageOf(hop.stands), stands.microbatch) ==
         program.deviceOf(program.peerStageOf(hop.needed), needed.microbatch);
}

void DeadlockCheck::waitOutOfOrder(const WaitCycle &cycle) {
  // Of other shapes than this rule's, nothing is known to be wrong.
  if (cycle.size() != 1 || !program.ops[cycle[0].needed].isWait() || !sharesChannel(cycle[0]))
    return;
  const WaitHop &hop = cycle[0];
  Finding &finding = reportAt(Rule::WaitOutOfOrder, hop.stands,
                              {{"op", bareText(hop.stands)}, {"earlier", bareText(hop.needed)}});
  noteHops(context, cycle, 0, finding);
  finding.fix.message = program.ops[hop.stands].isWait()
                            ? "wait in the order of the starts"
                            : fmt::format("{} before {}", text(hop.needed), text(hop.stands));
}

void verifyCompletion(VerifyContext &context) {
  if (context.program.isExplicit)
    DeadlockCheck(context).run();
}

} // namespace sluice
