#include "Compiled.h"

#include "Std/LibraryText.h"

#include <numeric>

namespace sluice::test {

std::vector<CompiledSchedule> compileSchedules(const std::string &text, const Setting &setting,
                                               std::string *findings) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  std::vector<CompiledSchedule> result;
  if (compilation.load(*sources.addFile("test.sluice", text), diagnostics))
    compilation.run(setting, {}, Compilation::Depth::Figures, diagnostics, [&](Instance &instance) {
      if (instance.isCompiled && instance.verdict.clean && instance.figures)
        result.push_back({instance.name + " " + instance.parameterText(), std::move(instance.program),
                          std::move(instance.costs), instance.figures->memory.devices});
    });
  diagnostics.finish();
  if (findings)
    for (const Finding &finding : diagnostics.findings())
      *findings += std::to_string(info(finding.rule).number) + " " + finding.message + "\n";
  return result;
}

std::vector<CompiledSchedule> librarySchedules(uint32_t mostDevices) {
  std::vector<CompiledSchedule> result;
  for (const LibraryFile &file : libraryFiles())
    for (uint32_t devices = 1; devices <= mostDevices; ++devices)
      for (uint32_t microbatches : {1u, 2u, devices, devices + 3, 2 * devices, 4 * devices + 1}) {
        const bool isTwice = microbatches <= 2 && (microbatches == devices || microbatches == 2 * devices);
        if (isTwice && devices <= 2 && microbatches != 2)
          continue;
        const std::string text = file.text.str();
        if (text.find("(P = ") == std::string::npos)
          continue;
        std::vector<std::string> definitions = {"P=" + std::to_string(devices)};
        if (text.find(" M = ") != std::string::npos)
          definitions.push_back("M=" + std::to_string(microbatches));
        if (text.find(" N = 8") != std::string::npos)
          definitions.push_back("N=" + std::to_string(devices));
        std::string error;
        const Setting setting = parseDefinitions(definitions, error).front();
        for (CompiledSchedule &schedule : compileSchedules(text, setting))
          result.push_back(std::move(schedule));
      }
  return result;
}

Rational wantedFactor(const CompiledSchedule &schedule, uint32_t unit, size_t read) {
  const CostModel &costs = schedule.costs;
  const int64_t replicas = costs.replicas.value_or(1);
  const int64_t count =
      costs.asynchronous ? static_cast<int64_t>(read) : schedule.program.wholeMicrobatches();
  const std::vector<int64_t> &sizes = costs.loss == "mean over tokens" ? costs.tokens : costs.samples;
  const int64_t own = sizes.empty() ? 1 : sizes[unit / schedule.program.sequenceSplits];
  const int64_t all = sizes.empty() ? count : std::accumulate(sizes.begin(), sizes.end(), int64_t(0));
  // What each sample should weigh, over what it weighs in its microbatch.
  const int64_t divisor = costs.loss == "sum"                      ? 1
                          : costs.loss == "mean over microbatches" ? replicas * count * own
                                                                   : replicas * all;
  return *Rational::make(costs.microbatchLossIsSum ? 1 : own, divisor);
}

} // namespace sluice::test
