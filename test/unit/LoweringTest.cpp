// Passes that write out what a schedule implies: communication, unshards, reductions; and orders as PyTorch
// reads them. Against PyTorch's own lowerings (test/Formats/Inputs/pytorch), and against slow versions of
// each rule on random schedules.
#include "Driver/Compilation.h"
#include "Elaborate/Cells.h"
#include "Formats/PytorchCsv.h"
#include "Passes/BackwardHalves.h"
#include "Passes/LowerCommunication.h"
#include "Passes/LowerReductions.h"
#include "Passes/LowerSharding.h"
#include "RandomSchedules.h"

#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>

using namespace sluice;

namespace {

constexpr CommunicationPlacement placements[] = {
    CommunicationPlacement::Early, CommunicationPlacement::JustInTime, CommunicationPlacement::Deferred};

/// The schedule `NAME(P, M)` or `NAME(P, M, v)` of the library; nothing where a `require` refuses it.
std::optional<FormattedSchedule> libraryProgram(const std::string &name, const std::string &arguments) {
  const std::string file = name == "gpipe_reversed" ? "gpipe" : name;
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  std::optional<FormattedSchedule> result;
  std::string text = fmt::format("import \"std/{}\";\nschedule main = {}({});\n", file, name, arguments);
  if (compilation.load(*sources.addFile("test.sluice", text), diagnostics))
    compilation.run({}, {}, Compilation::Depth::Elaborate, diagnostics, [&](Instance &instance) {
      if (instance.isCompiled)
        result = {std::move(instance.program), std::move(instance.costs), {}};
    });
  return result;
}

std::string read(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string written(const FormattedSchedule &schedule, const PytorchOptions &options) {
  std::vector<std::string> lost;
  std::string error;
  std::optional<std::string> text = writePytorchCsv(schedule, options, lost, error);
  EXPECT_TRUE(text.has_value()) << error;
  return text.value_or("");
}

/// The ops of each row.
std::vector<std::vector<Op>> rowsOf(const std::string &csv) {
  std::vector<std::vector<Op>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line);
    for (std::string text; std::getline(cells, text, ',');) {
      Cell cell = parseCell(text);
      EXPECT_EQ(cell.badAt, llvm::StringRef::npos) << text;
      rows.back().insert(rows.back().end(), cell.ops.begin(), cell.ops.end());
    }
  }
  return rows;
}

std::vector<Op> only(llvm::ArrayRef<Op> ops, bool (*keeps)(const Op &)) {
  std::vector<Op> result;
  for (const Op &op : ops)
    if (keeps(op))
      result.push_back(op);
  return result;
}
bool isNoCommunication(const Op &op) { return !op.isCommunication(); }
bool isUseful(const Op &op) { return op.isUseful(); }

/// PyTorch's name of a golden and ours.
const std::map<std::string, std::string> libraryNames = {{"GPipe", "gpipe"},
                                                         {"1F1B", "one_f_one_b"},
                                                         {"LoopedBFS", "looped_bfs"},
                                                         {"Interleaved1F1B", "interleaved_pytorch"},
                                                         {"InterleavedZeroBubble", "interleaved_zero_bubble"},
                                                         {"ZBVZeroBubble", "zbv"},
                                                         {"DualPipeV", "dualpipev"}};

/// `NAME_P_M_v_comms.csv` or `…_comms_defer.csv`.
struct GoldenName {
  std::string name, P, M, v, rest;
  explicit GoldenName(const std::string &stem) {
    std::istringstream parts(stem);
    for (std::string *part : {&name, &P, &M, &v})
      std::getline(parts, *part, '_');
    std::getline(parts, rest);
  }
  bool hasChunks() const { return name == "LoopedBFS" || name.starts_with("Interleaved"); }
  FormattedSchedule schedule() const {
    return *libraryProgram(libraryNames.at(name), P + ", " + M + (hasChunks() ? ", " + v : ""));
  }
};

