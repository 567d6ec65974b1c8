// What the script of the page knows of one schedule: JSON with a column for each property of ops, messages
// and memory. Times are whole numbers of CostModel::unit, which the script turns into the unit of the file by
// `scale`; beyond 2^53 they are doubles as everything in a script, while figures stay exact text. Ops have
// new numbers, in the order of the program, since a page may hold a part of it: those of the devices and the
// time that TimedSchedule::part names, and what they wait for. Private to lib/Emit.
#pragma once

#include "Emit/TimedSchedule.h"

#include "llvm/Support/JSON.h"

namespace sluice {

class HtmlSchedule {
public:
  explicit HtmlSchedule(const TimedSchedule &schedule);

  /// Ops that the page holds.
  uint64_t opCount() const { return opOf.size(); }
  void write(llvm::json::OStream &json) const;

private:
  using Column = std::vector<int64_t>;

  void choose();
  void include(OpId op, std::vector<bool> &chosen) const;
  bool isShown(uint32_t device) const { return device >= firstDevice && device < deviceEnd; }
  /// Number in the page; -1 where it holds no such op.
  int64_t numberOf(OpId op) const;

  void writeUnits(llvm::json::OStream &json) const;
  void writeDevices(llvm::json::OStream &json) const;
  void writeOps(llvm::json::OStream &json) const;
  void writeTimes(llvm::json::OStream &json) const;
  void writeReasons(llvm::json::OStream &json) const;
  void writeCritical(llvm::json::OStream &json) const;
  void writeSites(llvm::json::OStream &json) const;
  void writeTransfers(llvm::json::OStream &json) const;
  void writeBeside(llvm::json::OStream &json) const;
  void writeMemory(llvm::json::OStream &json) const;

  const TimedSchedule &schedule;
  const Program &program;
  const CostModel &costs;
  const Timeline &timeline;
  uint32_t firstDevice, deviceEnd;
  int64_t from, to;
  bool isWhole;           ///< All ops.
  std::vector<OpId> opOf; ///< By number in the page, ascending.
};

} // namespace sluice
