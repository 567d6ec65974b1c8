// A stage that computes nothing but knows what it should be handed: every buffer carries the stage, the
// microbatch and the step it belongs to, and every callback checks all it receives. A wrong slot, a missing
// wait, a crossed message or a lost contribution throws Mismatch.
#pragma once

#include <sluice/Executor.h>

#include <thread>

namespace sluice::test {

using runtime::Context;

struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Content : uint8_t { Nothing, Activation, Gradient, Saved, Pending };

/// An activation names the stage it goes into, everything else the stage it belongs to.
struct Token {
  Content content = Content::Nothing;
  uint32_t stage = 0, microbatch = 0;
  uint64_t step = 0;
  friend bool operator==(const Token &, const Token &) = default;
};

/// Sometimes yields or sleeps a little, by the op's key, so that threads meet in ever new ways.
inline void delay(const Context &c) {
  const uint64_t roll = runtime::mixBits(c.randomKey + static_cast<uint64_t>(c.op)) % 64;
  if (roll == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  else if (roll < 16)
    std::this_thread::yield();
}

/// `Delays`: whether callbacks take a little time.
template <bool Delays> class TokenStage {
public:
  using Boundary = Token;
  using Saved = Token;
  using Pending = Token;

  /// `contributions`: how many microbatches this copy sees in a step.
  TokenStage(const runtime::Copy &copy, uint32_t contributions) : copy(copy), expected(contributions) {}

  void load(const Context &c, Token &input) { input = own(c, Content::Activation); }

  void forward(const Context &c, const Token &input, Token &output, Token &saved) {
    begin(c);
    check(input, own(c, Content::Activation), "input");
    output = {Content::Activation, c.stage + 1, c.microbatch, c.step};
    if ((c.savedSlot == runtime::noSlot) != (c.keepInput || c.keepNothing))
      throw Mismatch("a saved slot where none is kept, or the reverse");
    if (c.savedSlot != runtime::noSlot)
      saved = own(c, Content::Saved);
  }

  void loss(const Context &c, const Token &output, Token &gradient) {
    check(output, {Content::Activation, c.stage + 1, c.microbatch, c.step}, "output");
    gradient = own(c, Content::Gradient);
  }

  void backward(const Context &c, const Token &gradient, Token &saved, Token &inputGradient) {
    begin(c);
    passGradient(c, gradient, saved, inputGradient);
    contribute(c);
  }

  void backwardInput(const Context &c, const Token &gradient, Token &saved, Token &inputGradient,
                     Token &pending) {
    begin(c);
    passGradient(c, gradient, saved, inputGradient);
    pending = own(c, Content::Pending);
  }

  void backwardWeight(const Context &c, Token &pending) {
    begin(c);
    take(pending, own(c, Content::Pending), "pending half");
    contribute(c);
  }

  void recompute(const Context &c, const Token &input, Token &saved) {
    begin(c);
    check(input, own(c, Content::Activation), "kept input");
    saved = own(c, Content::Saved);
  }

  void drop(const Context &c, Token &saved) {
    begin(c);
    if (c.savedSlot != runtime::noSlot)
      take(saved, own(c, Content::Saved), "dropped activation");
  }

  void zero(const Context &c) {
    begin(c);
    contributions = 0;
  }

  void reduce(const Context &c, std::span<TokenStage *const> copies) {
    begin(c);
    for (const TokenStage *other : copies) {
      if (other->contributions != other->expected || !other->hasLast)
        throw Mismatch("a reduction after " + std::to_string(other->contributions) + " of " +
                       std::to_string(other->expected) + " contributions");
      if (other->copy.stage != c.stage || other->reductions != c.step)
        throw Mismatch("a reduction of another stage or step");
    }
    for (TokenStage *other : copies)
      ++other->reductions;
  }

  void update(const Context &c) {
    begin(c);
    if (reductions != c.step + 1)
      throw Mismatch("an update without its reduction");
    contributions = 0;
    hasLast = false;
  }

  uint64_t reductions = 0;

private:
  void begin(const Context &c) const {
    if (c.stage != copy.stage || c.device != copy.device)
      throw Mismatch("called for another copy");
    if constexpr (Delays)
      delay(c);
  }
  static Token own(const Context &c, Content content) { return {content, c.stage, c.microbatch, c.step}; }
  static void check(const Token &found, const Token &wanted, const char *what) {
    if (found != wanted)
      throw Mismatch(std::string("wrong ") + what + ": of stage " + std::to_string(found.stage) +
                     ", microbatch " + std::to_string(found.microbatch) + ", step " +
                     std::to_string(found.step));
  }
  static void take(Token &found, const Token &wanted, const char *what) {
    check(found, wanted, what);
    found = {};
  }

  void passGradient(const Context &c, const Token &gradient, Token &saved, Token &inputGradient) {
    check(gradient, own(c, Content::Gradient), "gradient");
    take(saved, own(c, Content::Saved), "saved activation");
    inputGradient = {Content::Gradient, c.stage - 1, c.microbatch, c.step};
  }

  void contribute(const Context &c) {
    if (c.firstContribution != (contributions == 0) || hasLast)
      throw Mismatch("a first or last contribution that is not");
    ++contributions;
    hasLast = c.lastContribution;
  }

  const runtime::Copy copy;
  const uint32_t expected;
  uint32_t contributions = 0;
  bool hasLast = false;
};

/// Microbatches that each copy's table contributes, in the order of Tables::copies.
inline std::vector<uint32_t> contributionsOf(const runtime::Tables &tables) {
  std::vector<uint32_t> counts;
  for (const runtime::Copy &copy : tables.copies) {
    counts.push_back(0);
    for (const runtime::Instruction &row : tables.devices[copy.device].instructions)
      counts.back() += row.stage == copy.stage &&
                       (row.op == runtime::Op::Backward || row.op == runtime::Op::BackwardWeight);
  }
  return counts;
}

/// Runs `steps` steps over tokens; throws what the executor throws.
template <bool Delays, class ScheduleType>
void runTokens(const ScheduleType &schedule, uint64_t steps, runtime::Options options = {}) {
  const std::vector<uint32_t> counts = contributionsOf(schedule);
  size_t next = 0;
  runtime::Executor<TokenStage<Delays>, ScheduleType> executor(
      schedule,
      [&](const runtime::Copy &copy) { return std::make_unique<TokenStage<Delays>>(copy, counts[next++]); },
      options);
  executor.run(steps);
}

} // namespace sluice::test
