#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

std::string numberList(std::vector<uint32_t> numbers) {
  llvm::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    if (end - i < 3)
      end = i + 1;
    text += text.empty() ? "" : ", ";
    // Not `0..3`: in the language that range ends before 3.
    text +=
        end - i == 1 ? fmt::format("{}", numbers[i]) : fmt::format("{} to {}", numbers[i], numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string listed(llvm::StringRef one, llvm::StringRef many, const std::vector<uint32_t> &numbers) {
  return fmt::format("{} {}", (numbers.size() == 1 ? one : many).str(), numberList(numbers));
}

std::string counted(uint64_t count, llvm::StringRef one, llvm::StringRef many) {
  return fmt::format("{} {}", count, (count == 1 ? one : many).str());
}

llvm::StringRef nearest(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates) {
  llvm::StringRef best;
  // A third of the letters may differ; more is another word.
  if (name.size() < 2)
    return best; // any other letter would be as near
  unsigned limit = std::max<unsigned>(1, static_cast<unsigned>(name.size()) / 3);
  for (llvm::StringRef candidate : candidates) {
    unsigned distance = name.edit_distance(candidate, /*AllowReplacements=*/true, limit + 1);
    if (distance <= limit) {
      best = candidate;
      if (distance == 0)
        break;
      limit = distance - 1;
    }
  }
  return best;
}

} // namespace sluice
