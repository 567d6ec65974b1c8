// States of activations, starts and waits, and residency of weights against slow readings of their
// definitions: tables of words, and state kept op by op over two steps.
#include "VerifyHarness.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace sluice;
using namespace sluice::test;

namespace {

using Words = std::map<std::string, std::string>;

/// Per state what each op makes of it; an op that is not listed is a fault.
const std::map<std::string, Words> nextState = {
    {"none", {{"forward", "saved"}, {"forward keep input", "input"}, {"forward keep nothing", "gone"}}},
    {"input", {{"recompute", "saved"}, {"drop", "gone"}, {"drop keep input", "input"}}},
    {"saved",
     {{"backward", "done"},
      {"backward_input", "half"},
      {"drop", "gone"},
      {"drop keep input", "input"},
      {"offload", "host"},
      {"start offload", "leaving"}}},
    {"host", {{"drop", "gone"}, {"reload", "saved"}, {"start reload", "coming"}}},
    {"leaving", {{"wait offload", "host"}}},
    {"coming", {{"wait reload", "saved"}}},
    {"half", {{"backward_weight", "done"}}},
    {"gone", {}},
    {"done", {}}};

const std::vector<std::pair<std::string, std::function<void(DeviceProgram &)>>> ops = {
    {"forward", [](DeviceProgram &p) { p.forward(0, 0); }},
    {"forward keep input", [](DeviceProgram &p) { p.forward(0, 0, Keep::Input); }},
    {"forward keep nothing", [](DeviceProgram &p) { p.forward(0, 0, Keep::Nothing); }},
    {"recompute", [](DeviceProgram &p) { p.recompute(0, 0); }},
    {"backward", [](DeviceProgram &p) { p.backward(0, 0); }},
    {"backward_input", [](DeviceProgram &p) { p.backwardInput(0, 0); }},
    {"backward_weight", [](DeviceProgram &p) { p.backwardWeight(0, 0); }},
    {"drop", [](DeviceProgram &p) { p.drop(0, 0); }},
    {"drop keep input", [](DeviceProgram &p) { p.drop(0, 0, true); }},
    {"offload", [](DeviceProgram &p) { p.offload(0, 0); }},
    {"reload", [](DeviceProgram &p) { p.reload(0, 0); }},
    {"start offload", [](DeviceProgram &p) { p.offload(0, 0), p.started(); }},
    {"wait offload", [](DeviceProgram &p) { p.offload(0, 0), p.waited(); }},
    {"start reload", [](DeviceProgram &p) { p.reload(0, 0), p.started(); }},
    {"wait reload", [](DeviceProgram &p) { p.reload(0, 0), p.waited(); }}};

/// The rule of an op that its state does not list, by the contract's words for empty cells.
unsigned ruleOf(const std::string &state, const std::string &op, const std::vector<std::string> &before) {
  auto ran = [&](llvm::StringRef word) {
    return llvm::any_of(before, [&](llvm::StringRef other) { return other.starts_with(word); });
  };
  if (llvm::StringRef(op).starts_with("wait"))
    return 308;
  if (llvm::StringRef(op).starts_with("forward"))
    return 203;
  if (op == "backward_weight")
    return state == "done" ? 203 : 207;
  if (state == "leaving" || state == "coming")
    return 211;
  if (op == "recompute")
    return state == "saved" ? 203 : 208;
  if (op == "backward" || op == "backward_input")
    return ran("backward") ? 203 : 206;
  if (llvm::StringRef(op).starts_with("drop"))
    return state == "gone" && ran("drop") ? 203 : 206;
  const bool isOffload = llvm::StringRef(op).ends_with("offload");
  return (isOffload && state == "host") || (!isOffload && state == "saved" && ran("reload")) ||
                 (!isOffload && state == "saved" && ran("start reload"))
             ? 203
             : 206;
}

/// A life of one activation, its slow verdict and ours. Returns whether it is legal to its end.
bool compareLife(const std::vector<size_t> &life) {
  ScheduleBuilder builder = straight(1, 1);
  builder.program(0, [&](DeviceProgram &p) {
    for (size_t op : life)
      ops[op].second(p);
  });
  std::string state = "none", text;
  std::vector<std::string> before;
  unsigned expected = 0;
  for (size_t op : life) {
    const std::string &word = ops[op].first;
    text += word + "; ";
    const Words &next = nextState.at(state);
    if (auto found = next.find(word); found != next.end())
      state = found->second;
    else if (expected == 0)
      expected = ruleOf(state, word, before);
    if (expected != 0)
      break; // what follows a fault is of no interest: such lives end with it
    before.push_back(word);
  }
  if (expected == 0 && state != "done")
    expected = before.empty() ? 201 : 202;
  Checked checked = check(builder);
  if (expected == 0) {
    EXPECT_EQ(checked.text(), "") << text;
    return true;
  }
  EXPECT_EQ(checked.findings().size(), 1u) << text << "expected " << expected << "\n" << checked.text();
  const unsigned rule = checked.findings().empty() ? 0 : info(checked.findings()[0].rule).number;
  // A missing forward or backward comes before a transfer in flight and a wait without start.
  const bool mayLack = expected == 211 || expected == 308;
  const bool lacksForward =
      rule == 201 && llvm::none_of(before, [](llvm::StringRef word) { return word.starts_with("forward"); });
  EXPECT_TRUE(rule == expected || (mayLack && rule == 202) || lacksForward)
      << text << "expected " << expected << "\n"
      << checked.text();
  return false;
}

TEST(States, AllShortLives) {
  std::vector<std::vector<size_t>> lives = {{}};
  size_t legal = 0, compared = 0;
  for (size_t begin = 0, length = 0; length < 6; ++length) {
    const size_t end = lives.size();
    for (; begin < end; ++begin) {
      // Only lives that are legal so far go on.
      std::string state = "none";
      bool isLegal = true;
      for (size_t op : lives[begin]) {
        auto found = nextState.at(state).find(ops[op].first);
        isLegal &= found != nextState.at(state).end();
        state = isLegal ? found->second : state;
      }
      for (size_t op = 0; isLegal && op < ops.size(); ++op) {
        lives.push_back(lives[begin]);
        lives.back().push_back(op);
        legal += compareLife(lives.back());
        ++compared;
      }
    }
  }
  EXPECT_GT(legal, 10u);
  EXPECT_GT(compared, 1000u);
}

TEST(States, LongLegalLivesAndTheirFirstFault) {
  std::mt19937 random(7);
  size_t legal = 0;
  for (unsigned trial = 0; trial < 3000; ++trial) {
    std::vector<size_t> life;
    std::string state = "none";
    const size_t most = 3 + random() % 20;
    while (life.size() < most && state != "gone" && state != "done") {
      std::vector<size_t> possible;
      for (size_t op = 0; op < ops.size(); ++op)
        if (auto found = nextState.at(state).find(ops[op].first); found != nextState.at(state).end())
          if (found->second != "gone")
            possible.push_back(op);
      life.push_back(possible[random() % possible.size()]);
      state = nextState.at(state).at(ops[life.back()].first);
    }
    if (random() % 2)
      life.push_back(random() % ops.size());
    legal += compareLife(life);
  }
  EXPECT_GT(legal, 100u);
}

TEST(Starts, TheNthWaitBelongsToTheNthStart) {
  std::mt19937 random(11);
  size_t legal = 0;
  for (unsigned trial = 0; trial < 3000; ++trial) {
    ScheduleBuilder builder("starts", {2, 1, 1});
    builder.place([](Stage, Microbatch) { return 0; });
    // What each of both stages starts (true) and waits for; a bare order, so that gradients say nothing.
    std::vector<bool> calls[2];
    builder.program(0, [&](DeviceProgram &p) {
      for (Stage s : {0, 1})
        p.forward(s, 0);
      for (Stage s : {1, 0})
        p.backward(s, 0);
      for (unsigned i = random() % 8; i > 0; --i) {
        const unsigned stage = random() % 2;
        const bool isStart = random() % 2;
        if (stage == 0) // a line each, so that findings do not merge
          p.unshard(0);
        else
          p.unshard(1);
        isStart ? p.started() : p.waited();
        calls[stage].push_back(isStart);
      }
    });
    std::string expected;
    for (unsigned stage : {0, 1}) {
      // Literally: the place of the n-th start, and of the n-th wait.
      std::vector<size_t> starts, waits;
      for (size_t at = 0; at < calls[stage].size(); ++at)
        (calls[stage][at] ? starts : waits).push_back(at);
      bool lacksStart = waits.size() > starts.size();
      for (size_t n = 0; n < std::min(starts.size(), waits.size()); ++n)
        lacksStart |= waits[n] < starts[n];
      if (lacksStart)
        expected += fmt::format("308 {}\n", stage);
      else if (starts.size() > waits.size())
        expected += fmt::format("309 {}\n", stage);
    }
    std::vector<std::string> found;
    Checked checked = check(builder);
    for (const Finding &finding : checked.findings())
      if (unsigned number = info(finding.rule).number; number == 308 || number == 309)
        found.push_back(fmt::format("{} {}\n", number, llvm::StringRef(finding.op).split('(').second[0]));
    llvm::sort(found, [](const std::string &a, const std::string &b) { return a[4] < b[4]; });
    std::string text;
    for (const std::string &line : found)
      text += line;
    EXPECT_EQ(text, expected) << checked.text();
    legal += expected.empty();
  }
  EXPECT_GT(legal, 100u);
}

/// One stage whose weights are gathered and dropped at random while it runs.
struct RandomResidency {
  std::vector<std::string> words; ///< `unshard`, `start`, `wait`, `reshard`, `reduce`, `update`, or an op.
  bool reduceDrops = false;

