#include "Elaborate/Cells.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>

namespace sluice {

namespace {

struct Action {
  llvm::StringRef name;
  OpKind kind;
};
// Words that share their first letter; none begins with another one.
constexpr Action beginningWithR[] = {{"RECV_F", OpKind::RecvActivation},
                                     {"RECV_B", OpKind::RecvGradient},
                                     {"REDUCE_GRAD", OpKind::Reduce},
                                     {"RESHARD", OpKind::Reshard}};
constexpr Action beginningWithS[] = {{"SEND_F", OpKind::SendActivation}, {"SEND_B", OpKind::SendGradient}};
constexpr Action beginningWithU[] = {{"UNSHARD", OpKind::Unshard}};

constexpr uint32_t mostMicrobatches = 0x7fff'ffff;

bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// Reads digits; false, with `at` unmoved, if there are none or the number is not below `limit`.
bool scanNumber(const char *&at, const char *end, uint64_t limit, uint32_t &number) {
  const char *p = at;
  uint64_t value = 0;
  for (; p < end && isDigit(*p); ++p) {
    value = value * 10 + static_cast<uint64_t>(*p - '0');
    if (value >= limit)
      return false;
  }
  if (p == at)
    return false;
  number = static_cast<uint32_t>(value);
  at = p;
  return true;
}

bool scanWord(const char *&at, const char *end, llvm::ArrayRef<Action> actions, OpKind &kind) {
  for (const Action &action : actions)
    if (static_cast<size_t>(end - at) >= action.name.size() &&
        std::memcmp(at, action.name.data(), action.name.size()) == 0) {
      at += action.name.size();
      kind = action.kind;
      return true;
    }
  return false;
}

bool scanAction(const char *&at, const char *end, OpKind &kind) {
  if (at == end)
    return false;
  switch (*at) {
  case 'F':
    kind = OpKind::Forward;
    break;
  case 'I':
    kind = OpKind::BackwardInput;
    break;
  case 'W':
    kind = OpKind::BackwardWeight;
    break;
  case 'B':
    kind = OpKind::Backward;
    break;
  case 'S':
    return scanWord(at, end, beginningWithS, kind);
  case 'R':
    return scanWord(at, end, beginningWithR, kind);
  case 'U':
    return scanWord(at, end, beginningWithU, kind);
  default:
    return false;
  }
  ++at;
  return true;
}

} // namespace

bool scanOp(const char *&at, const char *end, Op &op) {
  uint32_t stage;
  OpKind kind;
  if (!scanNumber(at, end, maxStages, stage) || !scanAction(at, end, kind))
    return false;
  op = {kind, 0, static_cast<uint16_t>(stage), noMicrobatch};
  return !op.hasMicrobatch() || scanNumber(at, end, mostMicrobatches, op.microbatch);
}

/// scanOp at the front of `rest`.
static bool readOp(llvm::StringRef &rest, Op &op) {
  const char *at = rest.begin();
  bool isGood = scanOp(at, rest.end(), op);
  rest = rest.drop_front(static_cast<size_t>(at - rest.begin()));
  return isGood;
}

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

std::string nearestCell(llvm::StringRef text) {
  auto isCell = [](llvm::StringRef candidate) {
    return !candidate.empty() && parseCell(candidate).badAt == llvm::StringRef::npos;
  };
  std::string upper = text.upper();
  if (isCell(upper))
    return upper;
  // Digits, a word, digits: the word that is nearest, and no sign between.
  llvm::StringRef rest = upper;
  llvm::StringRef stage = rest.take_while(llvm::isDigit);
  rest = rest.drop_front(stage.size());
  llvm::StringRef word = rest.take_until(llvm::isDigit);
  llvm::StringRef microbatch = rest.drop_front(word.size()).take_while(llvm::isDigit);
  std::string best;
  unsigned least = 3; // farther words are another thing
  auto consider = [&](llvm::StringRef name) {
    std::string candidate = (stage + name + microbatch).str();
    if (!isCell(candidate))
      candidate = (stage + name).str();
    unsigned distance = word.trim(" -_+").edit_distance(name);
    if (distance < least && isCell(candidate)) {
      least = distance;
      best = candidate;
    }
  };
  for (llvm::StringRef name : {"F", "B", "I", "W"})
    if (word.trim(" -_+").starts_with(name))
      consider(name);
  for (llvm::ArrayRef<Action> actions :
       {llvm::ArrayRef(beginningWithR), llvm::ArrayRef(beginningWithS), llvm::ArrayRef(beginningWithU)})
    for (const Action &action : actions)
      if (word.size() > 2)
        consider(action.name);
  if (!best.empty())
    return best;
  llvm::StringRef good = text.take_front(std::min(text.size(), parseCell(text).badAt));
  return isCell(good) ? good.str() : "";
}

} // namespace sluice
