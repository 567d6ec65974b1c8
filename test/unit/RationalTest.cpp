#include "Support/Rational.h"
#include "Support/Quantity.h"

#include <gtest/gtest.h>

using namespace sluice;

TEST(Rational, KeepsLowestTermsAndSign) {
  EXPECT_EQ(Rational::make(6, -4)->str(), "-3/2");
  EXPECT_EQ(Rational::make(0, 7)->str(), "0");
  EXPECT_FALSE(Rational::make(1, 0));
}

TEST(Rational, OverflowIsNothingNotAWrap) {
  Rational large(INT64_MAX);
  EXPECT_FALSE(add(large, Rational(1)));
  EXPECT_FALSE(multiply(large, large));
  EXPECT_EQ(add(large, Rational(-1))->num, INT64_MAX - 1);
  EXPECT_FALSE(divide(Rational(1), Rational(0)));
}

TEST(Rational, FloorAndCeilingOfNegatives) {
  Rational half = *Rational::make(-3, 2);
  EXPECT_EQ(half.floor(), -2);
  EXPECT_EQ(half.ceil(), -1);
}

TEST(Rational, DecimalRoundsAndCarries) {
  EXPECT_EQ(Rational::make(1, 3)->decimal(3), "0.333");
  EXPECT_EQ(Rational::make(19999, 10000)->decimal(3), "2");
  EXPECT_EQ(Rational::make(-1, 8)->decimal(), "-0.125");
}

TEST(Quantity, IsWrittenWithTheUnitAPersonWouldTake) {
  EXPECT_EQ(formatTime(Rational(330'000'000)), "330 ms");
  EXPECT_EQ(formatTime(Rational(406'060'000)), "406.06 ms");
  EXPECT_EQ(formatSize(Rational(int64_t(80) << 30)), "80 GiB");
  EXPECT_EQ(formatSize(Rational(1'000'000)), "1 MB");
  EXPECT_EQ(format(Quantity{Rational(50), bandwidthDimension}), "50 GB/s");
}
