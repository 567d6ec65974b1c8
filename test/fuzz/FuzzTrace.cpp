// Any bytes as a trace: what is read names names that are there, and no event ends before it begins.
#include "Formats/TraceJson.h"
#include "Pipeline.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  using namespace sluice;
  SourceManager sources;
  Diagnostics diagnostics;
  auto text = sources.addFile("run.trace.json", std::string(reinterpret_cast<const char *>(data), size));
  if (!text)
    return 0;
  std::optional<Trace> trace = readTrace(sources, *text, diagnostics);
  fuzz::demand(trace.has_value() != diagnostics.hasErrors(), "a trace is read, or has an error");
  for (const Finding &finding : diagnostics.findings())
    fuzz::demand(finding.span.begin >= text->begin && finding.span.end <= text->end + 1,
                 "what is wrong with a trace stands in it");
  if (!trace)
    return 0;
  auto look = [](const Trace &read) {
    for (const TraceEvent &event : read.events) {
      fuzz::demand(event.name < read.names.size(), "an event has a name");
      fuzz::demand(event.begin <= event.end, "an event does not end before it begins");
    }
  };
  look(*trace);
  const size_t count = trace->events.size(), names = trace->names.size();
  Trace twice = *trace;
  if (addTrace(twice, std::move(*trace))) {
    look(twice);
    fuzz::demand(twice.events.size() == 2 * count && twice.names.size() == names,
                 "a trace and itself are its events twice");
  }
  return 0;
}
