// Numbers as texts write them, read exactly.
#pragma once

#include "Support/Rational.h"

#include "llvm/ADT/StringRef.h"

namespace sluice {

/// Digits, an optional fraction and exponent (`35`, `35.5`, `2e-3`) as an exact fraction; nothing if it does
/// not fit one of 64 bits, or the exponent leaves -18 ... 18. A sign is not part of it.
std::optional<Rational> parseDecimal(llvm::StringRef digits);

} // namespace sluice
