#include "Emit/PackedColumn.h"

#include "llvm/Support/Base64.h"

#include <gtest/gtest.h>
#include <random>

using namespace sluice;

namespace {

/// As Emit/PackedColumn.h describes the format.
std::vector<int64_t> unpacked(const std::string &text) {
  std::vector<char> bytes;
  EXPECT_FALSE(static_cast<bool>(llvm::decodeBase64(text, bytes)));
  size_t at = 2;
  auto number = [&] {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes[at++]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128)
        return value;
    }
  };
  const auto distance = static_cast<unsigned char>(bytes[0]);
  std::vector<int64_t> values(number());
  for (size_t i = 0; i < values.size();) {
    const uint64_t coded = number();
    const uint64_t difference = coded % 2 ? ~(coded / 2) : coded / 2;
    for (uint64_t more = bytes[1] ? number() : 0, j = 0; j <= more; ++j, ++i)
      values[i] = static_cast<int64_t>(
          difference + (distance > 0 && i >= distance ? static_cast<uint64_t>(values[i - distance]) : 0));
  }
  EXPECT_EQ(at, bytes.size());
  return values;
}

} // namespace

TEST(PackedColumn, ReadsBackEqual) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  for (const std::vector<int64_t> &values :
       {std::vector<int64_t>{}, {0}, {-1}, {127, 128, -64, -65}, {most, least, 0, most, -1, least}})
    EXPECT_EQ(unpacked(packedColumn(values)), values);
  std::mt19937_64 random(1);
  for (unsigned round = 0; round < 300; ++round) {
    std::vector<int64_t> values(random() % 400);
    const size_t period = 1 + random() % 12;
    const uint64_t range = uint64_t{1} << random() % 64, noise = random() % 3;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = i < period || random() % 100 < noise ? static_cast<int64_t>(random() % range)
                                                       : values[i - period] + static_cast<int64_t>(period);
    ASSERT_EQ(unpacked(packedColumn(values)), values) << "round " << round;
  }
}

TEST(PackedColumn, WhatRepeatsIsShort) {
  std::vector<int64_t> steady, constant(100'000, 7);
  for (int64_t i = 0; i < 50'000; ++i)
    steady.insert(steady.end(), {i, 1'000'000 + i}); // as microbatches of forwards and backwards
  EXPECT_EQ(unpacked(packedColumn(steady)), steady);
  EXPECT_LT(packedColumn(steady).size(), 40u);
  EXPECT_LT(packedColumn(constant).size(), 20u);
}
