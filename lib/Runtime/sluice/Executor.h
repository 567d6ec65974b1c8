// Runs a schedule: one worker for each device of each replica, one thread for each worker that is in this
// process.
//
//   sluice::runtime::Executor<MyStage, one_f_one_b::Schedule> executor(
//       one_f_one_b::schedule, [&](const Copy &copy) { return std::make_unique<MyStage>(copy.stage); });
//   executor.run(100); // steps
//
// The executor owns one stage object per copy of a stage and replica, all slots, the transport and the
// observer, and outlives all its threads: `run` returns, or throws ExecutionError, after every worker has
// ended. A stage object is used by one thread at a time; callbacks of different devices run at the same time.
#pragma once

#include "Expand.h"
#include "Worker.h"

namespace sluice::runtime {

struct Options {
  uint64_t seed = 0; ///< Of Context::randomKey.
  /// A run in which all workers wait, and none has moved for this long, ends with an error; 0: never.
  std::chrono::milliseconds noProgressLimit{10'000};
  /// Data-parallel replicas that this executor runs. 0: all that the schedule has; 1: its own, whose number
  /// is `replica`, while the stages reach the others by themselves (reducesByItself).
  uint32_t replicas = 0;
  uint32_t replica = 0;
  /// Turns of a wait before its thread parks: first spinning, then yielding. Unset: 20 where there is a core
  /// to spare, and 200. Threads that own their cores wait fastest with many spins; 0 and 0 park at once.
  std::optional<unsigned> spins = {}, yields = {};
};

/// What does not depend on the types of stage and transport.
namespace detail {

constexpr bool isUsed(const Uses &uses, Op op) {
  switch (op) {
  case Op::Loss:
    return uses.backward || uses.splitBackward;
  case Op::Backward:
    return uses.backward;
  case Op::BackwardInput:
  case Op::BackwardWeight:
    return uses.splitBackward;
  case Op::Recompute:
    return uses.recompute;
  case Op::Offload:
  case Op::Reload:
    return uses.offload;
  case Op::Zero:
    return uses.zero;
  case Op::Scale:
    return uses.scale;
  case Op::Reduce:
    return uses.reduce;
  case Op::ReduceTied:
    return uses.tied;
  case Op::Norm:
    return uses.norm;
  case Op::Update:
    return uses.update;
  case Op::Unshard:
  case Op::Reshard:
    return uses.unshard;
  case Op::SkipInput:
  case Op::SkipOutput:
    return uses.skips;
  case Op::Carry:
    return uses.carries;
  case Op::Weights:
    return uses.versions;
  case Op::Factor:
    return uses.factors;
  default:
    return true;
  }
}

/// Throws where the tables ask for more than their type says, and so than the stage was asked for.
inline void requireUsed(const Tables &tables, const Uses &uses) {
  for (const Device &device : tables.devices)
    for (const Instruction &row : device.instructions)
      if (!isUsed(uses, row.op))
        throw std::logic_error("schedule " + std::string(tables.provenance.schedule) + " has " +
                               describe(row) + ", which its type does not name in Uses");
}

inline uint32_t replicasOf(const Tables &tables, const Options &options, bool byItself, bool isJoint) {
  const uint32_t replicas = options.replicas == 0 ? tables.replicas : options.replicas;
  const std::string schedule = "schedule " + std::string(tables.provenance.schedule) + ", which has " +
                               std::to_string(tables.replicas) + " replicas: ";
  if (replicas != 1 && replicas != tables.replicas)
    throw std::invalid_argument(schedule + "Options::replicas is " + std::to_string(replicas) +
                                "; an executor runs all of them, or one");
  if (options.replica >= tables.replicas || (replicas > 1 && options.replica != 0))
    throw std::invalid_argument(schedule + "Options::replica is " + std::to_string(options.replica) +
                                "; number the replicas from 0, and leave 0 where this executor runs all");
  if (tables.replicas > 1 && isJoint && !byItself)
    throw std::invalid_argument(
        schedule + (replicas > 1 ? "give the stage pack, add and unpack, or say that it "
                                   "`reducesByItself`, so that gradients are added over them"
                                 : "where others run the other replicas, the stage has to add gradients over "
                                   "them and to say `static constexpr bool reducesByItself = true;`"));
  return replicas;
}

} // namespace detail

template <class Stage, class ScheduleType, class Transport = Threads<typename Stage::Boundary>,
          class Observer = NoObserver>
class Executor {
  static constexpr Uses uses = ScheduleType::uses;
  static_assert(StageFitsSchedule<Stage, uses>::value);
  static_assert(TransportOf<Transport, typename Stage::Boundary>,
                "a transport needs Request, channelModel, open, startSend, startReceive and wait");
  static_assert(ObserverOfOps<Observer>,
                "an observer needs onBegin(const Context &) and onEnd(const Context &)");
  static_assert(TransportFitsSchedule<Transport::channelModel, ScheduleType::verified>::value);

public:
  /// `makeStage(const Copy &)` gives a std::unique_ptr<Stage>; called for every copy that is in this process,
  /// replica by replica in the order of Tables::copies. Throws where schedule, stage and options do not fit.
  template <class MakeStage>
  Executor(const ScheduleType &schedule, MakeStage &&makeStage, Options options = {},
           Transport transport = Transport(), Observer observer = Observer())
      : plain(schedule), tables(plain.tables()), replicas(checked(tables, options)),
        count(replicas * static_cast<uint32_t>(tables.devices.size())),
        supervisor(tables, count, options.noProgressLimit), transport(std::move(transport)),
        observer_(std::move(observer)), plan(planOf()), lines(linesOf()) {
    supervisor.setTurns(options.spins, options.yields);
    this->transport.open({count, lines}, supervisor);
    if constexpr (ObserverOfTables<Observer>) {
      std::vector<uint32_t> local;
      for (uint32_t worker = 0; worker < count; ++worker)
        if (isLocal(worker))
          local.push_back(worker);
      observer_.open(tables, local, count);
    }
    const uint32_t devices = static_cast<uint32_t>(tables.devices.size());
    for (uint32_t worker = 0; worker < count; ++worker)
      workers.push_back(!isLocal(worker) ? nullptr
                                         : std::make_unique<WorkerType>(
                                               tables, plan, worker, options.replica + worker / devices,
                                               options.seed, supervisor, this->transport, observer_));
    lowest.assign(tables.stages, nullptr);
    for (uint32_t replica = 0; replica < replicas; ++replica)
      for (Copy copy : tables.copies) {
        const uint32_t worker = replica * devices + copy.device;
        if (!workers[worker])
          continue;
        copy.replica = options.replica + replica;
        stages.push_back(makeStage(std::as_const(copy)));
        workers[worker]->hold(copy, *stages.back());
        if (!lowest[copy.stage])
          lowest[copy.stage] = stages.back().get();
      }
  }
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  /// Runs `steps` steps, without a barrier between them. Throws ExecutionError; afterwards the contents of
  /// stages and slots are undefined, and no further run is accepted.
  void run(uint64_t steps = 1) {
    if (supervisor.hasThrown())
      throw std::logic_error("this executor has failed and cannot run again");
    supervisor.begin();
    runWorkers(steps);
    if constexpr (requires { transport.finishRun(); })
      transport.finishRun();
    supervisor.rethrow();
    nextStep += steps;
  }

