// sluice queue: the queue lab.
#include "Driver/Queue.h"

#include "Common.h"

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::opt<std::string> path(cl::Positional, cl::desc("FILE"), cl::sub(queueCommand));
static cl::opt<unsigned> steps("steps", cl::desc("Steps to run at most, while something waits (default 8)"),
                               cl::init(8), cl::sub(queueCommand));

ExitCode runQueue() {
  if (path.empty())
    return usageError("name a file with a queue block");
  Session session;
  std::string error;
  std::vector<Setting> settings = parseDefinitions(definitions, error);
  if (!error.empty() || settings.size() != 1)
    return usageError("-D: " + (error.empty() ? "one value for each parameter" : error));
  FileLoader::Result file = session.loader.open(path);
  if (!file.error.empty())
    return usageError("cannot read " + path + ": " + file.error);
  if (!session.compilation.load(file.text, session.diagnostics))
    return session.finish();
  if (!checkParameterNames(session.compilation, settings, {}))
    return Usage;
  if (session.compilation.checked().queues.empty())
    return usageError(path + " has no queue block");
  session.compilation.runQueues(settings[0], session.diagnostics,
                                [&](const CheckedBlock &queue, Evaluator &evaluator) {
                                  if (auto run = sluice::runQueue(queue, evaluator, steps))
                                    print(queueText(*run));
                                });
  return session.finish();
}

} // namespace sluice::tool
