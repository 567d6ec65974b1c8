// Schedule JSON: the whole IR and its costs, for scripts; docs/formats.md describes it and
// docs/schedule.schema.json is its schema. Written and read again it gives an equal Program and CostModel.
#pragma once

#include "Formats/Format.h"
#include "Formats/Json.h"

namespace sluice {

/// Reads schedule JSON, or order JSON if the object has `order`.
std::optional<FormattedSchedule> readJson(SourceManager &sources, llvm::ArrayRef<Span> texts,
                                          const ReadOptions &options, Diagnostics &diagnostics,
                                          std::vector<std::string> &lost);
std::optional<std::string> writeJson(const FormattedSchedule &schedule, std::vector<std::string> &lost,
                                     std::string &error);

/// The version that is written and read.
inline constexpr int64_t scheduleJsonVersion = 1;

/// Fields of CostModel by their keys, the same list for both ways.
struct CostTable {
  llvm::StringRef key;
  StageTable<int64_t> CostModel::*table;
};
llvm::ArrayRef<CostTable> timeTables();
llvm::ArrayRef<CostTable> sizeTables();
/// Times of moves to host memory and back; left out where empty.
llvm::ArrayRef<CostTable> hostTables();
/// A table for each skip edge: one column of bytes, or two of times, its activation's and its gradient's.
struct CostTables {
  llvm::StringRef key;
  std::vector<StageTable<int64_t>> CostModel::*tables;
  uint32_t columns;
};
llvm::ArrayRef<CostTables> edgeTables();
struct CostList {
  llvm::StringRef key;
  std::vector<int64_t> CostModel::*list;
};
/// Bytes a stage.
llvm::ArrayRef<CostList> sizeLists();
/// Times a stage, of updates and collectives; left out where empty.
llvm::ArrayRef<CostList> timeLists();
/// `null` in a table of these is noRoute; left out where empty.
struct RouteTable {
  llvm::StringRef key;
  StageTable<uint32_t> CostModel::*table;
};
llvm::ArrayRef<RouteTable> routeTables();

} // namespace sluice
