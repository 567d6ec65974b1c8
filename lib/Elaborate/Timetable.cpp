// Timetables: ops with a slot go to the device where their pair is placed, in slot order; `fill` lines
// take the empty slots between.
#include "Elaborate/Elaborator.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

bool Elaborator::readTimetable() {
  inTimetable = true;
  statements(schedule.timetable->body);
  inTimetable = false;
  if (stopped)
    return false;
  llvm::stable_sort(entries, [](const Entry &a, const Entry &b) {
    return std::tie(a.device, a.slot) < std::tie(b.device, b.slot);
  });
  checkSlots();
  return !stopped;
}

void Elaborator::at(const CheckedStatement &statement) {
  size_t before = diagnostics.findings().size();
  auto slot = evaluator.evalInteger(statement.value, "the slot");
  if (!slot)
    return leaveOut(statement, before);
  constexpr int64_t limit = int64_t(1) << 31;
  if (*slot < -limit || *slot > limit) {
    diagnostics.report(Rule::ValueOutOfRange, statement.span,
                       {{"what", fmt::format("slot {} is outside -2147483648..2147483648", *slot)}});
    return leaveOut(statement, before);
  }
  auto first = static_cast<uint32_t>(slotOps.size());
  collecting = true;
  if (statement.body.size() > 1) {
    firstFlag = OverlapFirst;
    followerFlag = OverlapFollower;
    memberSeen = false;
  }
  for (const CheckedStatement &entry : statement.body) {
    // The device is known only after the op; stages and microbatches must be written.
    if (entry.kind != CheckedStatement::Kind::Op || entry.op.form != MicrobatchForm::Number) {
      if (entry.kind == CheckedStatement::Kind::Op && isBroken(entry.op.site))
        continue;
      diagnostics
          .report(Rule::WrongArguments, entry.span,
                  {{"what", "an op in a timetable takes a numbered microbatch"}})
          .fix.message = "at EXPR: forward(s, m)";
      if (entry.kind == CheckedStatement::Kind::Op)
        brokenSites.set(entry.op.site);
      continue;
    }
    op(entry.op);
  }
  collecting = false;
  firstFlag = followerFlag = 0;
  auto count = static_cast<uint32_t>(slotOps.size()) - first;
  if (count == 0)
    return;
  const Op &op = slotOps[first];
  entries.push_back(
      {*slot, program.deviceOf(op.stage, op.microbatch), statement.body[0].op.site, frame(), first, count});
}

void Elaborator::fill(const CheckedOp &op) {
  std::optional<uint32_t> stage;
  if (op.stage != noNode && !(stage = stageOf(op)))
    return;
  fillLines.push_back({&op, stage ? static_cast<int64_t>(*stage) : -1, frame()});
}

void Elaborator::checkSlots() {
  for (size_t i = 1; i < entries.size(); ++i) {
    const Entry &before = entries[i - 1], &entry = entries[i];
    if (before.device != entry.device || before.slot != entry.slot || isBroken(entry.site))
      continue;
    int64_t free = entry.slot;
    for (size_t j = i; j < entries.size() && entries[j].device == entry.device && entries[j].slot <= free;
         ++j)
      free = std::max(free, entries[j].slot + 1);
    Finding &finding = diagnostics.report(Rule::SlotClash, program.sites[entry.site].span,
                                          {{"op", str(slotOps[entry.first])},
                                           {"other", str(slotOps[before.first])},
                                           {"slot", std::to_string(entry.slot)},
                                           {"device", std::to_string(entry.device)}});
    finding.device = entry.device;
    finding.op = str(slotOps[entry.first]);
    finding.notes.push_back({str(slotOps[before.first]) + " is here", program.sites[before.site].span,
                             entry.device, str(slotOps[before.first])});
    finding.fix.message = fmt::format("the next free slot is {}", free);
    brokenSites.set(entry.site);
  }
}

/// Emits what the first fill line with something pending gives; false if nothing is.
bool Elaborator::fillSlot(int64_t slot) {
  for (const FillLine &line : fillLines) {
    if (line.stage >= 0 && localOf[static_cast<size_t>(line.stage)] == ~0u)
      continue;
    uint32_t before = program.size();
    pending(*line.op, line.stage, /*mayBeNone=*/true);
    if (program.size() == before)
      continue;
    for (OpId id = before; id < program.size(); ++id)
      program.frameOf[id] = line.frame;
    noteSlot(slot);
    return true;
  }
  return false;
}

/// The ops made since the last call stand in this slot.
void Elaborator::noteSlot(int64_t slot) {
  if (slotsWanted)
    slotsWanted->resize(program.size(), slot);
}

void Elaborator::emitTimetable() {
  noteSlot(0); // of what the device before runs behind its timetable
  // Entries are sorted by device, and devices come in order.
  while (nextEntry < entries.size() && entries[nextEntry].device < device)
    ++nextEntry;
  bool first = true;
  int64_t slot = 0;
  for (; nextEntry < entries.size() && entries[nextEntry].device == device && !stopped; ++nextEntry) {
    const Entry &entry = entries[nextEntry];
    // Nothing becomes pending inside a gap, so it is left as soon as nothing is.
    for (; !first && slot < entry.slot && !fillLines.empty(); ++slot)
      if (!fillSlot(slot))
        break;
    for (uint32_t i = entry.first; i < entry.first + entry.count; ++i) {
      if (auto named = slotExtras.find(i); named != slotExtras.end()) {
        extras = named->second;
        hasExtras = true;
      }
      emit(slotOps[i], entry.site, entry.frame);
    }
    noteSlot(entry.slot);
    slot = entry.slot + 1;
    first = false;
  }
  while (!stopped && fillSlot(slot))
    ++slot;
}

} // namespace sluice
