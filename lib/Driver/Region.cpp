#include "Driver/Region.h"

#include "Driver/Conditions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cassert>
#include <fmt/format.h>

namespace sluice {

/// The parameters with more than one value, in order.
static std::vector<Axis> axesOf(llvm::ArrayRef<Setting> settings) {
  constexpr int64_t huge = int64_t(1) << 30; // products of two stay within 64 bits
  std::vector<Axis> axes;
  size_t stride = 1;
  for (size_t p = settings.front().size(); p-- > 0;) {
    Axis axis{settings.front()[p].name, {}, {}, stride};
    bool isWhole = true;
    // The values of a parameter turn over once in a block; that ends where they begin anew.
    for (size_t i = 0; i < settings.size(); i += stride) {
      const Value &value = settings[i][p].value;
      const Value &first = settings.front()[p].value;
      if (i > 0 && value.number == first.number && value.kind == first.kind &&
          value.dimension == first.dimension)
        break;
      axis.words.push_back(str(value));
      isWhole &= value.isPlainInteger() && value.kind == first.kind && value.dimension == first.dimension &&
                 value.number.num < huge && value.number.num > -huge;
      axis.numbers.push_back(value.number.num);
    }
    if (!isWhole)
      axis.numbers.clear();
    stride *= axis.words.size();
    if (axis.words.size() > 1)
      axes.insert(axes.begin(), std::move(axis));
  }
  assert(stride == settings.size() && "the settings are a product");
  return axes;
}

namespace {

/// The failing settings one by one, as short as it goes.
class Listing {
public:
  Listing(llvm::ArrayRef<Axis> axes, llvm::ArrayRef<Outcome> outcomes) : outcomes(outcomes) {
    for (const Axis &axis : axes)
      if (matters(axis))
        relevant.push_back(&axis);
      else
        copies *= axis.words.size();
    collect(axes);
    for (Row &row : rows) {
      row.text = row.ranks.size() == relevant.back()->words.size()
                     ? "every " + relevant.back()->name
                     : relevant.back()->name + " = " + runs(*relevant.back(), row.ranks);
      if (groups.empty() || relevant.size() != 2 || rows[groups.back().front()].text != row.text)
        groups.emplace_back();
      groups.back().push_back(static_cast<size_t>(&row - rows.data()));
    }
  }

  /// As the costs of conditions: what a list of the same length is worth.
  unsigned cost() const {
    size_t pieces = 0;
    for (const std::vector<size_t> &group : groups)
      pieces += 1 + llvm::StringRef(rows[group.front()].text).count(',');
    return static_cast<unsigned>(2 * pieces);
  }

  std::string text() const {
    constexpr size_t mostGroups = 6;
    std::vector<std::string> parts;
    size_t left = 0;
    for (const std::vector<size_t> &group : groups)
      if (parts.size() < mostGroups)
        parts.push_back(head(group) + rows[group.front()].text);
      else
        for (size_t row : group)
          left += rows[row].ranks.size() * copies;
    std::string text = "at " + llvm::join(parts, "; ");
    return left == 0 ? text : text + fmt::format("; and at {} more", left);
  }

private:
  struct Row {
    std::vector<size_t> heads; ///< Ranks of all relevant axes but the last.
    std::vector<size_t> ranks; ///< Of the last, where it fails.
    std::string text;
  };

  bool fails(size_t setting) const { return outcomes[setting] == Outcome::Fails; }

  /// Whether the outcome ever changes with this parameter alone.
  bool matters(const Axis &axis) const {
    for (size_t i = 0; i < outcomes.size(); ++i)
      if (fails(i) != fails(i - axis.rank(i) * axis.stride))
        return true;
    return false;
  }