void compareGoldens(const std::string &rest, CommunicationPlacement placement, unsigned expected) {
  unsigned count = 0;
  for (const auto &entry : std::filesystem::directory_iterator(SLUICE_PYTORCH)) {
    GoldenName golden(entry.path().stem());
    if (entry.path().extension() != ".csv" || golden.rest != rest)
      continue;
    ++count;
    EXPECT_EQ(written(golden.schedule(), {.communication = true, .placement = placement}), read(entry.path()))
        << entry.path();
  }
  EXPECT_EQ(count, expected);
}

/// Whether all devices of the reduction `id` have come to it: to the call of the same number.
bool haveAllCome(const Program &program, OpId id, const std::vector<bool> &hasCome) {
  auto callsOn = [&](uint32_t device) {
    std::vector<OpId> calls;
    for (OpId op = program.deviceBegin[device]; op < program.deviceBegin[device + 1]; ++op)
      if (program.ops[op] == program.ops[id])
        calls.push_back(op);
    return calls;
  };
  const std::vector<OpId> own = callsOn(program.deviceOf(id));
  const auto number = static_cast<size_t>(std::find(own.begin(), own.end(), id) - own.begin());
  for (uint32_t device : program.devicesOf(program.ops[id].stage))
    if (const std::vector<OpId> calls = callsOn(device); number >= calls.size() || !hasCome[calls[number]])
      return false;
  return true;
}

/// The rounds of early placement as they are described, without any waiting list.
std::optional<std::vector<std::vector<Op>>> slowEarly(const Program &program) {
  const ProgramIndex index(program);
  std::vector<bool> done(program.size()), hasCome(program.size());
  std::vector<OpId> next(program.deviceBegin.begin(), program.deviceBegin.end() - 1);
  std::vector<std::vector<Op>> rows(program.devices);
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t d = 0; d < program.devices; ++d) {
      const OpId last = program.deviceBegin[d + 1];
      if (next[d] == last)
        continue;
      const OpId end = std::min(program.groupEnd(next[d]), last);
      bool ready = true;
      for (OpId op = next[d]; op < end; ++op)
        for (const Edge &edge : inputsOf(program, index, program.ops[op]))
          ready = ready && done[edge.from];
      if (program.ops[next[d]].kind == OpKind::Reduce) {
        moved |= !hasCome[next[d]];
        hasCome[next[d]] = true;
        ready = haveAllCome(program, next[d], hasCome);
      }
      if (!ready)
        continue;
      for (OpId op = next[d]; op < end; ++op) {
        done[op] = true;
        rows[d].push_back(program.ops[op]);
      }
      for (OpId op = next[d]; op < end; ++op) {
        const Op &producer = program.ops[op];
        const bool isForward = producer.kind == OpKind::Forward;
        if (!isForward && producer.kind != OpKind::Backward && producer.kind != OpKind::BackwardInput)
          continue;
        if (isForward ? producer.stage + 1u == program.stages : producer.stage == 0)
          continue;
        const auto peer = static_cast<uint16_t>(isForward ? producer.stage + 1 : producer.stage - 1);
        const uint32_t to = program.deviceOf(peer, producer.microbatch);
        if (to == d)
          continue;
        rows[d].push_back({isForward ? OpKind::SendActivation : OpKind::SendGradient, 0, producer.stage,
                           producer.microbatch});
        rows[to].push_back(
            {isForward ? OpKind::RecvActivation : OpKind::RecvGradient, 0, peer, producer.microbatch});
      }
      next[d] = end;
      moved = true;
    }
  }
  for (uint32_t d = 0; d < program.devices; ++d)
    if (next[d] != program.deviceBegin[d + 1])
      return std::nullopt;
  return rows;
}

/// The other device of a send or receive.
uint32_t peerOf(const Program &program, const Op &op) {
  const bool isBehind = op.kind == OpKind::SendActivation || op.kind == OpKind::RecvGradient;
  return program.deviceOf(isBehind ? op.stage + 1u : op.stage - 1u, op.microbatch);
}

