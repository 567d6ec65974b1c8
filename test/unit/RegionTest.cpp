// Which settings fail, in words: what is said for known regions, and that a condition holds, as the language
// reads it, at exactly the settings it was made for.
#include "Driver/Region.h"
#include "Driver/Sweep.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

using namespace sluice;

namespace {

std::vector<Setting> product(std::vector<std::string> definitions) {
  std::string error;
  std::vector<Setting> settings = parseDefinitions(definitions, error);
  EXPECT_EQ(error, "");
  return settings;
}

int64_t number(const Setting &setting, size_t parameter) { return setting[parameter].value.number.num; }

/// The words for the settings at which `outcome` says Fails.
template <class Function> std::string regionOf(llvm::ArrayRef<Setting> settings, Function outcome) {
  std::vector<Outcome> outcomes;
  for (const Setting &setting : settings)
    outcomes.push_back(outcome(setting));
  return describeRegion(settings, outcomes);
}

/// The same for P=2..9 and M=1..17.
template <class Predicate> std::string over(Predicate fails) {
  return regionOf(product({"P=2..9", "M=1..17"}), [&](const Setting &setting) {
    return fails(number(setting, 0), number(setting, 1)) ? Outcome::Fails : Outcome::Passes;
  });
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// At which settings a `require` with the opposite of `condition` refuses a schedule.
std::vector<uint8_t> refusedBy(const std::string &condition, llvm::ArrayRef<Setting> settings) {
  SourceManager sources;
  FileLoader loader(sources);
  Diagnostics diagnostics;
  Compilation compilation(sources, loader);
  std::string text = replaced(replaced(condition, " and ", " && "), " or ", " || ");
  text = fmt::format("schedule a(P = 2, M = 2) {{\n  require !({}), \"no\";\n"
                     "  place s in 0..1 on s for m in 0..1;\n  device 0 {{ forward(0); backward(0); }}\n}}\n",
                     text);
  EXPECT_TRUE(compilation.load(*sources.addFile("a.sluice", text), diagnostics)) << text;
  Sweep swept = sweep(compilation, settings, {}, {1, {}, {}});
  std::vector<uint8_t> refused;
  for (uint8_t state : swept.schedules[1].states)
    refused.push_back((state & Sweep::Refused) != 0);
  return refused;
}

} // namespace

TEST(Region, Bounds) {
  EXPECT_EQ(over([](int64_t P, int64_t) { return P == 3; }), "where P == 3");
  EXPECT_EQ(over([](int64_t P, int64_t) { return P != 3; }), "where P != 3");
  EXPECT_EQ(over([](int64_t P, int64_t) { return P >= 5; }), "where P >= 5");
  EXPECT_EQ(over([](int64_t, int64_t M) { return M < 5; }), "where M <= 4");
  EXPECT_EQ(over([](int64_t P, int64_t) { return P > 3 && P < 6; }), "where P >= 4 and P <= 5");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return P >= 5 || M < 4; }), "where P >= 5 or M <= 3");
}

TEST(Region, TwoParameters) {
  EXPECT_EQ(over([](int64_t P, int64_t M) { return M < P; }), "where M < P");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return M <= P; }), "where M <= P");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return M == P; }), "where M == P");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return M < P - 1; }), "where M < P - 1");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return M < 2 * P; }), "where M < 2 * P");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return M % P != 0; }), "where mod(M, P) != 0");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return P + M >= 12; }), "where P + M >= 12");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return P >= 4 && M % P != 0; }),
            "where P >= 4 and mod(M, P) != 0");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return M > P && M % 2 == 1; }), "where M > P and mod(M, 2) == 1");
  EXPECT_EQ(over([](int64_t P, int64_t M) { return M % P >= 2 && M % P <= P - 3; }),
            "where mod(M, P) >= 2 and mod(M, P) < P - 2");
}

TEST(Region, Divisors) {
  EXPECT_EQ(over([](int64_t, int64_t M) { return M % 3 != 0; }), "where mod(M, 3) != 0");
  EXPECT_EQ(over([](int64_t, int64_t M) { return 48 % M != 0; }), "where mod(48, M) != 0");
}

TEST(Region, ThreeParameters) {
  std::vector<Setting> settings = product({"P=1..5", "v=1..4", "M=1..17"});
  auto over3 = [&](auto fails) {
    return regionOf(settings, [&](const Setting &s) {
      return fails(number(s, 0), number(s, 1), number(s, 2)) ? Outcome::Fails : Outcome::Passes;
    });
  };
  EXPECT_EQ(over3([](int64_t P, int64_t v, int64_t M) { return M % (P * v) != 0; }),
            "where mod(M, P * v) != 0");
  EXPECT_EQ(over3([](int64_t P, int64_t v, int64_t M) { return M < P * v; }), "where M < P * v");
  EXPECT_EQ(over3([](int64_t P, int64_t, int64_t M) { return M < P; }), "where M < P");
}

