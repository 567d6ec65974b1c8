#include "Elaborate/Cells.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace sluice {

namespace {

struct Action {
  llvm::StringRef name;
  OpKind kind;
};
// Longer names first, so that none is read as a shorter one that begins it.
constexpr Action actions[] = {{"REDUCE_GRAD", OpKind::Reduce},
                              {"UNSHARD", OpKind::Unshard},
                              {"RESHARD", OpKind::Reshard},
                              {"SEND_F", OpKind::SendActivation},
                              {"RECV_F", OpKind::RecvActivation},
                              {"SEND_B", OpKind::SendGradient},
                              {"RECV_B", OpKind::RecvGradient},
                              {"F", OpKind::Forward},
                              {"I", OpKind::BackwardInput},
                              {"W", OpKind::BackwardWeight},
                              {"B", OpKind::Backward}};

/// Reads digits at the front of `rest`; false if there are none or the number is not below `limit`.
bool readNumber(llvm::StringRef &rest, uint64_t limit, uint64_t &number) {
  llvm::StringRef digits = rest.take_while(llvm::isDigit);
  if (digits.getAsInteger(10, number) || number >= limit)
    return false;
  rest = rest.drop_front(digits.size());
  return true;
}

/// Reads one op at the front of `rest`. On failure `rest` begins at what does not fit.
bool readOp(llvm::StringRef &rest, Op &op) {
  uint64_t stage, microbatch;
  if (!readNumber(rest, maxStages, stage))
    return false;
  for (const Action &action : actions) {
    if (!rest.starts_with(action.name))
      continue;
    rest = rest.drop_front(action.name.size());
    op = {action.kind, 0, static_cast<uint16_t>(stage), noMicrobatch};
    if (!op.hasMicrobatch())
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
    if (!readOp(rest, op) || !rest.empty())
      return failAtRest();
    cell.ops.push_back(op);
    return cell;
  }
  do {
    rest = rest.ltrim();
    if (!readOp(rest, op))
      return failAtRest();
    cell.ops.push_back(op);
    rest = rest.ltrim();
  } while (rest.consume_front(";"));
  llvm::StringRef closing = rest;
  if (!rest.consume_front(")"))
    return failAtRest();
  const bool isGroup =
      rest == "BATCH_P2P" && llvm::all_of(cell.ops, [](Op o) { return o.isCommunication(); });
  const bool isOverlap = rest == "OVERLAP_F_B" && cell.ops.size() > 1 &&
                         llvm::all_of(cell.ops, [](Op o) { return o.touchesActivation(); });
  if (!isGroup && !isOverlap) {
    rest = rest.empty() ? closing : rest;
    cell.ops.clear();
    return failAtRest();
  }
  for (Op &member : cell.ops)
    member.flags = &member == cell.ops.begin() ? (isGroup ? GroupFirst : OverlapFirst)
                                               : (isGroup ? GroupFollower : OverlapFollower);
  return cell;
}

} // namespace sluice
