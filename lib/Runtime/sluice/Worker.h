// One worker: a device of a replica, its slots, and the loop that carries out the rows of its table.
//
// A boundary slot belongs to the transport from the start of a send or receive until the wait for it: a Wait
// row, or where there is none the next use of the slot, so a device goes on while its messages travel.
#pragma once

#include "Joint.h"
#include "Operands.h"
#include "Requirements.h"

namespace sluice::runtime {

struct Stopped {}; // thrown by a worker to itself: another one has failed

template <class Stage, Uses uses, class Transport, class Observer> class Worker {
public:
  using Boundary = typename Stage::Boundary;
  using Saved = typename Stage::Saved;
  using Pending = typename PendingOf<Stage>::type;
  using Host = typename HostOf<Stage>::type;
  using Carry = typename CarryOf<Stage>::type;

  /// Worker `worker` of the network, which is of replica `replica`.
  Worker(const Tables &tables, const JointPlan &plan, uint32_t worker, uint32_t replica, uint64_t seed,
         Supervisor &supervisor, Transport &transport, Observer &observer)
      : tables(tables), worker(worker), device(worker % static_cast<uint32_t>(tables.devices.size())),
        replica(replica), firstWorker(worker - device),
        firstChannel(firstWorker / static_cast<uint32_t>(tables.devices.size()) *
                     static_cast<uint32_t>(tables.channels.size())),
        rows(tables.devices[device].instructions), seed(seed), supervisor(supervisor),
        waiter(supervisor.waiter(worker)), transport(transport), observer(observer),
        boundaries(tables.devices[device].boundaries), saveds(tables.devices[device].saveds),
        pendings(tables.devices[device].pendings), hosts(tables.devices[device].hosts),
        carries(tables.devices[device].carries), open(boundaries.size()), copies(tables.stages),
        joint(plan, tables, worker, transport) {
    operands.reserve(tables.skips.size());
  }

  void hold(const Copy &copy, Stage &stage) {
    Held &held = copies[copy.stage];
    held.stage = &stage;
    held.versions.resize(copy.versions);
    for (uint32_t version = 0; version < copy.versions; ++version)
      held.versions[version] = version;
    held.newestAtEnd = copy.newest;
    for (const Copy &other : tables.copies) // the lowest device counts this stage in a norm
      held.isCounted &= other.stage != copy.stage || other.device >= device;
    held.isCounted &= replica == 0 || tables.reduction.sharded;
    here.push_back(copy.stage);
    if constexpr (requires { stage.prepare(std::span<Boundary>(), std::span<Saved>()); })
      stage.prepare(std::span<Boundary>(boundaries), std::span<Saved>(saveds));
  }

  /// Runs `count` steps from `first` on; never throws, but tells the supervisor.
  void run(uint64_t first, uint64_t count) noexcept {
    try {
      for (uint64_t step = first; step < first + count; ++step) {
        runStep(step);
        if constexpr (uses.versions)
          renameVersions();
      }
      for (uint32_t slot = 0; slot < boundaries.size(); ++slot)
        boundary(slot);
      if constexpr (reducesByPacking<Stage>)
        joint.drain(static_cast<uint32_t>(rows.size()) - 1, awaiting());
    } catch (const Stopped &) {
    } catch (...) {
      supervisor.fail(worker, std::current_exception());
    }
    supervisor.finish(worker);
  }

private:
  static constexpr bool hasOperands = uses.skips || uses.carries || uses.versions || uses.factors;

  struct OpenRequest {
    std::optional<typename Transport::Request> request;
    uint32_t row = 0; ///< That started it.
  };
  struct Held {
    Stage *stage = nullptr;
    std::vector<uint32_t> versions; ///< What the table's versions are called in this step.
    uint32_t newest = 0, newestAtEnd = 0;
    bool isCounted = true;
  };
  void runStep(uint64_t step) {
    keyOfStep = randomKeyOfStep(seed, step);
    for (uint32_t index = 0; index < rows.size(); ++index) {
      const Instruction &row = rows[index];
      if constexpr (hasOperands)
        if (isOperand(row.op)) {
          operands.collect(row);
          continue;
        }
      supervisor.reach(worker, step, index);
      if (supervisor.stopping())
        throw Stopped();
      const Context context = contextOf(row, step, index);
      observer.onBegin(context);
      carryOut(row, context);
      observer.onEnd(context);
      if constexpr (hasOperands)
        operands.forget();
    }
  }

  Context contextOf(const Instruction &row, uint64_t step, uint32_t index) const {
    const bool hasMicrobatch = row.microbatch != noMicrobatch;
    const Op of = row.op == Op::Wait ? static_cast<Op>(row.b) : row.op;
    const uint32_t keyMicrobatch =
        hasMicrobatch ? replica * tables.microbatches + row.microbatch : noMicrobatch;
    return {.op = row.op,
            .device = device,
            .replica = replica,
            .stage = row.stage,
            .microbatch = row.microbatch,
            .split = hasMicrobatch && tables.splits > 1 ? row.microbatch % tables.splits : 0,
            .step = step,
            .index = index,
            .savedSlot = usesSaved(of) ? row.c : noSlot,
            .pendingSlot = usesPending(row.op) ? row.d : noSlot,
            .firstStage = row.stage == 0,
            .lastStage = row.stage + 1u == tables.stages,
            .firstContribution = (row.flags & FirstContribution) != 0,
            .lastContribution = (row.flags & LastContribution) != 0,
            .keepInput = (row.flags & KeepInput) != 0,
            .keepNothing = (row.flags & KeepNothing) != 0,
            .isStarted = (row.flags & Started) != 0,
            .isLocal = (row.flags & Local) != 0,
            .lossFactor = hasMicrobatch ? tables.lossFactor[row.microbatch] : 0,
            .factor = factorOf(row),
            .randomKey = randomKey(keyOfStep, row.stage, keyMicrobatch),
            .weights = versionOf(row, row.op == Op::Update ? row.a : operands.weights),
            .newWeights = versionOf(row, row.op == Op::Update ? row.b : noSlot),
            .skip = isMessage(row.op) ? row.c : noSlot,
            .tie = of == Op::ReduceTied ? row.d : noWeight,
            .member = 0,
            .of = of};
  }
  static constexpr bool usesSaved(Op op) {
    return op == Op::Forward || op == Op::Backward || op == Op::BackwardInput || op == Op::Recompute ||
           op == Op::Drop || op == Op::Offload || op == Op::Reload;
  }
  static constexpr bool usesPending(Op op) { return op == Op::BackwardInput || op == Op::BackwardWeight; }
  double factorOf(const Instruction &row) const {
    if constexpr (uses.scale)
      if (row.op == Op::Scale)
        return tables.factors[row.d];
    if constexpr (uses.factors)
      if (operands.factor != noSlot)
        return tables.factors[operands.factor];
    return 1;
  }
  uint32_t versionOf(const Instruction &row, uint32_t version) const {
    if constexpr (uses.versions) {
      const Held &held = copies[row.stage];
      if (!held.versions.empty())
        return held.versions[version == noSlot ? held.newest : version];
    }
    return 0;
  }
  // The next step finds the newest weights where this one found them, whatever slot they are in.
  void renameVersions() {
    for (uint32_t stage : here) {
      Held &held = copies[stage];
      std::swap(held.versions[0], held.versions[held.newestAtEnd]);
      held.newest = 0;
    }
  }

  void carryOut(const Instruction &row, const Context &context) {
    switch (row.op) {
    case Op::Load:
      return stageOf(row).load(context, boundary(row.a));
    case Op::Forward:
      return withOperands([&](auto &...more) {
        stageOf(row).forward(context, std::as_const(boundary(row.a)), boundary(row.b), saved(row.c), more...);
      });
    case Op::Loss:
      if constexpr (uses.backward || uses.splitBackward)
        stageOf(row).loss(context, std::as_const(boundary(row.a)), boundary(row.b));
      return;
    case Op::Backward:
      if constexpr (uses.backward)
        withOperands([&](auto &...more) {
          stageOf(row).backward(context, std::as_const(boundary(row.a)), saved(row.c), boundary(row.b),
                                more...);
        });
      return;
    case Op::BackwardInput:
      if constexpr (uses.splitBackward)
        withOperands([&](auto &...more) {
          stageOf(row).backwardInput(context, std::as_const(boundary(row.a)), saved(row.c), boundary(row.b),
                                     pendings[row.d], more...);
        });
      return;
    case Op::BackwardWeight:
      if constexpr (uses.splitBackward)
        stageOf(row).backwardWeight(context, pendings[row.d]);
      return;
    case Op::Recompute:
      if constexpr (uses.recompute)
        withOperands([&](auto &...more) {
          stageOf(row).recompute(context, std::as_const(boundary(row.a)), saved(row.c), more...);
        });
      return;
    case Op::Drop:
      return drop(stageOf(row), context, row);
    case Op::Offload:
      if constexpr (uses.offload)
        stageOf(row).offload(context, saved(row.c), hosts[row.d]);
      return;
    case Op::Reload:
      if constexpr (uses.offload)
        stageOf(row).reload(context, hosts[row.d], saved(row.c));
      return;
    case Op::Zero:
      if constexpr (uses.zero)
        stageOf(row).zero(context);
      return;
    case Op::Scale:
      if constexpr (uses.scale)
        stageOf(row).scale(context);
      return;
    case Op::Reduce:
    case Op::ReduceTied:
    case Op::Unshard:
      return begin(stageOf(row), context);
    case Op::Norm:
      if constexpr (uses.norm)
        norm(context);
      return;
    case Op::Update:
      if constexpr (uses.update)
        stageOf(row).update(context);
      if constexpr (uses.versions)
        if (row.b != noSlot)
          copies[row.stage].newest = row.b;
      return;
    case Op::Reshard:
      if constexpr (uses.unshard)
        stageOf(row).reshard(context);
      return;
    case Op::SendActivation:
    case Op::SendGradient:
    case Op::ReceiveActivation:
    case Op::ReceiveGradient:
      return message(row, context);
    case Op::Wait:
      return wait(row, context);
    case Op::SkipInput:
    case Op::SkipOutput:
    case Op::Carry:
    case Op::Weights:
    case Op::Factor:
      return; // with the row they stand before
    }
  }
  Stage &stageOf(const Instruction &row) { return *copies[row.stage].stage; }

  /// Calls `callback` with what the schedule hands over behind the usual arguments.
  template <class Callback> void withOperands(Callback &&callback) {
    operands.find([this](uint32_t slot) -> Boundary & { return boundary(slot); });
    const Skips<Boundary> skips = operands.skips();
    if constexpr (uses.skips && uses.carries)
      callback(skips, carry());
    else if constexpr (uses.skips)
      callback(skips);
    else if constexpr (uses.carries)
      callback(carry());
    else
      callback();
  }
  Carry &carry() { return operands.carry == noSlot ? unusedCarry : carries[operands.carry]; }

  void drop(Stage &stage, const Context &context, const Instruction &row) {
    if (row.d == noSlot)
      return drop(stage, context, saved(row.c));
    drop(stage, context, hosts[row.d]);
  }
  template <class Dropped> void drop(Stage &stage, const Context &context, Dropped &dropped) {
    if constexpr (requires { stage.drop(context, dropped); })
      stage.drop(context, dropped);
    else
      dropped = Dropped();
  }

  // Messages.

  void message(const Instruction &row, const Context &context) {
    if constexpr (requires { transport.beginGroup(worker); })
      if (row.flags & GroupFirst)
        transport.beginGroup(worker);
    const Channel &channel = tables.channels[row.b];
    const Message message{
        row.op,         firstChannel + row.b, firstWorker + channel.from, firstWorker + channel.to, row.stage,
        row.microbatch, context.step};
    Boundary &content = boundary(row.a);
    if (isSend(row.op)) {
      open[row.a].request = transport.startSend(message, content);
    } else {
      if constexpr (requires(Stage &stage) { stage.shape(context, content); })
        stageOf(row).shape(context, content);
      open[row.a].request = transport.startReceive(message, content);
    }
    open[row.a].row = context.index;
    if constexpr (requires { transport.endGroup(worker); })
      if (row.flags & GroupLast)
        transport.endGroup(worker);
  }

  /// The content of a slot, waiting first for the message that is still under way in it.
  Boundary &boundary(uint32_t slot) {
    if (slot == noSlot)
      return unusedBoundary;
    OpenRequest &entry = open[slot];
    if (entry.request) {
      const Channel &channel = tables.channels[rows[entry.row].b];
      await(entry.row, firstWorker + (channel.from == device ? channel.to : channel.from),
            [&](Waiter &waiter) { return transport.wait(*entry.request, waiter); });
      entry.request.reset();
    }
    return boundaries[slot];
  }
  Saved &saved(uint32_t slot) { return slot == noSlot ? unusedSaved : saveds[slot]; }

  /// Waits for what row `row` has started, and for `peer` to do its part.
  template <class Wait> void await(uint32_t row, uint32_t peer, Wait &&wait) {
    supervisor.beginWait(worker, row, peer);
    if constexpr (ObserverOfWaits<Observer>)
      observer.onWaitBegin(worker, row, peer);
    const bool isDone = wait(waiter);
    if constexpr (ObserverOfWaits<Observer>)
      observer.onWaitEnd(worker);
    supervisor.endWait(worker);
    if (!isDone)
      throw Stopped();
  }
  auto awaiting() {
    return [this](uint32_t row, uint32_t peer, auto &&wait) { this->await(row, peer, wait); };
  }

  void wait(const Instruction &row, const Context &context) {
    switch (context.of) {
    case Op::Offload:
    case Op::Reload:
      if constexpr (requires(Stage &stage) { stage.finish(context, saveds[0], hosts[0]); })
        return stageOf(row).finish(context, saved(row.c), hosts[row.d]);
      else
        return finish(stageOf(row), context);
    case Op::Reduce:
    case Op::ReduceTied:
    case Op::Unshard:
      return end(stageOf(row), context);
    default: {
      const OpenRequest &entry = open[row.a];
      if (!entry.request || rows[entry.row].op != context.of || rows[entry.row].microbatch != row.microbatch)
        throw std::logic_error("a wait for a message that is not under way in its slot");
      boundary(row.a);
    }
    }
  }
  void finish(Stage &stage, const Context &context) {
    if constexpr (requires { stage.finish(context); })
      stage.finish(context);
  }

  // Joint ops.

  void begin(Stage &stage, const Context &context) {
    if constexpr (reducesByPacking<Stage> && (uses.reduce || uses.tied || uses.unshard)) {
      if (joint.moves(context.op, context.stage, context.tie)) {
        joint.start(stage, context, awaiting());
        if (!context.isStarted)
          joint.wait(context.op, context.stage, context.tie, awaiting());
        return;
      }
    }
    if constexpr (uses.unshard)
      if (context.op == Op::Unshard)
        return stage.unshard(context);
    if constexpr (!reducesByPacking<Stage>) { // one member that packs has nothing to do
      if constexpr (uses.reduce)
        if (context.op == Op::Reduce)
          stage.reduce(context);
      if constexpr (uses.tied)
        if (context.op == Op::ReduceTied)
          stage.reduceTied(context);
      if (!context.isStarted)
        divide(stage, context);
    }
  }

  void end(Stage &stage, const Context &context) {
    if constexpr (reducesByPacking<Stage>) {
      if (joint.moves(context.of, context.stage, context.tie))
        return joint.wait(context.of, context.stage, context.tie, awaiting());
    }
    finish(stage, context);
    if constexpr (!reducesByPacking<Stage>)
      if (context.of != Op::Unshard)
        divide(stage, context);
  }

  /// A stage that reduces by itself only adds: the mean is taken here.
  void divide(Stage &stage, const Context &context) {
    if (tables.reduction.mean && tables.replicas > 1)
      JointOps<Stage, Transport>::scaleMean(stage, context, 1.0 / tables.replicas);
  }

  /// Each stage takes the norm of its own gradients. The lowest one here adds up those of the device, then
  /// those of all workers, and all stages here get the sum.
  void norm(Context context) {
    for (uint32_t stage : here) {
      context.stage = stage;
      context.firstStage = stage == 0;
      context.lastStage = stage + 1 == tables.stages;
      context.lastContribution = stage == here.back();
      context.member = context.isLocal || copies[stage].isCounted;
      copies[stage].stage->norm(context);
    }
    if (here.empty())
      return;
    if constexpr (reducesByPacking<Stage>) {
      Stage &lowest = *copies[here.front()].stage;
      for (size_t i = 1; i < here.size(); ++i) {
        copies[here[i]].stage->pack(ofStage(context, here[i]), normPart);
        lowest.add(ofStage(context, here.front()), std::as_const(normPart));
      }
      if (!context.isLocal && joint.moves(Op::Norm, 0, noWeight)) {
        joint.start(lowest, ofStage(context, here.front()), awaiting());
        joint.wait(Op::Norm, 0, noWeight, awaiting());
      }
      if (here.size() == 1)
        return;
      lowest.pack(ofStage(context, here.front()), normPart);
      for (size_t i = 1; i < here.size(); ++i)
        copies[here[i]].stage->unpack(ofStage(context, here[i]), std::as_const(normPart));
    }
  }
  Context ofStage(Context context, uint32_t stage) const {
    context.stage = stage;
    context.firstStage = stage == 0;
    context.lastStage = stage + 1 == tables.stages;
    context.member = 0;
    return context;
  }

  const Tables &tables;
  const uint32_t worker, device, replica, firstWorker, firstChannel;
  const std::span<const Instruction> rows;
  const uint64_t seed;
  uint64_t keyOfStep = 0;
  Supervisor &supervisor;
  Waiter &waiter;
  Transport &transport;
  Observer &observer;

  std::vector<Boundary> boundaries;
  std::vector<Saved> saveds;
  std::vector<Pending> pendings;
  std::vector<Host> hosts;
  std::vector<Carry> carries;
  std::vector<OpenRequest> open; // per boundary slot
  std::vector<Held> copies;      // per stage, empty where it is not here
  std::vector<uint32_t> here;    // stages, ascending
  Operands<Boundary, uses> operands;
  JointOps<Stage, Transport> joint;
  // Handed over where a callback has no use for the argument: the input gradient of the first stage, the
  // Saved of a forward that keeps less.
  Boundary unusedBoundary{};
  Saved unusedSaved{};
  Carry unusedCarry{};
  Boundary normPart{};
};

} // namespace sluice::runtime
