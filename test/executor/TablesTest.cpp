// Tables of every construct, carried out by an interpreter of their own under every channel model that they
// were verified for; as many slots as the figures say; and damaged tables, which it must notice.
#include "Compiled.h"
#include "Forms.h"
#include "RandomExplicit.h"
#include "TableMachine.h"

#include "Events/Completion.h"
#include "Passes/AssignSlots.h"
#include "Passes/PostedProgram.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <random>

using namespace sluice;
using namespace sluice::test;
using runtime::ChannelModel;
using RuntimeOp = runtime::Op;

namespace {

constexpr ChannelModel models[] = {ChannelModel::unbounded, ChannelModel::eager, ChannelModel::rendezvous,
                                   ChannelModel::rendezvousPair, ChannelModel::rendezvousDevice};

bool isLazy(const Program &program, const CostModel &costs) {
  return !program.isExplicit && costs.communication != "just_in_time";
}

MachineOptions optionsFor(const CompiledSchedule &schedule) {
  MachineOptions options;
  options.waitsLazily = isLazy(schedule.program, schedule.costs);
  options.readsNewest = schedule.program.versions == VersionRule::Newest;
  for (const Op &op : schedule.program.ops)
    options.keepsUsed |= op.kind == OpKind::Zero || op.overwrites();
  options.wanted = [&](uint32_t unit, size_t count) { return wantedFactor(schedule, unit, count); };
  return options;
}

/// `start offload 0 3`: what a row, or an op, does and on what.
std::string observed(const runtime::Instruction &row) {
  const bool isWait = row.op == RuntimeOp::Wait;
  const RuntimeOp op = isWait ? static_cast<RuntimeOp>(row.b) : row.op;
  const bool isStarted = row.flags & runtime::Started && !runtime::isMessage(op);
  return fmt::format("{}{} {} {}",
                     isWait      ? "wait "
                     : isStarted ? "start "
                                 : "",
                     name(op), op == RuntimeOp::ReduceTied ? row.d : row.stage,
                     op == RuntimeOp::ReduceTied ? 0 : row.microbatch);
}
std::string written(const Op &op) {
  const bool isTied = op.kind == OpKind::ReduceTied;
  const bool isStarted = op.isStarted() && !op.isCommunication();
  return fmt::format("{}{} {} {}",
                     op.isWait() ? "wait "
                     : isStarted ? "start "
                                 : "",
                     name(op.kind).str(), isTied ? op.microbatch : op.stage, isTied ? 0 : op.microbatch);
}

/// The ops of a device as its rows have them; with messages and their waits where those are written.
std::vector<std::string> observedOrder(const DeviceTable &device, bool withMessages) {
  std::vector<std::string> order;
  for (const runtime::Instruction &row : device.rows) {
    const RuntimeOp op = row.op == RuntimeOp::Wait ? static_cast<RuntimeOp>(row.b) : row.op;
    if (op == RuntimeOp::Scale || op == RuntimeOp::Reshard) // training may add some
      continue;
    if (runtime::isScheduled(op) || (withMessages && runtime::isMessage(op)))
      order.push_back(observed(row));
  }
  return order;
}
std::vector<std::string> writtenOrder(const Program &program, uint32_t device) {
  std::vector<std::string> order;
  std::vector<Op> open; // of the group at hand, which block
  const OpId end = program.deviceBegin[device + 1];
  for (OpId id = program.deviceBegin[device]; id < end; ++id) {
    const Op &op = program.ops[id];
    if (op.kind == OpKind::Scale || op.kind == OpKind::Reshard)
      continue;
    order.push_back(written(op));
    if (op.isCommunication() && !op.isWait() && !op.isStarted())
      open.push_back(op);
    if (id + 1 < end && program.ops[id + 1].has(GroupFollower) && op.isCommunication())
      continue;
    for (const Op &each : open)
      order.push_back("wait " + written(each));
    open.clear();
  }
  return order;
}

struct Counts {
  unsigned schedules = 0, runs = 0;
};

/// Lowers a schedule, compares it with the program and runs it under every model it completes under.
void runAll(const CompiledSchedule &schedule, Counts &counts, unsigned turns = 2) {
  ASSERT_EQ(unknownToExecutors(schedule.program, schedule.costs), "") << schedule.name;
  std::optional<ExecutorTables> tables = assignSlots(schedule.program, schedule.costs);
  ASSERT_TRUE(tables) << schedule.name;
  tables->verified = verifiedModels(schedule.program, schedule.costs);
  EXPECT_TRUE(tables->verified.unbounded) << schedule.name;

  const ProgramIndex index(schedule.program);
  const auto posted = postedProgram(schedule.program, index, schedule.costs);
  const Program &run = posted ? *posted : schedule.program;
  for (uint32_t device = 0; device < schedule.program.devices; ++device) {
    EXPECT_EQ(observedOrder(tables->devices[device], run.isExplicit), writtenOrder(run, device))
        << schedule.name << " device " << device;
    if (device < schedule.memory.size()) {
      EXPECT_EQ(tables->devices[device].saveds, schedule.memory[device].peakSaved)
          << schedule.name << " " << device;
      EXPECT_EQ(tables->devices[device].pendings, schedule.memory[device].peakPending)
          << schedule.name << " " << device;
    }
  }
  ++counts.schedules;
  MachineOptions options = optionsFor(schedule);
  for (unsigned turn = 0; turn < turns; ++turn)
    for (ChannelModel model : models) {
      if (!tables->verified.contains(model))
        continue;
      options.model = model;
      options.seed = turn;
      try {
        runTables(*tables, options);
        ++counts.runs;
      } catch (const TableFault &error) {
        ADD_FAILURE() << schedule.name << " under model " << static_cast<int>(model) << ": " << error.what();
        return;
      }
    }
}

std::vector<CompiledSchedule> formSchedules() {
  std::vector<CompiledSchedule> result;
  for (const Form &form : forms) {
    std::string findings;
    std::vector<CompiledSchedule> schedules = compileSchedules(form.text, {}, &findings);
    EXPECT_FALSE(schedules.empty()) << form.name << "\n" << findings;
    for (CompiledSchedule &schedule : schedules)
      result.push_back(std::move(schedule));
  }
  return result;
}

/// A random schedule of one of the test families, as if it came from a file.
CompiledSchedule random(uint64_t seed, bool isWritten) {
  const auto writing = static_cast<slow::Writing>(seed % 4);
  slow::RandomExplicit made = slow::randomExplicit(seed, writing);
  CompiledSchedule result;
  result.name = fmt::format("random {} {} {}", seed, made.placement, isWritten);
  result.costs = made.schedule.costs;
  result.program = isWritten ? made.program : made.inferred;
  if (isWritten)
    result.costs.communication = "explicit";
  Diagnostics diagnostics;
  const ProgramIndex index(made.inferred); // slots of saved and pending follow from the compute order
  const auto timeline = simulate(made.inferred, index, result.costs, diagnostics);
  if (const auto figures = memoryFigures(made.inferred, index, result.costs, *timeline, diagnostics))
    result.memory = figures->devices;
  return result;
}

} // namespace

TEST(Tables, EveryFormRuns) {
  Counts counts;
  for (const CompiledSchedule &schedule : formSchedules())
    runAll(schedule, counts, 8);
  EXPECT_GE(counts.schedules, 28u);
  EXPECT_GE(counts.runs, 28u * 8);
}

TEST(Tables, EveryScheduleOfTheLibraryRuns) {
  Counts counts;
  for (const CompiledSchedule &schedule : librarySchedules(5))
    runAll(schedule, counts);
  EXPECT_GE(counts.schedules, 400u);
  std::cout << counts.schedules << " schedules, " << counts.runs << " runs\n";
}

TEST(Tables, RandomProgramsRun) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CompiledSchedule inferred = random(seed, false);
    runAll(inferred, counts);
    inferred.costs.communication = "just_in_time";
    runAll(inferred, counts);
    const CompiledSchedule written = random(seed, true);
    if (written.name.find("deferred") != std::string::npos)
      continue; // whose receives may leave the order of the sends
    const auto verified = verifiedModels(written.program, written.costs);
    if (verified.unbounded)
      runAll(written, counts);
  }
  EXPECT_GE(counts.schedules, 700u);
}
