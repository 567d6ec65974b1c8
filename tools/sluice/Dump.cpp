// sluice dump: what the compiler sees.
#include "Common.h"

#include "IR/Print.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> arguments(cl::Positional, cl::desc("ast|ir|sluice FILE"), cl::sub(dumpCommand));

/// Asynchronous semantics belong to the file, and without them a dumped schedule would be another one.
static std::string semanticsText(const CostModel &costs, bool isFirst) {
  if (!costs.asynchronous || !isFirst)
    return "";
  std::string bound = costs.stalenessBound ? fmt::format("(staleness <= {})", *costs.stalenessBound) : "";
  return fmt::format("training {{ semantics = asynchronous{}; }}\n\n", bound);
}

ExitCode runDump() {
  static constexpr llvm::StringRef kinds[] = {"ast", "ir", "sluice"};
  if (arguments.size() != 2 || !llvm::is_contained(kinds, llvm::StringRef(arguments[0])))
    return usageError("sluice dump ast|ir|sluice FILE");
  Session session;
  if (arguments[0] == "ast") {
    // A file whose names are wrong still has a tree.
    FileLoader::Result file = session.loader.openSchedule(arguments[1]);
    if (!file.error.empty())
      return usageError("cannot read " + arguments[1] + ": " + file.error);
    bool good = session.compilation.load(file.text, session.diagnostics);
    if (session.compilation.hasTree())
      print(ast::print(session.compilation.tree(), session.sources));
    return good ? Clean : session.finish();
  }
  if (ExitCode code = session.openSingle(arguments[1]); code != Clean)
    return code;
  bool first = true;
  session.compilation.run(session.settings[0], session.options, Compilation::Depth::Elaborate,
                          session.diagnostics, [&](Instance &instance) {
                            const bool isFirst = std::exchange(first, false);
                            if (!isFirst)
                              print("\n");
                            if (arguments[0] == "sluice")
                              return print(semanticsText(instance.costs, isFirst) +
                                           printSluice(instance.program));
                            ProgramIndex index(instance.program);
                            print(printIr(instance.program, index, &session.sources));
                          });
  return session.finish();
}

} // namespace sluice::tool
