// Runs a schedule on one thread per device.
//
//   sluice::runtime::Executor<MyStage, one_f_one_b::Schedule> executor(
//       one_f_one_b::schedule, [&](const Copy &copy) { return std::make_unique<MyStage>(copy.stage); });
//   executor.run(100); // steps
//
// The executor owns one stage object per copy of a stage, all slots, the transport and the observer, and
// outlives all its threads: `run` returns, or throws ExecutionError, after every worker has ended. A stage
// object is used by one thread at a time; callbacks of different devices run at the same time.
#pragma once

#include "Worker.h"

namespace sluice::runtime {

struct Options {
  uint64_t seed = 0; ///< Of Context::randomKey.
  /// A run in which all workers wait, and none has moved for this long, ends with an error; 0: never.
  std::chrono::milliseconds noProgressLimit{10'000};
  /// Turns of a wait before its thread parks: first spinning, then yielding. Unset: 20 where there is a core
  /// to spare, and 200. Threads that own their cores wait fastest with many spins; 0 and 0 park at once.
  std::optional<unsigned> spins = {}, yields = {};
};

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
  /// `makeStage(const Copy &)` gives a std::unique_ptr<Stage>; called in the order of Tables::copies.
  template <class MakeStage>
  Executor(const ScheduleType &schedule, MakeStage &&makeStage, Options options = {},
           Transport transport = {}, Observer observer = {})
      : tables(schedule),
        supervisor(tables, static_cast<uint32_t>(tables.devices.size()), options.noProgressLimit),
        transport(std::move(transport)), observer_(std::move(observer)), lines(linesOf(tables)),
        meetings(std::make_unique<Meeting<Stage>[]>(tables.stages)) {
    supervisor.setTurns(options.spins, options.yields);
    this->transport.open({static_cast<uint32_t>(tables.devices.size()), lines}, supervisor);
    if constexpr (ObserverOfTables<Observer>) {
      std::vector<uint32_t> local;
      for (uint32_t worker = 0; worker < tables.devices.size(); ++worker)
        if (isLocal(worker))
          local.push_back(worker);
      observer_.open(tables, local, static_cast<uint32_t>(tables.devices.size()));
    }
    for (uint32_t device = 0; device < tables.devices.size(); ++device)
      workers.push_back(!isLocal(device)
                            ? nullptr
                            : std::make_unique<WorkerType>(tables, device, options.seed, supervisor,
                                                           this->transport, observer_));
    for (const Copy &copy : tables.copies) {
      if (!isLocal(copy.device))
        continue;
      stages.push_back(makeStage(copy));
      meetings[copy.stage].copies.push_back(stages.back().get());
      meetings[copy.stage].devices.push_back(copy.device);
      workers[copy.device]->hold(copy.stage, *stages.back(), meetings[copy.stage]);
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
    {
      std::vector<std::jthread> threads;
      threads.reserve(workers.size());
      try {
        for (const std::unique_ptr<WorkerType> &worker : workers)
          if (worker)
            threads.emplace_back([this, &worker, steps] { worker->run(nextStep, steps); });
      } catch (...) { // no thread to be had: end those that run
        supervisor.fail(static_cast<uint32_t>(threads.size()), std::current_exception());
      }
    }
    if constexpr (requires { transport.finishRun(); })
      transport.finishRun();
    supervisor.rethrow();
    nextStep += steps;
  }

  uint64_t stepsDone() const { return nextStep; }
  /// Stage objects, in the order of Tables::copies. Between runs only.
  std::span<const std::unique_ptr<Stage>> copies() const { return stages; }
  /// The copy of `stage` on the lowest device that has one. Between runs only.
  Stage &stage(uint32_t stage) const { return *meetings[stage].copies.front(); }
  Observer &observer() { return observer_; }

private:
  bool isLocal(uint32_t worker) const {
    if constexpr (requires { transport.isLocal(worker); })
      return transport.isLocal(worker);
    return true;
  }
  using WorkerType = Worker<Stage, uses, Transport, Observer>;
  static std::vector<Line> linesOf(const Tables &tables) {
    std::vector<Line> lines;
    for (const Channel &channel : tables.channels)
      lines.push_back({channel.from, channel.to, tables.devices[channel.from].boundaries,
                       tables.devices[channel.to].boundaries});
    return lines;
  }

  // A transport may run threads that use the supervisor, so it goes first.
  const Tables tables;
  Supervisor supervisor;
  Transport transport;
  Observer observer_;
  const std::vector<Line> lines; // by channel
  std::unique_ptr<Meeting<Stage>[]> meetings;
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<std::unique_ptr<WorkerType>> workers;
  uint64_t nextStep = 0;
};

} // namespace sluice::runtime
