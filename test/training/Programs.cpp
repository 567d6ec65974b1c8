#include "Programs.h"

#include "Driver/Compilation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace sluice::test {

const std::vector<LibrarySchedule> &librarySchedules() {
  static const std::vector<LibrarySchedule> all = {
      {"naive", "naive", nullptr},
      {"gpipe", "gpipe", nullptr},
      {"gpipe", "gpipe_reversed", nullptr},
      {"one_f_one_b", "one_f_one_b", nullptr},
      {"eager_one_f_one_b", "eager_one_f_one_b", nullptr},
      {"one_f_one_b_overlapped", "one_f_one_b_overlapped", nullptr},
      {"looped_bfs", "looped_bfs", "v"},
      {"looped_bfs", "looped_bfs_ascending", "v"},
      {"interleaved_pytorch", "interleaved_pytorch", "v"},
      {"interleaved_megatron", "interleaved_megatron", "v"},
      {"interleaved_overlapped", "interleaved_overlapped", "v"},
      {"group_interleaved", "group_interleaved", "v"},
      {"zb_h1", "zb_h1", nullptr},
      {"zb_h2", "zb_h2", nullptr},
      {"interleaved_zero_bubble", "interleaved_zero_bubble", "v"},
      {"zbv", "zbv", nullptr},
      {"zbv", "zbv_greedy", nullptr},
      {"v_half", "v_half", nullptr},
      {"v_min", "v_min", nullptr},
      {"v_one_f_one_b", "v_one_f_one_b", nullptr},
      {"wave", "wave", "W"},
      {"chimera", "chimera", nullptr},
      {"bitpipe", "bitpipe", nullptr, nullptr},
      {"dualpipe", "dualpipe", nullptr},
      {"dualpipev", "dualpipev", nullptr},
      {"deepspeed", "deepspeed", nullptr},
      {"seq1f1b", "seq1f1b", "k"},
      {"pipedream", "pipedream", nullptr, "M", true},
      {"pipedream_2bw", "pipedream_2bw", "N", "M", true},
  };
  return all;
}

std::optional<Compiled> compileText(const std::string &text, const std::string &name) {
  SourceManager sources;
  FileLoader loader(sources);
  Compilation compilation(sources, loader);
  Diagnostics diagnostics;
  std::optional<Compiled> compiled;
  if (compilation.load(*sources.addFile("training.sluice", text), diagnostics))
    compilation.run({}, {}, Compilation::Depth::Verify, diagnostics, [&](Instance &instance) {
      compiled = Compiled{name, std::move(instance.program), std::move(instance.costs)};
    });
  bool isRuledOut = false;
  for (const Finding &finding : diagnostics.findings()) {
    if (finding.rule == Rule::RequireFailed)
      isRuledOut = true;
    else if (finding.severity == Severity::Error)
      ADD_FAILURE() << name << ": " << finding.message;
  }
  if (isRuledOut)
    return std::nullopt;
  return compiled;
}

std::optional<Compiled> compileLibrary(const LibrarySchedule &schedule, int64_t P, int64_t M, int64_t third,
                                       const Training &training) {
  std::string arguments = fmt::format("P = {}", P);
  if (schedule.microbatches)
    arguments += fmt::format(", {} = {}", schedule.microbatches, M);
  if (schedule.third)
    arguments += fmt::format(", {} = {}", schedule.third, third);
  const std::string use = fmt::format("{}({})", schedule.name, arguments);
  // A schedule without a reduction has one replica.
  const std::string replicas = schedule.isAsynchronous ? "semantics = asynchronous;"
                                                       : fmt::format("replicas = {};", training.replicas);
  return compileText(
      fmt::format("import \"std/{}\";\n"
                  "let counts = [{}];\n"
                  "model m {{ forward = 1; backward_input = 1; backward_weight = 1; }}\n"
                  "training {{ samples(m) = counts[m]; loss = mean over samples; {} }}\n"
                  "schedule main = {};\n",
                  schedule.file, fmt::join(training.samples, ", "), replicas, use),
      fmt::format("{}, {} replicas, samples {}", use, training.replicas, fmt::join(training.samples, " ")));
}

} // namespace sluice::test
