// The state of one elaboration, shared by the files for programs, timetables and tables; private to
// lib/Elaborate.
#pragma once

#include "Elaborate/Counts.h"
#include "Elaborate/Elaborate.h"
#include "Elaborate/TableText.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <set>

namespace sluice {

class Elaborator {
public:
  Elaborator(const CheckedSchedule &schedule, Evaluator &evaluator, const SourceManager &sources,
             const ElaborateOptions &options);
  /// The whole of it; see elaborate().
  std::optional<Program> run(std::vector<int64_t> *slots);

private:
  // Table.cpp: reads the table, and if no `place` line does, fills sizes and placement from it.
  bool readTable();
  bool takeTable();
  void emitRow();
  bool placeFromTable();
  bool checkTable();

  // Timetable.cpp: places each op of the timetable on its device, then each device's in slot order.
  struct Entry {
    int64_t slot;
    uint32_t device, site, frame;
    uint32_t first, count; ///< Into slotOps.
  };
  struct FillLine {
    const CheckedOp *op;
    int64_t stage; ///< -1: any stage of the device.
    uint32_t frame;
  };
  bool readTimetable();
  void at(const CheckedStatement &statement);
  void fill(const CheckedOp &op);
  void checkSlots();
  void emitTimetable();
  bool fillSlot(int64_t slot);
  void noteSlot(int64_t slot);

  // ModelStructure.cpp: what the model ties stages together by.
  bool evaluateSkips();
  bool evaluateTies();
  std::optional<uint32_t> stageNamed(NodeId node, llvm::StringRef what, Span span);

  // ScheduleSettings.cpp: sequence_splits, versions and buffer.
  bool evaluateSplits();
  bool checkSplits();
  bool evaluateVersions();
  bool evaluateBuffers();
  std::optional<uint32_t> buffer(uint32_t stage, uint32_t microbatch);

  // Elaborate.cpp
  void findStages();
  void findPrograms();
  bool give(int64_t device, const CheckedDevice &block, bool isFirstClash);
  std::string stagesText(uint32_t device) const;
  void noteOthers(llvm::ArrayRef<uint32_t> devices);

  // Programs.cpp: the statements of device programs.
  void statements(llvm::ArrayRef<CheckedStatement> list);
  void statement(const CheckedStatement &statement);
  void loop(const CheckedStatement &statement);
  void turn(const CheckedStatement &loop);
  void leaveOut(const CheckedStatement &statement, size_t since);
  void placeFindings(size_t since);
  void giveUp(size_t since);
  void members(llvm::ArrayRef<CheckedStatement> list, OpFlag first, OpFlag follower);
  void beginDevice(uint32_t device);
  uint32_t frame();

  // Ops.cpp: one op of a program, from its statement to the IR.
  void op(const CheckedOp &op);
  bool plainOp(const CheckedOp &op);
  std::optional<uint32_t> stageOf(const CheckedOp &op);
  int64_t soleStageOf(uint32_t microbatch);
  std::optional<uint32_t> soleStageFor(const CheckedOp &op, int64_t microbatch);
  std::optional<uint32_t> next(const CheckedOp &op, uint32_t stage);
  void pending(const CheckedOp &op, int64_t stage, bool mayBeNone);
  void nothingLeft(const CheckedOp &op, const std::string &what);
  bool takeVersion(const CheckedOp &op, uint32_t microbatch);
  bool takeExtras(const CheckedOp &op, uint32_t microbatch);
  void withoutMicrobatch(const CheckedOp &op, std::optional<uint32_t> stage);
  void emit(Op op, uint32_t site);
  void emit(Op op, uint32_t site, uint32_t frame);
  void count(const Op &op);
  void tooManyOps(uint32_t site);

  // Findings get the device and the loops they were made under, and silence their statement.
  bool isBroken(uint32_t site) const { return brokenSites.test(site); }
  void decorate(size_t since, const CheckedOp &op);
  bool indexOutOfRange(const CheckedOp &op, llvm::StringRef what, int64_t index, uint64_t count,
                       std::optional<int64_t> stage = std::nullopt);

  const CheckedSchedule &schedule;
  Evaluator &evaluator;
  Diagnostics &diagnostics;
  const SourceManager &sources;
  const ElaborateOptions &options;
  Program program;

  uint32_t device = 0;
  bool stopped = false; ///< Too many ops, or too much work without any.
  bool inTimetable = false;
  llvm::DenseSet<const CheckedStatement *> leftOut; ///< Their values are wrong.
  llvm::BitVector brokenSites;

  // Loops around the statement at hand: their values, and their frames once an op needs one.
  struct Level {
    int64_t value;
    uint32_t frame; ///< 0 until made.
  };
  std::vector<Level> levels;
  /// Inside an overlap or a group: the flags its first and its later members get.
  uint8_t firstFlag = 0, followerFlag = 0;
  bool memberSeen = false;
  /// What the next op to emit names beside its stage and microbatch; few ops do.
  struct Extras {
    std::optional<uint32_t> version, peer;
    std::optional<Rational> factor;
  };
  Extras extras;
  bool hasExtras = false;
  void addExtras();

  // The device at hand.
  static constexpr int64_t noStage = -1, severalStages = -2, unknownStage = -3;
  std::vector<std::vector<uint32_t>> stagesOf; ///< Per device, ascending.
  llvm::ArrayRef<uint32_t> stagesHere;
  std::vector<uint32_t> localOf;  ///< Per stage, its place in stagesHere; ~0 elsewhere.
  std::vector<int64_t> soleStage; ///< Per placement row, once asked for: the one stage here.
  OpCounts counts;                ///< Kept if the schedule uses `next`.
  PendingHalves halves;           ///< Kept if it uses `oldest`, `newest`, `all` or `fill`.

  TableText table;
  std::vector<Entry> entries;
  std::vector<Op> slotOps;
  llvm::DenseMap<uint32_t, Extras> slotExtras; ///< Of slotOps.
  std::vector<FillLine> fillLines;
  size_t nextEntry = 0;
  std::vector<int64_t> *slotsWanted = nullptr;  ///< Gets the slot of each op of the timetable.
  bool collecting = false;                      ///< Inside `at`: ops go to slotOps instead of a program.
  std::vector<const CheckedDevice *> programOf; ///< Per device.
};

} // namespace sluice
