// Conditions on parameters that tell some settings from others, for describeRegion. The family: bounds on a
// parameter, its remainder by a number, divisors of a number; comparisons of two parameters with a small
// factor or offset, their remainder, sum and product; a parameter beside the product of two others; and two
// of these with `and` or `or` between them. Each has a cost; the cheapest is the plainest.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// One parameter with several values.
struct Axis {
  std::string name;
  std::vector<std::string> words; ///< Its values in ascending order, as a person writes them.
  std::vector<int64_t> numbers;   ///< The same where all are plain whole numbers that are not huge; or empty.
  size_t stride = 1;              ///< Setting n has value n / stride, modulo their number.

  bool isWhole() const { return !numbers.empty(); }
  size_t rank(size_t setting) const { return setting / stride % words.size(); }
  int64_t number(size_t setting) const { return numbers[rank(setting)]; }
};

struct Condition {
  std::string text; ///< In the words of the language, but for `and` and `or`.
  unsigned cost = 0;
};

/// The cheapest condition of at most `most` that holds at all settings of `inside` and at none of `outside`;
/// neither is empty.
std::optional<Condition> separate(llvm::ArrayRef<Axis> axes, llvm::ArrayRef<uint32_t> inside,
                                  llvm::ArrayRef<uint32_t> outside, unsigned most);

} // namespace sluice
