#include "Formats/JsonFields.h"

#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

static const char *nameOf(JsonValue::Kind kind) {
  static constexpr const char *names[] = {"null",   "true or false", "a number",
                                          "a text", "an array",      "an object"};
  return names[static_cast<unsigned>(kind)];
}

void JsonFields::expected(const JsonValue &value, llvm::StringRef what) {
  diagnostics.report(Rule::SyntaxError, value.span, {{"what", what.str()}, {"token", describe(value)}});
  good = false;
}

bool JsonFields::isKind(const JsonValue &value, JsonValue::Kind kind, llvm::StringRef what) {
  if (!value.is(kind))
    expected(value, fmt::format("{} for {}", nameOf(kind), what.str()));
  return value.is(kind);
}

const JsonValue *JsonFields::field(const JsonValue &object, llvm::StringRef key, JsonValue::Kind kind) {
  const JsonValue *found = object.find(key);
  return found && isKind(*found, kind, quoted(key)) ? found : nullptr;
}

const JsonValue *JsonFields::needed(const JsonValue &object, llvm::StringRef key, JsonValue::Kind kind) {
  if (!object.find(key)) {
    diagnostics.report(Rule::ValueMissing, object.span,
                       {{"figure", "the object"}, {"setting", "the key " + quoted(key)}});
    good = false;
    return nullptr;
  }
  return field(object, key, kind);
}

std::optional<int64_t> JsonFields::integer(const JsonValue &value, llvm::StringRef what, int64_t least,
                                           int64_t most) {
  if (!isKind(value, JsonValue::Kind::Number, what))
    return std::nullopt;
  int64_t number = 0;
  if (value.text.find_first_of(".eE") != llvm::StringRef::npos) {
    diagnostics.report(Rule::NotAnInteger, value.span, {{"what", what.str()}, {"value", value.text.str()}});
    good = false;
    return std::nullopt;
  }
  if (!value.text.getAsInteger(10, number) && number >= least && number <= most)
    return number;
  diagnostics.report(Rule::ValueOutOfRange, value.span,
                     {{"what", fmt::format("{} = {} is {}", what.str(), value.text.str(),
                                           number < least ? fmt::format("below {}", least)
                                                          : fmt::format("above {}", most))}});
  good = false;
  return std::nullopt;
}

std::optional<int64_t> JsonFields::integerField(const JsonValue &object, llvm::StringRef key, int64_t least,
                                                int64_t most) {
  const JsonValue *found = object.find(key);
  return found ? integer(*found, key, least, most) : std::nullopt;
}

std::vector<std::string> JsonFields::texts(const JsonValue &object, llvm::StringRef key) {
  std::vector<std::string> result;
  if (const JsonValue *found = field(object, key, JsonValue::Kind::Array))
    for (const JsonValue &item : found->items)
      if (isKind(item, JsonValue::Kind::Text, key))
        result.push_back(item.text.str());
  return result;
}

std::optional<std::vector<int64_t>> JsonFields::row(const JsonValue &value, llvm::StringRef what,
                                                    size_t count, int64_t most, std::optional<int64_t> none) {
  if (!isKind(value, JsonValue::Kind::Array, what))
    return std::nullopt;
  if (value.items.size() != count) {
    diagnostics.report(Rule::SizesDisagree, value.span,
                       {{"covers", fmt::format("{} lists {} values", what.str(), value.items.size())},
                        {"declaration", fmt::format("there are to be {}", count)}});
    good = false;
    return std::nullopt;
  }
  std::vector<int64_t> result;
  for (const JsonValue &item : value.items) {
    auto number = none && item.is(JsonValue::Kind::Null) ? none : integer(item, what, 0, most);
    if (!number)
      return std::nullopt;
    result.push_back(*number);
  }
  return result;
}

std::vector<int64_t> JsonFields::integers(const JsonValue &object, llvm::StringRef key, size_t count,
                                          int64_t most) {
  const JsonValue *found = object.find(key);
  return found ? row(*found, key, count, most, std::nullopt).value_or(std::vector<int64_t>())
               : std::vector<int64_t>();
}

std::optional<StageTable<int64_t>> JsonFields::table(const JsonValue &value, llvm::StringRef what,
                                                     uint32_t stages, uint32_t microbatches, int64_t most,
                                                     std::optional<int64_t> none) {
  if (value.is(JsonValue::Kind::Array)) {
    auto only = row(value, what, stages, most, none);
    return only ? std::optional(StageTable<int64_t>(std::move(*only))) : std::nullopt;
  }
  if (!value.is(JsonValue::Kind::Object)) {
    expected(value, fmt::format("an array for {}, or an object of rows", what.str()));
    return std::nullopt;
  }
  checkKeys(value, {"rows", "of_microbatch"});
  const JsonValue *rows = needed(value, "rows", JsonValue::Kind::Array);
  const JsonValue *of = needed(value, "of_microbatch", JsonValue::Kind::Array);
  if (!good)
    return std::nullopt;
  std::vector<std::vector<int64_t>> read;
  for (const JsonValue &item : rows->items) {
    auto values = row(item, what, stages, most, none);
    if (!values)
      return std::nullopt;
    read.push_back(std::move(*values));
  }
  auto chosen = row(*of, fmt::format("of_microbatch of {}", what.str()), microbatches,
                    static_cast<int64_t>(read.size()) - 1, std::nullopt);
  if (!chosen)
    return std::nullopt;
  StageTable<int64_t> result;
  for (int64_t index : *chosen)
    result.addMicrobatch(read[static_cast<size_t>(index)]);
  result.finish();
  return result;
}

void JsonFields::checkKeys(const JsonValue &object, llvm::ArrayRef<llvm::StringRef> known) {
  for (const JsonValue::Key &key : object.keys) {
    if (llvm::is_contained(known, key.name))
      continue;
    Finding &finding =
        diagnostics.report(Rule::UnknownName, key.span, {{"name", "the key " + quoted(key.name)}});
    llvm::StringRef near = nearest(key.name, known);
    finding.fix.message = near.empty() ? "delete it" : quoted(near) + "?";
    good = false;
  }
}

} // namespace sluice
