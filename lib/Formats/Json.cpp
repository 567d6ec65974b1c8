#include "Formats/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <utility>

namespace sluice {

const JsonValue *JsonValue::find(llvm::StringRef key) const {
  for (size_t i = 0; i < keys.size(); ++i)
    if (keys[i].name == key)
      return &items[i];
  return nullptr;
}

std::string quoted(llvm::StringRef text) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  llvm::json::OStream(stream).value(llvm::json::fixUTF8(text));
  return result;
}

std::string describe(const JsonValue &value) {
  switch (value.kind) {
  case JsonValue::Kind::Null:
    return "null";
  case JsonValue::Kind::Boolean:
    return value.truth ? "true" : "false";
  case JsonValue::Kind::Number:
    return fmt::format("the number {}", value.text.take_front(40).str());
  case JsonValue::Kind::Text:
    return fmt::format("the text {}", quoted(value.text.take_front(40)));
  case JsonValue::Kind::Array:
    return "an array";
  case JsonValue::Kind::Object:
    return "an object";
  }
  return "";
}

namespace {

/// Deeper texts are refused: no format nests further, and the parser recurses.
constexpr unsigned maxDepth = 64;

class Parser {
public:
  Parser(llvm::StringRef text, uint32_t offset, JsonDocument &document, Diagnostics &diagnostics,
         const SourceManager &sources)
      : text(text), offset(offset), document(document), diagnostics(diagnostics), sources(sources) {}

  using Visit = llvm::function_ref<void(const JsonValue &)>;
  /// Items of the array at `key` of the root go to `visit`.
  void passOn(llvm::StringRef key, Visit visit) {
    visitedKey = key;
    visitItem = visit;
  }

  bool run() {
    if (!value(document.root, 0))
      return false;
    blanks();
    return at == text.size() || expected("the end of the text behind the value");
  }

private:
  void blanks() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r'))
      ++at;
  }
  Span from(size_t begin) const {
    return {offset + static_cast<uint32_t>(begin), offset + static_cast<uint32_t>(std::max(at, begin + 1))};
  }
  bool expected(const char *what) {
    llvm::StringRef rest = text.drop_front(std::min(at, text.size()));
    llvm::StringRef token = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    token = token.empty() ? rest.take_front(1) : token.take_front(40);
    size_t begin = at;
    at += token.size();
    diagnostics.report(Rule::SyntaxError, from(begin),
                       {{"what", what}, {"token", token.empty() ? "the end of the text" : quoted(token)}});
    return false;
  }

