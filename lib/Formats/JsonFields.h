// Reading typed values out of a JSON tree: each reports what it found instead, where it stands.
#pragma once

#include "Formats/Json.h"

#include "IR/StageTable.h"

#include <optional>

namespace sluice {

class JsonFields {
public:
  explicit JsonFields(Diagnostics &diagnostics) : diagnostics(diagnostics) {}

  /// False after the first report.
  bool good = true;

  /// Reports 101 at `value`: expected `what`, found what it is.
  void expected(const JsonValue &value, llvm::StringRef what);
  /// The value of a key if it is there and of this kind; null otherwise, reported unless it is missing.
  const JsonValue *field(const JsonValue &object, llvm::StringRef key, JsonValue::Kind kind);
  /// As field, but a missing key is reported too (114).
  const JsonValue *needed(const JsonValue &object, llvm::StringRef key, JsonValue::Kind kind);
  bool isKind(const JsonValue &value, JsonValue::Kind kind, llvm::StringRef what);
  /// A whole number from `least` to `most`; 105, 106 or 101 otherwise.
  std::optional<int64_t> integer(const JsonValue &value, llvm::StringRef what, int64_t least, int64_t most);
  std::optional<int64_t> integerField(const JsonValue &object, llvm::StringRef key, int64_t least,
                                      int64_t most);
  /// `["a", "b"]`; empty if there is no such key.
  std::vector<std::string> texts(const JsonValue &object, llvm::StringRef key);
  /// Whole numbers not below 0, `count` of them; empty if there is no such key.
  std::vector<int64_t> integers(const JsonValue &object, llvm::StringRef key, size_t count,
                                int64_t most = INT64_MAX);
  /// Whole numbers not below 0: `[..]`, one a stage, or `{"rows": [[..], ..], "of_microbatch": [..]}`. Null
  /// in place of a number stands for `none`, if that is given.
  std::optional<StageTable<int64_t>> table(const JsonValue &value, llvm::StringRef what, uint32_t stages,
                                           uint32_t microbatches, int64_t most,
                                           std::optional<int64_t> none = std::nullopt);
  /// Reports 102 for keys that are not among `known`.
  void checkKeys(const JsonValue &object, llvm::ArrayRef<llvm::StringRef> known);

  Diagnostics &diagnostics;

private:
  std::optional<std::vector<int64_t>> row(const JsonValue &value, llvm::StringRef what, size_t count,
                                          int64_t most, std::optional<int64_t> none);
};

} // namespace sluice
