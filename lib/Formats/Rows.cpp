#include "Formats/Rows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace sluice {

namespace {

/// Ways through the pipeline that are kept to complete others by; bidirectional ones have two.
constexpr size_t maxExamples = 16;

class RowsReader {
public:
  RowsReader(llvm::ArrayRef<Row> rows, Span text, const ReadOptions &options, Diagnostics &diagnostics)
      : rows(rows), text(text), options(options), diagnostics(diagnostics) {}

  std::optional<Program> run(llvm::StringRef name, StatedSizes stated,
                             const StageTable<uint32_t> &placement) {
    program.name = identifier(name);
    program.devices = static_cast<uint32_t>(rows.size());
    program.placement = placement;
    if (!measure(stated) || !checkBounds() || (placement.empty() && !place()))
      return std::nullopt;
    flatten();
    return std::move(program);
  }

private:
  bool measure(StatedSizes stated) {
    uint64_t ops = 0;
    uint32_t stages = 0, microbatches = 0;
    for (const Row &row : rows) {
      ops += row.ops.size();
      for (const Op &op : row.ops) {
        stages = std::max<uint32_t>(stages, op.stage + 1u);
        if (op.hasMicrobatch())
          microbatches = std::max(microbatches, op.microbatch + 1);
      }
    }
    program.stages = stated.stages ? stated.stages : stages;
    program.microbatches = stated.microbatches ? stated.microbatches : microbatches;
    if (ops > options.maxOps) {
      diagnostics
          .report(Rule::TooManyOps, text,
                  {{"limit", std::to_string(options.maxOps)}, {"what", "ops"}, {"where", ""}})
          .fix.message = "--max-ops N, for instance " + std::to_string(ops);
      return false;
    }
    uint64_t pairs = static_cast<uint64_t>(program.stages) * program.microbatches;
    if (pairs > 0 && pairs <= options.maxOps)
      return true;
    diagnostics.report(Rule::ValueOutOfRange, text,
                       {{"what", ops == 0     ? "there is no op"
                                 : pairs == 0 ? "no op has a microbatch"
                                              : fmt::format("the ops speak of {} stages and {} microbatches",
                                                            program.stages, program.microbatches)}});
    return false;
  }

  bool checkBounds() {
    bool good = true;
    for (uint32_t d = 0; d < rows.size(); ++d)
      for (size_t i = 0; i < rows[d].ops.size(); ++i) {
        const Op &op = rows[d].ops[i];
        bool stage = op.stage >= program.stages;
        if (!stage && (!op.hasMicrobatch() || op.microbatch < program.microbatches))
          continue;
        good = false;
        Finding &finding =
            diagnostics.report(Rule::IndexOutOfRange, rows[d].places[i],
                               {{"op", str(op)},
                                {"what", stage ? "stage" : "microbatch"},
                                {"index", std::to_string(stage ? op.stage : op.microbatch)},
                                {"bound", fmt::format("{} are 0 to {}", stage ? "stages" : "microbatches",
                                                      (stage ? program.stages : program.microbatches) - 1)}});
        finding.device = d;
        finding.op = str(op);
      }
    return good;
  }