/// Stage and microbatch of what a message carries: the op that made it.
std::tuple<bool, uint32_t, uint32_t> payload(const Op &op) {
  const bool isGradient = op.kind == OpKind::SendGradient || op.kind == OpKind::RecvGradient;
  uint32_t stage = op.stage;
  if (op.kind == OpKind::RecvActivation)
    --stage;
  if (op.kind == OpKind::RecvGradient)
    ++stage;
  return {isGradient, stage, op.microbatch};
}

/// Sends follow their producer at once, receives come before their consumer, and every message has both.
void expectComplete(const Program &lowered, bool keepsOrder) {
  using Message = std::tuple<bool, uint32_t, uint32_t>;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Message>> sent, received;
  for (uint32_t d = 0; d < lowered.devices; ++d) {
    std::set<Message> here; // made or received so far
    for (const Op &op : lowered.opsOf(d)) {
      if (op.isSend()) {
        EXPECT_TRUE(here.contains(payload(op))) << str(op) << " stands before its producer";
        sent[{d, peerOf(lowered, op)}].push_back(payload(op));
      } else if (op.isCommunication()) {
        received[{peerOf(lowered, op), d}].push_back(payload(op));
        EXPECT_TRUE(here.insert(payload(op)).second) << str(op) << " is received twice";
      } else if (op.kind == OpKind::Forward) {
        EXPECT_TRUE(op.stage == 0 || here.contains({false, op.stage - 1, op.microbatch})) << str(op);
        here.insert({false, op.stage, op.microbatch});
      } else if (op.kind == OpKind::Backward || op.kind == OpKind::BackwardInput) {
        EXPECT_TRUE(op.stage + 1u == lowered.stages || here.contains({true, op.stage + 1, op.microbatch}))
            << str(op);
        here.insert({true, op.stage, op.microbatch});
      }
    }
  }
  if (!keepsOrder)
    for (auto *messages : {&sent, &received})
      for (auto &[ends, list] : *messages)
        std::sort(list.begin(), list.end());
  EXPECT_EQ(sent, received);
}

/// The windows of unshards and reshards as they are described: a look ahead from every op.
std::vector<Op> slowSharding(llvm::ArrayRef<Op> ops, size_t active) {
  std::set<uint16_t> gathered;
  std::vector<Op> result;
  auto change = [&](OpKind kind, uint16_t stage) {
    result.push_back({kind, 0, stage, noMicrobatch});
    kind == OpKind::Unshard ? void(gathered.insert(stage)) : void(gathered.erase(stage));
  };
  for (size_t i = 0; i < ops.size(); ++i) {
    size_t end = i + 1; // of the overlap
    while (end < ops.size() && ops[end].has(OverlapFollower))
      ++end;
    auto computes = [&](const Op &op) { return op.isCompute(); };
    if (!ops[i].has(OverlapFollower) && std::any_of(ops.begin() + i, ops.begin() + end, computes)) {
      std::vector<uint16_t> next;
      for (size_t j = i; j < ops.size() && (next.size() < active || ops[j].has(OverlapFollower)); ++j)
        if (ops[j].isCompute() && std::find(next.begin(), next.end(), ops[j].stage) == next.end())
          next.push_back(ops[j].stage);
      for (uint16_t stage : std::set(gathered))
        if (std::find(next.begin(), next.end(), stage) == next.end())
          change(OpKind::Reshard, stage);
      for (uint16_t stage : next)
        if (!gathered.contains(stage))
          change(OpKind::Unshard, stage);
    }
    result.push_back(ops[i]);
  }
  for (uint16_t stage : std::set(gathered))
    change(OpKind::Reshard, stage);
  return result;
}

} // namespace

TEST(Lowering, EarlyIsPytorchs) { compareGoldens("comms", CommunicationPlacement::Early, 25); }

TEST(Lowering, DeferredIsPytorchs) { compareGoldens("comms_defer", CommunicationPlacement::Deferred, 27); }

