#include "Elaborate/Placement.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

std::optional<DeclaredSize> declaredSize(Evaluator &evaluator, llvm::StringRef setting, bool &failed) {
  const CheckedFile &file = evaluator.checked();
  const auto &block = setting == "stages"         ? file.model
                      : setting == "microbatches" ? file.training
                                                  : file.cluster;
  if (!block)
    return std::nullopt;
  auto found = block->settings.find(setting.str());
  if (found == block->settings.end() || file.settings[found->second].value == noNode)
    return std::nullopt;
  const CheckedSetting &declared = file.settings[found->second];
  auto value = evaluator.evalInteger(declared.value, setting);
  if (!value) {
    failed = true;
    return std::nullopt;
  }
  if (*value < 1) {
    evaluator.diagnostics.report(Rule::ValueOutOfRange, declared.span,
                                 {{"what", fmt::format("{} = {} is below 1", setting.str(), *value)}});
    failed = true;
    return std::nullopt;
  }
  return DeclaredSize{*value, declared.span};
}

bool multiplySplits(DeclaredSize &microbatches, uint32_t splits, Diagnostics &diagnostics) {
  if (!__builtin_mul_overflow(microbatches.value, static_cast<int64_t>(splits), &microbatches.value))
    return true;
  diagnostics.report(
      Rule::ValueOutOfRange, microbatches.span,
      {{"what", fmt::format("microbatches of {} splits each are more than 2^63 - 1 units", splits)}});
  return false;
}

namespace {

class Placer {
public:
  Placer(const CheckedSchedule &schedule, Evaluator &evaluator, uint64_t limit, Program &program)
      : schedule(schedule), evaluator(evaluator), diagnostics(evaluator.diagnostics), limit(limit),
        program(program) {}

  bool run() {
    bool failed = false;
    declaredStages = declaredSize(evaluator, "stages", failed);
    declaredMicrobatches = declaredSize(evaluator, "microbatches", failed);
    declaredDevices = declaredSize(evaluator, "devices", failed);
    if (declaredMicrobatches && !failed)
      failed = !multiplySplits(*declaredMicrobatches, program.sequenceSplits, evaluator.diagnostics);
    if (failed || !evaluateRanges() || !chooseSizes())
      return false;
    for (size_t i = 0; i < schedule.places.size(); ++i)
      if (!evaluateFixedRow(i))
        return false;
    return fillRows() && countDevices();
  }

private:
  /// A place line with its ranges as numbers.
  struct Line {
    const CheckedPlace *place;
    int64_t firstStage = 0, lastStage = -1;
    Evaluator::Bounds microbatches{0, -1, 1};
    bool dependsOnMicrobatch = false;
    std::vector<uint32_t> row; // devices of firstStage.. where they do not depend on the microbatch
  };

  bool evaluateRanges() {
    for (const CheckedPlace &place : schedule.places) {
      Line line{&place, 0, -1, {0, -1, 1}, false, {}};
      if (place.stages) {
        auto bounds = evaluator.evalRange(*place.stages);
        if (!bounds)
          return false;
        line.firstStage = bounds->first;
        line.lastStage = bounds->last;
      }
      if (place.microbatches) {
        auto bounds = evaluator.evalRange(*place.microbatches);
        if (!bounds)
          return false;
        line.microbatches = *bounds;
      }
      line.dependsOnMicrobatch =
          place.microbatch != noSlot && reads(evaluator.checked().code, place.device, place.microbatch);
      lines.push_back(std::move(line));
    }
    return true;
  }

  bool disagree(Span span, const std::string &covers, const DeclaredSize &declared, const char *what) {
    Finding &finding = diagnostics.report(
        Rule::SizesDisagree, span,
        {{"covers", covers}, {"declaration", fmt::format("the file says {} {}", declared.value, what)}});
    finding.notes.push_back({"said here", declared.span, {}, {}});
    finding.fix.message = "make them equal";
    return false;
  }

