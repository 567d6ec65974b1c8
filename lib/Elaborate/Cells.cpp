#include "Elaborate/Cells.h"

#include "llvm/ADT/StringExtras.h"

namespace sluice {

namespace {

struct Action {
  llvm::StringRef name;
  OpKind kind;
  bool isLater, hasMicrobatch;
};
// Longer names first: `B` begins no other, but `RECV_F` must not be read as anything shorter.
constexpr Action actions[] = {
    {"REDUCE_GRAD", OpKind::Reduce, false, false}, {"UNSHARD", OpKind::Zero, true, false},
    {"RESHARD", OpKind::Zero, true, false},        {"SEND_F", OpKind::Zero, true, true},
    {"RECV_F", OpKind::Zero, true, true},          {"SEND_B", OpKind::Zero, true, true},
    {"RECV_B", OpKind::Zero, true, true},          {"F", OpKind::Forward, false, true},
    {"I", OpKind::BackwardInput, false, true},     {"W", OpKind::BackwardWeight, false, true},
    {"B", OpKind::Backward, false, true}};

/// Reads digits at the front of `rest`; false if there are none or the number is not below `limit`.
bool readNumber(llvm::StringRef &rest, uint64_t limit, uint64_t &number) {
  llvm::StringRef digits = rest.take_while(llvm::isDigit);
  if (digits.getAsInteger(10, number) || number >= limit)
    return false;
  rest = rest.drop_front(digits.size());
  return true;
}

/// Reads one op at the front of `rest`. On failure `rest` begins at what does not fit.
bool readOp(llvm::StringRef &rest, Op &op, llvm::StringRef &later) {
  uint64_t stage, microbatch;
  if (!readNumber(rest, maxStages, stage))
    return false;
  for (const Action &action : actions) {
    if (!rest.starts_with(action.name))
      continue;
    rest = rest.drop_front(action.name.size());
    op = {action.kind, 0, static_cast<uint16_t>(stage), noMicrobatch};
    if (action.isLater)
      later = action.name;
    if (!action.hasMicrobatch)
      return true;
    if (!readNumber(rest, 0x7fff'ffff, microbatch))
      return false;
    op.microbatch = static_cast<uint32_t>(microbatch);
    return true;
  }
  return false;
}

} // namespace

Cell parseCell(llvm::StringRef text) {
  Cell cell;
  llvm::StringRef rest = text;
  if (rest.empty() || rest == "_")
    return cell;
  auto failAtRest = [&] {
    cell.badAt = text.size() - rest.size();
    return cell;
  };
  Op op;
  if (!rest.consume_front("(")) {
    if (!readOp(rest, op, cell.later) || !rest.empty())
      return failAtRest();
    cell.ops.push_back(op);
    return cell;
  }
  do {
    rest = rest.ltrim();
    if (!readOp(rest, op, cell.later))
      return failAtRest();
    op.flags = cell.ops.empty() ? OverlapFirst : OverlapFollower;
    cell.ops.push_back(op);
    rest = rest.ltrim();
  } while (rest.consume_front(";"));
  llvm::StringRef closing = rest;
  if (!rest.consume_front(")"))
    return failAtRest();
  if (rest == "BATCH_P2P") {
    cell.later = rest;
    return cell;
  }
  if (rest != "OVERLAP_F_B" || cell.ops.size() < 2) {
    rest = rest.empty() ? closing : rest;
    return failAtRest();
  }
  return cell;
}

} // namespace sluice
