// The schedule library at every legal size: no finding, every op once, bubble and activations as the
// formulas below say, which are written from the literature and from the orders, not from the library's text;
// and each `require` on both sides of its border.
#include "Driver/Compilation.h"
#include "Std/LibraryText.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace sluice;

namespace {

#ifdef SLUICE_THINNED            // by builds with sanitizers
constexpr bool isThinned = true; // the same code on fewer sizes
#else
constexpr bool isThinned = false;
#endif

/// One setting: sizes, and what the halves of every stage cost in ticks.
struct Sizes {
  int64_t P, M, v; ///< `v` is whatever third parameter the schedule has.
  int64_t forward = 1, input = 1, weight = 1;

  int64_t backward() const { return input + weight; }
  bool isEven() const { return forward == input && forward == weight; }
};

constexpr int64_t none = -1; ///< No formula, or none at this setting.

struct LibrarySchedule {
  const char *file, *name;
  const char *third; ///< Its third parameter, or null.
  std::function<bool(const Sizes &)> isLegal;
  std::function<int64_t(const Sizes &)> bubble;
  std::function<int64_t(const Sizes &, int64_t)> peak; ///< Activations on a device.
};

void PrintTo(const LibrarySchedule &schedule, std::ostream *stream) { *stream << schedule.name; }

int64_t roundOf(const Sizes &s) { return s.M / std::max<int64_t>(1, s.M / s.P); }
int64_t least(const Sizes &s) { return std::min({s.forward, s.input, s.weight}); }

/// (P - 1)(F + BW), the bubble of GPipe and of all that only reorder it.
int64_t classicBubble(const Sizes &s) { return (s.P - 1) * (s.forward + s.backward()); }
/// The same over looped chunks; with fewer microbatches than devices each round waits for the first to
/// come back.
int64_t loopedBubble(const Sizes &s) {
  return classicBubble(s) + (s.v - 1) * std::max<int64_t>(0, s.P - s.M) * (s.forward + s.backward());
}
/// (n - 1)(FB + BW - 3W) for n devices between an end and the middle and FB = F + BW, where F = B >= W.
int64_t dualpipeBubble(const Sizes &s, int64_t n) {
  return s.forward == s.input && s.weight <= s.input ? (n - 1) * (s.forward + 2 * s.backward() - 3 * s.weight)
                                                     : none;
}

bool any(const Sizes &) { return true; }
bool inRounds(const Sizes &s) { return s.M % std::max<int64_t>(1, s.M / s.P) == 0; }

const LibrarySchedule schedules[] = {
    {"naive", "naive", nullptr, any, [](const Sizes &s) { return s.M * classicBubble(s); },
     [](const Sizes &, int64_t) { return 1; }},
    {"gpipe", "gpipe", nullptr, any, classicBubble, [](const Sizes &s, int64_t) { return s.M; }},
    {"gpipe", "gpipe_reversed", nullptr, any, classicBubble, [](const Sizes &s, int64_t) { return s.M; }},
    {"one_f_one_b", "one_f_one_b", nullptr, any, classicBubble,
     [](const Sizes &s, int64_t d) { return std::min(s.P - d, s.M); }},
    {"eager_one_f_one_b", "eager_one_f_one_b", nullptr, any, classicBubble,
     [](const Sizes &s, int64_t d) { return std::min(2 * (s.P - d) - 1, s.M); }},
    {"one_f_one_b_overlapped", "one_f_one_b_overlapped", nullptr, any, classicBubble,
     [](const Sizes &s, int64_t d) { return std::min(2 * s.P - 2 * d, s.M); }},
    {"looped_bfs", "looped_bfs", "v", any, loopedBubble, [](const Sizes &s, int64_t) { return s.v * s.M; }},
    {"looped_bfs", "looped_bfs_ascending", "v", any, loopedBubble,
     [](const Sizes &s, int64_t) { return s.v * s.M; }},
    {"interleaved_pytorch", "interleaved_pytorch", "v", inRounds, loopedBubble,
     [](const Sizes &s, int64_t d) {
       return std::min(s.v * s.M, 2 * (s.P - 1 - d) + (s.v - 1) * roundOf(s) + 1);
     }},
    // Groups of P; with a shorter last group some orders are cyclic, which a test of their own counts.
    {"interleaved_megatron", "interleaved_megatron", "v",
     [](const Sizes &s) { return s.v >= 2 && s.M >= s.P; },
     [](const Sizes &s) { return s.M % s.P == 0 ? classicBubble(s) : none; },
     [](const Sizes &s, int64_t d) { return std::min(s.v * s.M, 2 * (s.P - 1 - d) + (s.v - 1) * s.P + 1); }},
    {"interleaved_overlapped", "interleaved_overlapped", "v", [](const Sizes &s) { return s.M % s.P == 0; },
     classicBubble,
     [](const Sizes &s, int64_t d) { return std::min(s.v * s.M, 2 * (s.P - d) + (s.v - 1) * s.P); }},
    // g = P.
    {"group_interleaved", "group_interleaved", "v", any,
     [](const Sizes &s) { return s.M % s.P == 0 ? (s.P - 1) * (s.forward + s.input) : none; },
     [](const Sizes &s, int64_t d) { return s.M >= s.P ? s.v * s.P - d : none; }},
    // F + B - W at most; an op shorter than a weight half bounds what that can fill.
    {"zb_h1", "zb_h1", nullptr, any,
     [](const Sizes &s) { return (s.P - 1) * (s.forward + s.input) - (std::min(s.P, s.M) - 1) * least(s); },
     [](const Sizes &s, int64_t) { return std::min(s.P, s.M); }},
    {"zb_h2", "zb_h2", nullptr, [](const Sizes &s) { return s.M >= 2 * s.P - 1; },
     // The span of a stage is (P - 1)(F + B - 2W) longer than its work, the stagger comes on top.
     [](const Sizes &s) {
       return (s.P - 1) * std::max({s.forward, s.forward + s.input - 2 * s.weight, s.input - s.forward});
     },
     [](const Sizes &s, int64_t) { return 2 * s.P - 1; }},
    {"interleaved_zero_bubble", "interleaved_zero_bubble", "v", inRounds,
     [](const Sizes &s) { return s.M >= s.P ? (s.P - 1) * (s.forward + s.input - least(s)) : none; },
     [](const Sizes &s, int64_t) { return std::min(s.v * s.M, s.P + (s.v - 1) * roundOf(s)); }},
    {"zbv", "zbv", nullptr, any,
     [](const Sizes &s) { return s.isEven() && s.M >= 2 * s.P - 1 ? (s.P - 1) * s.forward : none; },
     [](const Sizes &s, int64_t) { return s.M >= 2 * s.P - 1 ? 2 * s.P : none; }},
    {"zbv", "zbv_greedy", nullptr, [](const Sizes &s) { return s.M >= 2 * s.P - 1; },
     [](const Sizes &s) { return s.isEven() ? (s.P - 1) * s.forward : none; },
     [](const Sizes &s, int64_t) { return 2 * s.P; }},
    // The bare blocks; `tighten` makes the bubble of the paper's 3P - 7 chunk forwards from the first.
    {"v_half", "v_half", nullptr, any,
     [](const Sizes &s) {
       return s.isEven() && s.M >= s.P ? (s.P % 2 == 0 ? 7 * s.P / 2 - 2 : 7 * (s.P - 1) / 2) * s.forward
                                       : none;
     },
     [](const Sizes &s, int64_t) { return s.M > s.P ? (s.P + 2) / 2 * 2 : none; }},
    {"v_min", "v_min", nullptr, any,
     [](const Sizes &s) {
       return s.isEven() && s.P >= 2 && s.M >= 2 ? (4 * s.P - (s.P % 3 == 0 ? 3 : 5)) * s.forward : none;
     },
     nullptr},
    {"v_one_f_one_b", "v_one_f_one_b", nullptr, any, nullptr, nullptr},
    {"dualpipe", "dualpipe", nullptr,
     [](const Sizes &s) { return s.P % 2 == 0 && s.M % 2 == 0 && s.M >= 2 * s.P; },
     [](const Sizes &s) { return dualpipeBubble(s, s.P / 2); },
     [](const Sizes &s, int64_t) { return s.P + 1; }},
    {"dualpipev", "dualpipev", nullptr, [](const Sizes &s) { return s.M >= 2 * s.P; },
     [](const Sizes &s) { return dualpipeBubble(s, s.P); },
     [](const Sizes &s, int64_t) { return 2 * s.P + 1; }},
    // Each unit after the first lengthens the bubble by what the slower of the two directions waits.
    {"chimera", "chimera", nullptr, [](const Sizes &s) { return s.P % 2 == 0 && s.M % s.P == 0; },
     [](const Sizes &s) {
       const int64_t slower = std::max(s.forward, s.backward()), faster = std::min(s.forward, s.backward());
       return (s.P - 2) * (slower + (s.M / s.P - 1) * (slower - faster));
     },
     [](const Sizes &s, int64_t d) { return s.P / 2 + 1 + std::min(d, s.P - 1 - d); }},
    {"bitpipe", "bitpipe", nullptr, [](const Sizes &s) { return s.P % 2 == 0; },
     [](const Sizes &s) { return (s.P - 2) * std::max(s.forward, s.backward()); }, nullptr},
    {"wave", "wave", "W", [](const Sizes &s) { return s.M <= s.P; },
     [](const Sizes &s) { return s.M == s.P ? 2 * (s.P - 1) * std::max(s.forward, s.backward()) : none; },
     nullptr},
    {"deepspeed", "deepspeed", nullptr, any, classicBubble,
     [](const Sizes &s, int64_t d) { return std::min(s.P - d, s.M); }},
    // Costs are those of a split, so the bubble is 1F1B's over k.
    {"seq1f1b", "seq1f1b", "k", any, classicBubble,
     [](const Sizes &s, int64_t d) { return std::min(s.P - 1 - d + s.v, s.M * s.v); }},
    // Fill and drain of what is written out; between them there is no bubble.
    {"pipedream", "pipedream", nullptr, any, classicBubble,
     [](const Sizes &s, int64_t d) { return std::min(s.P - d, s.M); }},
    {"pipedream_2bw", "pipedream_2bw", "N", [](const Sizes &s) { return s.v >= s.P && s.M % s.v == 0; },
     classicBubble, [](const Sizes &s, int64_t d) { return s.P - d; }},
};

const char *semanticsOf(llvm::StringRef file) {
  return file.starts_with("pipedream") ? "training { semantics = asynchronous; }\n" : "";
}

/// A library schedule in a file with a model of its own, for any number of settings.
class LibraryUse {
public:
  /// `use`: `zb_h1(P, M)`, of the parameters P, M, v of the file. Pipelines that are never drained want a
  /// file that says so.
  LibraryUse(llvm::StringRef file, llvm::StringRef use) : compilation(sources, loader) {
    std::string text = fmt::format("param P = 4;\nparam M = 8;\nparam v = 2;\n"
                                   "param F = 1;\nparam B = 1;\nparam W = 1;\n"
                                   "model m {{ forward = F; backward_input = B; backward_weight = W; }}\n"
                                   "{}import \"std/{}\";\nschedule main = {};\n",
                                   semanticsOf(file), file.str(), use.str());
    Diagnostics diagnostics;
    isLoaded = compilation.load(*sources.addFile("library.sluice", std::move(text)), diagnostics);
    for (const Finding &finding : diagnostics.findings())
      ADD_FAILURE() << finding.message;
  }

