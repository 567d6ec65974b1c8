// From rows of ops, one a device, to the IR: what all formats have in common that give an order and no
// placement. A pair of stage and microbatch lives on the device that runs its forward; where that is
// missing, on the one that runs its backward. A pair without ops lives where another microbatch has it that
// takes the same way otherwise, or else on the first device that runs anything of the stage.
#pragma once

#include "Formats/Format.h"

namespace sluice {

/// The ops of one device in order, each with the place it is read from.
struct Row {
  std::vector<Op> ops;
  std::vector<Span> places;
  Span span; ///< Of the whole row.

  void add(const Op &op, Span place) {
    ops.push_back(op);
    places.push_back(place);
  }
};

/// Sizes that a format states; 0 where it leaves them to the ops. Ops beyond a stated size are a finding.
struct StatedSizes {
  uint32_t stages = 0, microbatches = 0;
};

/// The program of `rows`, placed by its ops unless the format gives a placement. Reports 106, 113, 801 and
/// 803; nothing if there was an error. `text` is what sizes are blamed on.
std::optional<Program> programOfRows(llvm::StringRef name, llvm::ArrayRef<Row> rows, StatedSizes stated,
                                     Span text, const ReadOptions &options, Diagnostics &diagnostics,
                                     const StageTable<uint32_t> &placement = {});

/// `name` as a name of the language: `Megatron-1F1B (N=4)` is `Megatron_1F1B_N_4`.
std::string identifier(llvm::StringRef name);

/// `1.5`, `6028.666666666667`, `2e3`. Up to 15 digits are taken as they stand; of more, as printing a
/// double gives them, the first fraction of small terms that is the same double: 18086/3.
std::optional<Rational> exactNumber(llvm::StringRef number);

/// The largest unit of which all `times` are whole multiples; nothing if that leaves 64 bits. 1 if all are 0.
std::optional<Rational> commonUnit(llvm::ArrayRef<Rational> times);

/// False, reported as 106, if the members of an overlap add up to more than 64 bits of time.
bool checkOverlapSums(const Program &program, const CostModel &costs, Diagnostics &diagnostics);

/// Sets the transfers between neighbours on different devices to `latency`, in units.
void setLatency(const Program &program, int64_t latency, CostModel &costs);

} // namespace sluice
