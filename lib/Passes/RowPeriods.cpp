#include "Passes/RowPeriods.h"

#include "llvm/ADT/DenseMap.h"

#include <sluice/Expand.h>

#include <algorithm>

namespace sluice {

using runtime::Instruction;

static constexpr std::array<uint32_t Instruction::*, 4> operandMembers = {&Instruction::a, &Instruction::b,
                                                                          &Instruction::c, &Instruction::d};

static uint64_t mixed(uint64_t hash, uint64_t value) {
  // As SplitMix64: multiplication and shifts, so that every bit counts.
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

RowColumns::RowColumns(llvm::ArrayRef<Instruction> rows)
    : shapes(rows.size()), microbatches(rows.size()), operands(rows.size()) {
  std::array<uint32_t, runtime::poolCount> sizes{};
  for (size_t row = 0; row < rows.size(); ++row) {
    const Instruction &from = rows[row];
    const std::array<std::optional<runtime::Pool>, 4> pools = runtime::poolsOf(from);
    uint64_t shape = static_cast<uint64_t>(from.op) << 32 | uint64_t{from.flags} << 16 | from.stage;
    for (unsigned i = 0; i < 4; ++i) {
      const uint32_t value = from.*operandMembers[i];
      const bool moves = pools[i] && value != runtime::noSlot;
      operands[row][i] = moves ? value : none;
      shape = mixed(shape, moves ? uint64_t{1} << 32 : value);
      if (moves) {
        uint32_t &size = sizes[static_cast<unsigned>(*pools[i])];
        size = std::max(size, value + 1);
      }
    }
    shapes[row] = mixed(shape, from.microbatch == runtime::noMicrobatch);
    microbatches[row] = from.microbatch;
  }
  for (unsigned pool = 0; pool < runtime::poolCount; ++pool)
    poolBegin[pool + 1] = poolBegin[pool] + sizes[pool];
  for (size_t row = 0; row < rows.size(); ++row) {
    const std::array<std::optional<runtime::Pool>, 4> pools = runtime::poolsOf(rows[row]);
    for (unsigned i = 0; i < 4; ++i)
      if (operands[row][i] != none)
        operands[row][i] += poolBegin[static_cast<unsigned>(*pools[i])];
  }
}

runtime::Pool RowColumns::poolOf(uint32_t operand) const {
  const auto after = std::upper_bound(poolBegin.begin(), poolBegin.end(), operand);
  return static_cast<runtime::Pool>(after - poolBegin.begin() - 1);
}

/// Per row its shape and how far its microbatch is from that of the last row that has one: the same in every
/// turn of a repeat but for the first row.
static std::vector<uint64_t> relativeShapes(const RowColumns &columns) {
  std::vector<uint64_t> shapes(columns.shapes);
  uint32_t last = 0;
  for (uint32_t row = 0; row < columns.size(); ++row) {
    const uint32_t microbatch = columns.microbatches[row];
    if (microbatch == runtime::noMicrobatch)
      continue;
    shapes[row] = mixed(shapes[row], microbatch - last);
    last = microbatch;
  }
  return shapes;
}

/// The most frequent distances between a window of `length` rows and the next that looks the same.
static void vote(llvm::ArrayRef<uint64_t> shapes, uint32_t length, std::vector<uint32_t> &periods) {
  static constexpr uint64_t base = 0x9e3779b97f4a7c15u; // odd: rolling hashes stay distinct
  uint64_t hash = 0, oldest = 1;
  for (uint32_t i = 1; i < length; ++i)
    oldest *= base;
  llvm::DenseMap<uint64_t, uint32_t> last;
  llvm::DenseMap<uint32_t, uint32_t> votes;
  for (uint32_t row = 0; row < shapes.size(); ++row) {
    if (row >= length)
      hash -= shapes[row - length] * oldest;
    hash = hash * base + shapes[row];
    if (row + 1 < length)
      continue;
    const uint64_t key = mixed(0, hash) >> 2; // the map keeps the largest keys to itself
    const auto [place, isNew] = last.try_emplace(key, row);
    if (!isNew) {
      ++votes[row - place->second];
      place->second = row;
    }
  }
  std::vector<std::pair<uint32_t, uint32_t>> ranked(votes.begin(), votes.end());
  constexpr size_t kept = 6;
  const size_t count = std::min(kept, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count), ranked.end(),
                    [](const auto &a, const auto &b) {
                      return a.second != b.second ? a.second > b.second : a.first < b.first;
                    });
  for (size_t i = 0; i < count; ++i)
    periods.push_back(ranked[i].first);
}

std::vector<uint32_t> likelyPeriods(const RowColumns &columns) {
  const std::vector<uint64_t> shapes = relativeShapes(columns);
  std::vector<uint32_t> periods;
  for (uint32_t length = 1; length <= columns.size() / 2; length *= 4)
    vote(shapes, length, periods);
  std::sort(periods.begin(), periods.end());
  periods.erase(std::unique(periods.begin(), periods.end()), periods.end());
  return periods;
}

PeriodWindow::PeriodWindow(const RowColumns &columns, uint32_t period)
    : columns(columns), distance(period), begin(columns.size() - std::min(period, columns.size())),
      end(begin), targets(columns.operandCount()), uses(columns.operandCount()) {}

bool PeriodWindow::fits(uint32_t row) const {
  if (columns.shapes[row] != columns.shapes[row + distance])
    return false;
  // A row that names one slot twice, which become different ones.
  const auto &from = columns.operands[row], &to = columns.operands[row + distance];
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = i + 1; k < 4; ++k)
      if (from[i] != RowColumns::none && from[i] == from[k] && to[i] != to[k])
        return false;
  return true;
}

bool PeriodWindow::conflicts(uint32_t row) const {
  if (columns.microbatches[row] != runtime::noMicrobatch && steps > 0 &&
      step != int64_t{columns.microbatches[row + distance]} - columns.microbatches[row])
    return true;
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t from = columns.operands[row][i];
    if (from != RowColumns::none && uses[from] > 0 && targets[from] != columns.operands[row + distance][i])
      return true;
  }
  return false;
}

void PeriodWindow::count(uint32_t row, bool isAdded) {
  const uint32_t change = isAdded ? 1 : ~0u; // unsigned: + 1 or - 1
  if (columns.microbatches[row] != runtime::noMicrobatch) {
    steps += change;
    if (isAdded)
      step = int64_t{columns.microbatches[row + distance]} - columns.microbatches[row];
  }
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t from = columns.operands[row][i];
    if (from == RowColumns::none)
      continue;
    uses[from] += change;
    if (isAdded)
      targets[from] = columns.operands[row + distance][i];
  }
}

void PeriodWindow::extend(uint32_t row) {
  if (row + distance >= columns.size())
    return;
  begin = row;
  if (!fits(row)) {
    while (end > row + 1)
      count(--end, false);
    end = row;
    return;
  }
  while (conflicts(row))
    count(--end, false);
  count(row, true);
}

} // namespace sluice