  /// Written ranges say how many there are; other blocks must agree with them.
  bool chooseSize(const char *what, const std::optional<DeclaredSize> &declared, int64_t written, Span span,
                  bool allWritten, uint32_t limit, uint32_t &size) {
    if (written < 0 && !declared) {
      const char *setting = limit == maxStages ? "`stages` in a model" : "`microbatches` in training";
      diagnostics
          .report(Rule::ValueMissing, span,
                  {{"figure", fmt::format("the number of {}", what)}, {"setting", setting}})
          .fix.message = limit == maxStages ? "place s in 0..N on ..." : "... for m in 0..N";
      return false;
    }
    int64_t value = declared ? declared->value : written;
    if (declared && written >= 0 && (written > declared->value || (allWritten && written < declared->value)))
      return disagree(span, fmt::format("`place` covers {} {}", written, what), *declared, what);
    if (value < 1) {
      diagnostics.report(Rule::ValueOutOfRange, span, {{"what", fmt::format("there are no {}", what)}});
      return false;
    }
    if (value > limit) {
      diagnostics.report(Rule::ValueOutOfRange, span,
                         {{"what", fmt::format("{} {} are more than {}", value, what, limit)}});
      return false;
    }
    size = static_cast<uint32_t>(value);
    return true;
  }

