// Any bytes as JSON: ours, or an order.
#include "Formats.h"
#include "Formats/ScheduleJson.h"
#include "Pipeline.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  sluice::fuzz::runReader(sluice::readJson, {reinterpret_cast<const char *>(data), size});
  return 0;
}
