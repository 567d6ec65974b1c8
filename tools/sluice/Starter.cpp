#include "Starter.h"

#include "Emit/FindingsText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

namespace sluice::tool {

/// `text` padded so that what follows stands in one column.
static std::string remark(llvm::StringRef text, llvm::StringRef words) {
  return words.empty() ? text.str() + "\n" : fmt::format("{:<35} // {}\n", text.str(), words.str());
}

/// A comment of several lines, broken at blanks, with what follows in one column.
static std::string remarks(llvm::StringRef text, llvm::StringRef words) {
  llvm::SmallVector<llvm::StringRef> parts;
  words.split(parts, ' ', -1, /*KeepEmpty=*/false);
  std::string out, line;
  for (llvm::StringRef part : parts) {
    if (!line.empty() && line.size() + 1 + part.size() > 64) {
      out += remark(out.empty() ? text : "", line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + part.str();
  }
  return out + remark(out.empty() ? text : "", line);
}

static std::string parameters(const LibraryEntry &entry) {
  std::string out;
  for (const LibraryParameter &parameter : entry.parameters) {
    const std::string range = parameter.range.empty() ? "" : " in " + parameter.range;
    out +=
        remarks(fmt::format("param {} = {}{};", parameter.name, parameter.value, range), parameter.meaning);
  }
  return out;
}

static std::string model(const LibraryEntry &entry) {
  bool hasHalves = false, hasWhole = false;
  for (const Op &op : entry.instance.program.ops) {
    hasHalves |= op.kind == OpKind::BackwardInput;
    hasWhole |= op.kind == OpKind::Backward;
  }
  std::string out =
      "// One microbatch through one stage `s`, per device. Measure each value on your own model.\n"
      "model mine {\n";
  if (!entry.stages.empty())
    out += fmt::format("  stages = {};\n", entry.stages);
  out += remark("  forward(s) = 10 ms;", "measure; may differ: s == 0 ? 12 ms : 10 ms");
  if (hasHalves) {
    out += remark("  backward_input(s) = 10 ms;", "measure: the half that the stage before waits for");
    out += remark("  backward_weight(s) = 10 ms;", "measure: the half that only the update waits for");
  } else {
    out += remark("  backward(s) = 2 * forward(s);", "measure");
  }
  out += remark("  activation(s) = 512 MiB;", "measure: what stays from a forward to its backward");
  out += remark("  boundary = 32 MiB;", "measure: what one stage sends to the next");
  out += remark("  weights(s) = 1 GiB;", "measure");
  out += remark("  gradients(s) = weights(s);", "");
  out += remark("  optimizer_state(s) = 6 * weights(s);", "32-bit weights and two moments of 16-bit ones");
  return out + "}\n";
}

static std::string surroundings(const LibraryEntry &entry) {
  const Program &program = entry.instance.program;
  auto parameterWith = [&](llvm::StringRef name, uint32_t value) {
    for (const auto &[parameter, text] : entry.instance.parameters)
      if (parameter == name && text == std::to_string(value))
        return name.str();
    return std::to_string(value);
  };
  std::string out = "cluster node {\n";
  out += fmt::format("  devices = {};\n", parameterWith("P", program.devices));
  out += remark("  memory = 80 GiB;", "of each device");
  out += remark("  link { latency = 5 us; bandwidth = 50 GB/s; }", "measure");
  out += remark("  transport = nccl;", "what blocks: nccl, mpi, gloo or local");
  out += "}\n\ntraining {\n";
  out += fmt::format("  microbatches = {};\n", parameterWith("M", program.wholeMicrobatches()));
  out += remark("  microbatch_samples = 1;", "samples in each");
  if (entry.instance.costs.asynchronous)
    out += remark("  semantics = asynchronous;", "updates do not wait for all microbatches");
  return out + "  loss = mean over samples;\n}\n";
}

std::string starterText(const LibraryEntry &entry, llvm::StringRef file) {
  std::vector<std::string> names;
  for (const LibraryParameter &parameter : entry.parameters)
    names.push_back(parameter.name);
  std::string out = fmt::format("// {}\n"
                                "// `sluice list {}` says more about it. What to do with this file:\n"
                                "//\n"
                                "//   sluice check {}             is the schedule right?\n"
                                "//   sluice simulate {}          who runs what when, idle time, memory\n"
                                "//   sluice simulate {} -D {}=16  another value of a param\n"
                                "//   sluice simulate {} -o timeline.svg\n\n"
                                "import \"{}\";\n\n",
                                entry.summary(), entry.name, file.str(), file.str(), file.str(),
                                llvm::is_contained(names, "M") || names.empty() ? "M" : names.front(),
                                file.str(), entry.file);
  out += parameters(entry) + "\n" + model(entry) + "\n" + surroundings(entry);
  return out + fmt::format("\nschedule main = {}({});\n", entry.name, llvm::join(names, ", "));
}

std::optional<std::string> withExpectations(const std::string &text, llvm::StringRef file) {
  SourceManager sources;
  FileLoader loader(sources);
  auto figuresOf = [&](const std::string &name, const std::string &source) -> std::optional<Instance> {
    Diagnostics diagnostics;
    Compilation compilation(sources, loader);
    std::optional<Instance> result;
    auto span = sources.addFile(name, source);
    if (span && compilation.load(*span, diagnostics))
      compilation.run({}, compileOptions(), Compilation::Depth::Figures, diagnostics,
                      [&](Instance &instance) { result = std::move(instance); });
    diagnostics.finish();
    llvm::errs() << findingsText(diagnostics.findings(), sources, {});
    if (result)
      result->schedule = nullptr; // the compilation ends here
    const bool isClean =
        llvm::none_of(diagnostics.findings(), [](const Finding &f) { return f.severity != Severity::Note; });
    return isClean && result && result->figures ? std::move(result) : std::nullopt;
  };
  const std::optional<Instance> instance = figuresOf(file.str(), text);
  if (!instance)
    return std::nullopt;
  const Figures &figures = *instance->figures;
  std::string out = text + "\n// What must stay true; `sluice check` says when it does not.\nexpect main {\n";
  auto idle = figures.idleFraction ? multiply(*figures.idleFraction, Rational(100)) : std::nullopt;
  if (idle)
    out += remark(fmt::format("  idle_fraction <= {}%;", idle->ceil()), "bubble / elapsed");
  if (auto peak = figures.value("peak_activation"))
    out += remark(fmt::format("  peak_activation <= {};", peak->ceil()),
                  "pairs of stage and microbatch alive on a device");
  if (auto peak = figures.value("peak_memory"))
    if (!instance->costs.memoryLimit.empty() && *peak <= Rational(instance->costs.memoryLimit.front()))
      out += remark(fmt::format("  peak_memory <= {};", formatSize(instance->costs.memoryLimit.front())),
                    "on every device");
  out += "}\n";
  return figuresOf(file.str(), out) ? std::optional(out) : std::nullopt;
}

} // namespace sluice::tool
