// The tables of an executor as the compiler makes them: what sluice/Schedule.h says, in containers that own
// it. Fractions stay apart as numerator and denominator, so that they can be printed exactly.
#pragma once

#include <sluice/Schedule.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

struct DeviceTable {
  std::vector<runtime::Instruction> rows;
  uint32_t boundaries = 0, saveds = 0, pendings = 0, hosts = 0, carries = 0;
};

/// A fraction such as samples(m) / batch.
struct Fraction {
  int64_t numerator = 1, denominator = 1;
  double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  friend bool operator==(const Fraction &, const Fraction &) = default;
};
using LossFactor = Fraction;

/// runtime::Tie.
struct TieTable {
  std::string name;
  std::vector<uint32_t> stages;
  bool isLocal = false;
};

struct ExecutorTables {
  uint32_t stages = 0, microbatches = 0;
  uint32_t splits = 1, replicas = 1;
  std::vector<DeviceTable> devices;
  std::vector<runtime::Channel> channels;
  std::vector<runtime::Copy> copies;
  std::vector<LossFactor> lossFactors; ///< Per microbatch.
  std::vector<Fraction> factors;       ///< Of Scale rows and Factor operands, each once.
  runtime::Reduction reduction;
  std::vector<TieTable> ties;
  std::vector<runtime::Skip> skips;
  runtime::Uses uses{};
  /// What early places completes under every model; for written communication verifiedModels says.
  runtime::ChannelModels verified{true, true, true, true, true};
};

} // namespace sluice
