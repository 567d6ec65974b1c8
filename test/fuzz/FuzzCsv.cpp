// Any bytes as a PyTorch CSV of its own: the schedule file that it stands for, through every step.
#include "Driver/CsvFile.h"
#include "Pipeline.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  sluice::isCsvText(text);
  sluice::fuzz::runPipeline(sluice::scheduleOfCsv("input.csv"), text);
  return 0;
}
