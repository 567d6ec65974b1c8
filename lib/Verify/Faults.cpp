#include "Verify/Faults.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace sluice {

static Span spanOf(const VerifyContext &context, const Fault &fault) {
  if (fault.op != noOp)
    return context.program.spanOf(fault.op);
  return context.program.placeSpanOf(fault.stage, fault.microbatch == noMicrobatch ? 0 : fault.microbatch);
}

void keepFirstCauses(const VerifyContext &context, Scope scope, llvm::ArrayRef<Rule> blame,
                     std::vector<Fault> &faults) {
  auto place = [&](const Fault &fault) {
    return scope == Scope::Pair ? context.pair(fault.stage, fault.microbatch)
                                : VerifyContext::copy(fault.device, fault.stage);
  };
  auto rank = [&](const Fault &fault) { return llvm::find(blame, fault.rule) - blame.begin(); };
  const llvm::DenseSet<uint64_t> &explained =
      scope == Scope::Pair ? context.blamedPairs : context.blamedCopies;
  llvm::erase_if(faults, [&](const Fault &fault) { return explained.contains(place(fault)); });
  llvm::stable_sort(faults, [&](const Fault &a, const Fault &b) {
    return std::make_tuple(place(a), rank(a), a.op) < std::make_tuple(place(b), rank(b), b.op);
  });
  auto samePlace = [&](const Fault &a, const Fault &b) { return place(a) == place(b); };
  faults.erase(std::unique(faults.begin(), faults.end(), samePlace), faults.end());
}

namespace {
/// Numbers the lines of spans. Without sources each span is a line of its own.
class Lines {
public:
  explicit Lines(const SourceManager *sources) : sources(sources) {}
  uint32_t of(Span span) {
    if (!sources || !span.isValid())
      return span.begin;
    auto [known, isNew] = ofOffset.try_emplace(span.begin, 0);
    if (isNew) {
      Location location = sources->locate(span.begin);
      known->second = numbers.try_emplace({location.file.str(), location.line}, span.begin).first->second;
    }
    return known->second;
  }

private:
  const SourceManager *sources;
  llvm::DenseMap<uint32_t, uint32_t> ofOffset;
  std::map<std::pair<std::string, unsigned>, uint32_t> numbers;
};
} // namespace

std::vector<FaultGroup> groupByLine(const VerifyContext &context, std::vector<Fault> faults) {
  llvm::stable_sort(faults, [](const Fault &a, const Fault &b) {
    return std::tie(a.device, a.op, a.stage, a.microbatch) < std::tie(b.device, b.op, b.stage, b.microbatch);
  });
  Lines lines(context.sources);
  std::map<std::tuple<Rule, uint8_t, uint64_t>, size_t> groupOf;
  std::vector<FaultGroup> groups;
  for (const Fault &fault : faults) {
    Span span = spanOf(context, fault);
    // Ops of unknown place are told apart by the statement they come from.
    uint64_t line = 0;
    if (span.isValid())
      line = lines.of(span);
    else if (fault.op != noOp && !context.program.siteOf.empty())
      line = context.program.siteOf[fault.op];
    auto [found, isNew] = groupOf.try_emplace({fault.rule, fault.cause, line}, groups.size());
    if (isNew)
      groups.emplace_back();
    groups[found->second].push_back(fault);
  }
  return groups;
}

void blame(VerifyContext &context, llvm::ArrayRef<Fault> faults) {
  for (const Fault &fault : faults) {
    if (info(fault.rule).severity != Severity::Error)
      continue;
    context.hasErrors = true;
    context.blamedCopies.insert(VerifyContext::copy(fault.device, fault.stage));
    if (fault.microbatch != noMicrobatch)
      context.blamedPairs.insert(context.pair(fault.stage, fault.microbatch));
  }
}

Finding &report(VerifyContext &context, const FaultGroup &group, const Values &values) {
  const Fault &first = group.front();
  Finding &finding = context.diagnostics.report(first.rule, spanOf(context, first), values);
  if (first.device != noDevice)
    finding.device = first.device;
  if (first.op != noOp) {
    // A factor is no part of the op's name: it stands in the message where it matters.
    const Op &op = context.program.ops[first.op];
    finding.op = op.kind == OpKind::Scale ? str(op) : opText(context, first.op);
    for (auto &[name, value] : context.program.loopsOf(first.op))
      finding.loops.push_back({name, value});
  }
  return finding;
}