  bool place() {
    std::vector<uint32_t> homeOf(program.stages, noDevice);
    const size_t pairs = static_cast<size_t>(program.stages) * program.microbatches;
    std::vector<uint32_t> forwardOf(pairs, noDevice), backwardOf(pairs, noDevice);
    for (uint32_t d = 0; d < rows.size(); ++d)
      for (const Op &op : rows[d].ops) {
        if (homeOf[op.stage] == noDevice)
          homeOf[op.stage] = d;
        if (!op.hasMicrobatch())
          continue;
        const size_t pair = static_cast<size_t>(op.microbatch) * program.stages + op.stage;
        uint32_t &device = op.kind == OpKind::Forward ? forwardOf[pair] : backwardOf[pair];
        if (device == noDevice)
          device = d;
      }
    std::vector<std::vector<uint32_t>> known(program.microbatches), whole;
    for (uint32_t m = 0; m < program.microbatches; ++m) {
      for (uint32_t s = 0; s < program.stages; ++s) {
        const size_t pair = static_cast<size_t>(m) * program.stages + s;
        known[m].push_back(forwardOf[pair] != noDevice ? forwardOf[pair] : backwardOf[pair]);
      }
      if (whole.size() < maxExamples && !llvm::is_contained(known[m], noDevice) &&
          !llvm::is_contained(whole, known[m]))
        whole.push_back(known[m]);
    }
    for (std::vector<uint32_t> &row : known) {
      if (!complete(row, whole, homeOf))
        return false;
      program.placement.addMicrobatch(row);
    }
    program.placement.finish();
    return true;
  }
  /// Fills in where pairs without an op would live: as for another microbatch that agrees with all that is
  /// known, which goes the same way through the pipeline; else on the first device of the stage.
  bool complete(std::vector<uint32_t> &row, llvm::ArrayRef<std::vector<uint32_t>> whole,
                llvm::ArrayRef<uint32_t> homeOf) {
    if (!llvm::is_contained(row, noDevice))
      return true;
    const std::vector<uint32_t> *example = llvm::find_if(whole, [&](const std::vector<uint32_t> &other) {
      for (uint32_t s = 0; s < program.stages; ++s)
        if (row[s] != noDevice && row[s] != other[s])
          return false;
      return true;
    });
    for (uint32_t s = 0; s < program.stages; ++s) {
      if (row[s] == noDevice)
        row[s] = example != whole.end() ? (*example)[s] : homeOf[s];
      if (row[s] == noDevice)
        return misplaced(s);
    }
    return true;
  }
  bool misplaced(uint32_t stage) {
    diagnostics
        .report(Rule::MisplacedStage, text,
                {{"stage", std::to_string(stage)},
                 {"microbatches", program.microbatches == 1
                                      ? "microbatch 0"
                                      : fmt::format("microbatches 0 to {}", program.microbatches - 1)},
                 {"devices", "no device"}})
        .fix.message = "ops of this stage in some row, or fewer stages";
    return false;
  }

  void flatten() {
    program.span = text;
    program.deviceBegin = {0};
    for (const Row &row : rows) {
      program.ops.insert(program.ops.end(), row.ops.begin(), row.ops.end());
      for (Span place : row.places)
        program.sites.push_back({place, 0});
      program.deviceBegin.push_back(program.size());
      program.programSpan.push_back(row.span);
    }
    program.siteOf.resize(program.size());
    std::iota(program.siteOf.begin(), program.siteOf.end(), 0);
    program.frameOf.assign(program.size(), 0);
  }

  llvm::ArrayRef<Row> rows;
  Span text;
  const ReadOptions &options;
  Diagnostics &diagnostics;
  Program program;
};

} // namespace

std::optional<Program> programOfRows(llvm::StringRef name, llvm::ArrayRef<Row> rows, StatedSizes stated,
                                     Span text, const ReadOptions &options, Diagnostics &diagnostics,
                                     const StageTable<uint32_t> &placement) {
  return RowsReader(rows, text, options, diagnostics).run(name, stated, placement);
}

std::string identifier(llvm::StringRef name) {
  static constexpr llvm::StringRef reserved[] = {"param", "let", "fn", "require", "import",
                                                 "for",   "in",  "if", "else",    "repeat"};
  std::string result;
  for (char c : name)
    if (llvm::isAlnum(c))
      result += c;
    else if (!result.empty() && result.back() != '_')
      result += '_';
  while (!result.empty() && result.back() == '_')
    result.pop_back();
  if (result.empty())
    return "schedule";
  bool needsPrefix = llvm::isDigit(result[0]);
  for (llvm::StringRef word : reserved)
    needsPrefix |= word == result;
  return needsPrefix ? "schedule_" + result : result;
}

