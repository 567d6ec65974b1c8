// An observer that remembers when every row began and ended, and writes it as a Trace Event file
// (chrome://tracing, Perfetto, `sluice compare`):
//
//   Executor<MyStage, Schedule, Threads<Boundary>, TraceObserver> executor(schedule, makeStage, {}, {},
//                                                                         TraceObserver({.steps = 5}));
//   executor.run(5);
//   executor.observer().write("trace.json");
//
// Room for all events is taken when the executor is made; recording one takes two readings of the steady
// clock and no lock. Times are nanoseconds. Belongs to its executor: write while that exists, between runs.
#pragma once

#include "TraceFile.h"

#include "Context.h"

#include <chrono>
#include <memory>
#include <stdexcept>

namespace sluice::runtime {

struct TraceOptions {
  /// Steps to record, counted as in Context::step. Room is taken for so many: 32 bytes a row and step.
  uint64_t firstStep = 0, steps = 10;
  /// Time 0 of the file. Unset: the first event. Processes that set it at the same moment (behind a barrier)
  /// write files that can be laid on each other.
  std::chrono::steady_clock::time_point origin{};
};

class TraceObserver {
public:
  explicit TraceObserver(TraceOptions options = {}) : options(options) {}

  /// Called by the executor before it runs: `tables` outlive all calls, `local` are the workers of this
  /// process among `workers`.
  void open(const Tables &all, std::span<const uint32_t> local, uint32_t workers) {
    tables = &all;
    count = workers;
    logs = std::make_unique<Log[]>(workers);
    for (const uint32_t worker : local) {
      logs[worker].isLocal = true;
      logs[worker].capacity = roomFor(all.devices[worker % all.devices.size()].instructions, workers);
      logs[worker].records = std::make_unique<TraceRecord[]>(logs[worker].capacity);
    }
  }

  void onBegin(const Context &c) {
    Log &log = logs[workerOf(c)];
    log.replica = c.replica;
    log.isRecorded = c.step - options.firstStep < options.steps; // wraps to a large number before the first
    // Messages of the last step may be waited for in the one behind it.
    log.waitsAreRecorded = c.step - options.firstStep <= options.steps;
    if (log.isRecorded)
      log.row = log.append({now(), 0, c.step, c.index, TraceRecord::ownRow});
  }
  void onEnd(const Context &c) {
    Log &log = logs[workerOf(c)];
    if (log.isRecorded && log.row != Log::none)
      log.records[log.row].end = now();
  }
  void onWaitBegin(uint32_t worker, uint32_t row, uint32_t peer) {
    Log &log = logs[worker];
    if (log.waitsAreRecorded)
      log.wait = log.append({now(), 0, 0, row, peer});
  }
  void onWaitEnd(uint32_t worker) {
    Log &log = logs[worker];
    if (log.waitsAreRecorded && log.wait != Log::none)
      log.records[log.wait].end = now();
  }

  /// Writes what was recorded. Where other processes run some of the workers each writes a file of its own,
  /// `trace.3.json` for `trace.json`, numbered by the lowest worker here, replica ×
  /// devices + device. Returns the path; throws
  /// std::runtime_error where the file cannot be written.
  std::string write(const std::string &path) const {
    if (!tables)
      throw std::logic_error("this observer belongs to no executor, so there is nothing to write");
    TraceFile file(*tables);
    const uint32_t devices = static_cast<uint32_t>(tables->devices.size());
    uint32_t lowest = 0, locals = 0;
    for (uint32_t worker = 0; worker < count; ++worker) {
      const Log &log = logs[worker];
      if (!log.isLocal)
        continue;
      const uint32_t device = worker % devices;
      if (locals++ == 0)
        lowest = log.replica * devices + device;
      file.add(log.replica, device, {log.records.get(), log.size}, log.dropped);
    }
    const bool hasOrigin = options.origin != std::chrono::steady_clock::time_point{};
    const std::string own = locals == devices * tables->replicas ? path : TraceFile::numbered(path, lowest);
    file.write(own, hasOrigin ? options.origin.time_since_epoch() / std::chrono::nanoseconds(1)
                              : TraceFile::firstEvent);
    return own;
  }

private:
  struct alignas(64) Log {
    static constexpr size_t none = ~size_t{0};
    std::unique_ptr<TraceRecord[]> records;
    size_t size = 0, capacity = 0;
    size_t row = none, wait = none; ///< Records whose ends are still to come.
    uint64_t dropped = 0;
    uint32_t replica = 0;
    bool isLocal = false, isRecorded = false, waitsAreRecorded = false;

    size_t append(const TraceRecord &record) {
      if (size == capacity) {
        ++dropped;
        return none;
      }
      records[size] = record;
      return size++;
    }
  };

  static int64_t now() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  /// An executor of one replica counts its workers from 0, whichever replica that is.
  size_t workerOf(const Context &c) const {
    const size_t devices = tables->devices.size();
    return count == devices ? c.device : c.replica * devices + c.device;
  }

  /// Every row once a step, every message waited for once, a joint op for each of its members, twice.
  size_t roomFor(std::span<const Instruction> rows, uint32_t workers) const {
    size_t own = 0, waits = 0;
    for (const Instruction &row : rows) {
      own += !isOperand(row.op);
      const Op op = row.op == Op::Wait ? static_cast<Op>(row.b) : row.op;
      if (row.op != Op::Wait && isMessage(op))
        ++waits;
      else if (op == Op::Reduce || op == Op::ReduceTied || op == Op::Norm || op == Op::Unshard)
        waits += 2 * workers;
    }
    return options.steps * (own + waits) + waits;
  }

  const TraceOptions options;
  const Tables *tables = nullptr;
  uint32_t count = 0; // of workers
  std::unique_ptr<Log[]> logs;
};

} // namespace sluice::runtime