void noteOthers(const VerifyContext &context, const FaultGroup &group, bool listed, Finding &finding) {
  // One note a device and stage; a loop over many devices would otherwise drown the finding.
  constexpr size_t mostNotes = 3;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<const Fault *>> copies;
  for (const Fault &fault : group)
    copies[{fault.device, fault.stage}].push_back(&fault);
  const Fault &first = group.front();
  size_t notes = 0;
  for (auto &[copy, faults] : copies) {
    bool isFirst = copy.first == first.device && copy.second == first.stage;
    if (isFirst && (listed || faults.size() == 1))
      continue;
    if (!isFirst && ++notes > mostNotes)
      continue;
    std::vector<uint32_t> microbatches;
    for (const Fault *fault : faults)
      if (fault->microbatch != noMicrobatch && (!isFirst || fault != faults.front()))
        microbatches.push_back(fault->microbatch);
    std::string where = isFirst ? "" : fmt::format(" stage {}", copy.second);
    if (!isFirst && copy.first != noDevice)
      where += fmt::format(" on device {}", copy.first);
    if (!microbatches.empty())
      where += (isFirst ? " " : ", ") + sluice::listed("microbatch", "microbatches", microbatches);
    if (where.empty())
      continue;
    finding.notes.push_back({"the same holds for" + where, {}, {}, ""});
    if (copy.first != noDevice)
      finding.notes.back().device = copy.first;
    if (faults.front()->op != noOp && !isFirst)
      finding.notes.back().op = opText(context, faults.front()->op);
  }
  if (notes > mostNotes)
    finding.notes.push_back(
        {fmt::format("the same holds for {}",
                     counted(notes - mostNotes, "further device or stage", "further devices or stages")),
         {},
         {},
         ""});
}

void noteOp(const VerifyContext &context, Finding &finding, OpId op, const std::string &message) {
  std::string loops;
  for (auto &[name, value] : context.program.loopsOf(op))
    loops += fmt::format("{}{} = {}", loops.empty() ? " (" : ", ", name, value);
  finding.notes.push_back({message + loops + (loops.empty() ? "" : ")"), context.program.spanOf(op),
                           context.program.deviceOf(op), opText(context, op)});
}

std::string opText(const VerifyContext &context, OpId op) { return str(context.program, op); }

std::string lineText(const VerifyContext &context, Span span, Span from) {
  if (!context.sources || !span.isValid())
    return "";
  Location location = context.sources->locate(span.begin);
  std::string text = fmt::format("line {}", location.line);
  if (from.isValid() && context.sources->locate(from.begin).file != location.file)
    text += " of " + location.file.str();
  return text;
}

std::string atLine(const VerifyContext &context, OpId op, OpId from, llvm::StringRef preposition) {
  const Program &program = context.program;
  std::string line = lineText(context, program.spanOf(op), program.spanOf(from));
  if (line.empty())
    return op < from ? " earlier" : " later";
  return fmt::format(" {} {}", preposition.str(), line);
}

std::vector<uint32_t> microbatchesOfFirst(const FaultGroup &group) {
  std::vector<uint32_t> microbatches;
  for (const Fault &fault : group)
    if (fault.device == group.front().device && fault.stage == group.front().stage)
      microbatches.push_back(fault.microbatch);
  return microbatches;
}

std::string opList(const VerifyContext &context, llvm::ArrayRef<OpId> ops) {
  std::map<std::pair<OpKind, uint32_t>, std::vector<uint32_t>> microbatches;
  for (OpId id : ops) {
    const Op &op = context.program.ops[id];
    microbatches[{op.kind, op.stage}].push_back(op.microbatch);
  }
  std::vector<std::string> parts;
  for (auto &[key, numbers] : microbatches) {
    const std::string runs = numberList(numbers);
    for (llvm::StringRef run : llvm::split(runs, ", "))
      parts.push_back(fmt::format("{}({}, {})", name(key.first).str(), key.second, run.str()));
  }
  return llvm::join(parts, ", ");
}

} // namespace sluice
