#include "Emit/JsonValues.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

void writeNumber(llvm::json::OStream &json, const Rational &value, llvm::StringRef unit) {
  json.attribute("exact", value.str());
  json.attributeBegin("value");
  json.rawValue(fmt::format("{}", value.toDouble()));
  json.attributeEnd();
  json.attribute("unit", unit);
}

void writeParameter(llvm::json::OStream &json, llvm::StringRef name, llvm::StringRef value) {
  int64_t integer = 0;
  if (llvm::to_integer(value, integer, 10))
    json.attribute(name, integer);
  else
    json.attribute(name, value);
}

} // namespace sluice