// PyTorch's late receives are not `inferred(just_in_time)`: that one never receives ahead of a consumer
// except to keep the order of the sends, while PyTorch's lower rank also receives before a send to the peer.
TEST(Lowering, JustInTimeIsNotDeferred) {
  FormattedSchedule schedule = *libraryProgram("interleaved_pytorch", "2, 4, 2");
  PytorchOptions options{.communication = true, .placement = CommunicationPlacement::JustInTime};
  std::string text = written(schedule, options);
  EXPECT_NE(text.find("0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0"), std::string::npos) << text;
  options.placement = CommunicationPlacement::Deferred;
  text = written(schedule, options);
  EXPECT_NE(text.find("0F1,2RECV_F0,0SEND_F1,2F0,2RECV_F1,2SEND_F0"), std::string::npos) << text;
}

TEST(Lowering, RandomCommunication) {
  unsigned placed = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Program program = slow::randomSchedule(seed).build();
    ProgramIndex index(program);
    auto slow = slowEarly(program);
    for (CommunicationPlacement placement : placements) {
      std::optional<Program> lowered = lowerCommunication(program, index, placement);
      if (placement != CommunicationPlacement::JustInTime) {
        ASSERT_EQ(lowered.has_value(), slow.has_value());
      }
      if (!lowered)
        continue;
      ++placed;
      ASSERT_TRUE(lowered->isExplicit);
      for (uint32_t d = 0; d < program.devices; ++d) {
        ASSERT_EQ(only(lowered->opsOf(d), isNoCommunication), program.opsOf(d).vec());
        if (placement == CommunicationPlacement::Early) {
          ASSERT_EQ(lowered->opsOf(d).vec(), (*slow)[d]);
        }
      }
      expectComplete(*lowered, placement != CommunicationPlacement::Deferred);
      if (HasFailure())
        return;
    }
  }
  EXPECT_GT(placed, 2900u);
}

// Device 1 takes microbatch 1 before 0, which device 0 sends first: both are received before the first
// consumer, in the order of the sends.
TEST(Lowering, JustInTimeKeepsTheOrderOfSends) {
  Program program;
  program.stages = program.devices = 2;
  program.microbatches = 2;
  program.placement = StageTable<uint32_t>({0, 1});
  program.deviceBegin = {0, 2, 4};
  program.ops = {{OpKind::Forward, 0, 0, 0},
                 {OpKind::Forward, 0, 0, 1},
                 {OpKind::Forward, 0, 1, 1},
                 {OpKind::Forward, 0, 1, 0}};
  std::optional<Program> lowered =
      lowerCommunication(program, ProgramIndex(program), CommunicationPlacement::JustInTime);
  const std::vector<Op> receiver = {{OpKind::RecvActivation, 0, 1, 0},
                                    {OpKind::RecvActivation, 0, 1, 1},
                                    {OpKind::Forward, 0, 1, 1},
                                    {OpKind::Forward, 0, 1, 0}};
  EXPECT_EQ(lowered->opsOf(1).vec(), receiver);
}

// Export takes orders that have not been checked. One message is sent for the two forwards of device 1.
TEST(Lowering, AnOpThatIsWrittenTwiceIsReceivedOnce) {
  Program program;
  program.stages = program.devices = 2;
  program.microbatches = 1;
  program.placement = StageTable<uint32_t>({0, 1});
  program.deviceBegin = {0, 1, 3};
  program.ops = {{OpKind::Forward, 0, 0, 0}, {OpKind::Forward, 0, 1, 0}, {OpKind::Forward, 0, 1, 0}};
  for (CommunicationPlacement placement : placements) {
    std::optional<Program> lowered = lowerCommunication(program, ProgramIndex(program), placement);
    ASSERT_TRUE(lowered);
    const std::vector<Op> receiver = {
        {OpKind::RecvActivation, 0, 1, 0}, {OpKind::Forward, 0, 1, 0}, {OpKind::Forward, 0, 1, 0}};
    EXPECT_EQ(lowered->opsOf(1).vec(), receiver);
  }
}