  bool chooseSizes() {
    int64_t stages = -1, microbatches = -1;
    bool allStages = true, allMicrobatches = true;
    Span stageSpan = schedule.span, microbatchSpan = schedule.span;
    for (const Line &line : lines) {
      if (line.firstStage < 0 || line.microbatches.first < 0) {
        diagnostics.report(Rule::IndexOutOfRange, line.place->span,
                           {{"op", "place"},
                            {"what", line.firstStage < 0 ? "stage" : "microbatch"},
                            {"index", std::to_string(std::min(line.firstStage, line.microbatches.first))},
                            {"bound", "numbers start at 0"}});
        return false;
      }
      if (line.place->stages) {
        // An empty range still says how many there are: none beyond its start.
        stages = std::max(stages, std::max(line.lastStage, int64_t(0)));
        stageSpan = line.place->span;
      } else {
        allStages = false;
      }
      if (line.place->microbatches) {
        microbatches = std::max(microbatches, std::max(line.microbatches.last, int64_t(0)));
        microbatchSpan = line.place->span;
      } else {
        allMicrobatches = false;
      }
    }
    if (!chooseSize("stages", declaredStages, stages, stageSpan, allStages, maxStages, program.stages) ||
        !chooseSize(program.sequenceSplits > 1 ? "units" : "microbatches", declaredMicrobatches, microbatches,
                    microbatchSpan, allMicrobatches, 0x7fff'fffe, program.microbatches))
      return false;
    // Each pair takes an op at least.
    if (static_cast<uint64_t>(program.stages) * program.microbatches > limit) {
      diagnostics.report(
          Rule::TooManyOps, schedule.span,
          {{"limit", std::to_string(limit)},
           {"what", "ops"},
           {"where", fmt::format(": {} stages of {} microbatches", program.stages, program.microbatches)}});
      return false;
    }
    for (Line &line : lines) {
      if (!line.place->stages)
        line.lastStage = program.stages;
      if (!line.place->microbatches)
        line.microbatches.last = program.microbatches;
    }
    return true;
  }

  std::optional<uint32_t> deviceFor(const Line &line, int64_t stage) {
    if (!evaluator.spend(line.place->span))
      return std::nullopt;
    evaluator.set(line.place->stage, stage);
    auto device = evaluator.evalInteger(line.place->device, "the device");
    if (!device)
      return std::nullopt;
    if (*device >= 0 && *device < maxDevices)
      return static_cast<uint32_t>(*device);
    diagnostics.report(Rule::IndexOutOfRange, line.place->span,
                       {{"op", fmt::format("place stage {}", stage)},
                        {"what", "device"},
                        {"index", std::to_string(*device)},
                        {"bound", fmt::format("devices are 0 to {}", maxDevices - 1)}});
    return std::nullopt;
  }

  bool evaluateFixedRow(size_t i) {
    Line &line = lines[i];
    if (line.dependsOnMicrobatch)
      return true;
    for (int64_t s = line.firstStage; s < line.lastStage; ++s) {
      auto device = deviceFor(line, s);
      if (!device)
        return false;
      line.row.push_back(*device);
    }
    return true;
  }

  bool covers(const Line &line, int64_t m) const {
    const Evaluator::Bounds &range = line.microbatches;
    return m >= range.first && m < range.last && (m - range.first) % range.step == 0;
  }

  bool fillRows() {
    std::vector<uint32_t> row(program.stages), lineOf(program.stages);
    for (const Line &line : lines)
      program.placeSpans.push_back(line.place->span);
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      std::fill(row.begin(), row.end(), noDevice);
      for (const Line &line : lines) {
        if (!evaluator.spend(line.place->span))
          return false;
        if (!covers(line, m))
          continue;
        if (line.dependsOnMicrobatch)
          evaluator.set(line.place->microbatch, static_cast<int64_t>(m));
        for (int64_t s = line.firstStage; s < line.lastStage; ++s) {
          std::optional<uint32_t> device = line.dependsOnMicrobatch
                                               ? deviceFor(line, s)
                                               : line.row[static_cast<size_t>(s - line.firstStage)];
          if (!device)
            return false;
          if (row[static_cast<size_t>(s)] != noDevice)
            return misplaced(line, static_cast<uint32_t>(s), m,
                             fmt::format("devices {} and {}", row[static_cast<size_t>(s)], *device));
          row[static_cast<size_t>(s)] = *device;
          lineOf[static_cast<size_t>(s)] = static_cast<uint32_t>(&line - lines.data());
        }
      }
      if (auto hole = llvm::find(row, noDevice); hole != row.end())
        return misplaced(lines.empty() ? Line{} : lines.back(), static_cast<uint32_t>(hole - row.begin()), m,
                         "no device");
      program.placement.addMicrobatch(row);
      program.placedBy.addMicrobatch(lineOf);
    }
    program.placement.finish();
    program.placedBy.finish();
    return true;
  }

  /// One finding for the whole placement: the other pairs follow from the same line.
  bool misplaced(const Line &line, uint32_t stage, uint32_t microbatch, const std::string &devices) {
    Finding &finding = diagnostics.report(Rule::MisplacedStage, line.place ? line.place->span : schedule.span,
                                          {{"stage", std::to_string(stage)},
                                           {"microbatches", fmt::format("microbatch {}", microbatch)},
                                           {"devices", devices}});
    for (const Line &other : lines)
      if (other.place != line.place && covers(other, microbatch) && stage >= other.firstStage &&
          stage < other.lastStage)
        finding.notes.push_back({"also placed here", other.place->span, {}, {}});
    finding.fix.message = "one `place` line for each pair of stage and microbatch";
    return false;
  }

  bool countDevices() {
    uint32_t devices = 0;
    for (uint32_t row = 0; row < program.placement.rowCount(); ++row)
      for (uint32_t s = 0; s < program.stages; ++s)
        devices = std::max(devices, program.placement.inRow(row, s) + 1);
    program.devices = devices;
    if (declaredDevices && declaredDevices->value != devices && !schedule.places.empty())
      return disagree(schedule.places.front().span, fmt::format("`place` uses {} devices", devices),
                      *declaredDevices, "devices");
    return true;
  }

  const CheckedSchedule &schedule;
  Evaluator &evaluator;
  Diagnostics &diagnostics;
  uint64_t limit; // of ops
  Program &program;
  std::optional<DeclaredSize> declaredStages, declaredMicrobatches, declaredDevices;
  std::vector<Line> lines;
};

} // namespace

bool evaluatePlacement(const CheckedSchedule &schedule, Evaluator &evaluator, uint64_t maxOps,
                       Program &program) {
  return Placer(schedule, evaluator, maxOps, program).run();
}

} // namespace sluice
