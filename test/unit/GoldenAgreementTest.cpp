// Every order of test/goldens/orders is made op for op by a schedule of the library, or
// test/goldens/agreement.txt names the difference. The table is held to it both ways: what it says to
// differ must differ, what it says to be wrong must be found wrong, and no order may be left out.
#include "GoldenLibrary.h"
#include "GoldenOrders.h"
#include "Timeline/Simulate.h"
#include "Verify/Verify.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <set>

using namespace sluice;
using namespace sluice::golden;

namespace {

/// One line of the table.
struct Agreement {
  std::string verdict;      ///< `agrees`, `heuristic`, `rule`, `fault`, `outside`
  bool isMerged = false;    ///< agrees: after merging adjacent halves.
  std::set<unsigned> rules; ///< fault: exactly these are found.
  std::string promise;      ///< fault: a condition that the import is asked for; may be empty.
  std::string patterns, call, reason;
  unsigned line = 0;
  mutable unsigned orders = 0; ///< How many it was the line of.

  bool fits(llvm::StringRef name) const {
    llvm::SmallVector<llvm::StringRef> all;
    llvm::StringRef(patterns).split(all, ", ");
    return llvm::any_of(all, [&](llvm::StringRef pattern) {
      llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern.trim());
      EXPECT_TRUE(static_cast<bool>(glob)) << pattern.str();
      return glob->match(name);
    });
  }
};

Agreement parse(llvm::StringRef text, unsigned line) {
  llvm::SmallVector<llvm::StringRef> fields;
  text.split(fields, '|');
  fields.resize(4);
  Agreement entry;
  entry.line = line;
  auto [verdict, promise] = fields[0].trim().split(" unless ");
  llvm::SmallVector<llvm::StringRef> words;
  verdict.split(words, ' ', -1, false);
  entry.verdict = words[0].str();
  for (llvm::StringRef word : llvm::drop_begin(words)) {
    unsigned rule = 0;
    if (word == "merged")
      entry.isMerged = true;
    else if (!word.getAsInteger(10, rule))
      entry.rules.insert(rule);
    else
      ADD_FAILURE() << "line " << line << ": " << word.str();
  }
  entry.promise = promise.str();
  entry.patterns = fields[1].trim().str();
  entry.call = fields[2].trim().str();
  entry.reason = fields[3].trim().str();
  return entry;
}

std::vector<Agreement> readAgreements(const std::string &path) {
  std::vector<Agreement> entries;
  std::ifstream file(path);
  unsigned number = 0;
  for (std::string line; std::getline(file, line);)
    if (++number; !line.empty() && line.front() != '#')
      entries.push_back(parse(line, number));
  return entries;
}

std::string settingOf(const Order &order) {
  std::string text;
  for (const auto &[name, value] : order.parameters)
    text += fmt::format("param {} = {};\n", name, value);
  return text;
}

std::vector<Op> computeOps(llvm::ArrayRef<Op> ops) {
  std::vector<Op> compute;
  llvm::copy_if(ops, std::back_inserter(compute), [](const Op &op) { return op.isCompute(); });
  return compute;
}

/// An input half and the weight half right behind it as one backward.
std::vector<Op> merged(const std::vector<Op> &ops) {
  std::vector<Op> result;
  for (const Op &op : ops)
    if (op.kind == OpKind::BackwardWeight && op.flags == 0 && !result.empty() &&
        result.back() == Op{OpKind::BackwardInput, 0, op.stage, op.microbatch})
      result.back().kind = OpKind::Backward;
    else
      result.push_back(op);
  return result;
}

/// Where an order and a schedule part; empty if nowhere.
std::string difference(const Order &order, const Program &program, bool isMerged) {
  if (order.rows.size() != program.devices)
    return fmt::format("{} devices and {}", order.rows.size(), program.devices);
  for (uint32_t d = 0; d < program.devices; ++d) {
    std::vector<Op> theirs = computeOps(order.rows[d]), ours = computeOps(program.opsOf(d));
    if (isMerged)
      theirs = merged(theirs), ours = merged(ours);
    if (theirs == ours)
      continue;
    const auto [a, b] = std::mismatch(theirs.begin(), theirs.end(), ours.begin(), ours.end());
    return fmt::format("device {}, op {}: {} and {}", d, a - theirs.begin(),
                       a == theirs.end() ? "the end" : str(*a), b == ours.end() ? "the end" : str(*b));
  }
  return "";
}

