// A value per stage and microbatch, stored once per distinct row. Placements, costs and sizes hardly
// ever depend on the microbatch, and where they do few rows differ, so one row of stages is kept per
// class of microbatches: `at` is two loads and memory does not grow with M times S.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace sluice {

template <typename T> class StageTable {
public:
  StageTable() = default;
  /// The same row for every microbatch.
  explicit StageTable(std::vector<T> row)
      : stages(static_cast<uint32_t>(row.size())), values(std::move(row)) {}

  /// Appends the row of the next microbatch; equal rows share storage.
  void addMicrobatch(const std::vector<T> &row) {
    stages = static_cast<uint32_t>(row.size());
    auto [found, isNew] = known.try_emplace(row, static_cast<uint32_t>(known.size()));
    if (isNew)
      values.insert(values.end(), row.begin(), row.end());
    rowOf.push_back(found->second);
  }
  /// To call after the last addMicrobatch: frees what only building needs.
  void finish() {
    known.clear();
    if (rowCount() == 1)
      rowOf.clear();
  }

  T at(uint32_t stage, uint32_t microbatch) const { return values[base(microbatch) + stage]; }
  bool empty() const { return values.empty(); }
  uint32_t stageCount() const { return stages; }
  /// Number of distinct rows; 1 means no microbatch differs.
  uint32_t rowCount() const { return stages == 0 ? 0 : static_cast<uint32_t>(values.size() / stages); }
  uint32_t row(uint32_t microbatch) const { return rowOf.empty() ? 0 : rowOf[microbatch]; }
  T inRow(uint32_t row, uint32_t stage) const { return values[static_cast<size_t>(row) * stages + stage]; }

  /// The same rows with every value passed through `convert`.
  template <typename Convert> auto mapped(Convert convert) const {
    StageTable<decltype(convert(values[0]))> result;
    result.stages = stages;
    result.rowOf = rowOf;
    for (const T &value : values)
      result.values.push_back(convert(value));
    return result;
  }
  const std::vector<T> &all() const { return values; }

private:
  template <typename> friend class StageTable;
  size_t base(uint32_t microbatch) const {
    return rowOf.empty() ? 0 : static_cast<size_t>(rowOf[microbatch]) * stages;
  }
  uint32_t stages = 0;
  std::vector<T> values;       // rows of `stages`
  std::vector<uint32_t> rowOf; // per microbatch; empty: row 0 for all
  std::map<std::vector<T>, uint32_t> known;
};

} // namespace sluice
