// What the rule families share during one verification, and what they leave for those behind them in the
// order of blame. Internal to lib/Verify.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Support/Diagnostics.h"

#include "llvm/ADT/DenseSet.h"

namespace sluice {

/// The devices that hold a copy of each stage, ascending. O(copies) memory, made once.
class Copies {
public:
  explicit Copies(const Program &program);

  llvm::ArrayRef<uint32_t> devicesOf(uint32_t stage) const {
    return llvm::ArrayRef(devices).slice(begin[stage], begin[stage + 1] - begin[stage]);
  }
  uint32_t count(uint32_t stage) const { return begin[stage + 1] - begin[stage]; }
  bool isOn(uint32_t stage, uint32_t device) const;
  /// Some stage has more than one copy.
  bool isAnyShared() const { return shared; }

private:
  std::vector<uint32_t> begin, devices;
  bool shared = false;
};

inline constexpr uint32_t kindBit(OpKind kind) { return 1u << static_cast<unsigned>(kind); }

/// A stage and microbatch of which something stays: the whole activation or its input, here or on the host.
struct KeptPair {
  uint32_t stage, microbatch;
  bool isInput, isOnHost;
};

struct VerifyContext {
  const Program &program;
  const ProgramIndex &index;
  const CostModel &costs;
  Diagnostics &diagnostics;
  const SourceManager *sources;
  Copies copies;

  /// Errors so far, and the (stage, microbatch) and (device, stage) that they explain: later families
  /// say nothing about those.
  bool hasErrors = false;
  /// An op stands on a device where its pair is not placed.
  bool hasMisplacedOps = false;
  llvm::DenseSet<uint64_t> blamedPairs = {}, blamedCopies = {};
  /// Which kinds from Offload on occur (a `kindBit` each), and whether any op is started or a wait: what a
  /// program does not use needs no walk. Known once the activations are verified.
  uint32_t kinds = 0;
  bool hasStarts = false;
  /// What an evaluation still keeps at its end.
  std::vector<KeptPair> keptPairs = {};

  uint64_t pair(uint32_t stage, uint32_t microbatch) const {
    return static_cast<uint64_t>(stage) * program.microbatches + microbatch;
  }
  static uint64_t copy(uint32_t device, uint32_t stage) {
    return static_cast<uint64_t>(device) << 32 | stage;
  }
};

/// Placement.cpp: 801, 802.
void verifyPlacement(VerifyContext &context);
/// Phases.cpp: 812.
void verifyPhase(VerifyContext &context);
/// ActivationFindings.cpp: 201 to 211.
void verifyActivations(VerifyContext &context);
/// Starts.cpp: 308, 309.
void verifyStarts(VerifyContext &context);
/// Communication.cpp: 401 to 404, 406, 408 to 411.
void verifyCommunication(VerifyContext &context);
/// Order.cpp: 302, and by Collectives.cpp 304 and 305, by Deadlock.cpp 301, 303, 306, 307 and 310.
void verifyOrder(VerifyContext &context);
/// GradientFindings.cpp: 501 to 514, and of tied weights 608 and 609.
void verifyGradients(VerifyContext &context);
/// Versions.cpp: 601, 602, 603, 604.
void verifyVersions(VerifyContext &context);
/// ResidencyFindings.cpp: 605, 606, 607.
void verifyResidency(VerifyContext &context);
/// Buffers.cpp: 703.
void verifyBuffers(VerifyContext &context);
/// Phases.cpp: 702 in an evaluation.
void verifyKept(VerifyContext &context);
/// GradientSets.cpp: 705.
void verifyGradientSets(VerifyContext &context);
/// Sizes.cpp: 808, 811.
void verifySizes(VerifyContext &context);

} // namespace sluice