TEST(Lowering, CyclicOrder) {
  Program program;
  program.stages = program.devices = 2;
  program.microbatches = 1;
  program.placement = StageTable<uint32_t>({0, 1});
  program.deviceBegin = {0, 2, 4};
  program.ops = {{OpKind::Backward, 0, 0, 0},
                 {OpKind::Forward, 0, 0, 0},
                 {OpKind::Forward, 0, 1, 0},
                 {OpKind::Backward, 0, 1, 0}};
  EXPECT_FALSE(lowerCommunication(program, ProgramIndex(program), CommunicationPlacement::Early));
  EXPECT_FALSE(lowerCommunication(program, ProgramIndex(program), CommunicationPlacement::Deferred));
}

TEST(Lowering, RandomSharding) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Program program = slow::randomSchedule(seed).build();
    for (uint32_t active = 1; active <= 4; ++active) {
      Program lowered = lowerSharding(program, active);
      for (uint32_t d = 0; d < program.devices; ++d)
        ASSERT_EQ(lowered.opsOf(d).vec(), slowSharding(program.opsOf(d), active)) << "active " << active;
    }
  }
}

TEST(Lowering, ReductionsFollowTheLastContribution) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Program program = slow::randomSchedule(seed).build(), lowered = lowerReductions(program);
    for (uint32_t d = 0; d < program.devices; ++d) {
      std::map<uint32_t, unsigned> left; // contributions to come, by stage
      auto isContribution = [](const Op &op) {
        return op.kind == OpKind::Backward || op.kind == OpKind::BackwardWeight;
      };
      for (const Op &op : lowered.opsOf(d))
        left[op.stage] += isContribution(op);
      std::set<uint32_t> due; // stages whose last contribution was just made
      for (const Op &op : lowered.opsOf(d)) {
        if (op.kind == OpKind::Reduce) {
          EXPECT_EQ(due.erase(op.stage), 1u) << str(op) << " is not due";
          continue;
        }
        EXPECT_TRUE(due.empty() || op.has(OverlapFollower)) << str(op) << " stands before a reduction";
        if (isContribution(op) && --left[op.stage] == 0)
          due.insert(op.stage);
      }
      EXPECT_TRUE(due.empty());
      auto isNoReduction = [](const Op &op) { return op.kind != OpKind::Reduce; };
      ASSERT_EQ(only(lowered.opsOf(d), isNoReduction), only(program.opsOf(d), isNoReduction));
    }
    if (HasFailure())
      return;
  }
}

TEST(Lowering, HalvesMergeAndSplit) {
  FormattedSchedule schedule = *libraryProgram("one_f_one_b", "4, 8");
  Program split = splitBackwards(schedule.program);
  EXPECT_EQ(split.size(), schedule.program.size() + 4 * 8);
  EXPECT_TRUE(equal(mergeHalves(split), schedule.program));
  const std::string csv = written(schedule, {.halves = PytorchOptions::Halves::Split});
  EXPECT_NE(csv.find("3F0,3I0,3W0,3F1"), std::string::npos) << csv;
  EXPECT_EQ(written({split, {}, {}}, {.halves = PytorchOptions::Halves::Merged}), written(schedule, {}));
  // Halves of different microbatches side by side stay.
  FormattedSchedule zeroBubble = *libraryProgram("zb_h1", "4, 8");
  const std::string merged = written(zeroBubble, {.halves = PytorchOptions::Halves::Merged});
  EXPECT_NE(merged.find("0B0"), std::string::npos) << merged;
  EXPECT_NE(merged.find("3W"), std::string::npos) << merged;
}

