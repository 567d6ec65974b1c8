// Any bytes as a schedule file.
#include "Pipeline.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  sluice::fuzz::runPipeline({reinterpret_cast<const char *>(data), size});
  return 0;
}
