// Legal schedules with one mistake, against the step machine: what it runs into must be an error of the
// family that names the cause, and what it gets through must be none. So must the legal variants themselves.
#include "StepPrograms.h"
#include "StepVariants.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

namespace sluice::machine {
namespace {

#ifdef SLUICE_THINNED // by builds with sanitizers
constexpr size_t rounds = 4;
#else
constexpr size_t rounds = 60;
#endif

/// What machine and checker say of one program.
struct Comparison {
  std::vector<Wrong> wrongs;
  std::string findings;
  std::vector<unsigned> blamed, checked;

  Comparison(const StepProgram &program, const Start &start)
      : wrongs(run(program)), blamed(machine::blamed(wrongs)),
        checked(checkedFamilies(program, start, findings)) {}

  bool isLegal() const { return wrongs.empty(); }
  bool agrees() const {
    if (isLegal() || checked.empty())
      return isLegal() && checked.empty();
    // What an op without its start or wait leaves undone may or may not be told beside it.
    if (std::any_of(wrongs.begin(), wrongs.end(), [](const Wrong &wrong) { return wrong.isUnpaired; }) &&
        std::find(checked.begin(), checked.end(), 3u) != checked.end())
      return true;
    return std::find(blamed.begin(), blamed.end(), checked.front()) != blamed.end();
  }
};

/// A tied weight is added up between the reductions, or the scales, of two of its stages. The definition
/// leaves the order of the two kinds of sums open, but says nothing of one that differs between the members.
bool isTiedBetween(const StepProgram &program) {
  for (uint32_t tie = 0; tie < program.setting.ties.size(); ++tie) {
    bool isBefore = false, isBehind = false;
    for (const std::vector<Statement> &ops : program.devices) {
      bool isAdded = false;
      for (const Statement &op : ops) {
        const std::vector<uint32_t> &stages = program.setting.ties[tie].stages;
        isAdded |= op.word == Word::ReduceTied && op.stage == tie;
        if ((op.word == Word::Reduce || op.word == Word::Scale) && op.prefix != Prefix::Wait &&
            std::find(stages.begin(), stages.end(), op.stage) != stages.end())
          (isAdded ? isBehind : isBefore) = true;
      }
    }
    if (isBefore && isBehind)
      return true;
  }
  return false;
}

/// Of the copies of a stage one scales its accumulator before the reduction and one behind it: the definition
/// follows the product of each accumulator alone.
bool isScaledApart(const StepProgram &program) {
  for (uint32_t stage = 0; stage < program.setting.stages; ++stage) {
    bool isBefore = false, isBehind = false;
    for (uint32_t device : program.setting.devicesOf(stage)) {
      bool isReduced = false;
      for (const Statement &op : program.devices[device]) {
        isReduced |= op.word == Word::Reduce && op.stage == stage;
        if (op.word == Word::Scale && op.stage == stage)
          (isReduced ? isBehind : isBefore) = true;
      }
    }
    if (isBefore && isBehind && program.setting.devicesOf(stage).size() > 1)
      return true;
  }
  return false;
}

/// Without one microbatch; the ones behind it move up.
StepProgram without(StepProgram program, uint32_t microbatch) {
  Setting &setting = program.setting;
  setting.deviceOf.erase(setting.deviceOf.begin() + microbatch);
  for (std::vector<int64_t> *sizes : {&setting.samples, &setting.tokens})
    if (!sizes->empty())
      sizes->erase(sizes->begin() + microbatch);
  --setting.microbatches;
  Blocks blocks = blocksOf(program);
  for (std::vector<Block> &ops : blocks) {
    for (Block &block : ops) {
      std::erase_if(block,
                    [&](const Statement &op) { return op.hasMicrobatch() && op.microbatch == microbatch; });
      for (Statement &op : block)
        op.microbatch -= op.hasMicrobatch() && op.microbatch > microbatch;
    }
    std::erase_if(ops, [](const Block &block) { return block.empty(); });
  }
  setBlocks(program, blocks);
  return program;
}

/// The smallest program found by leaving out microbatches on which the two disagree in the same way.
StepProgram smallest(StepProgram program, const Start &start) {
  const Comparison first(program, start);
  for (uint32_t m = 0; m < program.setting.microbatches && program.setting.microbatches > 1;) {
    if (program.setting.splits > 1)
      break;
    StepProgram smaller = without(program, m);
    const Comparison again(smaller, start);
    if (!again.agrees() && again.blamed == first.blamed && again.checked.empty() == first.checked.empty())
      program = std::move(smaller);
    else
      ++m;
  }
  return program;
}

/// Returns whether they agree; a test failure that shows why where they do not.
bool agree(const StepProgram &program, const Start &start, const std::string &what, bool &isLegal) {
  const Comparison both(program, start);
  isLegal = both.isLegal();
  if (both.agrees())
    return true;
  const StepProgram small = smallest(program, start);
  const Comparison shown(small, start);
  ADD_FAILURE() << start.name << ", " << what
                << "\nmachine: " << (shown.isLegal() ? "legal\n" : str(shown.wrongs))
                << "checker: " << (shown.findings.empty() ? "clean\n" : shown.findings) << text(small, start);
  return false;
}

TEST(Mutation, MistakesAreErrorsOfTheirFamilyAndLegalProgramsClean) {
  size_t legal = 0, broken = 0, failures = 0;
  std::map<unsigned, size_t> ofFamily;
  const std::vector<Start> all = starts(40);
  for (size_t i = 0; i < all.size() && failures < 5; ++i) {
    const Start &start = all[i];
    for (size_t round = 0; round < rounds && failures < 5; ++round) {
      Random random(1000 * i + round);
      std::string dress;
      StepProgram program = stepProgram(start.program, start.costs);
      if (round > 0)
        program = vary(std::move(program), random, dress);
      bool isLegal = false;
      failures += !agree(program, start, "legal with " + dress, isLegal);
      if (!isLegal) {
        ADD_FAILURE() << start.name << " with " << dress << " is not legal:\n" << str(run(program));
        ++failures;
        break;
      }
      for (unsigned mutant = 0; mutant < 5 && failures < 5; ++mutant) {
        std::string mistake;
        const StepProgram mutated = mutate(program, random, mistake);
        if (isTiedBetween(mutated) || isScaledApart(mutated))
          continue;
        failures += !agree(mutated, start, dress + ": " + mistake, isLegal);
        ++(isLegal ? legal : broken);
        if (!isLegal)
          ++ofFamily[blamed(run(mutated)).front()];
      }
    }
  }
  if (rounds < 60 || failures > 0)
    return;
  EXPECT_GT(legal, 3000u);
  EXPECT_GT(broken, 20000u);
  for (unsigned family : {2, 3, 4, 5, 6, 7, 8})
    EXPECT_GT(ofFamily[family], 20u) << family << "xx";
}

} // namespace
} // namespace sluice::machine
