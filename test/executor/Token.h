// What passes through the buffers of TokenStage: tokens that say what they are.
#pragma once

#include <sluice/Context.h>

#include <stdexcept>
#include <string>

namespace sluice::test {

struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Content : uint8_t {
  Nothing,
  Activation,
  Gradient,
  SkipActivation,
  SkipGradient,
  Saved,
  Pending,
  Host,
  Carry,
  Part
};

/// An activation names the stage it goes into, everything else the stage it belongs to; over a skip edge it
/// names the edge in place of the stage. A part of a joint op names the member it is for in place of the
/// microbatch.
struct Token {
  Content content = Content::Nothing;
  runtime::Op op = runtime::Op::Load; ///< Of parts.
  uint32_t replica = 0, stage = 0, microbatch = 0;
  uint64_t step = 0;
  uint32_t device = 0; ///< Of parts: who packed it.
  uint64_t value = 0;  ///< Of parts: what is added up.
  friend bool operator==(const Token &, const Token &) = default;
};

inline std::string describe(const Token &token) {
  return "content " + std::to_string(static_cast<int>(token.content)) + " of replica " +
         std::to_string(token.replica) + ", stage " + std::to_string(token.stage) + ", microbatch " +
         std::to_string(token.microbatch) + ", step " + std::to_string(token.step);
}

inline void check(const Token &found, const Token &wanted, const char *what) {
  if (found != wanted)
    throw Mismatch(std::string("wrong ") + what + ": " + describe(found) + " in place of " +
                   describe(wanted));
}
inline void take(Token &found, const Token &wanted, const char *what) {
  check(found, wanted, what);
  found = {};
}

/// What the splits of one sequence hand to each other.
struct CarryToken {
  Token token;
  uint32_t forwards = 0, backwards = 0; ///< Splits that have done theirs.
};
struct HostToken {
  Token token;
};

/// What a microbatch adds to the gradient of a stage. Sums of these are sums of numbers: any order, one
/// result.
inline uint64_t contributionOf(uint64_t step, uint32_t stage, uint32_t microbatch, uint32_t replica) {
  return runtime::mixBits(runtime::randomKey(replica, step, stage, microbatch));
}
inline uint64_t normOf(uint32_t stage) { return runtime::mixBits(stage); }

} // namespace sluice::test
