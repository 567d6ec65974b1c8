#include "Measured/OpName.h"

#include "llvm/ADT/StringExtras.h"

namespace sluice {

static OpName parseOpName(llvm::StringRef text) {
  OpName name;
  text = text.trim();
  text.consume_front("start ");
  name.isWait = text.consume_front("wait ");
  const llvm::StringRef word = text.take_while([](char c) { return llvm::isAlpha(c) || c == '_'; });
  name.word = word.str();
  for (unsigned kind = 0; kind < opKindCount && !name.kind; ++kind)
    if (word == sluice::name(static_cast<OpKind>(kind)))
      name.kind = static_cast<OpKind>(kind);
  auto number = [](llvm::StringRef digits) {
    int64_t value = -1;
    return digits.trim().getAsInteger(10, value) ? int64_t(-1) : value;
  };
  llvm::StringRef rest = text.drop_front(word.size());
  if (rest.consume_front("(")) {
    auto [arguments, behind] = rest.split(')');
    auto [first, second] = arguments.split(',');
    name.stage = number(first);
    name.microbatch = number(second);
    behind = behind.ltrim();
    if (behind.consume_front("to ") || behind.consume_front("from "))
      name.peer = number(behind.take_while([](char c) { return llvm::isDigit(c); }));
  }
  return name;
}

std::vector<OpName> parseOpNames(llvm::StringRef text) {
  std::vector<OpName> names;
  llvm::SmallVector<llvm::StringRef, 2> members;
  text.split(members, " & ");
  for (llvm::StringRef member : members)
    names.push_back(parseOpName(member));
  return names;
}

bool isPartOf(const OpName &row, const OpName &behind) {
  if (!behind.kind || row.stage != behind.stage || row.microbatch != behind.microbatch)
    return false;
  return (row.word == "load" && behind.kind == OpKind::Forward) ||
         (row.word == "loss" && Op{*behind.kind}.makesGradient());
}

bool OpName::isOf(const Op &op) const {
  if (kind != op.kind || isWait != op.isWait())
    return false;
  if (op.kind == OpKind::Norm || op.kind == OpKind::ReduceTied)
    return true;
  return (stage < 0 || stage == op.stage) &&
         (!op.hasMicrobatch() || microbatch < 0 || microbatch == op.microbatch);
}

} // namespace sluice
