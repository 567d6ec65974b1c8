// The text, byte by byte, and which sequences of it make the samples of a step.
#pragma once

#include "Tensor.h"

#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace transformer {

class Text {
public:
  Text(const std::string &path, const Shape &shape) : length(static_cast<std::size_t>(shape.length)) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
      throw std::runtime_error("cannot read " + path);
    for (std::istreambuf_iterator<char> byte(file), end; byte != end; ++byte) {
      tokens.push_back(static_cast<unsigned char>(*byte));
      if (tokens.back() >= static_cast<unsigned>(shape.vocabulary))
        throw std::runtime_error(path + " has a byte beyond the vocabulary");
    }
    if (tokens.size() <= length)
      throw std::runtime_error(path + " is shorter than a sequence");
  }

  /// The tokens of a sample: somewhere in the text, the same place in every run.
  std::span<const unsigned> sample(uint64_t step, std::size_t number) const { return at(step, number, 0); }
  /// The tokens that follow each of them.
  std::span<const unsigned> next(uint64_t step, std::size_t number) const { return at(step, number, 1); }
  std::size_t size() const { return tokens.size(); }

private:
  std::span<const unsigned> at(uint64_t step, std::size_t number, std::size_t offset) const {
    const uint64_t place = sluice::runtime::mixBits(step * 1'000'003 + number) % (tokens.size() - length);
    return std::span(tokens).subspan(place + offset, length);
  }
  std::size_t length;
  std::vector<unsigned> tokens;
};

} // namespace transformer
