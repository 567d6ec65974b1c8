// What the outputs share: times as exact text, and rows for intervals.
#include "Emit/Packing.h"
#include "Emit/TimeText.h"

#include <gtest/gtest.h>

#include <random>

using namespace sluice;

namespace {

CostModel costsOf(Rational unit, bool ticks, std::string display) {
  CostModel costs;
  costs.ticks = ticks;
  costs.unit = unit;
  costs.displayUnit = std::move(display);
  return costs;
}

/// The value of a plain decimal; nothing for any other text.
std::optional<Rational> read(const std::string &text) {
  const size_t point = text.find('.');
  int64_t grain = 1, digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == point)
      continue;
    if (text[i] < '0' || text[i] > '9')
      return std::nullopt;
    digits = digits * 10 + (text[i] - '0');
    grain *= point != std::string::npos && i > point ? 10 : 1;
  }
  return Rational::make(digits, grain);
}

} // namespace

TEST(TimeText, DecimalsWhereTheyAreExact) {
  EXPECT_EQ(exactText(*Rational::make(25, 2)), "12.5");
  EXPECT_EQ(exactText(*Rational::make(1, 3)), "1/3");
  EXPECT_EQ(exactText(*Rational::make(7, 2'500'000)), "0.0000028");
  EXPECT_EQ(exactText(-4), "-4");
}

TEST(TimeText, CountsTheUnitOfTheFile) {
  EXPECT_EQ(inDisplayUnit(costsOf(500, false, "ms"), 25), "0.0125");
  EXPECT_EQ(inDisplayUnit(costsOf(*Rational::make(1, 3), true, ""), 4), "4/3");
  EXPECT_EQ(displayUnitOf(costsOf(1, true, "")), "tick");
}

TEST(TimeText, MicrosecondsAreExactWhereADecimalIs) {
  const Microseconds nanoseconds(costsOf(*Rational::make(5, 4), false, "ms"));
  EXPECT_TRUE(nanoseconds.isExact());
  EXPECT_EQ(nanoseconds.at(0), "0");
  EXPECT_EQ(nanoseconds.at(1), "0.00125");
  EXPECT_EQ(nanoseconds.at(800), "1");
  EXPECT_EQ(nanoseconds.from(800, 1200), "0.5");
  const Microseconds ticks(costsOf(7, true, ""));
  EXPECT_EQ(ticks.at(1'000'000'000'000), "7000000000000");
}

TEST(TimeText, RoundedMicrosecondsStillAddUp) {
  std::mt19937 random(7);
  for (int64_t den : {3, 7, 2520, 999'999'937}) {
    const Microseconds time(costsOf(*Rational::make(1, den), true, ""));
    EXPECT_FALSE(time.isExact()) << den;
    for (int i = 0; i < 200; ++i) {
      const auto begin = static_cast<int64_t>(random() % 1'000'000'000);
      const auto end = begin + static_cast<int64_t>(random() % 1'000);
      const auto from = read(time.at(begin)), length = read(time.from(begin, end)), to = read(time.at(end));
      ASSERT_TRUE(from && length && to) << time.at(begin);
      EXPECT_EQ(*add(*from, *length), *to);
      // Half of the last of nine places.
      const auto exact = *Rational::make(begin, den);
      const auto error = *subtract(*from, exact);
      EXPECT_LE(std::abs(error.toDouble()), 0.51e-9);
    }
  }
}

TEST(Packing, NothingLiesOnEachOtherInAsFewRowsAsThereMustBe) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<int64_t, int64_t>> intervals;
    int64_t begin = 0;
    for (int i = 0; i < 40; ++i) {
      begin += static_cast<int64_t>(random() % 4);
      intervals.push_back({begin, begin + static_cast<int64_t>(random() % 12)});
    }
    Packing packing;
    std::vector<std::vector<std::pair<int64_t, int64_t>>> rows(intervals.size());
    unsigned most = 0;
    for (const auto &interval : intervals) {
      rows[packing.place(interval.first, interval.second)].push_back(interval);
      // Of those that are longer than nothing, at the moment behind each begin.
      unsigned at = 0;
      for (const auto &[from, to] : intervals)
        at += from <= interval.first && to > interval.first;
      most = std::max(most, at);
    }
    for (const auto &row : rows)
      for (size_t i = 1; i < row.size(); ++i)
        EXPECT_LE(row[i - 1].second, row[i].first);
    EXPECT_GE(packing.rows(), most);
    EXPECT_LE(packing.rows(), most + 1); // one that takes no time stands beside those that do
  }
}
