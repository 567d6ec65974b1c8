// One device at work: its slots, and the loop that carries out the rows of its table.
//
// A boundary slot belongs to the transport from the start of a send or receive until the wait for it. The
// wait is lazy: it happens where the slot is used next, so a device goes on while its messages travel.
#pragma once

#include "Requirements.h"

#include <optional>

namespace sluice::runtime {

/// Where the devices that hold a copy of a stage come together for its reduction. Copies are handed over in
/// the order of their devices and added by the lowest one, so that a sum is the same in every run.
template <class Stage> struct Meeting {
  std::vector<Stage *> copies;
  std::vector<uint32_t> devices;
  std::atomic<uint64_t> arrived = 0, completed = 0;
};

struct Stopped {}; // thrown by a worker to itself: another one has failed

template <class Stage, Uses uses, class Transport, class Observer> class Worker {
public:
  using Boundary = typename Stage::Boundary;
  using Saved = typename Stage::Saved;
  using Pending = typename PendingOf<Stage>::type;

  Worker(const Tables &tables, uint32_t device, uint64_t seed, Supervisor &supervisor, Transport &transport,
         Observer &observer)
      : tables(tables), rows(tables.devices[device].instructions), device(device), seed(seed),
        supervisor(supervisor), waiter(supervisor.waiter(device)), transport(transport), observer(observer),
        boundaries(tables.devices[device].boundaries), saveds(tables.devices[device].saveds),
        pendings(tables.devices[device].pendings), open(boundaries.size()), stages(tables.stages),
        meetings(tables.stages) {}

  void hold(uint32_t stage, Stage &copy, Meeting<Stage> &meeting) {
    stages[stage] = &copy;
    meetings[stage] = &meeting;
    if constexpr (requires { copy.prepare(std::span<Boundary>(), std::span<Saved>()); })
      copy.prepare(std::span<Boundary>(boundaries), std::span<Saved>(saveds));
  }

  /// Runs `count` steps from `first` on; never throws, but tells the supervisor.
  void run(uint64_t first, uint64_t count) noexcept {
    try {
      for (uint64_t step = first; step < first + count; ++step)
        runStep(step);
      for (uint32_t slot = 0; slot < boundaries.size(); ++slot)
        boundary(slot);
    } catch (const Stopped &) {
    } catch (...) {
      supervisor.fail(device, std::current_exception());
    }
    supervisor.finish(device);
  }

private:
  struct OpenRequest {
    std::optional<typename Transport::Request> request;
    uint32_t row = 0; ///< That started it.
  };

  void runStep(uint64_t step) {
    for (uint32_t index = 0; index < rows.size(); ++index) {
      supervisor.reach(device, step, index);
      if (supervisor.stopping())
        throw Stopped();
      const Context context = contextOf(rows[index], step, index);
      observer.onBegin(context);
      carryOut(rows[index], context);
      observer.onEnd(context);
    }
  }

  Context contextOf(const Instruction &row, uint64_t step, uint32_t index) const {
    const bool hasMicrobatch = row.microbatch != noMicrobatch;
    return {.op = row.op,
            .device = device,
            .replica = 0,
            .stage = row.stage,
            .microbatch = row.microbatch,
            .split = hasMicrobatch ? row.microbatch % tables.splits : 0,
            .step = step,
            .index = index,
            .savedSlot = usesSaved(row.op) ? row.c : noSlot,
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
            .factor = 1,
            .randomKey = randomKey(seed, step, row.stage, row.microbatch),
            .weights = 0,
            .newWeights = 0,
            .tie = noWeight,
            .member = 0,
            .of = row.op};
  }
  static constexpr bool usesSaved(Op op) {
    return op == Op::Forward || op == Op::Backward || op == Op::BackwardInput || op == Op::Recompute ||
           op == Op::Drop;
  }
  static constexpr bool usesPending(Op op) { return op == Op::BackwardInput || op == Op::BackwardWeight; }

  void carryOut(const Instruction &row, const Context &context) {
    Stage &stage = *stages[row.stage];
    switch (row.op) {
    case Op::Load:
      return stage.load(context, boundary(row.a));
    case Op::Forward:
      return stage.forward(context, boundary(row.a), boundary(row.b), saved(row.c));
    case Op::Loss:
      if constexpr (uses.backward || uses.splitBackward)
        stage.loss(context, boundary(row.a), boundary(row.b));
      return;
    case Op::Backward:
      if constexpr (uses.backward)
        stage.backward(context, boundary(row.a), saved(row.c), boundary(row.b));
      return;
    case Op::BackwardInput:
      if constexpr (uses.splitBackward)
        stage.backwardInput(context, boundary(row.a), saved(row.c), boundary(row.b), pendings[row.d]);
      return;
    case Op::BackwardWeight:
      if constexpr (uses.splitBackward)
        stage.backwardWeight(context, pendings[row.d]);
      return;
    case Op::Recompute:
      if constexpr (uses.recompute)
        stage.recompute(context, boundary(row.a), saved(row.c));
      return;
    case Op::Drop:
      return drop(stage, context, saved(row.c));
    case Op::Zero:
      if constexpr (uses.zero)
        stage.zero(context);
      return;
    case Op::Reduce:
      if constexpr (uses.reduce)
        reduce(stage, context);
      return;
    case Op::Update:
      if constexpr (uses.update)
        stage.update(context);
      return;
    case Op::Offload:
    case Op::Reload:
    case Op::Scale:
    case Op::ReduceTied:
    case Op::Norm:
    case Op::Unshard:
    case Op::Reshard:
    case Op::Wait:
    case Op::SkipInput:
    case Op::SkipOutput:
    case Op::Carry:
    case Op::Weights:
    case Op::Factor:
      throw std::logic_error("a row that this runtime does not carry out");
    case Op::SendActivation:
    case Op::SendGradient:
    case Op::ReceiveActivation:
    case Op::ReceiveGradient:
      return start(stage, row, context);
    }
  }

  void drop(Stage &stage, const Context &context, Saved &dropped) {
    if constexpr (requires { stage.drop(context, dropped); })
      stage.drop(context, dropped);
    else
      dropped = Saved();
  }

  void start(Stage &stage, const Instruction &row, const Context &context) {
    const Channel &channel = tables.channels[row.b];
    const Message message{row.op, row.b, channel.from, channel.to, row.stage, row.microbatch, context.step};
    Boundary &content = boundary(row.a);
    if (isSend(row.op)) {
      open[row.a].request = transport.startSend(message, content);
    } else {
      if constexpr (requires { stage.shape(context, content); })
        stage.shape(context, content);
      open[row.a].request = transport.startReceive(message, content);
    }
    open[row.a].row = context.index;
  }

  /// The content of a slot, waiting first for the message that is still under way in it.
  Boundary &boundary(uint32_t slot) {
    if (slot == noSlot)
      return unusedBoundary;
    OpenRequest &entry = open[slot];
    if (entry.request) {
      const Channel &channel = tables.channels[rows[entry.row].b];
      await(entry.row, channel.from == device ? channel.to : channel.from,
            [&] { return transport.wait(*entry.request, waiter); });
      entry.request.reset();
    }
    return boundaries[slot];
  }
  Saved &saved(uint32_t slot) { return slot == noSlot ? unusedSaved : saveds[slot]; }

  template <class Wait> void await(uint32_t row, uint32_t peer, Wait &&wait) {
    supervisor.beginWait(device, row, peer);
    if constexpr (ObserverOfWaits<Observer>)
      observer.onWaitBegin(device, row, peer);
    const bool isDone = wait();
    if constexpr (ObserverOfWaits<Observer>)
      observer.onWaitEnd(device);
    supervisor.endWait(device);
    if (!isDone)
      throw Stopped();
  }

  void reduce(Stage &stage, const Context &context) {
    Meeting<Stage> &meeting = *meetings[context.stage];
    if constexpr (ReducesCopies<Stage>) {
      if (meeting.copies.size() == 1)
        return stage.reduce(context, std::span<Stage *const>(meeting.copies));
      if constexpr (uses.copies)
        reduceCopies(stage, meeting, context);
    } else {
      stage.reduce(context);
    }
  }

  void reduceCopies(Stage &stage, Meeting<Stage> &meeting, const Context &context) {
    const uint64_t round = meeting.completed.load();
    const uint64_t all = (round + 1) * meeting.copies.size();
    const bool leads = device == meeting.devices.front();
    if (meeting.arrived.fetch_add(1) + 1 == all && !leads)
      supervisor.waiter(meeting.devices.front()).wake();
    if (!leads)
      return await(context.index, meeting.devices.front(),
                   [&] { return waiter.until([&] { return meeting.completed.load() > round; }); });

    await(context.index, meeting.devices.back(),
          [&] { return waiter.until([&] { return meeting.arrived.load() == all; }); });
    stage.reduce(context, std::span<Stage *const>(meeting.copies));
    meeting.completed.store(round + 1);
    for (uint32_t other : meeting.devices)
      supervisor.waiter(other).wake();
  }

  const Tables &tables;
  const std::span<const Instruction> rows;
  const uint32_t device;
  const uint64_t seed;
  Supervisor &supervisor;
  Waiter &waiter;
  Transport &transport;
  Observer &observer;

  std::vector<Boundary> boundaries;
  std::vector<Saved> saveds;
  std::vector<Pending> pendings;
  std::vector<OpenRequest> open; // per boundary slot
  std::vector<Stage *> stages;   // per stage, null where it is not here
  std::vector<Meeting<Stage> *> meetings;
  // Handed over where a callback has no use for the argument: the input gradient of the first stage, the
  // Saved of a forward that keeps less.
  Boundary unusedBoundary{};
  Saved unusedSaved{};
};

} // namespace sluice::runtime
