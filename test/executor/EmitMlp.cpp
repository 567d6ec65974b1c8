// Writes the executors of docs/examples/mlp from schedules built in C++: EmitMlp DIR. They are the programs
// of the schedule files in that folder, op for op.
#include "Schedules.h"

#include "Emit/Cpp.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace sluice;
using namespace sluice::test;

static bool emit(const std::string &folder, const std::string &name, const Program &program,
                 std::vector<int64_t> samples) {
  CostModel costs = CostModel::ofTicks(program.stages);
  costs.samples = std::move(samples);
  costs.batch = 150;
  for (const EmittedFile &file : emitCpp(program, costs, {.name = name})) {
    std::error_code error = llvm::sys::fs::create_directories(folder);
    llvm::raw_fd_ostream stream(folder + "/" + file.name, error);
    if (error)
      return false;
    stream << file.text;
  }
  return true;
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  const std::string folder = argv[1];
  const std::vector<int64_t> even(10, 15), uneven = {30, 10, 25, 5, 20, 15, 35, 10};
  const bool written =
      emit(folder, "gpipe", gpipe(4, 10), even) && emit(folder, "one_f_one_b", oneFOneB(4, 10), even) &&
      emit(folder, "recomputing", recomputing(4, 10), even) && emit(folder, "uneven", oneFOneB(4, 8), uneven);
  return written ? 0 : 1;
}