  /// Runs one setting to its figures; `visit` sees what was compiled.
  std::vector<Finding> run(const Sizes &s, const std::function<void(Instance &)> &visit) {
    const std::pair<const char *, int64_t> values[] = {{"P", s.P},       {"M", s.M},     {"v", s.v},
                                                       {"F", s.forward}, {"B", s.input}, {"W", s.weight}};
    Setting setting;
    for (auto [name, value] : values)
      setting.push_back({name, Value::of(Rational(value))});
    Diagnostics diagnostics;
    if (isLoaded)
      compilation.run(setting, {}, Compilation::Depth::Figures, diagnostics, visit);
    return diagnostics.findings();
  }

private:
  SourceManager sources;
  FileLoader loader{sources};
  Compilation compilation;
  bool isLoaded = false;
};

std::string str(const Sizes &s) {
  return fmt::format("P={}, M={}, third={}, F={}, B={}, W={}", s.P, s.M, s.v, s.forward, s.input, s.weight);
}

/// Every pair of stage and microbatch has one forward and one whole or split backward, the input half first.
void expectEveryOpOnce(const Program &program) {
  std::vector<uint8_t> state(size_t(program.stages) * program.microbatches, 0);
  for (const Op &op : program.ops) {
    if (!op.isCompute())
      continue;
    uint8_t &is = state[size_t(op.stage) * program.microbatches + op.microbatch];
    const bool isForward = op.kind == OpKind::Forward, isWeight = op.kind == OpKind::BackwardWeight;
    ASSERT_EQ(int(is), isForward ? 0 : isWeight ? 2 : 1) << str(op);
    is = isForward ? 1 : op.kind == OpKind::BackwardInput ? 2 : 3;
  }
  for (size_t i = 0; i < state.size(); ++i)
    ASSERT_EQ(int(state[i]), 3) << "stage " << i / program.microbatches << ", microbatch "
                                << i % program.microbatches;
}

bool states(const Figures &figures, llvm::StringRef figure) {
  return llvm::any_of(figures.closed.stated, [&](const StatedForm &form) { return form.figure == figure; });
}

/// The figures against the formulas of the table, and against those the library states of itself: where the
/// table has one the library has to have one too, and one that is wrong is a finding.
void expectFormulas(const LibrarySchedule &schedule, const Sizes &s, const Instance &instance) {
  ASSERT_TRUE(instance.figures);
  const Figures &figures = *instance.figures;
  if (const int64_t bubble = schedule.bubble ? schedule.bubble(s) : none; bubble != none) {
    EXPECT_EQ(*figures.valueInBaseUnits("bubble_time"), Rational(bubble));
    EXPECT_TRUE(states(figures, "bubble_time")) << "the library states no bubble_time";
  }
  bool hasPeak = false;
  for (int64_t d = 0; schedule.peak && d < int64_t(instance.program.devices); ++d)
    if (const int64_t peak = schedule.peak(s, d); peak != none) {
      EXPECT_EQ(*figures.value("peak_activation", uint32_t(d)), Rational(peak)) << "device " << d;
      hasPeak = true;
    }
  // An equation with a number, as naive's, is checked but not listed as a form.
  const bool isNumber = schedule.name == llvm::StringRef("naive");
  EXPECT_TRUE(!hasPeak || isNumber || states(figures, "peak_activation"))
      << "the library states no peak_activation";
}

/// At one setting: refused by a `require` if it is not legal, else clean and as the formulas say.
void check(LibraryUse &use, const LibrarySchedule &schedule, const Sizes &s) {
  SCOPED_TRACE(std::string(schedule.name) + " at " + str(s));
  bool isCompiled = false;
  const std::vector<Finding> findings = use.run(s, [&](Instance &instance) {
    isCompiled = true;
    expectEveryOpOnce(instance.program);
    expectFormulas(schedule, s, instance);
  });
  EXPECT_EQ(isCompiled, schedule.isLegal(s));
  for (const Finding &finding : findings)
    if (schedule.isLegal(s) || finding.rule != Rule::RequireFailed)
      ADD_FAILURE() << finding.message;
  EXPECT_EQ(findings.empty(), schedule.isLegal(s));
}

/// Costs in turn: halves that are equal, that differ each way, that are free.
constexpr int64_t costs[][3] = {{1, 2, 1}, {2, 1, 1}, {2, 2, 1}, {1, 1, 2}, {3, 2, 1},
                                {1, 3, 2}, {2, 3, 3}, {1, 2, 0}, {3, 3, 3}};

class Library : public testing::TestWithParam<LibrarySchedule> {};

TEST_P(Library, IsCleanAtEverySizeAndHasItsClosedForms) {
  const LibrarySchedule &schedule = GetParam();
  const bool hasMicrobatches = schedule.name != llvm::StringRef("bitpipe");
  std::string arguments = hasMicrobatches ? "P = P, M = M" : "P = P";
  if (schedule.third)
    arguments += fmt::format(", {} = v", schedule.third);
  LibraryUse use(schedule.file, fmt::format("{}({})", schedule.name, arguments));
  size_t turn = 0;
  for (int64_t P = 1; P <= 12; P += isThinned && P > 4 ? 4 : 1)
    for (int64_t M = 1; M <= (hasMicrobatches ? 48 : 1); M += isThinned && M > 9 ? 13 : 1)
      for (int64_t v = schedule.third ? 1 : 2; v <= (schedule.third ? 4 : 2); ++v) {
        Sizes s{P, M, v};
        const bool isMegatron = schedule.name == llvm::StringRef("interleaved_megatron");
        if (isMegatron && v >= 2 && M > P && M % P != 0)
          continue; // below
        check(use, schedule, s);
        const auto &[forward, input, weight] = costs[turn++ % std::size(costs)];
        s.forward = forward, s.input = input, s.weight = weight;
        check(use, schedule, s);
        if (HasFailure())
          return; // one setting tells enough
      }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Library, testing::ValuesIn(schedules),
                         [](const auto &info) { return std::string(info.param.name); });

/// A group below P that ends the microbatches makes some of Megatron-LM's orders cyclic. The verdict tells
/// which: these are refused with that reason alone, the others are clean.
TEST(LibraryMegatron, ShortLastGroupsAreDecidedByTheVerdict) {
  unsigned whole = 0, clean = 0, cyclic = 0;
  for (int64_t N = 2; N <= 8; ++N) {
    LibraryUse use("interleaved_megatron", fmt::format("interleaved_megatron(P, M, v, N = {})", N));
    for (int64_t P = std::max<int64_t>(2, N - 2); P <= std::min<int64_t>(6, N); ++P)
      for (int64_t v = 2; v <= 4; ++v)
        for (int64_t M = N; M <= 3 * N; ++M) {
          const Sizes s{P, M, v};
          SCOPED_TRACE(str(s) + fmt::format(", N={}", N));
          const std::vector<Finding> findings = use.run(s, [](Instance &) {});
          const bool isWhole = M % N == 0 || M % N >= P;
          whole += isWhole;
          for (const Finding &finding : findings)
            EXPECT_TRUE(!isWhole && finding.rule == Rule::CyclicOrder) << finding.message;
          if (!isWhole)
            ++(findings.empty() ? clean : cyclic);
        }
  }
  EXPECT_EQ(whole, 225u);
  EXPECT_EQ(clean, 222u);
  EXPECT_EQ(cyclic, 48u);
}

/// Groups below P: more bubble, less memory.
TEST(LibraryGroups, SmallerGroupsTradeBubbleForMemory) {
  for (int64_t g = 1; g <= 8; ++g) {
    LibraryUse use("group_interleaved", fmt::format("group_interleaved(P, M, v, g = {})", g));
    for (int64_t P = g; P <= 8; ++P)
      for (int64_t M = 1; M <= (isThinned ? 9 : 20); ++M)
        for (int64_t v = 1; v <= 4; ++v) {
          const Sizes s{P, M, v};
          SCOPED_TRACE(str(s) + fmt::format(", g={}", g));
          const std::vector<Finding> findings = use.run(s, [&](Instance &instance) {
            expectEveryOpOnce(instance.program);
            ASSERT_TRUE(instance.figures);
            if (2 * g >= P && M % g == 0) {
              EXPECT_EQ(*instance.figures->valueInBaseUnits("bubble_time"),
                        Rational(2 * (P - 1) + (v - 1) * (P - g)));
            }
            if (2 * g >= P && M >= P) {
              EXPECT_EQ(*instance.figures->value("peak_activation"), Rational((v - 1) * g + P));
            }
          });
          EXPECT_TRUE(findings.empty());
          if (HasFailure())
            return;
        }
  }
}

/// The V schedules with fill and drain pulled forward, against the overheads that the authors' own code gives
/// in chunk forwards where forward, input half and weight half cost the same.
TEST(LibraryTightened, BubblesAreThoseOfTheAuthors) {
  struct Tightened {
    const char *name;
    std::function<int64_t(int64_t)> bubble, peak;
  };
  const Tightened all[] = {
      {"v_half", [](int64_t P) { return P < 3        ? none
                                        : P % 2 == 0 ? 3 * P - 7
                                                     : 3 * P - 4; },
       [](int64_t P) { return (P + 2) / 2; }},
      {"v_min", [](int64_t P) { return P < 2        ? none
                                       : P % 3 == 0 ? 4 * P - 7
                                                    : 4 * P - 5; },
       [](int64_t P) { return (P + 4) / 3; }},
      {"v_one_f_one_b", [](int64_t P) { return P == 4    ? 15
                                               : P == 8  ? 33
                                               : P == 16 ? 75
                                                         : none; },
       [](int64_t P) { return (2 * P + 3) / 3; }},
  };
  for (const Tightened &schedule : all) {
    LibraryUse use(schedule.name, fmt::format("tighten({}(P, M))", schedule.name));
    for (int64_t P = 1; P <= (isThinned ? 8 : 16); ++P)
      for (int64_t M = 2 * P; M <= (isThinned ? 2 * P : 48); M += 1 + M / 8) {
        const Sizes s{P, M, 2};
        SCOPED_TRACE(std::string(schedule.name) + " at " + str(s));
        const std::vector<Finding> findings = use.run(s, [&](Instance &instance) {
          expectEveryOpOnce(instance.program);
          ASSERT_TRUE(instance.figures);
          const Figures &figures = *instance.figures;
          if (const int64_t bubble = schedule.bubble(P); bubble != none) {
            EXPECT_EQ(*figures.valueInBaseUnits("bubble_time"), Rational(bubble));
            // Where three divides P no simple form fits 1F1B-V: 8, 22 and 36, then 52.
            EXPECT_TRUE(states(figures, "bubble_time") || schedule.name == llvm::StringRef("v_one_f_one_b"));
          }
          EXPECT_EQ(*figures.value("peak_activation"), Rational(2 * schedule.peak(P)));
        });
        EXPECT_TRUE(findings.empty());
        if (HasFailure())
          return;
      }
  }
}

/// A constraint on both sides: `legal` is the last setting that keeps it, `illegal` the first that does not.
struct Border {
  const char *file, *legal, *illegal, *message;
};
const Border borders[] = {
    {"zb_h2", "zb_h2(4, 7)", "zb_h2(4, 6)",
     "the longer warm-up needs 2P - 1 microbatches; with fewer, zb_h1 does the same (M = 6, P = 4)"},
    {"zbv", "zbv_greedy(4, 7)", "zbv_greedy(4, 6)",
     "the steady state needs 2P - 1 microbatches (M = 6, P = 4)"},
    {"interleaved_megatron", "interleaved_megatron(4, 8, v = 2)", "interleaved_megatron(4, 8, v = 1)",
     "one chunk a device is one_f_one_b, with half this warm-up (v = 1)"},
    {"interleaved_megatron", "interleaved_megatron(4, 8, N = 4)", "interleaved_megatron(4, 8, N = 3)",
     "a group holds P to M microbatches (P = 4, N = 3, M = 8)"},
    {"interleaved_megatron", "interleaved_megatron(4, 8, N = 8)", "interleaved_megatron(4, 8, N = 9)",
     "a group holds P to M microbatches (P = 4, N = 9, M = 8)"},
    {"interleaved_megatron", "interleaved_megatron(4, 8, extra = 0)",
     "interleaved_megatron(4, 8, extra = -1)", "the warm-up cannot be shorter (extra = -1)"},
    {"interleaved_pytorch", "interleaved_pytorch(1, 8)", "interleaved_pytorch(0, 8)",
     "there is at least one device (P = 0)"},
    {"interleaved_pytorch", "interleaved_pytorch(4, 10)", "interleaved_pytorch(4, 9)",
     "the microbatches divide into div(M, P) equal rounds: a multiple of P always does (M = 9, rounds = 2)"},
    {"interleaved_zero_bubble", "interleaved_zero_bubble(1, 8)", "interleaved_zero_bubble(0, 8)",
     "there is at least one device (P = 0)"},
    {"interleaved_zero_bubble", "interleaved_zero_bubble(4, 10)", "interleaved_zero_bubble(4, 9)",
     "the microbatches divide into div(M, P) equal rounds: a multiple of P always does (M = 9, rounds = 2)"},
    {"interleaved_overlapped", "interleaved_overlapped(4, 8)", "interleaved_overlapped(4, 9)",
     "a group holds P microbatches: M is a multiple of P (P = 4, M = 9)"},
    {"group_interleaved", "group_interleaved(4, 8, g = 1)", "group_interleaved(4, 8, g = 0)",
     "a group holds 1 to P microbatches (g = 0, P = 4)"},
    {"group_interleaved", "group_interleaved(4, 8, g = 4)", "group_interleaved(4, 8, g = 5)",
     "a group holds 1 to P microbatches (g = 5, P = 4)"},
    {"dualpipe", "dualpipe(8, 16)", "dualpipe(8, 14)",
     "each direction needs P microbatches: M is at least 2P (M = 14, P = 8)"},
    {"dualpipe", "dualpipe(8, 20)", "dualpipe(8, 19)",
     "each direction takes half of the microbatches: M is even (M = 19)"},
    {"dualpipe", "dualpipe(8, 20)", "dualpipe(7, 20)",
     "the directions mirror each other: the number of devices is even (P = 7)"},
    {"dualpipev", "dualpipev(4, 8)", "dualpipev(4, 7)",
     "fill and drain take 2P microbatches: M is at least 2P (M = 7, P = 4)"},
    {"chimera", "chimera(4, 8)", "chimera(4, 9)",
     "a unit holds P microbatches: M is a multiple of P (M = 9, P = 4)"},
    {"chimera", "chimera(2, 6)", "chimera(3, 6)",
     "the directions mirror each other: the number of devices is even (P = 3)"},
    {"chimera", "chimera(2, 6)", "chimera(0, 6)",
     "the directions mirror each other: the number of devices is even (P = 0)"},
    {"bitpipe", "bitpipe(4)", "bitpipe(5)",
     "the directions mirror each other: the number of devices is even (P = 5)"},
    {"bitpipe", "bitpipe(2)", "bitpipe(0)",
     "the directions mirror each other: the number of devices is even (P = 0)"},
    {"seq1f1b", "seq1f1b(4, 4, k = 1)", "seq1f1b(4, 4, k = 0)",
     "a microbatch has at least one split (k = 0)"},
    {"pipedream_2bw", "pipedream_2bw(4, 12, N = 4)", "pipedream_2bw(4, 12, N = 3)",
     "an update takes at least P microbatches: with fewer, two versions are not enough (N = 3, P = 4)"},
    {"pipedream_2bw", "pipedream_2bw(4, 12, N = 4)", "pipedream_2bw(4, 13, N = 4)",
     "the microbatches are whole batches of N (M = 13, N = 4)"},
    {"wave", "wave(4, 4)", "wave(4, 5)",
     "the waves hold at most P microbatches; run the others as a step of their own (M = 5, P = 4)"},
};

std::vector<Finding> findingsOf(const Border &border, const char *use) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  std::string text =
      fmt::format("{}import \"std/{}\";\nschedule main = {};\n", semanticsOf(border.file), border.file, use);
  if (compilation.load(*sources.addFile("border.sluice", std::move(text)), diagnostics))
    compilation.run({}, {}, Compilation::Depth::Figures, diagnostics, [](Instance &) {});
  return diagnostics.findings();
}

