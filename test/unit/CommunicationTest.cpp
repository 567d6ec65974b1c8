// Written communication against a slow model that runs the programs with real queues: what PyTorch has
// written is clean, and every program made from it by dropping, repeating, moving, swapping or grouping sends
// and receives gets a finding exactly if the queues stick, mix messages up or leave some over.
#include "Driver/Compilation.h"
#include "Passes/PostCells.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace sluice::test {
namespace {

/// One op with its place in a device's program.
using Programs = std::vector<std::vector<Op>>;

struct Loaded {
  Program program;
  CostModel costs;
};

std::optional<Loaded> load(const std::string &name) {
  SourceManager sources;
  FileLoader loader(sources);
  Diagnostics diagnostics;
  Compilation compilation(sources, loader);
  FileLoader::Result file = loader.openSchedule(std::string(SLUICE_CSVS "/") + name + ".csv");
  std::optional<Loaded> result;
  if (!file.error.empty() || !compilation.load(file.text, diagnostics))
    return result;
  compilation.run({}, {}, Compilation::Depth::Elaborate, diagnostics, [&](Instance &instance) {
    result = Loaded{std::move(instance.program), std::move(instance.costs)};
    result->costs.channels = {}; // the queues below are unbounded
    result->costs.hasChannelModel = false;
  });
  return result;
}

Programs split(const Program &program) {
  Programs programs;
  for (uint32_t device = 0; device < program.devices; ++device)
    programs.push_back(program.opsOf(device).vec());
  return programs;
}

Program join(const Program &like, const Programs &programs) {
  Program program = like;
  program.ops.clear();
  program.siteOf.clear();
  program.frameOf.clear();
  program.sites.clear();
  program.deviceBegin = {0};
  for (const std::vector<Op> &ops : programs) {
    program.ops.insert(program.ops.end(), ops.begin(), ops.end());
    program.deviceBegin.push_back(program.size());
  }
  return program;
}

/// Gradient, stage that makes it, microbatch.
using Value = std::tuple<bool, int, uint32_t>;

Value carried(const Op &op) {
  switch (op.kind) {
  case OpKind::SendActivation:
    return {false, op.stage, op.microbatch};
  case OpKind::RecvActivation:
    return {false, op.stage - 1, op.microbatch};
  case OpKind::SendGradient:
    return {true, op.stage, op.microbatch};
  default:
    return {true, op.stage + 1, op.microbatch};
  }
}

/// Runs everything as far as it goes; channels hold any number of messages.
class Queues {
public:
  explicit Queues(const Program &program)
      : program(program), at(program.deviceBegin.begin(), program.deviceBegin.end() - 1),
        hasPosted(program.devices) {}

  bool isGood() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t d = 0; d < program.devices; ++d)
        while (at[d] < program.deviceBegin[d + 1] && step(d))
          moved = true;
    }
    for (uint32_t d = 0; d < program.devices; ++d)
      good &= at[d] == program.deviceBegin[d + 1];
    for (auto &[channel, sent] : sends)
      good &= sent.size() == receives[channel].size();
    for (auto &[channel, taken] : receives)
      good &= sends[channel] == taken;
    return good;
  }

