// sluice diff: two schedules op by op, and what the change does to the figures.
#include "Common.h"

#include "Difference.h"
#include "SharedOptions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> paths(cl::Positional, cl::desc("OLD NEW"), cl::sub(diffCommand));
static cl::opt<bool> figuresOnly("figures-only", cl::desc("Compare figures alone: exit 1 if one is worse"),
                                 cl::sub(diffCommand));
static cl::opt<std::string> tolerance("tolerance",
                                      cl::desc("With --figures-only, how much worse is no fault: 1%"),
                                      cl::value_desc("PART"), cl::init("0%"), cl::sub(diffCommand));
static cl::opt<std::string> format("format", cl::desc("text or json"), cl::init("text"),
                                   cl::sub(diffCommand));

namespace {
/// One of the two files, with the instances that it gives.
struct Side {
  Session session;
  std::vector<Instance> instances;
};
} // namespace

static ExitCode run(Side &side) {
  Session &session = side.session;
  session.compilation.run(session.settings[0], session.options, Compilation::Depth::Figures,
                          session.diagnostics,
                          [&](Instance &instance) { side.instances.push_back(std::move(instance)); });
  session.finish();
  return side.instances.empty() ? Usage : Clean;
}

/// Schedules of one name, or the only ones there are.
static std::vector<Difference> pairs(const Side &before, const Side &after, std::vector<std::string> &alone) {
  std::vector<Difference> differences;
  if (before.instances.size() == 1 && after.instances.size() == 1)
    return {compare(before.instances[0], after.instances[0])};
  auto find = [](const Side &side, const std::string &name) {
    return llvm::find_if(side.instances, [&](const Instance &i) { return i.name == name; });
  };
  for (const Instance &instance : before.instances)
    if (auto other = find(after, instance.name); other != after.instances.end())
      differences.push_back(compare(instance, *other));
    else
      alone.push_back(instance.name + " is in the old file only");
  for (const Instance &instance : after.instances)
    if (find(before, instance.name) == before.instances.end())
      alone.push_back(instance.name + " is in the new file only");
  return differences;
}

ExitCode runDiff() {
  if (paths.size() != 2)
    return usageError("sluice diff OLD NEW");
  if (format != "text" && format != "json")
    return usageError("--format " + format + ": text or json");
  std::optional<Rational> part = partOf(tolerance);
  if (!part)
    return usageError("--tolerance " + tolerance + ": a part such as 1%");
  if (tolerance.getNumOccurrences() > 0 && !figuresOnly)
    return usageError("--tolerance is of --figures-only: ops are the same or not");
  if (paths[0] == "-" && paths[1] == "-")
    return usageError("only one of the two can be standard input");
  Side before, after;
  std::set<std::string> known;
  for (auto [side, path] : {std::pair(&before, &paths[0]), {&after, &paths[1]}})
    if (ExitCode code = openShared(side->session, *path, known); code != Clean)
      return code;
  if (ExitCode code = checkKnown(known, 2); code != Clean)
    return code;
  for (Side *side : {&before, &after})
    if (ExitCode code = run(*side); code != Clean)
      return code;

  std::vector<std::string> alone;
  std::vector<Difference> differences = pairs(before, after, alone);
  if (differences.empty())
    return usageError(
        "no schedule is in both files; choose one of each with --schedule, or by a file of its own");
  if (format == "json") {
    print(differenceJson(differences, before.session.sources, after.session.sources));
  } else {
    for (const Difference &difference : differences)
      print((&difference == &differences.front() ? "" : "\n") +
            differenceText(difference, before.session.sources, after.session.sources, paths[0], paths[1],
                           !figuresOnly));
  }
  for (const std::string &line : alone)
    llvm::errs() << "sluice: " << line << '\n';

  if (!figuresOnly) {
    const bool isSame = alone.empty() && llvm::all_of(differences, [](const Difference &difference) {
                          return difference.hasSameOps();
                        });
    return isSame ? Clean : Findings;
  }
  bool isWorse = false;
  for (const Difference &difference : differences) {
    if (difference.figures.empty())
      return usageError("there are no figures to compare: one of the two does not run to its end");
    for (const FigureChange &change : difference.figures)
      isWorse |= change.isWorseBeyond(*part);
  }
  return isWorse ? Findings : Clean;
}

} // namespace sluice::tool
