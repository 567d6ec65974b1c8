// A stage that computes nothing but knows what it should be handed: every buffer carries the replica, the
// stage, the microbatch and the step it belongs to, and every callback checks all it receives. A wrong slot,
// a missing wait, a crossed message, a lost contribution or the wrong version of weights throws Mismatch.
#pragma once

#include "TokenFacts.h"

#include <sluice/Executor.h>

#include <map>
#include <thread>
#include <utility>

namespace sluice::test {

using runtime::Context;

/// Sometimes yields or sleeps a little, by the op's key, so that threads meet in ever new ways.
inline void delay(const Context &c) {
  const uint64_t roll = runtime::mixBits(c.randomKey + static_cast<uint64_t>(c.op)) % 64;
  if (roll == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  else if (roll < 16)
    std::this_thread::yield();
}

/// Gradients of joint tied weights, which the stages of one worker share.
using TiedSums = std::vector<uint64_t>;

/// `Delays`: whether callbacks take a little time.
template <bool Delays> class TokenStage {
public:
  using Boundary = Token;
  using Saved = Token;
  using Pending = Token;
  using Host = HostToken;
  using Carry = CarryToken;
  using Skips = runtime::Skips<Token>;
  using Op = runtime::Op;
  static constexpr bool appliesFactor = true;

  /// `facts` are those of the tables that are meant to run; a test may damage those that do.
  TokenStage(std::shared_ptr<const TokenFacts> facts, const runtime::Copy &copy,
             std::shared_ptr<TiedSums> tied)
      : facts(std::move(facts)), tables(this->facts->tables), wanted((*this->facts)[copy]), copy(copy),
        tied(std::move(tied)), isGathered(!wanted.reshards), versions(copy.versions),
        keyOf(tables.microbatches), readBy(tables.microbatches) {}

  void load(const Context &c, Token &input) {
    begin(c);
    input = own(c, Content::Activation);
  }

  template <class... More>
  void forward(const Context &c, const Token &input, Token &output, Token &saved, More &...more) {
    begin(c);
    check(input, own(c, Content::Activation), "input");
    output = own(c, Content::Activation, c.stage + 1);
    if ((c.savedSlot == runtime::noSlot) != (c.keepInput || c.keepNothing))
      throw Mismatch("a saved slot where none is kept, or the reverse");
    if (c.savedSlot != runtime::noSlot)
      saved = own(c, Content::Saved);
    keyOf[c.microbatch] = c.randomKey;
    readBy[c.microbatch] = versions[c.weights];
    readWeights();
    operands(c, more...);
  }

  void loss(const Context &c, const Token &output, Token &gradient) {
    begin(c);
    check(output, own(c, Content::Activation, c.stage + 1), "output");
    if (c.lossFactor != tables.lossFactor[c.microbatch])
      throw Mismatch("a wrong loss factor");
    gradient = own(c, Content::Gradient);
  }

  template <class... More>
  void backward(const Context &c, const Token &gradient, Token &saved, Token &inputGradient, More &...more) {
    begin(c);
    passGradient(c, gradient, saved, inputGradient);
    operands(c, more...);
    contribute(c);
  }

  template <class... More>
  void backwardInput(const Context &c, const Token &gradient, Token &saved, Token &inputGradient,
                     Token &pending, More &...more) {
    begin(c);
    passGradient(c, gradient, saved, inputGradient);
    operands(c, more...);
    pending = own(c, Content::Pending);
  }

  void backwardWeight(const Context &c, Token &pending) {
    begin(c);
    take(pending, own(c, Content::Pending), "pending half");
    contribute(c);
  }

  template <class... More> void recompute(const Context &c, const Token &input, Token &saved, More &...more) {
    begin(c);
    check(input, own(c, Content::Activation), "kept input");
    if (keyOf[c.microbatch] != c.randomKey)
      throw Mismatch("a recompute with another random key than its forward");
    readAgain(c);
    operands(c, more...);
    saved = own(c, Content::Saved);
  }

  void drop(const Context &c, Token &saved) {
    begin(c);
    if (c.savedSlot != runtime::noSlot)
      take(saved, own(c, Content::Saved), "dropped activation");
  }
  void drop(const Context &c, HostToken &host) {
    begin(c);
    take(host.token, own(c, Content::Host), "dropped activation in host memory");
  }

  // Whoever only starts leaves everything as it is until it is finished, and marks both ends as in use.
  void offload(const Context &c, Token &saved, HostToken &host) {
    begin(c);
    check(saved, own(c, Content::Saved), "offloaded activation");
    if (!c.isStarted)
      return move(c, saved, host);
    saved.value = host.token.value = inUse;
  }
  void reload(const Context &c, HostToken &host, Token &saved) {
    begin(c);
    check(host.token, own(c, Content::Host), "activation in host memory");
    if (!c.isStarted)
      return move(c, host, saved);
    saved.value = host.token.value = inUse;
  }
  void finish(const Context &c, Token &saved, HostToken &host) {
    begin(c);
    const bool begunHere = std::exchange(saved.value, 0) == inUse,
               begunThere = std::exchange(host.token.value, 0) == inUse;
    if (!begunHere || !begunThere)
      throw Mismatch("the end of a transfer that has not begun");
    c.of == Op::Offload ? move(c, saved, host) : move(c, host, saved);
  }

  void zero(const Context &c) {
    begin(c);
    contributions = 0;
    sum = 0;
  }

  void scale(const Context &c) {
    begin(c);
    const bool isMean = c.of != Op::Scale;
    if (isMean ? c.factor != 1.0 / tables.replicas || !tables.reduction.mean : c.factor != facts->factor(c))
      throw Mismatch("a wrong scale");
    means += isMean && c.of == Op::Reduce;
  }

  // Joint ops.

  void pack(const Context &c, Token &part) {
    begin(c);
    const uint32_t of = c.op == Op::ReduceTied ? c.tie : c.op == Op::Norm ? 0 : c.stage;
    part = {Content::Part, c.op, copy.replica, of, c.member, c.step, copy.device, valueOf(c)};
    if (c.op == Op::Reduce && (contributions != wanted.contributions || !hasLast))
      if (wanted.updates == 1)
        throw Mismatch("a reduction after " + std::to_string(contributions) + " of " +
                       std::to_string(wanted.contributions) + " contributions");
  }
  void unpack(const Context &c, const Token &part) {
    takePart(c, part, true);
    valueOf(c) = part.value;
  }
  void add(const Context &c, const Token &part) {
    takePart(c, part, false);
    valueOf(c) += part.value;
  }

  void norm(const Context &c) {
    begin(c);
    if (wanted.reductions > 0 && wanted.members > 0 && parts[index(Op::Reduce)] != wanted.members)
      throw Mismatch("a norm before the reduction");
    normSum = c.member ? normOf(c.stage) : 0;
  }

  void unshard(const Context &c) {
    begin(c);
    if (tables.replicas > 1 && parts[index(Op::Unshard)] != tables.replicas)
      throw Mismatch("weights that were not gathered from all replicas");
    isGathered = true;
    gathered = tables.replicas > 1 ? shardVersion : updates;
  }
  void reshard(const Context &c) {
    begin(c);
    isGathered = false;
  }

  void update(const Context &c) {
    begin(c);
    if (wanted.reductions > 0 && wanted.members > 0 && parts[index(Op::Reduce)] != wanted.members)
      throw Mismatch("an update without its reduction");
    if (wanted.updates == 1 && contributions != wanted.contributions)
      throw Mismatch("an update after " + std::to_string(contributions) + " of " +
                     std::to_string(wanted.contributions) + " contributions");
    if (wanted.updates == 1 && wanted.reductions == 1 && sum != facts->sumOf(c.stage, c.step))
      throw Mismatch("a sum over copies and replicas that is not all of them");
    if (wanted.reductions > 0 && wanted.members > 0 && tables.reduction.mean && tables.replicas > 1 &&
        means != 1)
      throw Mismatch("a mean that was not taken once");
    for (uint32_t tie : wanted.ties)
      if (std::exchange((*tied)[tie], 0) != facts->sumOfTie(tie, c.step))
        throw Mismatch("a sum over the stages of a tied weight that is not all of them");
    if (wanted.hasNorm && normSum != wanted.norm)
      throw Mismatch("a norm that does not count everything once");
    if (versions[c.weights] != updates)
      throw Mismatch("an update of other weights than the newest");
    versions[c.newWeights] = ++updates;
    contributions = means = 0;
    sum = normSum = 0;
    parts[index(Op::Reduce)] = 0;
    hasLast = false;
  }

  uint64_t updates = 0; ///< Done so far.

private:
  static constexpr uint64_t inUse = 1;
  static size_t index(Op op) { return static_cast<size_t>(op); }

  void begin(const Context &c) const {
    if (c.stage != copy.stage || c.device != copy.device || c.replica != copy.replica)
      throw Mismatch("called for another copy");
    if (c.microbatch != runtime::noMicrobatch && c.split != c.microbatch % tables.splits)
      throw Mismatch("a wrong split");
    if constexpr (Delays)
      delay(c);
  }
  Token own(const Context &c, Content content, uint32_t of) const {
    return {content, Op::Load, copy.replica, of, c.microbatch, c.step};
  }
  Token own(const Context &c, Content content) const { return own(c, content, c.stage); }

  void passGradient(const Context &c, const Token &gradient, Token &saved, Token &inputGradient) {
    check(gradient, own(c, Content::Gradient), "gradient");
    take(saved, own(c, Content::Saved), "saved activation");
    inputGradient = own(c, Content::Gradient, c.stage - 1);
    readAgain(c);
    if (c.op == Op::BackwardInput && c.factor != facts->factor(c))
      throw Mismatch("a wrong factor");
  }

  void contribute(const Context &c) {
    if (c.factor != facts->factor(c))
      throw Mismatch("a wrong factor");
    if (wanted.updates == 0 && stepOfGradient != c.step) { // nothing else ends it
      contributions = 0;
      sum = 0;
      hasLast = false;
    }
    stepOfGradient = c.step;
    if (c.firstContribution != (contributions == 0) || hasLast)
      throw Mismatch("a first or last contribution that is not");
    ++contributions;
    hasLast = c.lastContribution;
    const uint64_t value = contributionOf(c.step, c.stage, c.microbatch, copy.replica);
    sum += value;
    for (uint32_t tie = 0; tie < tables.ties.size(); ++tie)
      for (uint32_t stage : tables.ties[tie].stages)
        if (stage == c.stage)
          (*tied)[tie] += value;
  }

  // What an op is handed behind the usual arguments, in any number.
  template <class... More> void operands(const Context &c, More &...more) { (operand(c, more), ...); }

  void operand(const Context &c, const Skips &skips) {
    const bool isBackward = c.op == Op::Backward || c.op == Op::BackwardInput;
    size_t in = 0, out = 0;
    for (uint32_t edge = 0; edge < tables.skips.size(); ++edge) {
      const runtime::Skip &skip = tables.skips[edge];
      if (isBackward && !skip.hasGradient)
        continue;
      const Token token = own(c, isBackward ? Content::SkipGradient : Content::SkipActivation, edge);
      if ((isBackward ? skip.from : skip.to) == c.stage) {
        if (in == skips.inputs.size())
          throw Mismatch("nothing where something comes over a skip edge");
        check(*skips.inputs[in++], token, "token over a skip edge");
      }
      if ((isBackward ? skip.to : skip.from) == c.stage && c.op != Op::Recompute) {
        if (out == skips.outputs.size())
          throw Mismatch("no room for what goes over a skip edge");
        *skips.outputs[out++] = token;
      }
    }
    if (in != skips.inputs.size() || out != skips.outputs.size())
      throw Mismatch("more over skip edges than there are");
  }

  void operand(const Context &c, CarryToken &carry) {
    if (tables.splits == 1)
      return;
    const Token token = {Content::Carry, Op::Load, copy.replica, c.stage, c.microbatch / tables.splits,
                         c.step};
    const bool isBackward = c.op == Op::Backward || c.op == Op::BackwardInput;
    if (c.op == Op::Forward && c.split == 0)
      carry = {token, 0, 0};
    check(carry.token, token, "carry");
    if (c.op == Op::Forward && carry.forwards++ != c.split)
      throw Mismatch("a carry that has not seen the splits before");
    if (isBackward && (carry.forwards != tables.splits || carry.backwards++ != tables.splits - 1 - c.split))
      throw Mismatch("a carry that has not seen the splits behind");
    if (isBackward && c.split == 0)
      carry = {};
  }

  // Weights.

  void readAgain(const Context &c) {
    if (copy.versions > 1 && versions[c.weights] != readBy[c.microbatch])
      throw Mismatch("other weights than those of the forward");
    readWeights();
  }
  void readWeights() const {
    if (!isGathered || (wanted.gathers && gathered != updates))
      throw Mismatch("weights that are not there, or old");
  }

  void move(const Context &c, Token &saved, HostToken &host) {
    saved = {};
    host.token = own(c, Content::Host);
  }
  void move(const Context &c, HostToken &host, Token &saved) {
    host.token = {};
    saved = own(c, Content::Saved);
  }

  // What is packed, and where it is added up.
  uint64_t &valueOf(const Context &c) {
    switch (c.op) {
    case Op::Reduce:
      return sum;
    case Op::ReduceTied:
      return (*tied)[c.tie];
    case Op::Norm:
      return normSum;
    default:
      shardVersion = updates;
      return shardVersion;
    }
  }

  void takePart(const Context &c, const Token &part, bool isFirst) {
    begin(c);
    const uint32_t of = c.op == Op::ReduceTied ? c.tie : c.op == Op::Norm ? 0 : c.stage;
    if (part.content != Content::Part || part.op != c.op || part.stage != of || part.step != c.step)
      throw Mismatch("a part of another joint op: " + describe(part));
    uint32_t &count = parts[index(c.op)];
    Token &before = lastPart[index(c.op)];
    if (c.op == Op::Unshard && c.member == 0)
      count = 0;
    if (c.op != Op::Norm) { // whose parts go over several stages of a device too
      if (isFirst && c.op != Op::Unshard && c.member != 0)
        throw Mismatch("the first part is not that of the first member");
      if (c.member > 0 && std::pair(before.replica, before.device) >= std::pair(part.replica, part.device))
        throw Mismatch("parts that do not come in the order of members");
      if (c.member == 0)
        count = 0;
      count += 1;
    }
    if (c.op == Op::Unshard && part.value != updates && wanted.updates == 1)
      throw Mismatch("a shard of other weights");
    before = part;
  }

  const std::shared_ptr<const TokenFacts> facts;
  const runtime::Tables &tables;
  const CopyFacts &wanted;
  const runtime::Copy copy;
  const std::shared_ptr<TiedSums> tied;
  uint32_t contributions = 0, means = 0;
  uint64_t sum = 0, normSum = 0;
  bool hasLast = false, isGathered;
  uint64_t stepOfGradient = 0;
  uint64_t gathered = 0, shardVersion = 0;
  uint32_t parts[runtime::opCount] = {};
  Token lastPart[runtime::opCount] = {};
  std::vector<uint64_t> versions;      // by slot: updates that made them
  std::vector<uint64_t> keyOf, readBy; // by microbatch, of its forward
};

/// Makes the stages of an executor; for its constructor.
template <bool Delays> class TokenStages {
public:
  /// `tables`: those that are meant to run. They must outlive the stages.
  explicit TokenStages(const runtime::Tables &tables) : facts(std::make_shared<TokenFacts>(tables)) {}

  template <class Stage = TokenStage<Delays>> std::unique_ptr<Stage> make(const runtime::Copy &copy) {
    std::shared_ptr<TiedSums> &sums = tied[{copy.replica, copy.device}];
    if (!sums)
      sums = std::make_shared<TiedSums>(facts->tables.ties.size());
    return std::make_unique<Stage>(facts, copy, sums);
  }
  std::unique_ptr<TokenStage<Delays>> operator()(const runtime::Copy &copy) { return make(copy); }

private:
  std::shared_ptr<const TokenFacts> facts;
  std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<TiedSums>> tied; // by replica and device
};

/// Runs `steps` steps over tokens; throws what the executor throws.
template <bool Delays, class Transport = runtime::Threads<Token>, class ScheduleType>
void runTokens(const ScheduleType &schedule, uint64_t steps, runtime::Options options = {}) {
  runtime::Executor<TokenStage<Delays>, ScheduleType, Transport> executor(
      schedule, TokenStages<Delays>(schedule), options);
  executor.run(steps);
}

} // namespace sluice::test