  explicit RandomResidency(std::mt19937 &random) {
    reduceDrops = random() % 3 == 0;
    unsigned forwards = 0, backwards = 0, open = 0;
    auto maybe = [&] {
      const unsigned kind = random() % 9;
      if (kind < 2)
        words.push_back(kind == 0 ? "unshard" : "reshard");
      else if (kind == 2 && open == 0)
        words.push_back("start"), ++open;
      else if (kind < 5 && open > 0)
        words.push_back("wait"), --open;
    };
    while (backwards < 3) {
      maybe();
      if (forwards < 3 && (forwards == backwards || random() % 2))
        words.push_back(fmt::format("forward(0, {})", forwards++));
      else
        words.push_back(fmt::format("backward(0, {})", backwards++));
    }
    maybe();
    if (open > 0)
      words.push_back("wait");
    open = 0;
    words.push_back("reduce");
    maybe();
    if (open > 0)
      words.push_back("wait");
    words.push_back("update");
    if (random() % 2)
      words.push_back("unshard");
  }
  void write(DeviceProgram &p) const {
    for (const std::string &word : words) {
      const auto microbatch = static_cast<Microbatch>(word[word.size() - 2] - '0');
      if (word == "unshard")
        p.unshard(0);
      else if (word == "start")
        p.unshard(0), p.started();
      else if (word == "wait")
        p.unshard(0), p.waited();
      else if (word == "reshard")
        p.reshard(0);
      else if (word == "reduce")
        p.reduce(0);
      else if (word == "update")
        p.update(0);
      else if (word[0] == 'f')
        p.forward(0, microbatch);
      else
        p.backward(0, microbatch);
    }
  }
  /// `605 forward(0, 1)`: the first op of two steps that finds its weights absent or old; empty: none does.
  std::string firstLack() const {
    const bool gathers = llvm::is_contained(words, "unshard") || llvm::is_contained(words, "start");
    if (!gathers)
      return "";
    bool isThere = !llvm::is_contained(words, "reshard") && !reduceDrops, isComing = false;
    int version = 0, coming = 0, newest = 0;
    for (int step : {1, 2})
      for (const std::string &word : words) {
        (void)step;
        if (word == "unshard")
          isThere = true, isComing = false, version = newest;
        else if (word == "start" && !(isThere && version == newest))
          isThere = false, isComing = true, coming = newest;
        else if (word == "wait" && isComing)
          isThere = true, isComing = false, version = coming;
        else if (word == "reshard" || (word == "reduce" && reduceDrops))
          isThere = isComing = false;
        else if (word == "update")
          ++newest;
        else if (word.ends_with(")") && !isThere)
          return "606 " + word;
        else if (word.ends_with(")") && version < newest)
          return "605 " + word;
      }
    return "";
  }
};

TEST(Residency, FirstLackOfTwoSteps) {
  std::mt19937 random(5);
  size_t legal = 0, absent = 0, old = 0;
  for (unsigned trial = 0; trial < 4000; ++trial) {
    const RandomResidency life(random);
    ScheduleBuilder builder = straight(1, 3);
    builder.program(0, [&](DeviceProgram &p) { life.write(p); });
    CostModel costs = withReplicas(1, 2);
    costs.reshardsAfterReduce = life.reduceDrops;
    Checked checked = check(builder, &costs);
    std::string found;
    for (const Finding &finding : checked.findings())
      if (finding.severity == Severity::Error)
        found += fmt::format("{} {}", info(finding.rule).number, finding.op);
    const std::string expected = life.firstLack();
    EXPECT_EQ(found, expected) << llvm::join(life.words, "; ") << (life.reduceDrops ? " (reduce drops)" : "");
    legal += expected.empty();
    absent += llvm::StringRef(expected).starts_with("606");
    old += llvm::StringRef(expected).starts_with("605");
  }
  EXPECT_GT(legal, 100u);
  EXPECT_GT(absent, 100u);
  EXPECT_GT(old, 100u);
}

} // namespace
