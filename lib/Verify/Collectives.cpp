// 304 collective-order and 305 collective-missing: reductions of stages with copies on several devices, of
// tied weights, and norms. Each call waits for its partners, and calls over the same devices are served in
// order, so they stick unless those devices issue them equally often and in one order. A started call counts
// where it is started.
#include "Verify/Faults.h"
#include "Verify/Order.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace sluice {

namespace {

/// What calls pair by, the n-th on each member: `reduce(2)`, `reduce_tied(embedding)`, `norm`.
struct CallName {
  OpKind kind;
  uint32_t index; ///< Of the stage, of the tied weight, or 0.

  explicit CallName(const Op &op)
      : kind(op.kind), index(kind == OpKind::Norm         ? 0
                             : kind == OpKind::ReduceTied ? op.microbatch
                                                          : op.stage) {}
  friend bool operator==(const CallName &, const CallName &) = default;
  friend bool operator<(const CallName &a, const CallName &b) {
    return std::pair(a.kind, a.index) < std::pair(b.kind, b.index);
  }
};

/// Calls over one set of devices, per member in program order.
struct Channel {
  std::vector<uint32_t> devices;
  std::vector<std::vector<OpId>> calls;
};

} // namespace

static bool isCall(const Op &op) {
  return (op.kind == OpKind::Reduce || op.kind == OpKind::ReduceTied ||
          (op.kind == OpKind::Norm && !op.has(Local))) &&
         !op.isWait();
}

static std::vector<Channel> channelsOf(const VerifyContext &context) {
  const Program &program = context.program;
  std::vector<Channel> channels;
  std::map<std::vector<uint32_t>, size_t> known;
  auto channelFor = [&](std::vector<uint32_t> devices) {
    auto [found, isNew] = known.try_emplace(devices, channels.size());
    if (isNew)
      channels.push_back({std::move(devices), std::vector<std::vector<OpId>>(found->first.size())});
    return found->second;
  };
  std::vector<size_t> ofStage, ofWeight;
  for (uint32_t s = 0; s < program.stages; ++s)
    ofStage.push_back(channelFor(context.copies.devicesOf(s).vec()));
  for (uint32_t weight = 0; weight < program.ties.size(); ++weight)
    ofWeight.push_back(channelFor(program.membersOf({OpKind::ReduceTied, 0, 0, weight})));
  const size_t ofNorm = channelFor(program.membersOf({OpKind::Norm}));
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      const Op &op = program.ops[id];
      if (!isCall(op))
        continue;
      Channel &channel = channels[op.kind == OpKind::Norm         ? ofNorm
                                  : op.kind == OpKind::ReduceTied ? ofWeight[op.microbatch]
                                                                  : ofStage[op.stage]];
      // A call on a device that holds nothing of it is misplaced (802), and joins no one.
      const auto member = llvm::lower_bound(channel.devices, device);
      if (channel.devices.size() > 1 && member != channel.devices.end() && *member == device)
        channel.calls[member - channel.devices.begin()].push_back(id);
    }
  return channels;
}

/// A name that some device calls more often than another: the first call that finds no partner.
static void findUnequalCounts(const VerifyContext &context, const Channel &channel,
                              std::vector<Fault> &faults) {
  std::map<CallName, std::vector<std::vector<OpId>>> callsOf; // per name and member
  for (size_t member = 0; member < channel.devices.size(); ++member)
    for (OpId call : channel.calls[member]) {
      std::vector<std::vector<OpId>> &calls = callsOf[CallName(context.program.ops[call])];
      calls.resize(channel.devices.size());
      calls[member].push_back(call);
    }
  for (auto &[name, calls] : callsOf) {
    auto fewer = [](const auto &a, const auto &b) { return a.size() < b.size(); };
    auto least = std::min_element(calls.begin(), calls.end(), fewer);
    auto most = std::max_element(calls.begin(), calls.end(), fewer);
    if (least->size() == most->size())
      continue;
    OpId waiting = (*most)[least->size()];
    faults.push_back({Rule::CollectiveMissing, 0, channel.devices[most - calls.begin()],
                      context.program.ops[waiting].stage, noMicrobatch, waiting,
                      channel.devices[least - calls.begin()]});
  }
}

