// Any bytes as JSON: ours, or an order.
#include "Formats.h"
#include "Formats/ScheduleJson.h"
#include "Pipeline.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  sluice::fuzz::runReader(sluice::readJson, text);
  return 0;
}
