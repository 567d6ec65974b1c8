// What the JSON of every command writes alike.
#pragma once

#include "Support/Rational.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

namespace sluice {

/// Inside an object: `"exact": "3/11", "value": 0.2727272727272727, "unit": "1"`, the value as the shortest
/// text that reads back equal.
void writeNumber(llvm::json::OStream &json, const Rational &value, llvm::StringRef unit);
/// A member of `parameters`: integers are numbers, anything else is its text.
void writeParameter(llvm::json::OStream &json, llvm::StringRef name, llvm::StringRef value);

} // namespace sluice