private:
  using Channel = std::pair<uint32_t, uint32_t>;

  Channel channelOf(uint32_t d, const Op &op) const {
    auto [isGradient, maker, m] = carried(op);
    int user = isGradient ? maker - 1 : maker + 1;
    uint32_t other = program.deviceOf(static_cast<uint32_t>(op.isSend() ? user : maker), m);
    return op.isSend() ? Channel{d, other} : Channel{other, d};
  }
  bool hasArrived(uint32_t d, const Value &value) const {
    auto receive = slotOf.find({d, value});
    return receive != slotOf.end() && sends.count(receive->second.first) &&
           sends.at(receive->second.first).size() > receive->second.second;
  }

  bool step(uint32_t d) {
    const OpId first = at[d], end = std::max(program.postedEnd(first), program.groupEnd(first));
    if (!std::exchange(hasPosted[d], 1))
      for (OpId id = first; id < end; ++id)
        post(d, program.ops[id]);
    for (OpId id = first; id < end; ++id)
      if (!isDone(d, program.ops[id]))
        return false;
    for (OpId id = first; id < end; ++id)
      made.insert(result(program.ops[id]));
    at[d] = end;
    hasPosted[d] = 0;
    return true;
  }
  static Value result(const Op &op) {
    bool isGradient = op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
    return isGradient || op.kind == OpKind::Forward ? Value{isGradient, op.stage, op.microbatch}
                                                    : Value{false, -1, 0};
  }
  void post(uint32_t d, const Op &op) {
    if (!op.isCommunication())
      return;
    Channel channel = channelOf(d, op);
    Value value = carried(op);
    if (op.isSend()) {
      good &= made.count(value) > 0;
      sends[channel].push_back(value);
      good &= llvm::count(sends[channel], value) == 1;
    } else {
      good &= slotOf.emplace(std::pair(d, value), std::pair(channel, receives[channel].size())).second;
      receives[channel].push_back(value);
    }
  }
  bool isDone(uint32_t d, const Op &op) {
    if (op.isCommunication())
      return op.isSend() || program.receivesWaitAtUse || hasArrived(d, carried(op));
    bool isBackward = op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput;
    int maker = isBackward ? op.stage + 1 : op.stage - 1;
    if ((!isBackward && op.kind != OpKind::Forward) || maker < 0 ||
        maker >= static_cast<int>(program.stages) ||
        program.deviceOf(static_cast<uint32_t>(maker), op.microbatch) == d)
      return true;
    Value value{isBackward, maker, op.microbatch};
    if (!slotOf.count({d, value})) {
      good = false; // used before its receive; it goes on as if nothing were wrong
      return true;
    }
    return hasArrived(d, value);
  }

  const Program &program;
  std::vector<OpId> at;
  std::vector<char> hasPosted; // of the statement where each device stands
  std::map<Channel, std::vector<Value>> sends, receives;
  std::map<std::pair<uint32_t, Value>, std::pair<Channel, size_t>> slotOf;
  std::set<Value> made;
  bool good = true;
};

/// Errors alone: a program may be right and still need buffers.
std::string findingsOf(const Program &program, const CostModel &costs) {
  Diagnostics diagnostics;
  const Program posted = program.receivesWaitAtUse ? postCells(program) : program;
  verify(posted, ProgramIndex(posted), costs, diagnostics);
  std::string text;
  for (const Finding &finding : diagnostics.findings())
    if (finding.severity == Severity::Error)
      text += fmt::format("{}: {}\n", info(finding.rule).number, finding.message);
  return text;
}

std::string textOf(const Program &program) {
  std::string text;
  for (uint32_t d = 0; d < program.devices; ++d) {
    text += fmt::format("device {}:", d);
    for (const Op &op : program.opsOf(d))
      text +=
          fmt::format(" {}{}{}", op.has(GroupFirst) ? "{ " : "", op.has(GroupFollower) ? "& " : "", str(op));
    text += "\n";
  }
  return text;
}

constexpr const char *files[] = {"1F1B_2_4_1_comms", "Interleaved1F1B_2_4_2_comms",
                                 "InterleavedZeroBubble_4_8_2_comms", "DualPipeV_2_4_2_comms_defer"};

class Communication : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    loaded = load(GetParam());
    ASSERT_TRUE(loaded);
    ASSERT_TRUE(loaded->program.isExplicit);
  }
  std::optional<Loaded> loaded;
};

TEST_P(Communication, IsCleanAsWritten) {
  for (bool atUse : {true, false}) {
    loaded->program.receivesWaitAtUse = atUse;
    EXPECT_EQ(findingsOf(loaded->program, loaded->costs), "");
    EXPECT_TRUE(Queues(loaded->program).isGood());
  }
}

/// Of each send and receive: without it, and with it twice.
TEST_P(Communication, EveryDroppedOrRepeatedPostIsFound) {
  const Programs programs = split(loaded->program);
  for (size_t d = 0; d < programs.size(); ++d)
    for (size_t i = 0; i < programs[d].size(); ++i) {
      if (!programs[d][i].isCommunication())
        continue;
      Programs dropped = programs, repeated = programs;
      auto at = static_cast<ptrdiff_t>(i);
      dropped[d].erase(dropped[d].begin() + at);
      repeated[d].insert(repeated[d].begin() + at, programs[d][i]);
      EXPECT_NE(findingsOf(join(loaded->program, dropped), loaded->costs), "")
          << d << " " << str(programs[d][i]);
      EXPECT_NE(findingsOf(join(loaded->program, repeated), loaded->costs), "")
          << d << " " << str(programs[d][i]);
    }
}

