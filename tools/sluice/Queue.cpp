// sluice queue: the queue lab, as lines or as a page to step through.
#include "Driver/Queue.h"

#include "Common.h"

#include "Emit/QueuePage.h"

#include "llvm/Support/Path.h"

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::opt<std::string> path(cl::Positional, cl::desc("FILE"), cl::sub(queueCommand));
static cl::opt<unsigned> steps("steps", cl::desc("Steps to run at most, while something waits (default 8)"),
                               cl::init(8), cl::sub(queueCommand));

static cl::opt<std::string> output("o", cl::desc("Write to a file; its suffix chooses the form"),
                                   cl::value_desc("FILE"), cl::sub(queueCommand));
static cl::opt<std::string> format("format", cl::desc("Form of the output: text or html"),
                                   cl::value_desc("NAME"), cl::sub(queueCommand));

/// A rate of the language counts nanoseconds, the page seconds. Nothing on overflow.
static std::optional<QueueStart> startOf(const QueueRun &run) {
  const Rational second = 1'000'000'000;
  auto arrival = multiply(run.arrival, second), service = multiply(run.service, second);
  auto step = divide(run.step, second);
  if (!arrival || !service || !step)
    return std::nullopt;
  return QueueStart{run.name, run.steps.front().backlog, *arrival, *service, *step};
}

static std::string pageOf(llvm::ArrayRef<QueueRun> runs) {
  std::vector<QueueStart> queues;
  for (const QueueRun &run : runs)
    if (auto queue = startOf(run))
      queues.push_back(*queue);
  return queues.empty() ? "" : queuePage(queues);
}

static std::string textOf(llvm::ArrayRef<QueueRun> runs) {
  std::string text;
  for (const QueueRun &run : runs)
    text += queueText(run);
  return text;
}

/// `text` or `html`; empty after a message.
static std::string chosenForm() {
  const llvm::StringRef suffix = llvm::sys::path::extension(output);
  std::string form = !format.empty()  ? format.getValue()
                     : suffix.empty() ? "text"
                                      : suffix.drop_front().str();
  if (form == "txt")
    form = "text";
  if (form == "text" || form == "html")
    return form;
  usageError("a queue is written as text or html, not as " + form);
  return "";
}

ExitCode runQueue() {
  if (path.empty())
    return usageError("name a file with a queue block");
  const std::string form = chosenForm();
  if (form.empty())
    return Usage;
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
  std::vector<QueueRun> runs;
  session.compilation.runQueues(settings[0], session.diagnostics,
                                [&](const CheckedBlock &queue, Evaluator &evaluator) {
                                  if (auto run = sluice::runQueue(queue, evaluator, steps))
                                    runs.push_back(std::move(*run));
                                });
  const std::string text = form == "html" ? pageOf(runs) : textOf(runs);
  ExitCode code = session.finish();
  if (text.empty())
    return code;
  if (output.empty()) {
    print(text);
    return code;
  }
  ExitCode written = writeFile(output, text);
  return written == Clean ? code : written;
}

} // namespace sluice::tool