static void reportMissing(VerifyContext &context, const FaultGroup &group) {
  const Fault &first = group.front();
  const uint32_t lacking = first.other;
  auto callsOn = [&](uint32_t device) {
    uint64_t calls = llvm::count_if(context.program.opsOf(device), [&](const Op &op) {
      return isCall(op) && CallName(op) == CallName(context.program.ops[first.op]);
    });
    static constexpr const char *few[] = {"never", "once", "twice"};
    return calls < std::size(few) ? std::string(few[calls]) : fmt::format("{} times", calls);
  };
  const std::string op = opText(context, first.op);
  Finding &finding = report(
      context, group,
      {{"op", op},
       {"devices", listed("device", "devices", context.program.membersOf(context.program.ops[first.op]))},
       {"device", fmt::format("{}", lacking)},
       {"count", callsOn(lacking)},
       {"expected", callsOn(first.device)}});
  if (context.program.programSpan[lacking].isValid())
    finding.notes.push_back({fmt::format("the program of device {}", lacking),
                             context.program.programSpan[lacking], lacking, ""});
  noteOthers(context, group, false, finding);
  finding.fix.message = fmt::format("add {} to device {}", op, lacking);
}

/// The first call that two members issue as different ones.
static void findOtherOrder(const VerifyContext &context, const Channel &channel, std::vector<Fault> &faults) {
  const std::vector<OpId> &first = channel.calls.front();
  for (const std::vector<OpId> &other : llvm::ArrayRef(channel.calls).drop_front())
    for (size_t i = 0; i < std::min(first.size(), other.size()); ++i)
      if (const Op &op = context.program.ops[first[i]];
          !(CallName(op) == CallName(context.program.ops[other[i]]))) {
        faults.push_back(
            {Rule::CollectiveOrder, 0, channel.devices.front(), op.stage, noMicrobatch, first[i], other[i]});
        return;
      }
}

static void reportOrder(VerifyContext &context, const FaultGroup &group, llvm::ArrayRef<Channel> channels) {
  const Fault &first = group.front();
  const uint32_t elsewhere = context.program.deviceOf(first.other);
  const std::vector<uint32_t> devices = context.program.membersOf(context.program.ops[first.op]);
  const Channel &channel = *llvm::find_if(channels, [&](const Channel &c) { return c.devices == devices; });
  auto number = llvm::find(channel.calls.front(), first.op) - channel.calls.front().begin();
  const std::string op = opText(context, first.op), other = opText(context, first.other);
  Finding &finding = report(context, group,
                            {{"number", fmt::format("{}", number)},
                             {"devices", listed("device", "devices", devices)},
                             {"op", op},
                             {"device", fmt::format("{}", first.device)},
                             {"other", other},
                             {"elsewhere", fmt::format("{}", elsewhere)}});
  noteOp(context, finding, first.other, fmt::format("device {} calls {} instead", elsewhere, other));
  noteOthers(context, group, false, finding);
  finding.fix.message = "issue them in one order on all devices, for instance by stage or name";
}

bool verifyCollectives(VerifyContext &context) {
  if (!context.copies.isAnyShared() && context.program.ties.empty() &&
      !(context.kinds & kindBit(OpKind::Norm)))
    return true;
  const std::vector<Channel> channels = channelsOf(context);
  std::vector<Fault> missing, order;
  for (const Channel &channel : channels) {
    if (channel.devices.size() < 2)
      continue;
    const size_t before = missing.size();
    findUnequalCounts(context, channel, missing);
    if (missing.size() == before)
      findOtherOrder(context, channel, order);
  }
  const bool isClean = missing.empty() && order.empty();
  keepFirstCauses(context, Scope::Copy, {}, missing);
  keepFirstCauses(context, Scope::Copy, {}, order);
  for (const FaultGroup &group : groupByLine(context, missing))
    reportMissing(context, group);
  for (const FaultGroup &group : groupByLine(context, order))
    reportOrder(context, group, channels);
  // All members stand still for one reason.
  for (const Fault &fault : llvm::concat<Fault>(missing, order))
    for (uint32_t device : context.program.membersOf(context.program.ops[fault.op])) {
      Fault shared = fault;
      shared.device = device;
      // A weight that is tied is missed in the updates of all its stages.
      const Op &call = context.program.ops[fault.op];
      std::vector<uint32_t> stages = {call.stage};
      if (call.kind == OpKind::ReduceTied)
        stages = context.program.ties[call.microbatch].stages;
      for (uint32_t stage : stages) {
        shared.stage = stage;
        blame(context, shared);
      }
    }
  return isClean;
}

} // namespace sluice
