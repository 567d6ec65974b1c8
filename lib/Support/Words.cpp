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

} // namespace sluice
