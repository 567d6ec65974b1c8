#include "Emit/SweepTable.h"

#include <fmt/format.h>

namespace sluice {

std::string SweepColumn::title() const { return index ? fmt::format("{}({})", figure, *index) : figure; }

llvm::ArrayRef<llvm::StringRef> standardFigures() {
  static constexpr llvm::StringRef names[] = {"throughput", "makespan", "idle_fraction", "overhead_ratio",
                                              "peak_memory"};
  return names;
}

} // namespace sluice
