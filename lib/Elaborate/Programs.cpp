// Device programs: their statements run, loops turn by turn, until only ops are left.
#include "Elaborate/Elaborator.h"

namespace sluice {

void Elaborator::beginDevice(uint32_t d) {
  for (uint32_t s : stagesHere)
    localOf[s] = ~0u;
  stagesHere = stagesOf[d];
  for (uint32_t i = 0; i < stagesHere.size(); ++i)
    localOf[stagesHere[i]] = i;
  soleStage.assign(program.placement.rowCount(), unknownStage);
  if (schedule.usesNext)
    counts.begin(stagesHere.size(), program.microbatches);
  if (schedule.usesPending)
    halves.begin(stagesHere.size(), program.microbatches);
}

uint32_t Elaborator::frame() {
  if (levels.empty() || levels.back().frame != 0)
    return levels.empty() ? 0 : levels.back().frame;
  // Frames are made when an op needs them: most turns of most loops share one between their ops.
  uint32_t parent = 0;
  size_t depth = levels.size();
  while (depth > 0 && levels[depth - 1].frame == 0)
    --depth;
  if (depth > 0)
    parent = levels[depth - 1].frame;
  for (; depth < levels.size(); ++depth) {
    program.frames.push_back({parent, static_cast<int32_t>(levels[depth].value)});
    parent = levels[depth].frame = static_cast<uint32_t>(program.frames.size() - 1);
  }
  return parent;
}

void Elaborator::statements(llvm::ArrayRef<CheckedStatement> list) {
  for (const CheckedStatement &entry : list) {
    if (stopped)
      return;
    statement(entry);
  }
}

/// Findings of a program's statement belong to its device; those of a timetable to none yet.
void Elaborator::placeFindings(size_t since) {
  for (size_t i = since; i < diagnostics.findings().size() && !inTimetable; ++i)
    diagnostics.findings()[i].device = device;
}

void Elaborator::giveUp(size_t since) {
  placeFindings(since);
  stopped = true;
}

void Elaborator::statement(const CheckedStatement &statement) {
  size_t before = diagnostics.findings().size();
  if (!evaluator.spend(statement.span))
    return giveUp(before);
  if (!leftOut.empty() && leftOut.contains(&statement))
    return;
  switch (statement.kind) {
  case CheckedStatement::Kind::Op:
    return op(statement.op);
  case CheckedStatement::Kind::For:
    return loop(statement);
  case CheckedStatement::Kind::Let:
    if (evaluator.assign(statement.slot, statement.value))
      return;
    break;
  case CheckedStatement::Kind::If:
    if (auto condition = evaluator.evalBoolean(statement.value, "the condition"))
      return statements(*condition ? statement.body : statement.otherwise);
    break;
  case CheckedStatement::Kind::Repeat:
    if (auto count = evaluator.evalInteger(statement.value, "the count")) {
      for (int64_t i = 0; i < *count && !stopped; ++i)
        turn(statement);
      return;
    }
    break;
  case CheckedStatement::Kind::Overlap:
    return members(statement.body, OverlapFirst, OverlapFollower);
  case CheckedStatement::Kind::Group:
    return members(statement.body, GroupFirst, GroupFollower);
  case CheckedStatement::Kind::At:
    return at(statement);
  case CheckedStatement::Kind::Fill:
    return fill(statement.op);
  }
  leaveOut(statement, before);
}

/// The members of an overlap or a group.
void Elaborator::members(llvm::ArrayRef<CheckedStatement> list, OpFlag first, OpFlag follower) {
  firstFlag = first;
  followerFlag = follower;
  memberSeen = false;
  statements(list);
  firstFlag = followerFlag = 0;
}

/// A statement whose value is wrong is left out from here on. The others go on, so that one run finds the
/// faults of all; what depends on its value is silent.
void Elaborator::leaveOut(const CheckedStatement &statement, size_t since) {
  leftOut.insert(&statement);
  placeFindings(since);
}

void Elaborator::loop(const CheckedStatement &statement) {
  size_t before = diagnostics.findings().size();
  auto bounds = evaluator.evalRange(statement.range);
  if (!bounds)
    return leaveOut(statement, before);
  constexpr int64_t limit = int64_t(1) << 31;
  if (bounds->first < bounds->last && (bounds->first < -limit || bounds->last > limit)) {
    diagnostics.report(Rule::ValueOutOfRange, statement.span,
                       {{"what", "the loop leaves the range -2147483648..2147483648"}});
    stopped = true;
    return;
  }
  levels.push_back({0, 0});
  int64_t count = bounds->first >= bounds->last ? 0 : (bounds->last - bounds->first - 1) / bounds->step + 1;
  for (int64_t i = 0; i < count && !stopped; ++i) {
    int64_t value = bounds->first + (statement.reversed ? count - 1 - i : i) * bounds->step;
    levels.back() = {value, 0};
    evaluator.set(statement.slot, value);
    turn(statement);
  }
  levels.pop_back();
}

/// One turn of a `for` or `repeat`. What its `let`s hold ends with it.
void Elaborator::turn(const CheckedStatement &loop) {
  size_t before = diagnostics.findings().size(), lists = evaluator.listMark();
  if (!evaluator.spend(loop.span))
    return giveUp(before);
  statements(loop.body);
  evaluator.releaseLists(lists);
}

} // namespace sluice
