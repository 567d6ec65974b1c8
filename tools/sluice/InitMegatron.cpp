// The pipeline of a Megatron-LM job as a schedule file. Order and sizes follow from the options; costs do
// not, so they are placeholders, per layer.
#include "Starter.h"

#include "Support/Quantity.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice::tool {

namespace {

class MegatronFile {
public:
  MegatronFile(const MegatronJob &job, llvm::StringRef file) : job(job), file(file) {}

  std::string text() const {
    return header() + parameters() + layers() + model() + surroundings() +
           (isInterleaved() ? fmt::format("schedule main = interleaved_megatron(P, M, v, N{});\n",
                                          job.extraWarmup ? ", extra = 1" : "")
                            : "schedule main = one_f_one_b(P, M);\n");
  }

private:
  bool isInterleaved() const { return job.chunks > 1; }
  static std::string line(llvm::StringRef text, llvm::StringRef remark) {
    return fmt::format("{:<35} // {}\n", text.str(), remark.str());
  }
  /// A comment of several lines, broken at blanks.
  static std::string comment(llvm::StringRef words, llvm::StringRef indent = "") {
    llvm::SmallVector<llvm::StringRef> parts;
    words.split(parts, ' ', -1, /*KeepEmpty=*/false);
    std::string out, current = "//";
    for (llvm::StringRef part : parts) {
      if (current.size() + 1 + part.size() > 100 && current.size() > 2 + indent.size()) {
        out += current + "\n";
        current = "//" + indent.str();
      }
      current += " " + part.str();
    }
    return out + current + "\n";
  }
  const std::string &origin(const std::string &name) const { return job.origin.at(name); }

  std::string header() const {
    std::string out = "// The pipeline of a Megatron-LM job with\n" + comment("  " + job.text, "  ");
    if (!job.ignored.empty())
      out += comment("Ignored, as they say nothing about the pipeline: " + llvm::join(job.ignored, ", "));
    for (const std::string &remark : job.remarks)
      out += comment("Note: " + remark);
    return out + fmt::format("//\n// Replace what is marked `measure` by what you measure, then\n"
                             "//   sluice check {0}       is the schedule right?\n"
                             "//   sluice simulate {0}    who runs what when, idle time, memory\n\n"
                             "import \"std/{1}\";\n\n",
                             file.str(), isInterleaved() ? "interleaved_megatron" : "one_f_one_b");
  }

  std::string parameters() const {
    std::string out = line(fmt::format("param P = {};", job.devices), "devices: " + origin("P"));
    if (isInterleaved()) {
      out += line(fmt::format("param v = {};", job.chunks), "stages a device: " + origin("v"));
      out += line(fmt::format("param N = {};", job.group), "microbatches a group: " + origin("N"));
    }
    return out + line(fmt::format("param M = {};", job.microbatches), "microbatches: " + origin("M")) + "\n";
  }

  std::string stages() const { return isInterleaved() ? "v * P" : "P"; }

  /// Which layers each stage holds.
  std::string layers() const {
    std::string out = line(fmt::format("let L = {};", job.layers), "transformer layers");
    if (job.predictions > 0)
      out += line(fmt::format("let predictions = {};", job.predictions), "multi-token prediction layers");
    out += fmt::format("let loss = {};\n\n", job.predictions > 0 ? "L + predictions + 1" : "L + 1");
    out +=
        fmt::format("// Layer 0 is the embedding, 1 to L are the transformer layers, {}`loss` is the output "
                    "layer.\n",
                    job.predictions > 0 ? "then those that predict, " : "");
    if (job.isEven)
      return out + fmt::format("// Stage s holds layers first(s) up to, not including, first(s + 1).\n"
                               "fn first(s) = s == 0 ? 0 : s == {0} ? loss + 1 : 1 + div(L * s, {0});\n\n",
                               stages());
    out += "// Stage s holds layers starts[s] up to, not including, starts[s + 1].\nlet starts = [";
    size_t used = 14;
    for (size_t i = 0; i < job.firstLayer.size(); ++i) {
      std::string number = (i ? ", " : "") + std::to_string(job.firstLayer[i]);
      if (used + number.size() > 98) {
        out += ",\n              ";
        number = std::to_string(job.firstLayer[i]);
        used = 14;
      }
      used += number.size();
      out += number;
    }
    return out + "];\nfn first(s) = starts[s];\n\n";
  }

  /// By kind of layer; only kinds that the job has.
  std::string byKind(llvm::StringRef embedding, llvm::StringRef transformer, llvm::StringRef prediction,
                     llvm::StringRef output) const {
    return fmt::format("l == 0 ? {} : l == loss ? {} : {}{}", embedding.str(), output.str(),
                       job.predictions > 0 ? fmt::format("l > L ? {} : ", prediction.str()) : "",
                       transformer.str());
  }

  std::string model() const {
    std::string out = "model megatron {\n  stages = " + stages() + ";\n  layer_count = loss + 1;\n";
    out += "  layers(s) = first(s)..first(s + 1);\n  // What one layer costs a device for one microbatch.\n";
    out += "  layer(l) {\n";
    out += line("    forward = " + byKind("200 us", "3 ms", "4 ms", "2 ms") + ";", "measure");
    out += line(fmt::format("    backward = {} * forward;", job.fullRecompute ? 3 : 2),
                job.fullRecompute ? "measure: with the forward that is recomputed" : "measure");
    out += line("    activation = " +
                    byKind("32 MiB", job.fullRecompute ? "32 MiB" : "256 MiB", "256 MiB", "128 MiB") + ";",
                job.fullRecompute ? "measure: what recomputation leaves" : "measure");
    out += line("    weights = " + byKind("256 MiB", "384 MiB", "400 MiB", "256 MiB") + ";", "measure");
    out += line("    gradients = 2 * weights;", "measure: 32-bit gradients of 16-bit weights");
    out += line("    optimizer_state = 6 * weights;", "measure: less with a distributed optimizer");
    out += "  }\n";
    if (job.boundaryBytes)
      out += line(fmt::format("  boundary = {};", formatSize(*job.boundaryBytes)), origin("boundary"));
    else
      out += line("  boundary = 32 MiB;", "measure; --seq-length and --hidden-size would give it");
    return out + "}\n\n";
  }

  std::string surroundings() const {
    std::string out = "cluster node {\n  devices = P;\n";
    out += line("  memory = 80 GiB;", "of each device");
    out += line("  link { latency = 5 us; bandwidth = 50 GB/s; }", "measure");
    out += "  transport = nccl;\n}\n\ntraining {\n  microbatches = M;\n";
    out += line(fmt::format("  microbatch_samples = {};", job.microbatchSize), "--micro-batch-size");
    out += line(fmt::format("  replicas = {};", job.replicas), origin("replicas"));
    return out + "  loss = mean over samples;\n}\n\n";
  }

  const MegatronJob &job;
  llvm::StringRef file;
};

} // namespace

std::string megatronText(const MegatronJob &job, llvm::StringRef file) {
  return MegatronFile(job, file).text();
}

} // namespace sluice::tool
