#include "Passes/PackRows.h"

#include "Passes/RowPeriods.h"

#include <sluice/Expand.h>

#include <algorithm>

namespace sluice {

using runtime::Instruction;

namespace {

constexpr uint32_t repeatWeight = 3;

/// From a row on: `times` times `period` rows, or with a period of 0 the row alone.
struct Choice {
  uint32_t period = 0, times = 1;
  uint32_t covered() const { return period == 0 ? 1 : period * times; }
};

/// The lightest cover from each row on, by dynamic programming from the last one to the first.
std::vector<Choice> lightestCover(const RowColumns &columns) {
  std::vector<PeriodWindow> windows;
  for (uint32_t period : likelyPeriods(columns))
    windows.emplace_back(columns, period);
  std::vector<Choice> choices(columns.size());
  std::vector<uint32_t> weights(columns.size() + size_t{1});
  for (uint32_t row = columns.size(); row-- > 0;) {
    weights[row] = weights[row + 1] + 1;
    for (PeriodWindow &window : windows) {
      window.extend(row);
      const Choice choice{window.period(), window.times()};
      if (choice.times < 2)
        continue;
      const uint32_t weight = weights[row + choice.covered()] + choice.period + repeatWeight;
      if (weight < weights[row]) {
        weights[row] = weight;
        choices[row] = choice;
      }
    }
  }
  return choices;
}

/// Operands of one repeat and what they become; kept between repeats, so that each costs what it uses.
class MoveWriter {
public:
  explicit MoveWriter(const RowColumns &columns) : columns(columns), targets(columns.operandCount(), none) {}

  /// Appends the moves of the repeat at `row`; how many there are.
  uint32_t write(uint32_t row, const Choice &choice, std::vector<runtime::Move> &moves) {
    std::vector<Pair> pairs;
    const uint32_t end = row + choice.period * (choice.times - 1);
    for (uint32_t i = row; i < end; ++i)
      for (unsigned k = 0; k < 4; ++k)
        see(columns.operands[i][k], columns.operands[i + choice.period][k], pairs);
    std::sort(pairs.begin(), pairs.end(), [](const Pair &a, const Pair &b) {
      return a.pool != b.pool ? a.pool < b.pool : a.shift != b.shift ? a.shift < b.shift : a.from < b.from;
    });
    const size_t before = moves.size();
    for (size_t i = 0; i < pairs.size();)
      i += writeRun(llvm::ArrayRef(pairs).drop_front(i), moves);
    for (uint32_t operand : seen)
      targets[operand] = none;
    seen.clear();
    return static_cast<uint32_t>(moves.size() - before);
  }

private:
  static constexpr uint32_t none = RowColumns::none;
  struct Pair {
    runtime::Pool pool;
    int32_t shift;
    uint32_t from;
  };

  void see(uint32_t from, uint32_t to, std::vector<Pair> &pairs) {
    if (from == none || targets[from] != none)
      return;
    targets[from] = to;
    seen.push_back(from);
    if (from != to)
      pairs.push_back({columns.poolOf(from), static_cast<int32_t>(to - from), from});
  }

  /// Operands of one pool and shift that are equally far apart; how many pairs it took.
  size_t writeRun(llvm::ArrayRef<Pair> pairs, std::vector<runtime::Move> &moves) const {
    const Pair &first = pairs[0];
    auto belongs = [&](size_t i) {
      return i < pairs.size() && pairs[i].pool == first.pool && pairs[i].shift == first.shift;
    };
    const uint32_t stride = belongs(1) ? pairs[1].from - first.from : 1;
    size_t count = 1;
    while (belongs(count) && pairs[count].from - pairs[count - 1].from == stride)
      ++count;
    moves.push_back({first.pool, first.from - columns.poolBegin[static_cast<unsigned>(first.pool)],
                     static_cast<uint32_t>(count), static_cast<int32_t>(stride), first.shift});
    return count;
  }

  const RowColumns &columns;
  std::vector<uint32_t> targets, seen;
};

int32_t microbatchStep(const RowColumns &columns, uint32_t row, uint32_t period) {
  for (uint32_t i = row; i < row + period; ++i)
    if (columns.microbatches[i] != runtime::noMicrobatch)
      return static_cast<int32_t>(columns.microbatches[i + period] - columns.microbatches[i]);
  return 0;
}

} // namespace

PackedRows packRows(llvm::ArrayRef<Instruction> rows) {
  const RowColumns columns(rows);
  const std::vector<Choice> choices = lightestCover(columns);
  MoveWriter writer(columns);
  PackedRows packed;
  for (uint32_t row = 0; row < columns.size(); row += choices[row].covered()) {
    const Choice &choice = choices[row];
    if (choice.period > 0)
      packed.repeats.push_back({static_cast<uint32_t>(packed.rows.size()), choice.period, choice.times,
                                microbatchStep(columns, row, choice.period),
                                writer.write(row, choice, packed.moves)});
    const llvm::ArrayRef<Instruction> kept = rows.slice(row, std::max(choice.period, 1u));
    packed.rows.insert(packed.rows.end(), kept.begin(), kept.end());
  }
  return packed;
}

} // namespace sluice