  bool value(JsonValue &result, unsigned depth) {
    blanks();
    const size_t begin = at;
    bool good = valueAt(result, depth);
    result.span = from(begin);
    return good;
  }
  bool valueAt(JsonValue &result, unsigned depth) {
    if (depth == maxDepth)
      return expected("no more than 64 brackets inside each other");
    if (at == text.size())
      return expected("a value");
    switch (text[at]) {
    case '{':
      return object(result, depth);
    case '[':
      return array(result, depth);
    case '"':
      result.kind = JsonValue::Kind::Text;
      return string(result.text);
    default:
      return text[at] == '-' || llvm::isDigit(text[at]) ? number(result) : word(result);
    }
  }
  bool word(JsonValue &result) {
    llvm::StringRef rest = text.drop_front(at).take_while([](char c) { return llvm::isAlnum(c); });
    if (rest == "null")
      result.kind = JsonValue::Kind::Null;
    else if (rest == "true" || rest == "false")
      result.kind = JsonValue::Kind::Boolean, result.truth = rest == "true";
    else
      return expected("a value");
    at += rest.size();
    return true;
  }
  size_t digits() {
    size_t begin = at;
    while (at < text.size() && llvm::isDigit(text[at]))
      ++at;
    return at - begin;
  }
  bool number(JsonValue &result) {
    const size_t begin = at;
    at += text[at] == '-';
    const size_t first = at;
    size_t count = digits();
    if (count == 0)
      return expected("a digit");
    if (count > 1 && text[first] == '0') {
      at = first;
      return expected("a number without leading zeros");
    }
    if (at < text.size() && text[at] == '.' && (++at, digits() == 0))
      return expected("a digit");
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
      ++at;
      at += at < text.size() && (text[at] == '+' || text[at] == '-');
      if (digits() == 0)
        return expected("a digit");
    }
    result.kind = JsonValue::Kind::Number;
    result.text = text.slice(begin, at);
    return true;
  }

  bool array(JsonValue &result, unsigned depth) {
    result.kind = JsonValue::Kind::Array;
    ++at;
    blanks();
    if (consume(']'))
      return true;
    const bool isVisited = std::exchange(isNextVisited, false);
    while (true) {
      const size_t decodedBefore = document.decoded.size();
      result.items.emplace_back();
      if (!value(result.items.back(), depth + 1))
        return false;
      if (isVisited) {
        visitItem(result.items.back());
        result.items.clear();
        document.decoded.resize(decodedBefore);
      }
      blanks();
      if (consume(']'))
        return true;
      if (!consume(','))
        return expected("\",\" or \"]\"");
    }
  }
  bool object(JsonValue &result, unsigned depth) {
    result.kind = JsonValue::Kind::Object;
    llvm::StringMap<Span> seen;
    ++at;
    blanks();
    if (consume('}'))
      return true;
    while (true) {
      blanks();
      if (at == text.size() || text[at] != '"')
        return expected("a key in quotes");
      const size_t begin = at;
      JsonValue::Key key;
      if (!string(key.name))
        return false;
      key.span = from(begin);
      auto [known, isNew] = seen.try_emplace(key.name, key.span);
      if (!isNew) {
        diagnostics.report(
            Rule::DuplicateName, key.span,
            {{"name", quoted(key.name)}, {"line", std::to_string(sources.locate(known->second.begin).line)}});
        return false;
      }
      blanks();
      if (!consume(':'))
        return expected("\":\"");
      result.keys.push_back(key);
      result.items.emplace_back();
      blanks();
      isNextVisited =
          visitItem && depth == 0 && key.name == visitedKey && at < text.size() && text[at] == '[';
      if (!value(result.items.back(), depth + 1))
        return false;
      blanks();
      if (consume('}'))
        return true;
      if (!consume(','))
        return expected("\",\" or \"}\"");
    }
  }
  bool consume(char c) {
    bool found = at < text.size() && text[at] == c;
    at += found;
    return found;
  }

  bool string(llvm::StringRef &result) {
    const size_t begin = ++at;
    while (at < text.size() && text[at] != '"' && text[at] != '\\' && !isControl(text[at]))
      ++at;
    if (at < text.size() && text[at] == '"') {
      result = text.slice(begin, at++);
      return llvm::json::isUTF8(result) || (at = begin, expected("a text in UTF-8"));
    }
    std::string decoded = text.slice(begin, at).str();
    while (at < text.size() && text[at] != '"') {
      if (isControl(text[at]))
        return expected("a text without control characters");
      if (text[at] != '\\')
        decoded += text[at++];
      else if (!escape(decoded))
        return false;
    }
    if (!consume('"'))
      return expected("a closing quote");
    if (!llvm::json::isUTF8(decoded))
      return at = begin, expected("a text in UTF-8");
    result = document.decoded.emplace_back(std::move(decoded));
    return true;
  }
  static bool isControl(char c) { return static_cast<unsigned char>(c) < 0x20; }
  /// Reads what stands behind a backslash.
  bool escape(std::string &decoded) {
    static constexpr llvm::StringRef letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    ++at;
    if (at == text.size())
      return expected("the rest of an escape");
    if (size_t index = letters.find(text[at]); index != llvm::StringRef::npos) {
      decoded += meanings[index];
      ++at;
      return true;
    }
    if (text[at] != 'u')
      return expected("one of \" \\ / b f n r t u");
    ++at;
    unsigned first = 0, second = 0;
    if (!hexDigits(first))
      return false;
    if (first >= 0xD800 && first < 0xDC00) {
      if (!text.drop_front(at).starts_with("\\u"))
        return expected("the second half of a surrogate pair");
      at += 2;
      if (!hexDigits(second))
        return false;
      if (second < 0xDC00 || second > 0xDFFF)
        return expected("the second half of a surrogate pair");
      first = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    } else if (first >= 0xDC00 && first < 0xE000) {
      return expected("the first half of a surrogate pair before this one");
    }
    char bytes[UNI_MAX_UTF8_BYTES_PER_CODE_POINT], *end = bytes;
    llvm::ConvertCodePointToUTF8(first, end);
    decoded.append(bytes, end);
    return true;
  }
  bool hexDigits(unsigned &value) {
    llvm::StringRef four = text.substr(at, 4);
    if (four.size() < 4 || !llvm::all_of(four, llvm::isHexDigit) || four.getAsInteger(16, value))
      return expected("four hexadecimal digits");
    at += 4;
    return true;
  }

  llvm::StringRef text;
  uint32_t offset;
  size_t at = 0;
  JsonDocument &document;
  Diagnostics &diagnostics;
  const SourceManager &sources;
  llvm::StringRef visitedKey;
  Visit visitItem;
  bool isNextVisited = false; // the array that begins here
};

} // namespace

std::unique_ptr<JsonDocument> parseJson(const SourceManager &sources, Span text, Diagnostics &diagnostics) {
  auto document = std::make_unique<JsonDocument>();
  llvm::StringRef whole = sources.text(text);
  return Parser(whole, text.begin, *document, diagnostics, sources).run() ? std::move(document) : nullptr;
}

std::unique_ptr<JsonDocument> parseJson(const SourceManager &sources, Span text, Diagnostics &diagnostics,
                                        llvm::StringRef key,
                                        llvm::function_ref<void(const JsonValue &)> visit) {
  auto document = std::make_unique<JsonDocument>();
  Parser parser(sources.text(text), text.begin, *document, diagnostics, sources);
  parser.passOn(key, visit);
  return parser.run() ? std::move(document) : nullptr;
}

} // namespace sluice
