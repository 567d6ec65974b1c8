// Any bytes as a text of the format megatron.
#include "Formats.h"
#include "Formats/Megatron.h"
#include "Pipeline.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  sluice::fuzz::runReader(sluice::readMegatron, {reinterpret_cast<const char *>(data), size});
  return 0;
}
