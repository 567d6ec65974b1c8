// sluice dump: what the compiler sees.
#include "Common.h"

#include "Formats/PrintFile.h"
#include "IR/Print.h"
#include "Passes/LowerCommunication.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> arguments(cl::Positional, cl::desc("ast|ir|sluice FILE"), cl::sub(dumpCommand));

static cl::opt<bool> lowered("lowered",
                             cl::desc("With the sends and receives that are inferred, as early or "
                                      "just_in_time places them"),
                             cl::sub(dumpCommand));

/// Writes out the communication that `instance` leaves to be inferred; false if its order is cyclic.
static bool lower(Instance &instance) {
  const auto placement = instance.costs.communication == "just_in_time" ? CommunicationPlacement::JustInTime
                                                                        : CommunicationPlacement::Early;
  auto program = lowerCommunication(instance.program, ProgramIndex(instance.program), placement);
  if (program)
    instance.program = std::move(*program);
  return program.has_value();
}

/// What belongs to the file, and without which a dumped schedule would be another one, stands before the
/// first.
static std::string scheduleText(const Instance &instance, bool isFirst) {
  return isFirst ? printTerms(instance.program, instance.costs) + printSluice(instance.program)
                 : printSchedule(instance.program);
}

ExitCode runDump() {
  static constexpr llvm::StringRef kinds[] = {"ast", "ir", "sluice"};
  if (arguments.size() != 2 || !llvm::is_contained(kinds, llvm::StringRef(arguments[0])))
    return usageError("sluice dump ast|ir|sluice FILE");
  if (lowered && arguments[0] == "ast")
    return usageError("--lowered is for dump ir and dump sluice");
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
  bool first = true, isPlaced = true;
  session.compilation.run(session.settings[0], session.options, Compilation::Depth::Elaborate,
                          session.diagnostics, [&](Instance &instance) {
                            const bool isFirst = std::exchange(first, false);
                            if (!isFirst)
                              print("\n");
                            if (lowered && !lower(instance)) {
                              isPlaced = false;
                              llvm::errs() << "sluice: error: the compute order of " << instance.name
                                           << " is cyclic, so that no sends and receives can be placed; run "
                                              "sluice check\n";
                              return;
                            }
                            if (arguments[0] == "sluice")
                              return print(scheduleText(instance, isFirst));
                            ProgramIndex index(instance.program);
                            print(printIr(instance.program, index, &session.sources));
                          });
  const ExitCode code = session.finish();
  return isPlaced ? code : Findings;
}

} // namespace sluice::tool