/// The first convergent of the continued fraction of `wanted` that is the same double.
static std::optional<Rational> simplestFraction(double wanted) {
  // A convergent h/k is nearer than any fraction of a denominator up to k, so a double that stands for a
  // fraction of small terms meets it after a few steps.
  __int128 h0 = 0, h1 = 1, k0 = 1, k1 = 0;
  long double rest = wanted;
  for (int step = 0; step < 64; ++step) {
    long double whole = std::floor(rest);
    if (whole > 9.0e18L)
      return std::nullopt;
    auto a = static_cast<__int128>(whole);
    __int128 h2 = a * h1 + h0, k2 = a * k1 + k0;
    if (h2 > INT64_MAX || k2 > INT64_MAX)
      return std::nullopt;
    h0 = h1, h1 = h2, k0 = k1, k1 = k2;
    if (static_cast<double>(static_cast<long double>(h1) / static_cast<long double>(k1)) == wanted)
      return Rational::make(h1, k1);
    if (rest == whole)
      return std::nullopt;
    rest = 1 / (rest - whole);
  }
  return std::nullopt;
}

std::optional<Rational> exactNumber(llvm::StringRef number) {
  llvm::StringRef rest = number;
  const bool negative = rest.consume_front("-");
  auto [mantissa, power] = rest.split(rest.contains('e') ? 'e' : 'E');
  auto [whole, fraction] = mantissa.split('.');
  power.consume_front("+");
  int exponent = 0;
  if (!power.empty() && (power.getAsInteger(10, exponent) || exponent > 40 || exponent < -40))
    return std::nullopt;
  fraction = fraction.rtrim('0');
  std::string digits = (whole + fraction).str();
  llvm::StringRef significant = llvm::StringRef(digits).ltrim('0');
  std::optional<Rational> result;
  double value;
  if (significant.size() > 15 && !fraction.empty() && !rest.getAsDouble(value)) {
    result = simplestFraction(value);
  } else if (significant.size() <= 19) {
    uint64_t integer = 0;
    if (!significant.empty() && significant.getAsInteger(10, integer))
      return std::nullopt;
    __int128 numerator = integer, denominator = 1;
    for (int i = exponent - static_cast<int>(fraction.size()); i != 0 && numerator != 0;
         i += i < 0 ? 1 : -1) {
      __int128 &scaled = i < 0 ? denominator : numerator;
      scaled *= 10;
      if (scaled > static_cast<__int128>(1) << 110)
        return std::nullopt;
    }
    result = Rational::make(numerator, denominator);
  }
  if (result && negative)
    result = subtract(Rational(0), *result);
  return result;
}

std::optional<Rational> commonUnit(llvm::ArrayRef<Rational> times) {
  int64_t numerator = 0;
  __int128 denominator = 1;
  for (const Rational &time : times) {
    if (time.num == 0)
      continue;
    numerator = std::gcd(numerator, time.num);
    denominator = denominator / std::gcd(static_cast<int64_t>(denominator), time.den) * time.den;
    if (denominator > INT64_MAX)
      return std::nullopt;
  }
  auto unit = Rational::make(numerator == 0 ? 1 : numerator, denominator);
  for (const Rational &time : times) {
    auto count = unit ? divide(time, *unit) : std::nullopt;
    if (!count || !count->isInteger())
      return std::nullopt;
  }
  return unit;
}

bool checkOverlapSums(const Program &program, const CostModel &costs, Diagnostics &diagnostics) {
  int64_t sum = 0;
  for (OpId id = 0; id < program.size(); ++id) {
    const Op &op = program.ops[id];
    if (!op.has(OverlapFollower))
      sum = 0;
    if (!__builtin_add_overflow(sum, durationOf(costs, op), &sum))
      continue;
    diagnostics
        .report(Rule::ValueOutOfRange, program.spanOf(id),
                {{"what", "the ops of the overlap take more than 64 bits of time"}})
        .fix.message = "rounder costs, or a coarser unit";
    return false;
  }
  return true;
}

void setLatency(const Program &program, int64_t latency, CostModel &costs) {
  costs.activationTransfer = costs.gradientTransfer = {};
  std::vector<int64_t> activations(program.stages), gradients(program.stages);
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    for (uint32_t s = 0; s + 1 < program.stages; ++s)
      activations[s] = gradients[s + 1] = program.deviceOf(s, m) == program.deviceOf(s + 1, m) ? 0 : latency;
    costs.activationTransfer.addMicrobatch(activations);
    costs.gradientTransfer.addMicrobatch(gradients);
  }
  costs.activationTransfer.finish();
  costs.gradientTransfer.finish();
}

} // namespace sluice
