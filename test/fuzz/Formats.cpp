#include "Formats.h"

#include "Driver/Compilation.h"
#include "Emit/FindingsText.h"
#include "Formats/Megatron.h"
#include "Formats/PrintFile.h"
#include "Formats/ScheduleJson.h"
#include "Pipeline.h"

namespace sluice::fuzz {

/// Small enough that a run takes milliseconds.
constexpr uint64_t maxOps = 2000;

static void jsonRoundTrip(const FormattedSchedule &schedule) {
  std::vector<std::string> lost;
  std::string error;
  auto text = writeJson(schedule, lost, error);
  demand(text.has_value(), "every schedule has a JSON");
  SourceManager sources;
  Diagnostics diagnostics;
  auto again = readJson(sources, *sources.addFile("written.json", *text), {maxOps}, diagnostics, lost);
  demand(again.has_value() && equal(schedule.program, again->program), "JSON reads as what was written");
  demand(writeJson(*again, lost, error) == text, "JSON keeps the costs");
}

static void megatronRoundTrip(const FormattedSchedule &schedule) {
  std::vector<std::string> lost;
  std::string error;
  auto text = writeMegatron(schedule, lost, error);
  demand(text.has_value() != !error.empty(), "what has no order list has a reason");
  if (!text)
    return;
  SourceManager sources;
  Diagnostics diagnostics;
  auto again = readMegatron(sources, *sources.addFile("written.txt", *text), {maxOps}, diagnostics, lost);
  demand(again.has_value(), "an order list reads as what was written");
  demand(writeMegatron(*again, lost, error) == text, "an order list keeps the order");
}

/// Devices without a stage have no text: only a row of a format can speak of one.
static void fileRoundTrip(const FormattedSchedule &schedule) {
  for (uint32_t device = 0; device < schedule.program.devices; ++device)
    if (schedule.program.stagesOn(device).empty())
      return;
  std::vector<std::string> lost;
  std::string text = printFile(schedule, lost);
  runPipeline(text);
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  demand(compilation.load(*sources.addFile("printed.sluice", text), diagnostics),
         "a printed file has no errors");
  unsigned count = 0;
  CompileOptions options;
  options.elaborate.maxOps = maxOps;
  compilation.run({}, options, Compilation::Depth::Elaborate, diagnostics, [&](Instance &instance) {
    ++count;
    Program program = schedule.program;
    program.payloads.clear(); // the language has them once, as boundaries
    demand(equal(program, instance.program), "a printed file gives the same ops");
  });
  demand(count == 1 || diagnostics.hasErrors(), "a printed file gives one schedule");
}

void runReader(FormatReader read, llvm::ArrayRef<llvm::StringRef> texts) {
  SourceManager sources;
  Diagnostics diagnostics;
  std::vector<std::string> lost;
  std::vector<Span> spans;
  for (llvm::StringRef text : texts) {
    auto span = sources.addFile("input" + std::to_string(spans.size()), text.str());
    if (!span)
      return;
    spans.push_back(*span);
  }
  auto schedule = read(sources, spans, {maxOps}, diagnostics, lost);
  demand(schedule.has_value() != diagnostics.hasErrors(), "a text is read, or has an error");
  diagnostics.finish();
  findingsText(diagnostics.findings(), sources);
  if (!schedule)
    return;
  demand(schedule->program.size() <= maxOps, "the limit of ops holds");
  jsonRoundTrip(*schedule);
  megatronRoundTrip(*schedule);
  fileRoundTrip(*schedule);
}

} // namespace sluice::fuzz
