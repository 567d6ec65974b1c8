#include "Driver/Hold.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

using Of = HeldSamples::Of;

const char *nameOf(Of of) { return of == Of::Batch ? "batch" : "microbatch_samples"; }

/// What turns samples of a microbatch into samples of a step.
struct Parts {
  std::vector<int64_t> microbatches; ///< Of the training, or of each schedule.
  int64_t replicas = 1;
  friend bool operator==(const Parts &, const Parts &) = default;
};

class Holder {
public:
  Holder(const Compilation &compilation, llvm::ArrayRef<Setting> settings, const CompileOptions &options,
         Of of, std::string &error)
      : compilation(compilation), settings(settings), options(options), of(of), error(error) {}

  std::optional<Hold> run() {
    const CheckedFile &file = compilation.checked();
    auto declares = [&](const char *name) {
      if (!file.training)
        return false;
      const auto found = file.training->settings.find(name);
      return found != file.training->settings.end() && file.settings[found->second].value != noNode;
    };
    Hold hold;
    hold.of = of;
    const bool writesSamples = file.training && file.uniformSamples == noSlot;
    const char *other = nameOf(of == Of::Batch ? Of::Microbatch : Of::Batch);
    if (writesSamples && (of == Of::Microbatch || !declares("batch"))) {
      hold.bySamples = of == Of::Microbatch;
      if (!hold.bySamples)
        hold.origin = "the sum of samples(m)";
    } else if (!declares(nameOf(of)) && !declares(other)) {
      error =
          fmt::format("{} gives neither `batch` nor `microbatch_samples`, so there is nothing to hold: {}",
                      file.name, whatToAdd(file));
      return std::nullopt;
    }
    isConverted = !writesSamples && !declares(nameOf(of));
    findStepParameters();
    bool isKnown = false;
    for (const Setting &setting : settings) {
      error.clear();
      Held held;
      if (!hold.bySamples)
        held = heldAt(referenceOf(setting), hold.origin, writesSamples && !declares("batch"));
      isKnown |= held.refused.empty();
      hold.at.push_back({of, held.count});
      hold.refused.push_back(held.refused);
    }
    error = isKnown ? "" : hold.refused.front();
    return isKnown ? std::optional(hold) : std::nullopt;
  }

private:
  std::string whatToAdd(const CheckedFile &file) const {
    if (llvm::StringRef(file.name).starts_with("<")) // not written by a person
      return "a table of cells says no samples; `sluice dump sluice` prints it as a schedule file, which can "
             "have a training";
    return file.training ? fmt::format("add to its training `{} = …;`", nameOf(of))
                         : fmt::format("add to it `training {{ microbatches = M; {} = …; }}`", nameOf(of));
  }

  /// The parts at a setting, if they can be told.
  std::optional<Parts> partsAt(const Setting &setting) {
    Diagnostics diagnostics;
    Parts parts;
    parts.replicas = compilation.trainingCount("replicas", setting, diagnostics).value_or(1);
    if (auto counted = compilation.trainingCount("microbatches", setting, diagnostics))
      parts.microbatches = {*counted};
    else if (!diagnostics.hasErrors()) // without a word of the training the schedules say it
      elaborate(setting, diagnostics, [&](const Instance &instance) {
        parts.microbatches.push_back(instance.program.wholeMicrobatches());
      });
    return parts.microbatches.empty() ? std::nullopt : std::optional(parts);
  }

  void elaborate(const Setting &setting, Diagnostics &diagnostics,
                 const std::function<void(const Instance &)> &visit) {
    CompileOptions each = options;
    each.held = HeldSamples{Of::Microbatch, std::nullopt}; // no number of samples is a fault here
    if (!compilation.checked().training)
      each.held.reset();
    compilation.run(setting, each, Compilation::Depth::Elaborate, diagnostics,
                    [&](Instance &instance) { visit(instance); });
  }

  /// Which parameters with several values, or another than their default, change the parts.
  void findStepParameters() {
    const Setting defaults = partsAt({}) ? Setting() : settings.front();
    const std::optional<Parts> usual = partsAt(defaults);
    for (size_t p = 0; p < settings.front().size(); ++p) {
      const std::string &name = settings.front()[p].name;
      std::set<std::string> tried;
      for (const Setting &setting : settings) {
        if (!tried.insert(str(setting[p].value)).second)
          continue;
        Setting changed = defaults;
        llvm::erase_if(changed, [&](const Definition &d) { return d.name == name; });
        changed.push_back(setting[p]);
        if (auto parts = partsAt(changed); parts && usual && !(*parts == *usual)) {
          stepParameters.insert(name);
          break;
        }
      }
    }
  }

