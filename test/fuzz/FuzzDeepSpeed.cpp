// Any bytes as a text of the format deepspeed.
#include "Formats.h"
#include "Formats/DeepSpeed.h"
#include "Pipeline.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  sluice::fuzz::runReader(sluice::readDeepSpeed, {reinterpret_cast<const char *>(data), size});
  return 0;
}