TEST(LibraryBorders, EachRequireHoldsOnOneSideAndSpeaksOnTheOther) {
  for (const Border &border : borders) {
    SCOPED_TRACE(border.illegal);
    EXPECT_TRUE(findingsOf(border, border.legal).empty());
    const std::vector<Finding> findings = findingsOf(border, border.illegal);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].rule, Rule::RequireFailed);
    EXPECT_EQ(findings[0].message, border.message);
  }
}

/// Lines of the library that begin with `start`.
unsigned countLines(llvm::StringRef start) {
  unsigned count = 0;
  for (const LibraryFile &file : libraryFiles()) {
    llvm::SmallVector<llvm::StringRef> lines;
    file.text.split(lines, '\n');
    for (llvm::StringRef line : lines)
      count += line.starts_with(start);
  }
  return count;
}

/// A schedule or a `require` that is added wants its rows here.
TEST(LibraryBorders, EveryScheduleAndEveryRequireIsInTheTables) {
  std::vector<std::string> named;
  for (const Border &border : borders)
    named.push_back(std::string(border.file) + ": " +
                    llvm::StringRef(border.message).rsplit(" (").first.str());
  llvm::sort(named);
  named.erase(llvm::unique(named), named.end());
  EXPECT_EQ(named.size(), countLines("  require "));
  EXPECT_EQ(std::size(schedules), countLines("schedule "));
  EXPECT_EQ(std::size(schedules), countLines("expect "));
}

} // namespace