  void collect(llvm::ArrayRef<Axis> axes) {
    for (size_t i = 0; i < outcomes.size(); ++i) {
      bool stands = fails(i) && llvm::all_of(axes, [&](const Axis &axis) {
                      return axis.rank(i) == 0 || llvm::is_contained(relevant, &axis);
                    });
      if (!stands)
        continue;
      std::vector<size_t> heads;
      for (const Axis *axis : llvm::ArrayRef(relevant).drop_back())
        heads.push_back(axis->rank(i));
      if (rows.empty() || rows.back().heads != heads)
        rows.push_back({std::move(heads), {}, {}});
      rows.back().ranks.push_back(relevant.back()->rank(i));
    }
  }

  /// `5 to 7, 9`: neighbours among whole numbers are drawn together.
  static std::string runs(const Axis &axis, llvm::ArrayRef<size_t> ranks) {
    constexpr size_t mostRuns = 6;
    std::vector<std::string> parts;
    size_t left = 0;
    for (size_t i = 0, end; i < ranks.size(); i = end) {
      for (end = i + 1; end < ranks.size() && axis.isWhole(); ++end)
        if (axis.numbers[ranks[end]] != axis.numbers[ranks[end - 1]] + 1)
          break;
      if (end - i == 2)
        end = i + 1; // two read better side by side
      if (parts.size() >= mostRuns)
        left += end - i;
      else if (end - i == 1)
        parts.push_back(axis.words[ranks[i]]);
      else
        parts.push_back(fmt::format("{} to {}", axis.words[ranks[i]], axis.words[ranks[end - 1]]));
    }
    std::string text = llvm::join(parts, ", ");
    return left == 0 ? text : text + fmt::format(" and {} more", left);
  }

  /// `P=4, v=2: ` of one row, `P=4 to 6: ` of several.
  std::string head(llvm::ArrayRef<size_t> group) const {
    std::vector<std::string> parts;
    for (size_t a = 0; a + 1 < relevant.size(); ++a) {
      std::vector<size_t> ranks;
      for (size_t row : group)
        ranks.push_back(rows[row].heads[a]);
      parts.push_back(relevant[a]->name + "=" + runs(*relevant[a], ranks));
    }
    return parts.empty() ? "" : llvm::join(parts, ", ") + ": ";
  }

  llvm::ArrayRef<Outcome> outcomes;
  std::vector<const Axis *> relevant; ///< The parameters that matter; at least one, as some settings pass.
  std::vector<Row> rows;
  std::vector<std::vector<size_t>> groups; ///< Rows that share one text and one head, in order.
  size_t copies = 1;                       ///< How many settings each listed one stands for.
};

} // namespace

std::string describeRegion(llvm::ArrayRef<Setting> settings, llvm::ArrayRef<Outcome> outcomes) {
  std::vector<uint32_t> failing, passing, others; // others: passing and hidden
  for (uint32_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i] == Outcome::Fails)
      failing.push_back(i);
    if (outcomes[i] == Outcome::Passes)
      passing.push_back(i);
    if (outcomes[i] == Outcome::Passes || outcomes[i] == Outcome::Hidden)
      others.push_back(i);
  }
  if (failing.size() <= 1 || failing.size() == outcomes.size())
    return "";
  if (others.empty())
    return "at every setting that require accepts";

  const std::vector<Axis> axes = axesOf(settings);
  const Listing listing(axes, outcomes);
  // A condition must be worth its length: few settings can be told from the others by many.
  const unsigned most = std::clamp(listing.cost() + 1, 3u, 10u);
  auto whole = separate(axes, failing, others, most);
  const size_t hidden = others.size() - passing.size();
  std::optional<Condition> visible;
  if (hidden > 0)
    visible = passing.empty() ? std::optional(Condition{}) : separate(axes, failing, passing, most);
  constexpr unsigned worth = 2; // so much plainer a condition must be that leaves settings out
  if (visible && (!whole || visible->cost + worth < whole->cost))
    return fmt::format("{}{}, leaving out {} setting{} with other errors",
                       visible->text.empty() ? "at every setting" : "where ", visible->text, hidden,
                       hidden == 1 ? "" : "s");
  return whole ? "where " + whole->text : listing.text();
}

} // namespace sluice
