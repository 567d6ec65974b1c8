// Any bytes as texts of the format deepspeed, a form feed between two.
#include "Formats.h"
#include "Formats/DeepSpeed.h"
#include "Pipeline.h"

#include "llvm/ADT/SmallVector.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  llvm::SmallVector<llvm::StringRef, 4> texts;
  llvm::StringRef(reinterpret_cast<const char *>(data), size).split(texts, '\f');
  sluice::fuzz::runReader(sluice::readDeepSpeed, texts);
  return 0;
}