  /// The setting with those parameters at their defaults: what the file says of samples is read there.
  Setting referenceOf(const Setting &setting) const {
    Setting reference;
    for (const Definition &definition : setting)
      if (!stepParameters.count(definition.name))
        reference.push_back(definition);
    return reference;
  }

  struct Held {
    std::optional<int64_t> count;
    std::string refused; ///< Why there is none.
  };
  const Held &heldAt(const Setting &reference, std::string &origin, bool addsSamples) {
    auto [known, isNew] = counts.try_emplace(str(reference));
    if (isNew) {
      known->second.count = addsSamples ? sumOfSamples(reference) : countAt(reference, origin);
      known->second.refused = error;
    }
    return known->second;
  }

  std::optional<int64_t> countAt(const Setting &reference, std::string &origin) {
    const Of declared = !isConverted ? of : of == Of::Batch ? Of::Microbatch : Of::Batch;
    Diagnostics diagnostics;
    const auto count = compilation.trainingCount(nameOf(declared), reference, diagnostics);
    if (!count || *count < 1)
      return failed(nameOf(declared), reference, diagnostics);
    if (!isConverted)
      return count;
    const auto parts = partsAt(reference);
    if (!parts)
      return failed("the number of microbatches", reference, diagnostics);
    const int64_t microbatches = parts->microbatches.front();
    if (llvm::any_of(parts->microbatches, [&](int64_t other) { return other != microbatches; })) {
      error = fmt::format("--hold {}: {} gives {} and schedules of different numbers of microbatches; choose "
                          "one with --schedule, or give `microbatches` in the training",
                          nameOf(of), compilation.checked().name, nameOf(declared));
      return std::nullopt;
    }
    const std::string there = fmt::format(
        "{} = {} at {} microbatch{}{}", nameOf(declared), *count, microbatches, microbatches == 1 ? "" : "es",
        parts->replicas == 1 ? "" : fmt::format(" x {} replicas", parts->replicas));
    const auto all = multiply(Rational(microbatches), Rational(parts->replicas));
    const auto held = !all              ? all
                      : of == Of::Batch ? multiply(Rational(*count), *all)
                                        : divide(Rational(*count), *all);
    if (!held || !held->isInteger() || held->num < 1) {
      error = fmt::format("--hold {}: {} gives {}, which is {}: write `microbatch_samples = …;` in its "
                          "training instead, or hold the batch",
                          nameOf(of), compilation.checked().name, there,
                          held ? held->str() + " samples a microbatch" : "too many samples");
      return std::nullopt;
    }
    origin = there;
    return held->num;
  }

  std::optional<int64_t> sumOfSamples(const Setting &reference) {
    Diagnostics diagnostics;
    std::optional<int64_t> sum;
    elaborate(reference, diagnostics, [&](const Instance &instance) { sum = instance.costs.batch; });
    return sum ? sum : failed("the sum of samples(m)", reference, diagnostics);
  }

  std::nullopt_t failed(llvm::StringRef what, const Setting &reference, const Diagnostics &diagnostics) {
    const std::string place = reference.empty() ? "the file's defaults" : str(reference);
    error = fmt::format("--hold {}: {} cannot be told at {}: {}", nameOf(of), what.str(), place,
                        diagnostics.findings().empty() ? "its value is no count"
                                                       : diagnostics.findings().front().message);
    return std::nullopt;
  }

  const Compilation &compilation;
  llvm::ArrayRef<Setting> settings;
  const CompileOptions &options;
  Of of;
  std::string &error;
  bool isConverted = false; ///< The file gives the other number.
  std::set<std::string> stepParameters;
  std::map<std::string, Held> counts; ///< By reference setting.
};

} // namespace

std::optional<int64_t> Hold::number() const {
  for (const HeldSamples &held : at)
    if (held.count != at.front().count)
      return std::nullopt;
  return at.front().count;
}

std::optional<Hold> holdSamples(const Compilation &compilation, llvm::ArrayRef<Setting> settings,
                                const CompileOptions &options, HeldSamples::Of of, std::string &error) {
  return Holder(compilation, settings, options, of, error).run();
}

} // namespace sluice
