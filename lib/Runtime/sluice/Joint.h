// Joint ops: what the copies of a stage, the stages of a tied weight, the replicas of a device or all workers
// do together. Every member sends its part to every other and adds all of them up itself, in ascending order
// of members, so that all hold the same sum, with the same bits in every run, and nobody leads.
//
// Parts are sent where the op starts and received where it is waited for. So it completes on a member as soon
// as all have started it, whatever they do until their own wait.
#pragma once

#include "StageTypes.h"
#include "Supervisor.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::runtime {

constexpr bool isJoint(Op op) {
  return op == Op::Reduce || op == Op::ReduceTied || op == Op::Norm || op == Op::Unshard;
}

/// Workers that have joint ops with each other, ascending, and a line from each to each other.
struct JointSet {
  std::vector<uint32_t> members;
  uint32_t firstLine = 0;
  uint32_t open = 0; ///< Most calls that are open at once.

  uint32_t line(uint32_t from, uint32_t to) const {
    const uint32_t others = static_cast<uint32_t>(members.size()) - 1;
    return firstLine + from * others + (to < from ? to : to - 1);
  }
};

/// A joint op of a schedule, by its name.
struct JointOp {
  uint32_t set = 0;
  /// Calls whose parts may be under way at once. Two where a step has several started ones: the one after
  /// next only begins when all have finished this one.
  uint32_t depth = 1;
};

/// All joint ops that move something, and who takes part.
class JointPlan {
public:
  JointPlan() = default;
  /// Lines are numbered from `firstLine` on.
  JointPlan(const Tables &tables, uint32_t replicas, uint32_t firstLine) : tables(&tables), lines(firstLine) {
    for (uint32_t device = 0; device < tables.devices.size(); ++device) {
      std::map<Key, uint32_t> calls, starts;
      for (const Instruction &row : tables.devices[device].instructions) {
        if (!isJoint(row.op) || (row.flags & Local))
          continue;
        const Key key = keyOf(row.op, row.stage, row.d, device);
        add(key, replicas);
        ++calls[key];
        starts[key] += (row.flags & Started) != 0;
      }
      for (const auto &[key, count] : calls)
        if (const auto found = ops.find(key); found != ops.end() && count > 1 && starts[key] > 0)
          found->second.depth = 2;
    }
    for (const auto &[key, op] : ops)
      sets_[op.set].open += op.depth;
  }

  /// `op` of a stage, or of a tied weight, on a device; null where nothing moves.
  const JointOp *find(Op op, uint32_t stage, uint32_t tie, uint32_t device) const {
    const auto found = ops.find(keyOf(op, stage, tie, device));
    return found == ops.end() ? nullptr : &found->second;
  }
  std::span<const JointSet> sets() const { return sets_; }

private:
  using Key = std::tuple<Op, uint32_t, uint32_t>;
  static Key keyOf(Op op, uint32_t stage, uint32_t tie, uint32_t device) {
    return {op, op == Op::ReduceTied ? tie : op == Op::Norm ? 0 : stage, op == Op::Unshard ? device : 0};
  }

  void add(const Key &key, uint32_t replicas) {
    if (ops.contains(key))
      return;
    std::vector<uint32_t> members;
    const std::vector<uint32_t> devices = devicesOf(key);
    for (uint32_t replica = 0; replica < replicas; ++replica)
      for (uint32_t device : devices)
        members.push_back(replica * static_cast<uint32_t>(tables->devices.size()) + device);
    const Op op = std::get<0>(key);
    const bool isCopied = tables->reduction.copied && (op == Op::Reduce || op == Op::ReduceTied);
    if (members.size() > 1 || isCopied)
      ops.emplace(key, JointOp{setOf(std::move(members))});
  }

  /// Ascending. A device without stages adds nothing to a norm, and takes no part.
  std::vector<uint32_t> devicesOf(const Key &key) const {
    const auto [op, of, at] = key;
    if (op == Op::Unshard)
      return {at};
    std::vector<uint32_t> devices;
    for (const Copy &copy : tables->copies)
      if (op == Op::Norm || (op == Op::Reduce ? copy.stage == of : isTied(copy.stage, of)))
        devices.push_back(copy.device);
    std::ranges::sort(devices);
    devices.erase(std::ranges::unique(devices).begin(), devices.end());
    return devices;
  }
  bool isTied(uint32_t stage, uint32_t tie) const {
    for (uint32_t member : tables->ties[tie].stages)
      if (member == stage)
        return true;
    return false;
  }

