#include "Driver/Conditions.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>
#include <functional>
#include <numeric>

namespace sluice {

namespace {

/// What is compared with a constant: `left`, or `left` less `right` where both sides have a name.
struct Measure {
  std::string left, right;
  unsigned cost;
  std::function<int64_t(size_t)> at;
  /// Remainders: all but `== 0` costs one more. Of the rarer ones only equality is asked.
  bool isRemainder = false, hasOrder = true;
  const Axis *constants = nullptr; ///< Constants are ranks of this axis.
};

enum class Relation : uint8_t { Equal, AtLeast, AtMost };

/// A comparison that holds at every setting of one kind. `misses`: at which of the other kind it does too.
struct Comparison {
  const Measure *measure;
  Relation relation;
  int64_t constant;
  unsigned cost;
  llvm::BitVector misses;
};

int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; } // b > 0

/// `2 * P`
std::string times(int64_t factor, const std::string &name) {
  return factor == 1 ? name : fmt::format("{} * {}", factor, name);
}

class Measures {
public:
  explicit Measures(llvm::ArrayRef<Axis> axes) {
    for (const Axis &axis : axes)
      one(axis);
    std::vector<const Axis *> whole;
    for (const Axis &axis : axes)
      if (axis.isWhole())
        whole.push_back(&axis);
    for (const Axis *y : whole)
      for (const Axis *x : whole)
        if (x != y)
          two(*x, *y);
    for (const Axis *y : whole)
      for (const Axis *z : whole)
        for (const Axis *x : whole)
          if (y < z && x != y && x != z)
            three(*x, *y, *z);
  }

  std::vector<Measure> list;

private:
  static bool canDivide(const Axis &axis) { return axis.numbers.front() > 0; }

  void one(const Axis &x) {
    auto rank = [&x](size_t i) { return static_cast<int64_t>(x.rank(i)); };
    list.push_back({x.name, "", 1, rank, false, true, &x});
    for (int64_t divisor = 2; x.isWhole() && divisor <= 16; ++divisor)
      remainder(x, std::to_string(divisor), 2, [divisor](size_t) { return divisor; });
  }

  void two(const Axis &x, const Axis &y) {
    const bool isFirst = &y < &x; // of the two orders of one pair
    for (int64_t factor = 1; factor <= 4; ++factor) {
      const unsigned cost = factor == 1 ? 2 : 3;
      if (factor > 1 || isFirst)
        list.push_back({x.name, times(factor, y.name), cost,
                        [&x, &y, factor](size_t i) { return x.number(i) - factor * y.number(i); }});
      if (canDivide(y))
        remainder(
            x, times(factor, y.name), cost, [&y, factor](size_t i) { return factor * y.number(i); },
            /*hasOrder=*/factor == 1);
    }
    if (canDivide(y))
      list.push_back({fmt::format("mod({}, {})", x.name, y.name), y.name, 3,
                      [&x, &y](size_t i) { return modulo(x.number(i), y.number(i)) - y.number(i); }});
    if (!isFirst)
      return;
    list.push_back({fmt::format("{} + {}", y.name, x.name), "", 4,
                    [&x, &y](size_t i) { return x.number(i) + y.number(i); }});
    list.push_back({fmt::format("{} * {}", y.name, x.name), "", 4,
                    [&x, &y](size_t i) { return x.number(i) * y.number(i); }});
  }

  void three(const Axis &x, const Axis &y, const Axis &z) {
    std::string product = fmt::format("{} * {}", y.name, z.name);
    list.push_back(
        {x.name, product, 3, [&x, &y, &z](size_t i) { return x.number(i) - y.number(i) * z.number(i); }});
    if (canDivide(y) && canDivide(z))
      remainder(x, product, 3, [&y, &z](size_t i) { return y.number(i) * z.number(i); });
  }

