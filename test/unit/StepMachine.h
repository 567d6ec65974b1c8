// A machine that runs a training step as it is written, with real values: every replica and copy has weights
// with a version, accumulators that hold the exact factor of every microbatch, saved activations, boundary
// values and queues of messages. It is written from the definition of the language alone, shares no code with
// the checker and is slow (maps, two steps in a row), for programs of a few hundred statements.
//
// What it notices is what a person would see in a debugger: a value that is not there, a gradient that does
// not end up as the loss wants it, weights that are old or gone, a program that stands still.
#pragma once

#include "Support/Rational.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::machine {

enum class Word : uint8_t {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  Recompute,
  Drop,
  Offload,
  Reload,
  SendActivation,
  RecvActivation,
  SendGradient,
  RecvGradient,
  Zero,
  Scale,
  Reduce,
  ReduceTied,
  Norm,
  Update,
  Unshard,
  Reshard
};
/// `start op`, `wait op`, or neither.
enum class Prefix : uint8_t { None, Start, Wait };
enum class Kept : uint8_t { All, Input, Nothing };

struct Statement {
  Word word = Word::Forward;
  uint32_t stage = 0, microbatch = 0; ///< Where the word has them; `stage` is the weight of a ReduceTied.
  Prefix prefix = Prefix::None;
  Kept kept = Kept::All; ///< Of a forward; of a drop Input or Nothing.
  bool replay = false, overwrite = false, local = false;
  bool follows = false;              ///< In one overlap or group with the statement before.
  std::optional<Rational> factor;    ///< The suffix `scale q`, or the number of a Scale.
  std::optional<uint32_t> version;   ///< `using version`.
  std::optional<uint32_t> neighbour; ///< `to t`, `from t` of a message.
  friend bool operator==(const Statement &, const Statement &) = default;

  bool hasMicrobatch() const { return word <= Word::RecvGradient; }
  bool isCompute() const { return word <= Word::Recompute; }
  bool isMessage() const { return word >= Word::SendActivation && word <= Word::RecvGradient; }
  bool isSend() const { return word == Word::SendActivation || word == Word::SendGradient; }
  bool isGradientMessage() const { return word == Word::SendGradient || word == Word::RecvGradient; }
  bool contributes() const { return word == Word::Backward || word == Word::BackwardWeight; }
  bool isJoint() const { return word >= Word::Reduce && word <= Word::Norm; }
};
/// `start backward(2, 5) scale 1/8`, for failures.
std::string str(const Statement &statement);

enum class Loss : uint8_t { MeanOverSamples, MeanOverTokens, MeanOverMicrobatches, Sum };
enum class ScalePoint : uint8_t { AtLoss, AtAccumulator, AtReduced, InProgram };
enum class Read : uint8_t { Stashed, Newest, Queued };

/// An edge beside the chain.
struct Skip {
  uint32_t from, to;
  bool hasGradient = true;
};
struct Tie {
  std::string name;
  std::vector<uint32_t> stages;
};

/// What stands around the device programs. Sizes count splits where microbatches are split.
struct Setting {
  uint32_t stages = 0, microbatches = 0, devices = 0, splits = 1;
  std::vector<std::vector<uint32_t>> deviceOf; ///< Per microbatch, per stage.
  std::vector<Skip> skips;
  std::vector<Tie> ties;
  bool isExplicit = false, isAsynchronous = false, isEvaluation = false;

  std::optional<int64_t> replicas;
  std::vector<int64_t> samples, tokens; ///< Per whole microbatch; empty: one each.
  Loss loss = Loss::MeanOverSamples;
  bool isMicrobatchLossSum = false;
  ScalePoint scale = ScalePoint::AtLoss;
  bool isReductionMean = false, isReducedSharded = false, isReducedCopied = false;
  bool isReshardedAfterReduce = false;

  Read versions = Read::Stashed;
  uint32_t mostVersions = 0; ///< 0: no bound.
  std::optional<int64_t> stalenessBound;

  uint32_t device(uint32_t stage, uint32_t microbatch) const { return deviceOf[microbatch][stage]; }
  uint32_t whole(uint32_t microbatch) const { return microbatch / splits; }
  std::vector<uint32_t> devicesOf(uint32_t stage) const;
  bool isOn(uint32_t stage, uint32_t device) const;
  /// Stages that a stage's output goes to, and those its input comes from; of gradients those that send one
  /// back.
  std::vector<uint32_t> behind(uint32_t stage, bool ofGradients) const;
  std::vector<uint32_t> before(uint32_t stage, bool ofGradients) const;
  /// All members of the tie live on this one device.
  std::optional<uint32_t> onlyDevice(const Tie &tie) const;
  std::vector<uint32_t> devicesOf(const Tie &tie) const;
};

/// The factor that the declared loss wants for a microbatch, and that of the microbatch's own loss.
Rational wanted(const Setting &setting, uint32_t microbatch);
Rational own(const Setting &setting, uint32_t microbatch);

struct StepProgram {
  Setting setting;
  std::vector<std::vector<Statement>> devices;
};

/// Something that went wrong. `family` is the hundred of the rules that speak of it; `otherFamily` one that
/// may as well, where the definition does not decide.
struct Wrong {
  unsigned family, otherFamily;
  uint32_t device, step;
  std::string what;
  /// A start without its wait or the other way round: what the op does not do is then told as this, 3xx.
  bool isUnpaired = false;
};

/// Everything that goes wrong, in the order the machine comes upon it; it goes on as if a missing value had
/// been there. Empty: the program is legal.
std::vector<Wrong> run(const StepProgram &program);

/// Whether cause `a` comes before cause `b`: 8xx, 2xx, 4xx, 3xx, 5xx, 6xx, 7xx.
bool isBlamedBefore(unsigned a, unsigned b);
/// The families that may name the first cause; empty if nothing is wrong.
std::vector<unsigned> blamed(const std::vector<Wrong> &wrongs);
std::string str(const std::vector<Wrong> &wrongs);

} // namespace sluice::machine
