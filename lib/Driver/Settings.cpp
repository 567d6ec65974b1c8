// Parameter values of the command line.
#include "Driver/Compilation.h"

#include "Syntax/Parse.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

/// The product of all definitions may not have more settings than this.
static constexpr size_t maxSettings = 10'000'000;

/// Any constant expression of the language: `32`, `10 ms`, `2 * 4`, `1/2`.
static std::optional<Value> parseValue(llvm::StringRef text) {
  if (int64_t integer; !text.getAsInteger(10, integer) && integer != std::numeric_limits<int64_t>::min())
    return Value::of(Rational(integer));
  struct NoFiles : FileReader {
    Result read(llvm::StringRef, llvm::StringRef) override { return {{}, "not here"}; }
    std::vector<std::string> known() const override { return {}; }
  } reader;
  SourceManager sources;
  Diagnostics diagnostics;
  auto span = sources.addFile("-D", fmt::format("param value = {};", text.str()));
  auto tree = span ? parse(sources, *span, diagnostics) : std::nullopt;
  if (!tree || tree->items.size() != 1)
    return std::nullopt;
  CheckedFile file = analyze(*tree, sources, reader, diagnostics);
  if (diagnostics.hasErrors() || file.params.size() != 1)
    return std::nullopt;
  Value value = Evaluator(file, diagnostics).eval(file.params[0].value);
  bool isPlain = value.isNumber() || value.kind == Value::Kind::Boolean;
  return isPlain ? std::optional(value) : std::nullopt;
}

static bool parseValues(llvm::StringRef text, std::vector<Value> &values, std::string &error) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    part = part.trim();
    auto [firstText, lastText] = part.split("..");
    if (firstText.size() == part.size()) {
      auto value = parseValue(part);
      if (!value) {
        error = fmt::format("\"{}\" is no number or truth value", part.str());
        return false;
      }
      values.push_back(*value);
      continue;
    }
    int64_t first, last;
    if (firstText.trim().getAsInteger(10, first) || lastText.trim().getAsInteger(10, last)) {
      error = fmt::format("\"{}\" is no range of whole numbers", part.str());
      return false;
    }
    if (first >= last) {
      error = fmt::format("the range {} is empty: its end is not included", part.str());
      return false;
    }
    if (static_cast<uint64_t>(last) - static_cast<uint64_t>(first) > maxSettings) {
      error = fmt::format("the range {} has more than {} values", part.str(), maxSettings);
      return false;
    }
    for (int64_t value = first; value < last; ++value)
      values.push_back(Value::of(Rational(value)));
  }
  return true;
}

std::string str(const Value &value) {
  if (!value.isNumber())
    return value.isTrue() ? "true" : "false";
  return format(Quantity{value.number, value.dimension});
}

std::string str(const Setting &setting) {
  std::vector<std::string> parts;
  for (const Definition &definition : setting)
    parts.push_back(definition.name + "=" + str(definition.value));
  return llvm::join(parts, ", ");
}

std::vector<Setting> parseDefinitions(llvm::ArrayRef<std::string> definitions, std::string &error) {
  std::vector<Setting> settings = {{}};
  for (const std::string &definition : definitions) {
    auto [name, text] = llvm::StringRef(definition).split('=');
    name = name.trim();
    std::vector<Value> values;
    if (name.empty() || name.size() == definition.size())
      error = fmt::format("\"{}\" is not NAME=VALUE", definition);
    else if (llvm::any_of(settings.front(), [&](const Definition &d) { return d.name == name; }))
      error = fmt::format("{} is given twice; several values are written {}=A,B", name.str(), name.str());
    else if (parseValues(text, values, error) && settings.size() * values.size() > maxSettings)
      error = fmt::format("more than {} settings", maxSettings);
    if (!error.empty())
      return {};
    // Ascending, so that the first setting with a fault is the smallest; what is named twice is tried once.
    llvm::stable_sort(values, [](const Value &a, const Value &b) { return a.number < b.number; });
    auto same = [](const Value &a, const Value &b) {
      return a.number == b.number && a.kind == b.kind && a.dimension == b.dimension;
    };
    values.erase(std::unique(values.begin(), values.end(), same), values.end());
    std::vector<Setting> product;
    for (const Setting &setting : settings)
      for (const Value &value : values) {
        product.push_back(setting);
        product.back().push_back({name.str(), value});
      }
    settings = std::move(product);
  }
  return settings;
}

} // namespace sluice
