#include "MegatronOptions.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice::tool {

/// Letters of an unrolled layout; a layout has few hundred.
static constexpr size_t maxLetters = 1 << 20;

namespace {

/// Replaces what `take` finds in `text` by as many copies as the number behind its `*` says.
class Unroller {
public:
  Unroller(std::string text, std::string &error) : text(std::move(text)), error(error) {}

  /// `(…)*n`: neither nested nor empty.
  bool groups() {
    return unroll([this](size_t at) -> size_t {
      if (text[at] != '(')
        return 0;
      const size_t close = text.find(')', at);
      return close == std::string::npos || close == at + 1 ? 0 : close + 1 - at;
    });
  }
  /// `x*n` of one letter.
  bool letters() {
    return unroll([](size_t) -> size_t { return 1; });
  }
  std::string text;

private:
  template <typename Take> bool unroll(Take take) {
    std::string result;
    for (size_t at = 0; at < text.size();) {
      const size_t length = take(at);
      int64_t count = 0;
      size_t end = at + length;
      if (length == 0 || end + 1 >= text.size() || text[end] != '*' || !llvm::isDigit(text[end + 1])) {
        result += text[at++];
        continue;
      }
      for (++end; end < text.size() && llvm::isDigit(text[end]); ++end)
        count = std::min<int64_t>(count * 10 + (text[end] - '0'), maxLetters);
      const std::string body = length == 1 ? text.substr(at, 1) : text.substr(at + 1, length - 2);
      if (body.size() * static_cast<size_t>(count) + result.size() > maxLetters) {
        error = fmt::format("`{}` makes more than {} layers", text.substr(at, end - at), maxLetters);
        return false;
      }
      for (int64_t i = 0; i < count; ++i)
        result += body;
      at = end;
    }
    text = std::move(result);
    return true;
  }
  std::string &error;
};

} // namespace

std::optional<std::vector<std::vector<MegatronLayer>>> parseMegatronLayout(llvm::StringRef layout,
                                                                           std::string &error) {
  std::string plain;
  for (char c : layout)
    if (c != ',') // only for the eye
      plain += c;
  Unroller unroller(plain, error);
  if (!unroller.groups() || !unroller.letters())
    return std::nullopt;
  std::vector<std::vector<MegatronLayer>> stages(1);
  for (char c : unroller.text) {
    if (c == '|') {
      stages.emplace_back();
      continue;
    }
    if (!llvm::StringRef("EtmL").contains(c)) {
      const size_t at = layout.find(c);
      error = fmt::format("character {} is '{}': E is the embedding, t a transformer layer, m a multi-token "
                          "prediction layer, L the loss, | ends a stage, and (...)*3 or t*3 repeats",
                          at + 1, std::string(1, c));
      return std::nullopt;
    }
    stages.back().push_back(static_cast<MegatronLayer>(c));
  }
  return stages;
}

} // namespace sluice::tool