/// Two sends, or two receives, of one channel change places.
TEST_P(Communication, EverySwapOnAChannelIsFound) {
  const Programs programs = split(loaded->program);
  unsigned swaps = 0;
  for (size_t d = 0; d < programs.size(); ++d)
    for (size_t i = 0; i < programs[d].size(); ++i)
      for (size_t j = i + 1; j < programs[d].size(); ++j) {
        const Op &a = programs[d][i], &b = programs[d][j];
        auto peer = [&](const Op &op) {
          auto [isGradient, maker, m] = carried(op);
          int other = !op.isSend() ? maker : isGradient ? maker - 1 : maker + 1;
          return loaded->program.deviceOf(static_cast<uint32_t>(other), m);
        };
        if (!a.isCommunication() || !b.isCommunication() || a.isSend() != b.isSend() || peer(a) != peer(b))
          continue;
        Programs swapped = programs;
        std::swap(swapped[d][i], swapped[d][j]);
        ++swaps;
        EXPECT_NE(findingsOf(join(loaded->program, swapped), loaded->costs), "") << str(a) << " " << str(b);
      }
  EXPECT_GT(swaps, 10u);
}

TEST_P(Communication, FindingsAgreeWithQueues) {
  std::mt19937 random(7);
  unsigned bad = 0, good = 0;
  for (unsigned round = 0; round < 4000; ++round) {
    Programs programs = split(loaded->program);
    for (unsigned change = random() % 3; change < 3; ++change) {
      std::vector<Op> &ops = programs[random() % programs.size()];
      std::vector<size_t> posts;
      for (size_t i = 0; i < ops.size(); ++i)
        if (ops[i].isCommunication())
          posts.push_back(i);
      if (posts.empty())
        continue;
      size_t post = posts[random() % posts.size()], other = posts[random() % posts.size()];
      auto at = [&](size_t i) { return ops.begin() + static_cast<ptrdiff_t>(i); };
      // Few places away, so that many of the programs stay good.
      size_t near = std::min(ops.size() - 1, std::max<size_t>(post, 2) - 2 + random() % 5);
      switch (random() % 8) {
      case 0:
        ops.erase(at(post));
        break;
      case 1:
        ops.insert(at(other), Op(ops[post]));
        break;
      case 2:
        std::swap(ops[post], ops[other]);
        break;
      default:
        if (post < near)
          std::rotate(at(post), at(post + 1), at(near + 1));
        else
          std::rotate(at(near), at(post), at(post + 1));
      }
    }
    auto isTorn = [](const std::vector<Op> &ops) { // a post stands between the members of an overlap
      for (size_t i = 1; i < ops.size(); ++i)
        if (ops[i].has(OverlapFollower) && !ops[i - 1].has(OverlapFirst) && !ops[i - 1].has(OverlapFollower))
          return true;
      return false;
    };
    if (llvm::any_of(programs, isTorn))
      continue;
    if (round % 2) // neighbours become groups
      for (std::vector<Op> &ops : programs)
        for (size_t i = 0; i < ops.size(); ++i)
          if (ops[i].isCommunication()) {
            bool follows = i > 0 && ops[i - 1].isCommunication() && random() % 2;
            ops[i].flags = follows ? GroupFollower : GroupFirst;
          }
    Program program = join(loaded->program, programs);
    program.receivesWaitAtUse = round % 3 == 0;
    const std::string findings = findingsOf(program, loaded->costs);
    const bool isGood = Queues(program).isGood();
    ++(isGood ? good : bad);
    ASSERT_EQ(findings.empty(), isGood) << findings << textOf(program);
  }
  EXPECT_GT(good, 300u);
  EXPECT_GT(bad, 300u);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Communication, testing::ValuesIn(files),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace sluice::test