  uint64_t stepsDone() const { return nextStep; }
  /// Stage objects in the order they were made: in one process, replica by replica as Tables::copies. Between
  /// runs only.
  std::span<const std::unique_ptr<Stage>> copies() const { return stages; }
  /// The copy of `stage` on the lowest device that has one, of the lowest replica. Between runs only, and
  /// only of a stage that this process has.
  Stage &stage(uint32_t stage) const { return *lowest[stage]; }
  Observer &observer() { return observer_; }

private:
  using WorkerType = Worker<Stage, uses, Transport, Observer>;
  static constexpr bool isJoint = uses.reduce || uses.tied || uses.norm || uses.unshard;

  static uint32_t checked(const Tables &tables, const Options &options) {
    detail::requireUsed(tables, uses);
    return detail::replicasOf(
        tables, options, saysReducesByItself<Stage>() || (reducesByPacking<Stage> && options.replicas != 1),
        isJoint);
  }
  bool isLocal(uint32_t worker) const {
    if constexpr (requires { transport.isLocal(worker); })
      return transport.isLocal(worker);
    return true;
  }

  /// A worker that is alone runs on the caller's thread.
  void runWorkers(uint64_t steps) {
    std::vector<WorkerType *> local;
    for (const std::unique_ptr<WorkerType> &worker : workers)
      if (worker)
        local.push_back(worker.get());
    if (local.size() == 1)
      return local.front()->run(nextStep, steps);
    std::vector<std::jthread> threads;
    threads.reserve(local.size());
    try {
      for (WorkerType *worker : local)
        threads.emplace_back([this, worker, steps] { worker->run(nextStep, steps); });
    } catch (...) { // no thread to be had: end those that run
      supervisor.fail(static_cast<uint32_t>(threads.size()), std::current_exception());
    }
  }

  JointPlan planOf() const {
    const uint32_t channels = static_cast<uint32_t>(tables.channels.size());
    return isJoint && reducesByPacking<Stage> ? JointPlan(tables, replicas, replicas * channels)
                                              : JointPlan();
  }
  std::vector<Line> linesOf() const {
    std::vector<Line> lines;
    const uint32_t devices = static_cast<uint32_t>(tables.devices.size());
    for (uint32_t first = 0; first < count; first += devices)
      for (const Channel &channel : tables.channels)
        lines.push_back({first + channel.from, first + channel.to, tables.devices[channel.from].boundaries,
                         tables.devices[channel.to].boundaries});
    for (const JointSet &set : plan.sets())
      for (uint32_t from : set.members)
        for (uint32_t to : set.members)
          if (from != to)
            lines.push_back({from, to, set.open, set.open});
    return lines;
  }

  // A transport may run threads that use the supervisor, so it goes first.
  const PlainTables plain;
  const Tables &tables;
  const uint32_t replicas, count; // of workers
  Supervisor supervisor;
  Transport transport;
  Observer observer_;
  const JointPlan plan;
  const std::vector<Line> lines; // by channel
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<Stage *> lowest;                      // by stage
  std::vector<std::unique_ptr<WorkerType>> workers; // null: in another process
  uint64_t nextStep = 0;
};

} // namespace sluice::runtime
