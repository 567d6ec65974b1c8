// A JSON text as a tree whose values know where they stand, so that findings can point at them
// (RFC 8259, strict: no comments, no trailing commas, no repeated keys).
#pragma once

#include "Support/Diagnostics.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <deque>
#include <memory>

namespace sluice {

struct JsonValue {
  enum class Kind : uint8_t { Null, Boolean, Number, Text, Array, Object };
  Kind kind = Kind::Null;
  bool truth = false;
  Span span;
  llvm::StringRef text;         ///< Number: as it is written. Text: decoded.
  std::vector<JsonValue> items; ///< Of an array, or the values of an object.
  struct Key {
    llvm::StringRef name;
    Span span;
  };
  std::vector<Key> keys; ///< Of an object, one for each item.

  bool is(Kind wanted) const { return kind == wanted; }
  /// Null if the object has no such key.
  const JsonValue *find(llvm::StringRef key) const;
};

struct JsonDocument {
  JsonValue root;
  std::deque<std::string> decoded; ///< Texts that are not written as they read.
};

/// Nothing if `text` is no JSON; 101 or 103 says where. Texts point into `sources` and the document.
std::unique_ptr<JsonDocument> parseJson(const SourceManager &sources, Span text, Diagnostics &diagnostics);
/// The same of a text with one long array, that at `key` of the object that the text is: its items are
/// visited one by one as they are read, and not kept, so memory does not grow with them.
std::unique_ptr<JsonDocument> parseJson(const SourceManager &sources, Span text, Diagnostics &diagnostics,
                                        llvm::StringRef key,
                                        llvm::function_ref<void(const JsonValue &)> visit);

/// `an array`, `the text "F3@1"`: what stands there, in words.
std::string describe(const JsonValue &value);
/// `text` as JSON writes it, with quotes.
std::string quoted(llvm::StringRef text);

} // namespace sluice