  template <class Divisor>
  void remainder(const Axis &x, const std::string &by, unsigned cost, Divisor divisor,
                 bool hasOrder = false) {
    auto at = [&x, divisor](size_t i) { return modulo(x.number(i), divisor(i)); };
    list.push_back({fmt::format("mod({}, {})", x.name, by), "", cost, at, true, hasOrder});
  }
};

/// Which multiples `inside` divides all: `mod(64, M) == 0`. Large ones are mere coincidence.
void addDivisors(std::vector<Measure> &measures, llvm::ArrayRef<Axis> axes, llvm::ArrayRef<uint32_t> inside) {
  for (const Axis &axis : axes) {
    if (!axis.isWhole() || axis.numbers.front() <= 0)
      continue;
    const int64_t largest = axis.numbers.back(), most = 4 * largest;
    int64_t multiple = 1;
    for (size_t i = 0; i < inside.size() && multiple <= most; ++i)
      multiple = std::lcm(multiple, axis.number(inside[i]));
    if (multiple <= most)
      measures.push_back({fmt::format("mod({}, {})", multiple, axis.name), "", multiple <= largest ? 2u : 3u,
                          [&axis, multiple](size_t i) { return modulo(multiple, axis.number(i)); }, true,
                          false});
  }
}

/// `x >= y + 2` is said as `x > y + 1`, which is nearer to `y`.
bool isStrict(Relation relation, int64_t constant) {
  return (relation == Relation::AtLeast && constant > 0) || (relation == Relation::AtMost && constant < 0);
}
int64_t offset(Relation relation, int64_t constant) {
  return !isStrict(relation, constant) ? constant : constant > 0 ? constant - 1 : constant + 1;
}
/// A remainder that is at least 1 is not 0.
bool isNotZero(const Measure &measure, Relation relation, int64_t constant) {
  return measure.isRemainder && relation == Relation::AtLeast && constant == 1;
}

/// Offsets cost too, and far ones explain nothing.
std::optional<unsigned> costOf(const Measure &measure, Relation relation, int64_t constant) {
  if (measure.right.empty()) {
    bool isPlain = (relation == Relation::Equal && constant == 0) || isNotZero(measure, relation, constant);
    return measure.cost + (measure.isRemainder && !isPlain);
  }
  int64_t shown = std::abs(offset(relation, constant));
  if (shown > 16)
    return std::nullopt;
  return measure.cost + (shown == 0 ? 0 : shown <= 2 ? 1 : 2);
}

/// The comparisons that hold at all of `inside` and exclude something of `outside`.
class Comparisons {
public:
  Comparisons(llvm::ArrayRef<Measure> measures, llvm::ArrayRef<uint32_t> inside,
              llvm::ArrayRef<uint32_t> outside)
      : outside(outside), values(outside.size()) {
    for (const Measure &measure : measures) {
      int64_t least = INT64_MAX, most = INT64_MIN;
      for (uint32_t setting : inside) {
        int64_t value = measure.at(setting);
        least = std::min(least, value);
        most = std::max(most, value);
      }
      if (!measure.hasOrder && least != most)
        continue;
      for (size_t i = 0; i < outside.size(); ++i)
        values[i] = measure.at(outside[i]);
      if (least == most)
        add(measure, Relation::Equal, least);
      if (measure.hasOrder)
        addBounds(measure, least, most);
    }
    llvm::stable_sort(list, [](const Comparison &a, const Comparison &b) { return a.cost < b.cost; });
  }

  std::vector<Comparison> list;

private:
  /// Any constant between the two kinds excludes the same settings.
  void addBounds(const Measure &measure, int64_t least, int64_t most) {
    int64_t below = INT64_MIN, above = INT64_MAX;
    for (int64_t value : values) {
      if (value < least)
        below = std::max(below, value);
      if (value > most)
        above = std::min(above, value);
    }
    // Beside another name the smallest offset reads best; alone, a value that was tried.
    auto plainest = [&](int64_t from, int64_t to, int64_t strict) {
      for (int64_t constant : {int64_t(0), strict})
        if (from <= constant && constant <= to)
          return constant;
      return from > 0 ? from : to;
    };
    if (below != INT64_MIN)
      add(measure, Relation::AtLeast, measure.right.empty() ? least : plainest(below + 1, least, 1));
    if (above != INT64_MAX)
      add(measure, Relation::AtMost, measure.right.empty() ? most : plainest(most, above - 1, -1));
  }

