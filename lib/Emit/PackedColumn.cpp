#include "Emit/PackedColumn.h"

#include "llvm/Support/Base64.h"

#include <algorithm>

namespace sluice {

namespace {

/// The difference of value `i` from the one `distance` before it, as a number that is not negative.
uint64_t differenceAt(llvm::ArrayRef<int64_t> values, size_t distance, size_t i) {
  const uint64_t before = distance == 0 || i < distance ? 0 : static_cast<uint64_t>(values[i - distance]);
  const uint64_t difference = static_cast<uint64_t>(values[i]) - before; // wraps as readers do
  return difference << 1 ^ (difference >> 63 ? ~uint64_t{0} : 0);
}

size_t bytesOf(uint64_t number) {
  size_t bytes = 1;
  for (; number >= 128; number >>= 7)
    ++bytes;
  return bytes;
}

void append(std::string &out, uint64_t number) {
  for (; number >= 128; number >>= 7)
    out += static_cast<char>((number & 127) | 128);
  out += static_cast<char>(number);
}

/// Calls `see(difference, count)` for every run of equal differences in [begin, end).
template <typename See>
void forEachRunOf(llvm::ArrayRef<int64_t> values, size_t distance, size_t begin, size_t end, See see) {
  for (size_t i = begin, next; i < end; i = next) {
    const uint64_t difference = differenceAt(values, distance, i);
    for (next = i + 1; next < end && differenceAt(values, distance, next) == difference; ++next)
      ;
    see(difference, next - i);
  }
}

} // namespace

std::string packedColumn(llvm::ArrayRef<int64_t> values) {
  // What repeats does so all along, so the middle tells which distance is short.
  constexpr size_t sample = 1 << 13;
  const size_t begin = values.size() > sample ? (values.size() - sample) / 2 : 0;
  const size_t end = std::min(values.size(), begin + sample);
  size_t best = ~size_t{0}, bestDistance = 0;
  bool hasRuns = false;
  for (const size_t distance : {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192}) {
    size_t plain = 0, runs = 0;
    forEachRunOf(values, distance, begin, end, [&](uint64_t difference, size_t count) {
      plain += count * bytesOf(difference);
      runs += bytesOf(difference) + bytesOf(count - 1);
    });
    if (std::min(plain, runs) < best) {
      best = std::min(plain, runs);
      bestDistance = distance;
      hasRuns = runs < plain;
    }
  }
  std::string bytes = {static_cast<char>(bestDistance), static_cast<char>(hasRuns)};
  append(bytes, values.size());
  forEachRunOf(values, bestDistance, 0, values.size(), [&](uint64_t difference, size_t count) {
    for (size_t i = 0; i < (hasRuns ? 1 : count); ++i)
      append(bytes, difference);
    if (hasRuns)
      append(bytes, count - 1);
  });
  return llvm::encodeBase64(bytes);
}

} // namespace sluice