// Export, then read: the original order; without what was added, in all placements.
TEST(Lowering, PytorchRoundTripOfTheLibrary) {
  const std::vector<std::pair<std::string, bool>> schedules = {{"gpipe", false},
                                                               {"gpipe_reversed", false},
                                                               {"one_f_one_b", false},
                                                               {"eager_one_f_one_b", false},
                                                               {"looped_bfs", true},
                                                               {"interleaved_megatron", true},
                                                               {"interleaved_pytorch", true},
                                                               {"interleaved_zero_bubble", true},
                                                               {"zb_h1", false},
                                                               {"zb_h2", false},
                                                               {"zbv", false},
                                                               {"v_half", false},
                                                               {"v_min", false},
                                                               {"v_one_f_one_b", false},
                                                               {"dualpipev", false},
                                                               {"wave", true}};
  std::map<std::string, unsigned> tried;
  for (const auto &[name, hasChunks] : schedules)
    for (unsigned P : {1, 2, 3, 4, 8})
      for (unsigned M : {1, 2, 5, 8, 16, 24})
        for (unsigned v : {1, 2, 3}) {
          if (!hasChunks && v > 1)
            continue;
          auto schedule =
              libraryProgram(name, fmt::format("{}, {}{}", P, M, hasChunks ? fmt::format(", {}", v) : ""));
          if (!schedule)
            continue;
          ++tried[name];
          SCOPED_TRACE(fmt::format("{} P={} M={} v={}", name, P, M, v));
          auto rows = rowsOf(written(*schedule, {}));
          ASSERT_EQ(rows.size(), schedule->program.devices);
          for (uint32_t d = 0; d < rows.size(); ++d)
            ASSERT_EQ(rows[d], only(schedule->program.opsOf(d), isUseful));
          // Megatron-LM's last group of fewer than P microbatches can be a cycle by itself.
          if (!slowEarly(schedule->program)) {
            EXPECT_EQ(name, "interleaved_megatron");
            EXPECT_NE(M % P, 0u);
            std::vector<std::string> lost;
            std::string error;
            EXPECT_FALSE(writePytorchCsv(*schedule, {.communication = true}, lost, error));
            EXPECT_NE(error.find("cyclic"), std::string::npos) << error;
            continue;
          }
          for (CommunicationPlacement placement : placements) {
            auto whole = rowsOf(written(*schedule, {.communication = true, .placement = placement}));
            ASSERT_EQ(whole.size(), rows.size());
            for (uint32_t d = 0; d < rows.size(); ++d)
              ASSERT_EQ(only(whole[d], isUseful), rows[d]);
          }
        }
  for (const auto &[name, hasChunks] : schedules)
    EXPECT_GE(tried[name], 4u) << name;
}

TEST(Lowering, WhatPytorchCannotSay) {
  std::vector<std::string> lost;
  std::string error;
  FormattedSchedule schedule = *libraryProgram("one_f_one_b", "2, 4");
  ASSERT_TRUE(writePytorchCsv(schedule, {}, lost, error));
  EXPECT_EQ(lost, (std::vector<std::string>{
                      "2 reductions: compute_only has none, PyTorch reduces after a stage's last backward",
                      "2 updates: the training loop steps the optimizer"}));
  // Two copies of a stage: the rows cannot say which microbatches go where.
  FormattedSchedule bidirectional = *libraryProgram("dualpipe", "4, 8");
  EXPECT_FALSE(writePytorchCsv(bidirectional, {}, lost, error));
  EXPECT_NE(error.find("stage 0 has copies on devices 0 and 3"), std::string::npos) << error;
  // Before 2.9 there are no overlaps, before 2.10 no reductions.
  lost.clear();
  FormattedSchedule overlapping = *libraryProgram("dualpipev", "2, 4");
  std::optional<std::string> old =
      writePytorchCsv(overlapping, {.communication = true, .release = 6}, lost, error);
  ASSERT_TRUE(old) << error;
  EXPECT_EQ(old->find("OVERLAP"), std::string::npos);
  EXPECT_EQ(old->find("REDUCE_GRAD"), std::string::npos);
  EXPECT_EQ(lost.back(),
            "6 overlaps: OVERLAP_F_B is known from PyTorch 2.9 on; their ops stand one after the other");
}