  void add(const Measure &measure, Relation relation, int64_t constant) {
    auto cost = costOf(measure, relation, constant);
    if (!cost)
      return;
    llvm::BitVector misses(static_cast<unsigned>(outside.size()));
    for (size_t i = 0; i < outside.size(); ++i) {
      bool holds = relation == Relation::Equal     ? values[i] == constant
                   : relation == Relation::AtLeast ? values[i] >= constant
                                                   : values[i] <= constant;
      if (holds)
        misses.set(static_cast<unsigned>(i));
    }
    if (!misses.all())
      list.push_back({&measure, relation, constant, *cost, std::move(misses)});
  }

  llvm::ArrayRef<uint32_t> outside;
  std::vector<int64_t> values; ///< Of the measure at hand, at each setting of `outside`.
};

/// A bound on one parameter names a value that was tried, so the opposite of `P >= 5` is `P <= 4`.
std::string boundStr(const Comparison &comparison, bool negated) {
  const Axis &axis = *comparison.measure->constants;
  size_t rank = static_cast<size_t>(comparison.constant);
  if (comparison.relation == Relation::Equal)
    return fmt::format("{} {} {}", axis.name, negated ? "!=" : "==", axis.words[rank]);
  bool isLeast = (comparison.relation == Relation::AtLeast) != negated;
  if (negated)
    rank = isLeast ? rank + 1 : rank - 1;
  return fmt::format("{} {} {}", axis.name, isLeast ? ">=" : "<=", axis.words[rank]);
}

std::string str(const Comparison &comparison, bool negated) {
  const Measure *measure = comparison.measure;
  const Relation relation = comparison.relation;
  const int64_t constant = comparison.constant;
  if (measure->constants)
    return boundStr(comparison, negated);
  if (isNotZero(*measure, relation, constant))
    return fmt::format("{} {} 0", measure->left, negated ? "==" : "!=");
  const bool strict = !measure->right.empty() && isStrict(relation, constant);
  // Equal, at least, at most; then strictly so; then the opposites of all six.
  static constexpr const char *signs[2][2][3] = {{{"==", ">=", "<="}, {"", ">", "<"}},
                                                 {{"!=", "<", ">"}, {"", "<=", ">="}}};
  std::string text =
      fmt::format("{} {} ", measure->left, signs[negated][strict][static_cast<size_t>(relation)]);
  if (measure->right.empty())
    return text + std::to_string(constant);
  int64_t shown = offset(relation, constant);
  if (shown == 0)
    return text + measure->right;
  return text + fmt::format("{} {} {}", measure->right, shown < 0 ? "-" : "+", std::abs(shown));
}

/// Pairs of comparisons are looked for up to so many settings.
constexpr size_t mostForPairs = 1 << 18;

/// What holds at all of `inside` and at none of `outside`; `negated` says the opposite, and costs more by one
/// where that joins two with `or`.
std::optional<Condition> cheapest(llvm::ArrayRef<Axis> axes, std::vector<Measure> measures,
                                  llvm::ArrayRef<uint32_t> inside, llvm::ArrayRef<uint32_t> outside,
                                  unsigned most, bool negated) {
  addDivisors(measures, axes, inside);
  std::vector<Comparison> all = Comparisons(measures, inside, outside).list;
  std::optional<Condition> best;
  for (const Comparison &comparison : all)
    if (comparison.misses.none() && comparison.cost <= most && !best)
      best = {str(comparison, negated), comparison.cost};
  if (inside.size() + outside.size() > mostForPairs)
    return best;
  const unsigned join = negated ? 2 : 1;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      unsigned cost = all[i].cost + all[j].cost + join;
      if (cost > most || (best && cost >= best->cost))
        break; // what follows costs no less
      if (!all[i].misses.anyCommon(all[j].misses))
        best = {fmt::format("{} {} {}", str(all[i], negated), negated ? "or" : "and", str(all[j], negated)),
                cost};
    }
  return best;
}

} // namespace

std::optional<Condition> separate(llvm::ArrayRef<Axis> axes, llvm::ArrayRef<uint32_t> inside,
                                  llvm::ArrayRef<uint32_t> outside, unsigned most) {
  std::vector<Measure> measures = Measures(axes).list;
  auto direct = cheapest(axes, measures, inside, outside, most, false);
  auto opposite = cheapest(axes, measures, outside, inside, most, true);
  return direct && (!opposite || direct->cost <= opposite->cost) ? direct : opposite;
}

} // namespace sluice
