// Any bytes as a text of the format megatron.
#include "Formats.h"
#include "Formats/Megatron.h"
#include "Pipeline.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  sluice::fuzz::runReader(sluice::readMegatron, text);
  return 0;
}
