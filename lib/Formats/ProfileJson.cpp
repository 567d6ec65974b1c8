#include "Formats/ProfileJson.h"

#include "Formats/JsonFields.h"
#include "Support/Decimal.h"
#include "Support/Quantity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

namespace {

using Kind = JsonValue::Kind;

/// Stages are 16 bits wide, as in an op.
constexpr int64_t lastStage = 65535;

class ProfileReader {
public:
  explicit ProfileReader(JsonFields &fields) : fields(fields) {}

  std::optional<Profile> read(const JsonValue &root) {
    if (!fields.isKind(root, Kind::Object, "a profile"))
      return std::nullopt;
    fields.checkKeys(root, {"version", "time_unit", "ops"});
    if (const JsonValue *version = fields.needed(root, "version", Kind::Number);
        version && version->text != "1")
      fields.expected(*version, "version 1");
    if (const JsonValue *unit = fields.needed(root, "time_unit", Kind::Text))
      readUnit(*unit);
    profile.ops.resize(profileOps().size());
    const JsonValue *ops = fields.needed(root, "ops", Kind::Object);
    if (!ops || !fields.good)
      return std::nullopt;
    fields.checkKeys(*ops, profileOps());
    for (size_t op = 0; op < profileOps().size(); ++op)
      if (const JsonValue *curves = fields.field(*ops, profileOps()[op], Kind::Array))
        for (const JsonValue &curve : curves->items)
          readCurve(curve, op);
    if (!fields.good)
      return std::nullopt;
    return std::move(profile);
  }

private:
  void readUnit(const JsonValue &unit) {
    auto one = unitNamed(unit.text);
    if (!one || one->dimension != timeDimension)
      return fields.expected(unit, "\"ns\", \"us\", \"ms\" or \"s\"");
    profile.unit = unit.text.str();
    nanoseconds = one->value;
  }

  std::optional<Rational> number(const JsonValue &value, llvm::StringRef what) {
    if (!fields.isKind(value, Kind::Number, what))
      return std::nullopt;
    if (value.text.starts_with("-")) {
      fields.expected(value, fmt::format("{} that is not below 0", what.str()));
      return std::nullopt;
    }
    auto exact = parseDecimal(value.text);
    if (!exact)
      fields.expected(value, fmt::format("{} that fits an exact 64-bit fraction", what.str()));
    return exact;
  }
  /// One number, or an array of them.
  std::vector<Rational> numbers(const JsonValue &value, llvm::StringRef what) {
    std::vector<Rational> result;
    llvm::ArrayRef<JsonValue> items = value.is(Kind::Array) ? llvm::ArrayRef(value.items) : value;
    for (const JsonValue &item : items)
      result.push_back(number(item, what).value_or(Rational()));
    return result;
  }

  void readCurve(const JsonValue &entry, size_t op) {
    if (!fields.isKind(entry, Kind::Object, quoted(profileOps()[op])))
      return;
    fields.checkKeys(entry, {"stage", "samples", "time"});
    const JsonValue *times = entry.find("time");
    if (!times) {
      fields.needed(entry, "time", Kind::Array);
      return;
    }
    ProfileCurve curve;
    curve.span = entry.span;
    const JsonValue *samples = entry.find("samples");
    curve.namesSamples = samples != nullptr;
    std::vector<Rational> at, taken = numbers(*times, "a time");
    if (samples)
      at = numbers(*samples, "a number of samples");
    if (!fields.good)
      return;
    if (taken.empty() || (samples && at.size() != taken.size()))
      return fields.expected(*times, samples && !at.empty()
                                         ? fmt::format("{} times, one for each number of samples", at.size())
                                         : "at least one time");
    if (!samples && taken.size() > 1)
      return fields.expected(*times, "one time, or \"samples\" that say when each was taken");
    if (op >= profileOpsOfMicrobatches && taken.size() > 1)
      return fields.expected(*times,
                             fmt::format("one time: {} belongs to no microbatch", profileOps()[op].str()));
    for (size_t i = 0; i < taken.size(); ++i) {
      if (samples && i > 0 && at[i] <= at[i - 1])
        return fields.expected(samples->is(Kind::Array) ? samples->items[i] : *samples,
                               "more samples than before: they ascend");
      auto time = multiply(taken[i], nanoseconds);
      if (!time)
        return fields.expected(*times, "times that fit exact 64-bit fractions of nanoseconds");
      curve.points.push_back({samples ? at[i] : Rational(0), *time});
    }
    curve.namesSamples &= op < profileOpsOfMicrobatches;
    take(entry, op, std::move(curve));
  }
  void take(const JsonValue &entry, size_t op, ProfileCurve curve) {
    ProfileOp &of = profile.ops[op];
    if (!entry.find("stage")) {
      if (of.others)
        return fields.expected(entry,
                               fmt::format("one entry of {} without a stage", quoted(profileOps()[op])));
      of.others = std::move(curve);
    } else if (auto stage = fields.integerField(entry, "stage", 0, lastStage)) {
      if (!of.ofStage.try_emplace(static_cast<uint32_t>(*stage), std::move(curve)).second)
        fields.expected(*entry.find("stage"), fmt::format("each stage once in {}", quoted(profileOps()[op])));
    }
  }

  JsonFields &fields;
  Profile profile;
  Rational nanoseconds = 1;
};

} // namespace

std::shared_ptr<const Profile> readProfile(const SourceManager &sources, Span text, llvm::StringRef path,
                                           Span named, Diagnostics &diagnostics) {
  // What is wrong is found in the words of JSON and said in those of a profile.
  Diagnostics inner;
  std::optional<Profile> profile;
  if (auto document = parseJson(sources, text, inner)) {
    JsonFields fields(inner);
    profile = ProfileReader(fields).read(document->root);
  }
  for (const Finding &fault : inner.findings()) {
    Finding &finding = diagnostics.report(
        Rule::BadProfile, fault.span, {{"path", fmt::format("\"{}\"", path.str())}, {"what", fault.message}});
    finding.notes = fault.notes;
    if (named.isValid())
      finding.notes.push_back({"it is named here", named, {}, {}});
    finding.fix = fault.fix;
  }
  if (!profile)
    return nullptr;
  profile->path = path.str();
  return std::make_shared<const Profile>(std::move(*profile));
}

} // namespace sluice