void expectLegal(const Order &order) {
  Program program = programOf(order);
  Diagnostics diagnostics;
  verify(program, ProgramIndex(program), CostModel::ofTicks(program.stages), diagnostics);
  for (const Finding &finding : diagnostics.findings())
    ADD_FAILURE() << info(finding.rule).number << " " << finding.message;
}

/// Imported as a table of cells, the order gives the findings that the line names.
void expectFaults(const Order &order, const Agreement &entry) {
  std::string text = settingOf(order) + "schedule imported {\n" + tableText(order) + "}\n";
  if (!entry.promise.empty())
    text += "expect imported { " + entry.promise + "; }\n";
  Compiled compiled = compile(text, Compilation::Depth::Expectations);
  std::set<unsigned> found;
  for (const Finding &finding : compiled.findings)
    if (finding.severity == Severity::Error)
      found.insert(info(finding.rule).number);
  EXPECT_EQ(found, entry.rules) << compiled.text;
}

void expectAgreement(const Order &order, const Agreement &entry) {
  Compiled library =
      compile(importsOf(entry.call) + settingOf(order) + "schedule main = " + entry.call + ";\n",
              Compilation::Depth::Elaborate);
  ASSERT_TRUE(library.program && !library.hasErrors()) << library.text;
  const std::string parts = difference(order, *library.program, entry.isMerged);
  if (entry.verdict != "agrees") {
    EXPECT_NE(parts, "") << "said to differ, but agrees";
    return;
  }
  EXPECT_EQ(parts, "");
  if (entry.isMerged) {
    EXPECT_NE(difference(order, *library.program, false), "") << "agrees without merging";
  }
}

} // namespace

TEST(Golden, OrdersAreThoseOfTheLibraryOrTheDifferenceIsNamed) {
  const std::vector<Order> orders = readOrders(SLUICE_GOLDENS "/orders");
  EXPECT_EQ(orders.size(), 578u);
  const std::vector<Agreement> entries = readAgreements(SLUICE_GOLDENS "/agreement.txt");
  for (const Order &order : orders) {
    SCOPED_TRACE(order.name);
    auto entry = llvm::find_if(entries, [&](const Agreement &line) { return line.fits(order.name); });
    if (entry == entries.end()) {
      ADD_FAILURE() << "no line of agreement.txt";
      continue;
    }
    SCOPED_TRACE(fmt::format("agreement.txt:{}", entry->line));
    ++entry->orders;
    expectAgreement(order, *entry);
    if (entry->verdict == "fault")
      expectFaults(order, *entry);
    else
      expectLegal(order);
  }
  for (const Agreement &entry : entries) {
    SCOPED_TRACE(fmt::format("agreement.txt:{}", entry.line));
    EXPECT_EQ(entry.orders == 0, entry.verdict == "outside");
    EXPECT_EQ(entry.call.empty(), entry.verdict == "outside");
    EXPECT_TRUE(entry.verdict == "agrees" || !entry.reason.empty()) << "why?";
    EXPECT_EQ(entry.rules.empty(), entry.verdict != "fault");
    EXPECT_TRUE(llvm::is_contained({"agrees", "heuristic", "rule", "fault", "outside"}, entry.verdict));
  }
}

/// DeepSpeed's instruction lists also name sends, receives and the buffer each works on.
TEST(Golden, DeepSpeedsInstructionsAndBuffers) {
  unsigned compared = 0;
  for (const Order &order : readOrders(SLUICE_GOLDENS "/orders")) {
    if (order.buffers.empty())
      continue;
    SCOPED_TRACE(order.name);
    Compiled library =
        compile("import \"std/deepspeed\";\n" + settingOf(order) + "schedule main = deepspeed(P, M);\n",
                Compilation::Depth::Elaborate);
    ASSERT_TRUE(library.program && !library.hasErrors()) << library.text;
    ASSERT_EQ(order.rows.size(), library.program->devices);
    for (uint32_t d = 0; d < library.program->devices; ++d) {
      std::vector<Op> ours;
      std::vector<uint32_t> buffers;
      for (const Op &op : library.program->opsOf(d))
        if (op.isCompute() || op.isCommunication()) {
          ours.push_back(op);
          buffers.push_back(library.program->buffers.at(op.stage, op.microbatch));
        }
      EXPECT_EQ(ours, order.rows[d]) << d;
      EXPECT_EQ(buffers, order.buffers[d]) << d;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 5u);
}
