// Where workers stand, and the words for it when a run ends early. A worker is a device of a replica:
// worker = replica × devices + device.
#pragma once

#include "Schedule.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Why a run ended early. what() is the whole story; the fields name the op for programs. Where a callback
/// threw, its exception is nested (std::rethrow_if_nested).
class ExecutionError : public std::runtime_error {
public:
  ExecutionError(const std::string &message, std::string schedule, uint32_t replica, uint32_t device,
                 std::string op, uint32_t index, uint64_t step)
      : std::runtime_error(message), schedule(std::move(schedule)), op(std::move(op)), replica(replica),
        device(device), index(index), step(step) {}
  std::string schedule, op;
  uint32_t replica, device, index; ///< index: row in the device's table.
  uint64_t step;
};

/// `forward(1, 3)`: stage, microbatch. Of a wait: `wait recv_gradient(1, 3)`.
inline std::string describe(const Instruction &row) {
  std::string text(row.op == Op::Wait ? "wait " : "");
  text += name(row.op == Op::Wait ? static_cast<Op>(row.b) : row.op);
  text += '(' + std::to_string(row.stage);
  if (row.microbatch != noMicrobatch)
    text += ", " + std::to_string(row.microbatch);
  return text + ')';
}

/// Where a worker is, and for what it waits.
struct Standing {
  static constexpr uint32_t nothing = ~0u;
  uint64_t step = 0;
  uint32_t index = 0;          ///< Row.
  uint32_t waitsFor = nothing; ///< Row that started what is awaited.
  uint32_t peer = 0;           ///< Worker whose part is awaited.
  uint32_t run = 0;            ///< Runs begun, this one included.
  bool finished = false;       ///< All steps of that run are done.
  bool waits() const { return waitsFor != nothing; }
};

/// What ended a run, and where.
struct Verdict {
  uint32_t worker = 0, index = 0;
  uint64_t step = 0;
  std::string reason;
  bool isAt(const Verdict &other) const {
    return worker == other.worker && index == other.index && step == other.step;
  }
};

class Report {
public:
  Report(const Tables &tables, uint32_t workers) : tables(tables), workers(workers) {}

  std::string digest() const { return std::string(tables.provenance.digest); }
  std::span<const Instruction> rowsOf(uint32_t worker) const {
    return tables.devices[deviceOf(worker)].instructions;
  }
  /// The op in row `index`; a device may have no rows.
  std::string opOf(uint32_t worker, uint32_t index) const {
    return index < rowsOf(worker).size() ? describe(rowsOf(worker)[index]) : "no op";
  }
  /// `device 2`, and of several replicas which.
  std::string nameOf(uint32_t worker) const {
    std::string text = "device " + std::to_string(deviceOf(worker));
    return workers == tables.devices.size() ? text
                                            : "replica " + std::to_string(replicaOf(worker)) + ", " + text;
  }

  ExecutionError error(const Verdict &verdict) const {
    std::string schedule(tables.provenance.schedule);
    std::string op = opOf(verdict.worker, verdict.index);
    std::string message = "schedule " + schedule + ", " + nameOf(verdict.worker) + ", " + op + ", row " +
                          std::to_string(verdict.index) + ", step " + std::to_string(verdict.step) + ": " +
                          verdict.reason;
    return {message,
            std::move(schedule),
            replicaOf(verdict.worker),
            deviceOf(verdict.worker),
            std::move(op),
            verdict.index,
            verdict.step};
  }

  /// All wait, and nothing has moved for `limit`. The verdict is at the first worker of the cycle, if there
  /// is one.
  Verdict stuck(std::span<const Standing> standings, std::chrono::milliseconds limit) const {
    uint32_t start = 0;
    while (start + 1 < workers && standings[start].finished)
      ++start;
    const std::string cycle = describeCycle(standings, start);
    return {start, standings[start].index, standings[start].step,
            "no progress for " + std::to_string(limit.count()) + " ms" + listOf(standings) + cycle};
  }

  /// `worker` is gone, in the way that `how` says. Its row is the last one that was heard of.
  Verdict lost(std::span<const Standing> standings, uint32_t worker, const std::string &how,
               std::chrono::milliseconds before) const {
    return {worker, standings[worker].index, standings[worker].step,
            how + "; it was last heard of " + std::to_string(before.count()) + " ms before, at this row" +
                listOf(standings)};
  }

private:
  uint32_t deviceOf(uint32_t worker) const { return worker % static_cast<uint32_t>(tables.devices.size()); }
  uint32_t replicaOf(uint32_t worker) const { return worker / static_cast<uint32_t>(tables.devices.size()); }

  std::string listOf(std::span<const Standing> standings) const {
    std::string text;
    for (uint32_t worker = 0; worker < workers; ++worker) {
      const Standing &standing = standings[worker];
      if (standing.run == 0)
        continue; // of a process that has not been heard of
      text += "\n  " + nameOf(worker);
      if (standing.finished) {
        text += " has finished";
        continue;
      }
      text += " at " + opOf(worker, standing.index) + ", row " + std::to_string(standing.index) + ", step " +
              std::to_string(standing.step);
      if (standing.waits())
        text += ", waits for " + opOf(worker, standing.waitsFor) + " with " + nameOf(standing.peer);
    }
    return text;
  }

  // Every worker waits for one other, so following them ends in a cycle or at one that has finished. Of
  // several cycles the one of fewest workers, and of those the one with the lowest, as `sluice check` names
  // it; it is told from its lowest worker on. `worker` is moved there.
  std::string describeCycle(std::span<const Standing> standings, uint32_t &worker) const {
    std::vector<uint32_t> walkOf(workers, Standing::nothing), placeOf(workers);
    uint32_t shortest = Standing::nothing, lowest = 0, finished = 0;
    for (uint32_t start = 0; start < workers; ++start) {
      uint32_t at = start, place = 0;
      for (; !standings[at].finished && walkOf[at] == Standing::nothing; at = standings[at].peer) {
        walkOf[at] = start;
        placeOf[at] = place++;
      }
      if (standings[at].finished)
        finished = at;
      else if (walkOf[at] == start && place - placeOf[at] < shortest) {
        shortest = place - placeOf[at];
        lowest = at;
        for (uint32_t next = standings[at].peer; next != at; next = standings[next].peer)
          lowest = std::min(lowest, next);
      }
    }
    if (shortest == Standing::nothing)
      return "\n  no cycle: " + nameOf(finished) + " has finished, so what is awaited never comes";
    worker = lowest;
    std::string text = "\n  cycle: " + nameOf(lowest);
    uint32_t next = lowest;
    do {
      next = standings[next].peer;
      text += " -> " + (workers == tables.devices.size() ? std::to_string(next) : nameOf(next));
    } while (next != lowest);
    return text;
  }

  const Tables &tables;
  const uint32_t workers;
};

} // namespace sluice::runtime
