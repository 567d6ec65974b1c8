// The factor that each microbatch's gradient gets on its way to the update, against the one that `loss`
// asks for. A factor weighs the gradient of the sum of a microbatch's sample (or token) losses, so for a mean
// over samples it should be one part in the samples of the step, whatever microbatch they came in. Exact
// fractions of 64 bits; internal to lib/Verify.
#pragma once

#include "Verify/Gradients.h"
#include "Verify/LossTerms.h"
#include "Verify/Tied.h"

#include "llvm/ADT/DenseMap.h"

namespace sluice {

/// A contribution whose factor is not the wanted one.
struct FactorFault {
  enum Kind : uint8_t {
    Wrong,    ///< `factor` instead of `wanted`.
    Overflow, ///< The factor leaves 64 bits: `factor` is not known.
    Uneven,   ///< No single factor serves the microbatches `unit` and `other` of one accumulator.
    Paths, ///< Gradients arrive over `other`'s edge with factor `otherFactor`, over the chain with `factor`.
  } kind;
  uint32_t device, stage;
  uint32_t accumulator; ///< The stage whose accumulator it is in: `stage`, or one that shares a tied weight.
  uint32_t unit;        ///< The microbatch, or its split.
  OpId op;
  Rational factor, wanted;
  uint32_t other = 0; ///< Paths: the stage behind the skip edge. Uneven: a microbatch of another size.
  Rational otherFactor = {};
};

/// A change of the program whose effect on the factors is asked for before it is proposed.
struct FactorEdit {
  Rational ofLoss = 1; ///< On the loss of each microbatch.
  /// On what a copy of a stage accumulates, by VerifyContext::copy.
  llvm::DenseMap<uint64_t, Rational> ofCopy = llvm::DenseMap<uint64_t, Rational>();
  bool onlyWhereLossIsMade = false; ///< Suffixes on the backwards of all stages but the last do not count.
  bool beforeCopy = false;          ///< Scales behind a reduction that copies move in front of it.
};

/// Whether anything but the loss itself can change a factor: otherwise all are right by definition.
bool hasFactors(const Program &program, const CostModel &costs);

class FactorCheck {
public:
  FactorCheck(const VerifyContext &context, const Ties &ties);

  /// All contributions that an update reads with another factor than wanted, by stage from the last one,
  /// then by microbatch. Linear in stages times microbatches.
  std::vector<FactorFault> run(const FactorEdit &edit = {});

  /// `1/8 (loss, line 5) · 1/8 (line 10)`: what the factor of a fault is the product of.
  std::string productOf(const FactorFault &fault);
  /// Scales that do not reach the copy that a reduction has made, of a fault's accumulator.
  std::vector<OpId> ineffectiveScales(const FactorFault &fault) const { return scalesOf(fault, false); }
  /// Scales between a fault's contribution and the value that its update reads.
  std::vector<OpId> effectiveScales(const FactorFault &fault) const { return scalesOf(fault, true); }

private:
  /// What comes to one accumulator behind its contributions.
  struct ScalePoint {
    OpId op;
    std::optional<Rational> product; ///< Since the update before; nothing if it overflows.
  };
  struct UpdatePoint {
    OpId op;
    OpId reduction; ///< The last one since the update before that has several members.
  };
  struct Life {
    std::vector<ScalePoint> scales; ///< Ascending by op; an update starts again at 1.
    std::vector<UpdatePoint> updates;
  };
  struct Arriving {
    std::optional<Rational> factor;
    bool isKnown = true; ///< False where an op on its way is missing, or has a fault already.
  };
  using Row = std::vector<Arriving>;

  bool isRelative() const { return context.costs.scaling != TrainingTerms::Scaling::Program; }
  void collectLives();
  std::vector<OpId> scalesOf(const FactorFault &fault, bool reach) const;
  const Life *lifeOf(uint32_t device, uint32_t stage) const;
  std::optional<size_t> updateOf(const Life &life, OpId contribution) const;
  OpId readAt(const UpdatePoint &update, const FactorEdit &edit) const;
  std::optional<Rational> productBefore(const Life &life, OpId op) const;
  std::optional<Rational> suffixOf(OpId op, const FactorEdit &edit) const;
  std::optional<Rational> behind(const Life &life, const UpdatePoint &update, OpId contribution,
                                 const FactorEdit &edit) const;
  void groupUpdates(uint32_t stage);
  void startRow(const FactorEdit &edit, Row &row);
  void passOn(uint32_t stage, const FactorEdit &edit, Row &row, const std::vector<Row> &rows);
  void compare(uint32_t stage, const FactorEdit &edit, Row &row);

  const VerifyContext &context;
  const Program &program;
  const Ties &ties;
  const LossTerms loss;
  llvm::DenseMap<uint64_t, Life> lives; ///< By device and stage.
  /// Of the stage at hand: which update of its copy reads each unit (noUpdate: none), and what each of those
  /// updates reads in all.
  static constexpr uint32_t noUpdate = ~0u;
  std::vector<uint32_t> groupOf;
  std::vector<LossTerms::Group> groups;
  std::vector<FactorFault> faults;
};

/// 507 in words: `group` are the faults of one line, one a copy of a stage; `all` every fault of a factor.
void reportWrongFactor(VerifyContext &context, FactorCheck &check, llvm::ArrayRef<FactorFault> all,
                       const FaultGroup &group);
/// 507 where a scale of the whole accumulator cannot be right: a fault of kind Uneven.
void reportUnevenScale(VerifyContext &context, const FactorFault &fault);

} // namespace sluice
