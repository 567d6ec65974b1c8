#include "Events/Moves.h"

#include "Events/LocalOrder.h"

#include <algorithm>

namespace sluice {

static bool isFollower(const Op &op) { return op.has(GroupFollower) || op.has(OverlapFollower); }

OpId statementBegin(const Program &program, OpId op) {
  while (isFollower(program.ops[op]))
    --op;
  return op;
}

OpId statementEnd(const Program &program, OpId op) {
  OpId end = op + 1;
  while (end < program.size() && isFollower(program.ops[end]))
    ++end;
  return end;
}

bool isPlainPost(const Op &op) { return op.isCommunication() && !op.isStarted() && !op.isWait(); }

std::pair<OpId, OpId> rangeOf(const Program &program, const Move &move) {
  const OpId joined = move.join == Move::Join::Before ? statementBegin(program, move.to - 1) : move.to;
  const OpId behind = move.join == Move::Join::Behind ? statementEnd(program, move.to) : move.to;
  return {std::min(statementBegin(program, move.first), joined),
          std::max(statementEnd(program, move.end - 1), behind)};
}

bool isAllowed(const Program &program, const Move &move) {
  auto letGo = [&](OpId begin, OpId end) {
    for (OpId moved = move.first; moved < move.end; ++moved)
      for (OpId other = begin; other < end; ++other)
        if (mustKeepOrder(program, moved, other))
          return false;
    return true;
  };
  auto arePlain = [&](OpId begin, OpId end) {
    return std::all_of(program.ops.begin() + begin, program.ops.begin() + end, isPlainPost);
  };
  for (OpId id = move.first; id < move.end; ++id)
    if (program.ops[id].has(OverlapFirst) || program.ops[id].has(OverlapFollower))
      return false;
  if (!(move.to <= move.first ? letGo(move.to, move.first) : letGo(move.end, move.to)))
    return false;
  if (move.join == Move::Join::None)
    return true;
  const bool isBefore = move.join == Move::Join::Before;
  const OpId begin = isBefore ? statementBegin(program, move.to - 1) : move.to;
  const OpId end = isBefore ? move.to : statementEnd(program, move.to);
  return arePlain(move.first, move.end) && arePlain(begin, end) && letGo(begin, end);
}

/// Gives an ascending list its ops' new places.
template <typename Entry>
static void follow(std::vector<Entry> &entries, OpId begin, OpId end, const std::vector<OpId> &places) {
  auto byOp = [](const Entry &a, const Entry &b) { return a.op < b.op; };
  auto isBefore = [](const Entry &entry, OpId op) { return entry.op < op; };
  auto first = std::lower_bound(entries.begin(), entries.end(), begin, isBefore);
  auto last = std::lower_bound(first, entries.end(), end, isBefore);
  for (auto entry = first; entry != last; ++entry)
    entry->op = places[entry->op - begin];
  std::sort(first, last, byOp);
}

void apply(const Move &move, Program &program, std::vector<OpId> &origin) {
  const auto [begin, end] = rangeOf(program, move);
  std::vector<OpId> order; // old ids in their new order
  std::vector<bool> begins(end - begin);
  order.reserve(end - begin);
  for (OpId id = begin; id <= end; ++id) {
    if (id == move.to)
      for (OpId moved = move.first; moved < move.end; ++moved)
        order.push_back(moved);
    if (id < end && (id < move.first || id >= move.end))
      order.push_back(id);
    if (id < end)
      begins[id - begin] = !isFollower(program.ops[id]);
  }
  if (begins[move.first - begin] && move.end < statementEnd(program, move.first))
    begins[move.end - begin] = true; // the group has lost its first members
  begins[move.first - begin] = move.join != Move::Join::Before;
  if (move.join == Move::Join::Behind)
    begins[move.to - begin] = false;

  std::vector<OpId> places(order.size());
  for (OpId place = 0; place < order.size(); ++place)
    places[order[place] - begin] = begin + place;
  auto permute = [&](auto &column) {
    if (column.empty())
      return;
    const std::decay_t<decltype(column)> old(column.begin() + begin, column.begin() + end);
    for (OpId place = 0; place < order.size(); ++place)
      column[begin + place] = old[order[place] - begin];
  };
  permute(program.ops);
  permute(program.siteOf);
  permute(program.frameOf);
  permute(origin);
  for (OpId place = 0; place < order.size(); ++place) {
    Op &op = program.ops[begin + place];
    if (!op.isCommunication())
      continue;
    const bool isFirst = begins[order[place] - begin];
    const bool hasMore = place + 1 < order.size() && !begins[order[place + 1] - begin] &&
                         program.ops[begin + place + 1].isCommunication();
    op.flags = static_cast<uint8_t>(op.flags & ~(GroupFirst | GroupFollower));
    op.flags = static_cast<uint8_t>(op.flags | (!isFirst ? GroupFollower : hasMore ? GroupFirst : 0));
  }
  follow(program.namedVersions, begin, end, places);
  follow(program.factors, begin, end, places);
  follow(program.peers, begin, end, places);
  follow(program.payloads, begin, end, places);
}

} // namespace sluice
