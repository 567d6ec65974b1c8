#include "Formats/ScheduleJsonOps.h"

#include "Formats/OpWords.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <fmt/format.h>

namespace sluice {

namespace {

using Kind = JsonValue::Kind;

class OpsReader : public JsonOps {
public:
  OpsReader(const JsonValue &root, llvm::ArrayRef<TiedWeight> ties, JsonFields &fields)
      : root(root), ties(ties), fields(fields) {}

  void readPrograms() {
    const JsonValue *programs = fields.needed(root, "programs", Kind::Array);
    if (!programs)
      return;
    if (programs->items.empty() || programs->items.size() > maxStages)
      return fields.expected(*programs, "1 to 65536 programs");
    for (const JsonValue &program : programs->items) {
      Row &row = rows.emplace_back();
      row.span = program.span;
      if (fields.isKind(program, Kind::Array, "the program of a device"))
        for (const JsonValue &entry : program.items)
          readEntry(row, entry);
    }
  }

private:
  void readEntry(Row &row, const JsonValue &entry) {
    if (!entry.is(Kind::Object))
      return readOp(row, entry, 0);
    bool isGroup = entry.find("group"), isOverlap = entry.find("overlap");
    if (entry.keys.size() != 1 || !(isGroup || isOverlap))
      return fields.expected(entry, R"(an op, {"overlap": [..]} or {"group": [..]})");
    const JsonValue &members = entry.items[0];
    if (!fields.isKind(members, Kind::Array, quoted(entry.keys[0].name)))
      return;
    if (members.items.empty())
      return fields.expected(members, "at least one op");
    for (const JsonValue &member : members.items) {
      bool first = &member == &members.items[0];
      readOp(row, member,
             isGroup ? (first ? GroupFirst : GroupFollower) : (first ? OverlapFirst : OverlapFollower));
    }
  }
  void readOp(Row &row, const JsonValue &entry, unsigned flags) {
    if (!fields.isKind(entry, Kind::Array, "an op"))
      return;
    const std::vector<JsonValue> &parts = entry.items;
    if (parts.empty() || !parts[0].is(Kind::Text))
      return fields.expected(entry, R"(an op such as ["forward", 0, 3])");
    auto kind = kindOf(parts[0]);
    if (!kind)
      return;
    Op op{*kind, static_cast<uint8_t>(flags)};
    // Behind the name stand the stage, the microbatch; the stage and the factor; the name of a weight;
    // nothing.
    const size_t numbers = op.hasMicrobatch()                                         ? 2
                           : op.kind == OpKind::ReduceTied || op.kind == OpKind::Norm ? 0
                                                                                      : 1;
    const size_t fixed = 1 + numbers + (op.kind == OpKind::Scale || op.kind == OpKind::ReduceTied ? 1 : 0);
    if (parts.size() < fixed)
      return fields.expected(entry, formOf(op.kind));
    auto stage = numbers > 0 ? fields.integer(parts[1], "the stage", 0, maxStages - 1) : 0;
    auto microbatch =
        numbers == 2 ? fields.integer(parts[2], "the microbatch", 0, 0x7fff'fffd) : std::optional<int64_t>(0);
    if (!stage || !microbatch)
      return;
    op.stage = static_cast<uint16_t>(*stage);
    if (numbers == 2)
      op.microbatch = static_cast<uint32_t>(*microbatch);
    if ((op.kind == OpKind::Scale && !readFactor(parts[2])) ||
        (op.kind == OpKind::ReduceTied && !readWeight(op, parts[1])))
      return;
    for (size_t i = fixed; i < parts.size(); ++i)
      if (parts[i].is(Kind::Object) && i + 1 == parts.size())
        readValues(op, parts[i]);
      else
        readWord(op, parts[i]);
    checkMember(op, entry);
    row.add(op, entry.span);
    ++opCount;
  }
  static std::string formOf(OpKind kind) {
    const std::string word = name(kind).str();
    if (kind == OpKind::ReduceTied)
      return R"(["reduce_tied", the name of a weight])";
    if (kind == OpKind::Scale)
      return R"(["scale", stage, "1/8"])";
    return fmt::format(R"(["{}", stage{}])", word, Op{kind}.hasMicrobatch() ? ", microbatch" : "");
  }
  /// What the language lets stand in overlaps and groups.
  void checkMember(const Op &op, const JsonValue &entry) {
    const bool inGroup = op.flags & (GroupFirst | GroupFollower);
    const bool inOverlap = op.flags & (OverlapFirst | OverlapFollower);
    if (inGroup && (!op.isCommunication() || op.isStarted() || op.isWait()))
      fields.expected(entry, "a send or receive in a group");
    else if (inOverlap && !op.isCompute() && op.kind != OpKind::Drop)
      fields.expected(entry, "an op of a microbatch in an overlap");
  }
  std::optional<OpKind> kindOf(const JsonValue &word) {
    std::vector<llvm::StringRef> names;
    for (unsigned i = 0; i < opKindCount; ++i) {
      names.push_back(name(static_cast<OpKind>(i)));
      if (names.back() == word.text)
        return static_cast<OpKind>(i);
    }
    fields.good = false;
    Finding &finding =
        fields.diagnostics.report(Rule::UnknownName, word.span, {{"name", "the op " + quoted(word.text)}});
    llvm::StringRef near = nearest(word.text, names);
    finding.fix.message = near.empty() ? "an op of the language" : quoted(near) + "?";
    return std::nullopt;
  }
  void readWord(Op &op, const JsonValue &word) {
    const OpWord *known = llvm::find_if(opWords(), [&](const OpWord &each) {
      return word.is(Kind::Text) && each.text == word.text && each.isOf(op);
    });
    constexpr unsigned oneOf = KeepInput | KeepNothing; // and of `start` and `wait`
    static_assert(oneOf == (Started | Waits));
    if (known == opWords().end() || op.has(known->flag) || ((known->flag & oneOf) && (op.flags & oneOf)))
      return fields.expected(word, fmt::format("what may follow {}", name(op.kind).str()));
    op.flags |= known->flag;
  }
  bool readFactor(const JsonValue &value) {
    auto factor = value.is(Kind::Text) ? fractionOf(value.text) : std::nullopt;
    if (factor)
      factors.push_back({opCount, *factor});
    else
      fields.expected(value, "a fraction other than 0 such as \"1/8\"");
    return factor.has_value();
  }
  bool readWeight(Op &op, const JsonValue &value) {
    const TiedWeight *weight = llvm::find_if(
        ties, [&](const TiedWeight &tied) { return value.is(Kind::Text) && tied.name == value.text; });
    if (weight == ties.end()) {
      fields.expected(value, "the name of a weight of \"tied\"");
      return false;
    }
    op.stage = static_cast<uint16_t>(weight->stages[0]); // takeOps knows better
    op.microbatch = static_cast<uint32_t>(weight - ties.begin());
    return true;
  }
  /// `{"version": 2}`, `{"to": 3, "bytes": 4096}`
  void readValues(Op &op, const JsonValue &named) {
    const bool isBackward = op.kind >= OpKind::Backward && op.kind <= OpKind::BackwardWeight;
    llvm::SmallVector<llvm::StringRef, 2> known;
    if (op.kind == OpKind::Forward)
      known = {"version"};
    else if (isBackward)
      known = {"scale"};
    else if (op.isCommunication())
      known = {op.isSend() ? "to" : "from", "bytes"};
    if (known.empty() || named.keys.empty())
      return fields.expected(named, fmt::format("what may follow {}", name(op.kind).str()));
    fields.checkKeys(named, known);
    if (auto version = fields.integerField(named, "version", 0, 0x7fff'fffe))
      versions.push_back({opCount, static_cast<uint32_t>(*version)});
    if (const JsonValue *factor = named.find("scale"); factor && readFactor(*factor))
      op.flags |= Scaled;
    if (auto peer = fields.integerField(named, op.isSend() ? "to" : "from", 0, maxStages - 1)) {
      op.flags |= NamesPeer;
      peers.push_back({opCount, static_cast<uint32_t>(*peer)});
    }
    if (auto bytes = fields.integerField(named, "bytes", 0, INT64_MAX))
      payloads.push_back({opCount, *bytes});
  }

  const JsonValue &root;
  llvm::ArrayRef<TiedWeight> ties;
  JsonFields &fields;
  OpId opCount = 0;
};

} // namespace

JsonOps readOps(const JsonValue &root, llvm::ArrayRef<TiedWeight> ties, JsonFields &fields) {
  OpsReader reader(root, ties, fields);
  reader.readPrograms();
  return reader;
}

void takeOps(const JsonOps &ops, Program &program) {
  program.namedVersions = ops.versions;
  program.factors = ops.factors;
  program.peers = ops.peers;
  program.payloads = ops.payloads;
  if (program.ties.empty())
    return;
  // Of the stages that share a weight the first on a device stands for its share there.
  for (uint32_t device = 0; device < program.devices; ++device) {
    const std::vector<uint32_t> here = program.stagesOn(device);
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id) {
      Op &op = program.ops[id];
      if (op.kind != OpKind::ReduceTied)
        continue;
      for (uint32_t stage : program.ties[op.microbatch].stages)
        if (llvm::is_contained(here, stage)) {
          op.stage = static_cast<uint16_t>(stage);
          break;
        }
    }
  }
}

std::optional<Rational> fractionOf(llvm::StringRef text) {
  auto [numerator, denominator] = text.split('/');
  int64_t above = 0, below = 1;
  const bool good = !numerator.getAsInteger(10, above) && above != 0 && above != INT64_MIN &&
                    !numerator.starts_with("+") &&
                    (denominator.empty() ? numerator.size() == text.size()
                                         : !denominator.getAsInteger(10, below) && below > 0);
  return good ? Rational::make(above, below) : std::nullopt;
}

} // namespace sluice