TEST(Region, Lists) {
  auto scattered = [](int64_t P, int64_t M) {
    return (P == 4 && M > 4 && M < 8) || (P == 5 && M == 6) || (P == 7 && (M == 1 || M == 2 || M == 11));
  };
  EXPECT_EQ(over(scattered), "at P=4: M = 5 to 7; P=5: M = 6; P=7: M = 1, 2, 11");
  // Rows that are equal stand together.
  EXPECT_EQ(over([](int64_t P, int64_t M) { return P == 6 || ((P == 3 || P == 8) && (M * M) % 7 == 4); }),
            "at P=3: M = 2, 5, 9, 12, 16; P=6: every M; P=8: M = 2, 5, 9, 12, 16");
  // v makes no difference, so it is not listed; each place stands for two settings.
  std::vector<Setting> settings = product({"P=2..20", "v=1,2", "M=1..40"});
  std::string text = regionOf(settings, [&](const Setting &s) {
    int64_t P = number(s, 0), M = number(s, 2);
    return (P * P * 7 + M * M * 3) % 31 == 5 ? Outcome::Fails : Outcome::Passes;
  });
  EXPECT_EQ(text.substr(0, 5), "at P=");
  EXPECT_EQ(text.find("v="), std::string::npos);
  EXPECT_NE(text.find("; and at "), std::string::npos) << text;
  EXPECT_LT(text.size(), 300u);
}

TEST(Region, OtherValues) {
  auto only = [](size_t parameter, int64_t value) {
    return [=](const Setting &s) { return number(s, parameter) == value ? Outcome::Fails : Outcome::Passes; };
  };
  EXPECT_EQ(regionOf(product({"fused=true,false", "M=1..4"}), only(0, 1)), "where fused == true");
  EXPECT_EQ(regionOf(product({"t=5 ms,10 ms,20 ms", "M=1..4"}),
                     [](const Setting &s) {
                       return s[0].value.number < product({"t=20 ms"})[0][0].value.number ? Outcome::Fails
                                                                                          : Outcome::Passes;
                     }),
            "where t <= 10 ms");
  // Values tried twice count once.
  EXPECT_EQ(product({"M=1..4,2..6"}).size(), 5u);
}

TEST(Region, NothingToAdd) {
  EXPECT_EQ(over([](int64_t P, int64_t M) { return P == 4 && M == 5; }), "");
  EXPECT_EQ(over([](int64_t, int64_t) { return true; }), "");
}

TEST(Region, Refused) {
  std::vector<Setting> settings = product({"P=2..9", "M=1..17"});
  auto refusing = [&](auto fails) {
    return regionOf(settings, [&](const Setting &s) {
      int64_t P = number(s, 0), M = number(s, 1);
      return M % P != 0 ? Outcome::Refused : fails(P, M) ? Outcome::Fails : Outcome::Passes;
    });
  };
  EXPECT_EQ(refusing([](int64_t, int64_t) { return true; }), "at every setting that require accepts");
  EXPECT_EQ(refusing([](int64_t P, int64_t M) { return M == P; }), "where M == P");
}

TEST(Region, Hidden) {
  std::vector<Setting> settings = product({"P=2..9", "M=1..17"});
  auto hiding = [&](auto hides, auto fails) {
    return regionOf(settings, [&](const Setting &s) {
      int64_t P = number(s, 0), M = number(s, 1);
      return hides(P, M) ? Outcome::Hidden : fails(P, M) ? Outcome::Fails : Outcome::Passes;
    });
  };
  auto odd = [](int64_t, int64_t M) { return M % 2 == 1; };
  // True of all settings, the others included.
  EXPECT_EQ(hiding([](int64_t P, int64_t M) { return M > P; }, [](int64_t P, int64_t M) { return M == P; }),
            "where M == P");
  EXPECT_EQ(hiding(odd, [](int64_t P, int64_t M) { return P > 3 && M < P; }),
            "where P >= 4 and M < P, leaving out 56 settings with other errors");
  EXPECT_EQ(hiding([](int64_t P, int64_t M) { return (P * P + 3 * M * M) % 7 < 4; },
                   [](int64_t, int64_t) { return true; })
                .substr(0, 29),
            "at every setting, leaving out");
}

/// Regions of all shapes, most of them no condition of the family: whatever is said is true.
TEST(Region, ConditionsHoldExactly) {
  std::vector<Setting> settings = product({"P=2..8", "M=1..11"});
  std::mt19937 random(7);
  auto draw = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  size_t conditions = 0, lists = 0;
  for (int round = 0; round < 400; ++round) {
    auto atom = [&] {
      int64_t kind = draw(0, 5), a = draw(1, 3), c = draw(-3, 9);
      return [=](int64_t P, int64_t M) {
        switch (kind) {
        case 0:
          return P <= c;
        case 1:
          return M >= c;
        case 2:
          return M < a * P + c - 3;
        case 3:
          return M % P == (c > 2 ? 0 : 1);
        case 4:
          return (a * M + P) % 5 == 2;
        default:
          return M * P > 4 * c;
        }
      };
    };
    auto first = atom(), second = atom();
    bool isAnd = draw(0, 1) == 1;
    std::vector<Outcome> outcomes;
    for (const Setting &setting : settings) {
      bool x = first(number(setting, 0), number(setting, 1)),
           y = second(number(setting, 0), number(setting, 1));
      outcomes.push_back((isAnd ? x && y : x || y) ? Outcome::Fails : Outcome::Passes);
    }
    std::string text = describeRegion(settings, outcomes);
    if (text.substr(0, 6) != "where ") {
      lists += text.substr(0, 3) == "at ";
      continue;
    }
    ++conditions;
    std::vector<uint8_t> refused = refusedBy(text.substr(6), settings);
    for (size_t i = 0; i < settings.size(); ++i)
      ASSERT_EQ(refused[i] != 0, outcomes[i] == Outcome::Fails) << text << " at " << str(settings[i]);
  }
  EXPECT_GT(conditions, 150u);
  EXPECT_GT(lists, 20u);
}