  uint32_t setOf(std::vector<uint32_t> members) {
    const auto [found, isNew] = numbers.try_emplace(members, static_cast<uint32_t>(sets_.size()));
    if (isNew) {
      const uint32_t count = static_cast<uint32_t>(members.size());
      sets_.push_back({std::move(members), lines, 0});
      lines += count * (count - 1);
    }
    return found->second;
  }

  const Tables *tables = nullptr;
  uint32_t lines = 0;
  std::map<Key, JointOp> ops;
  std::vector<JointSet> sets_;
  std::map<std::vector<uint32_t>, uint32_t> numbers;
};

/// The joint ops of one worker: their parts, and those that are open. `await(row, peer, wait)` as in Worker.
template <class Stage, class Transport> class JointOps {
  using Boundary = typename Stage::Boundary;

public:
  JointOps(const JointPlan &plan, const Tables &tables, uint32_t worker, Transport &transport)
      : transport(transport), meanFactor(1.0 / tables.replicas), worker(worker), sets(plan.sets().size()) {
    for (size_t number = 0; number < sets.size(); ++number) {
      sets[number].plan = &plan.sets()[number];
      sets[number].open.resize(sets[number].plan->open);
    }
    numbers.assign(2 * tables.stages + tables.ties.size() + 1, none);
    isMean = tables.reduction.mean && tables.replicas > 1;
    stages = tables.stages;
    const uint32_t device = worker % static_cast<uint32_t>(tables.devices.size());
    for (const Instruction &row : tables.devices[device].instructions)
      if (isJoint(row.op) && numbers[placeOf(row.op, row.stage, row.d)] == none)
        if (const JointOp *op = plan.find(row.op, row.stage, row.d, device))
          add(placeOf(row.op, row.stage, row.d), *op);
  }

  /// True if this op moves something between workers.
  bool moves(Op op, uint32_t stage, uint32_t tie) const { return numbers[placeOf(op, stage, tie)] != none; }

  template <class Await> void start(Stage &stage, const Context &context, Await &&await) {
    Call &call = calls[numbers[placeOf(context.op, context.stage, context.tie)]];
    Set &set = sets[call.set];
    while (call.started - call.finished == call.depth)
      finishOldest(set, await);
    Context each = context;
    for (uint32_t member = 0; member < set.plan->members.size(); ++member) {
      Part &part = call.parts[partOf(call, member)];
      settle(part, set, member, context.index, await);
      each.member = member;
      stage.pack(each, part.content);
    }
    post(call, set, stage, context);
    set.open[(set.first + set.count++) % set.open.size()] = {static_cast<uint32_t>(&call - calls.data()),
                                                             &stage, context};
    ++call.started;
  }

  /// Ends the oldest call that has been started and not been waited for.
  template <class Await> void wait(Op op, uint32_t stage, uint32_t tie, Await &&await) {
    Call &call = calls[numbers[placeOf(op, stage, tie)]];
    ++call.waited;
    while (call.finished < call.waited)
      finishOldest(sets[call.set], await);
  }

  /// Until nothing that was sent is under way.
  template <class Await> void drain(uint32_t row, Await &&await) {
    for (Call &call : calls)
      for (size_t number = 0; number < call.parts.size(); ++number)
        settle(call.parts[number], sets[call.set],
               static_cast<uint32_t>(number % sets[call.set].plan->members.size()), row, await);
  }

private:
  static constexpr uint32_t none = ~0u;
  // One serial queue: sends and receives of an op are one group, so that neither stands behind the other.
  static constexpr bool postsTogether = Transport::channelModel == ChannelModel::rendezvousPair ||
                                        Transport::channelModel == ChannelModel::rendezvousDevice;

  /// What goes to one other member, or stays here for this one.
  struct Part {
    Boundary content{};
    std::optional<typename Transport::Request> request;
  };
  struct Call {
    uint32_t set, depth;
    uint64_t started = 0, finished = 0, waited = 0;
    std::vector<Part> parts;    // depth × members
    std::vector<Part> arriving; // one, or where all are posted together, as parts
  };
  struct Open {
    uint32_t call = 0;
    Stage *stage = nullptr;
    Context context{};
  };
  struct Set {
    const JointSet *plan = nullptr;
    uint32_t me = 0;
    std::vector<Open> open; // a ring of `count` from `first`: parts arrive in the order of starts
    size_t first = 0, count = 0;
  };

  size_t placeOf(Op op, uint32_t stage, uint32_t tie) const {
    switch (op) {
    case Op::Reduce:
      return stage;
    case Op::Unshard:
      return stages + stage;
    case Op::ReduceTied:
      return 2 * stages + 1 + tie;
    default:
      return 2 * stages;
    }
  }

  void add(size_t place, const JointOp &op) {
    Set &set = sets[op.set];
    const size_t members = set.plan->members.size();
    const auto me = std::ranges::find(set.plan->members, worker);
    if (me == set.plan->members.end())
      return;
    set.me = static_cast<uint32_t>(me - set.plan->members.begin());
    numbers[place] = static_cast<uint32_t>(calls.size());
    Call &call = calls.emplace_back();
    call.set = op.set;
    call.depth = op.depth;
    call.parts.resize(op.depth * members);
    call.arriving.resize(postsTogether ? op.depth * members : 1);
  }

  size_t partOf(const Call &call, uint32_t member) const {
    return (call.started % call.depth) * sets[call.set].plan->members.size() + member;
  }

  template <class Await>
  void settle(Part &part, const Set &set, uint32_t member, uint32_t row, Await &&await) {
    if (!part.request)
      return;
    await(row, set.plan->members[member],
          [&](Waiter &waiter) { return transport.wait(*part.request, waiter); });
    part.request.reset();
  }

  void post(Call &call, Set &set, Stage &stage, const Context &context) {
    if constexpr (postsTogether && requires { transport.beginGroup(worker); })
      transport.beginGroup(worker);
    for (uint32_t member = 0; member < set.plan->members.size(); ++member) {
      if (member == set.me)
        continue;
      Part &part = call.parts[partOf(call, member)];
      part.request = transport.startSend(message(set, set.me, member, context), part.content);
      if constexpr (postsTogether)
        receive(call.arriving[partOf(call, member)], set, member, stage, context);
    }
    if constexpr (postsTogether && requires { transport.endGroup(worker); })
      transport.endGroup(worker);
  }

  void receive(Part &part, const Set &set, uint32_t member, Stage &stage, const Context &context) {
    if constexpr (requires { stage.shape(context, part.content); }) {
      Context each = context;
      each.member = member;
      stage.shape(each, part.content);
    }
    part.request = transport.startReceive(message(set, member, set.me, context), part.content);
  }

  Message message(const Set &set, uint32_t from, uint32_t to, const Context &context) const {
    return {context.op,
            set.plan->line(from, to),
            set.plan->members[from],
            set.plan->members[to],
            context.stage,
            noMicrobatch,
            context.step};
  }

  template <class Await> void finishOldest(Set &set, Await &&await) {
    const Open open = set.open[set.first];
    set.first = (set.first + 1) % set.open.size();
    --set.count;
    Call &call = calls[open.call];
    const size_t round = (call.finished % call.depth) * set.plan->members.size();
    Context each = open.context;
    for (uint32_t member = 0; member < set.plan->members.size(); ++member) {
      each.member = member;
      Part *part = &call.parts[round + member];
      if (member != set.me) {
        part = &call.arriving[postsTogether ? round + member : 0];
        if constexpr (!postsTogether)
          receive(*part, set, member, *open.stage, open.context);
        settle(*part, set, member, open.context.index, await);
      }
      if (member == 0 || each.op == Op::Unshard)
        open.stage->unpack(each, std::as_const(part->content));
      else
        open.stage->add(each, std::as_const(part->content));
    }
    ++call.finished;
    complete(*open.stage, open.context);
  }

  void complete(Stage &stage, const Context &context) {
    if constexpr (requires { stage.unshard(context); })
      if (context.op == Op::Unshard)
        stage.unshard(context);
    if (isMean && (context.op == Op::Reduce || context.op == Op::ReduceTied))
      scaleMean(stage, context, meanFactor);
  }

public:
  /// Divides what a reduction has left by the number of replicas.
  static void scaleMean(Stage &stage, Context context, double factor) {
    if constexpr (requires { stage.scale(context); }) {
      context.of = context.of == Op::ReduceTied ? Op::ReduceTied : Op::Reduce;
      context.op = Op::Scale;
      context.factor = factor;
      stage.scale(context);
    }
  }

private:
  Transport &transport;
  const double meanFactor;
  const uint32_t worker;
  bool isMean = false;
  size_t stages = 0;
  std::vector<Set> sets;
  std::vector<Call> calls;
  std::vector<uint32_t> numbers; // of calls, by placeOf
};

} // namespace sluice::runtime
