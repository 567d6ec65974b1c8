// Any bytes as a cell of a table, as the rows of a table in a file, and as a CSV.
#include "Elaborate/Cells.h"
#include "Pipeline.h"

#include "llvm/ADT/Twine.h"

using sluice::fuzz::demand;

static void readCell(llvm::StringRef text) {
  sluice::Cell cell = sluice::parseCell(text);
  demand(cell.badAt == llvm::StringRef::npos || cell.badAt <= text.size(), "a bad place lies in its cell");
  for (const sluice::Op &op : cell.ops)
    demand(!op.hasMicrobatch() || op.microbatch < 0x7fff'ffff, "a microbatch of a cell fits 31 bits");
}

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  readCell(text);
  sluice::fuzz::runPipeline(("schedule rows { table {" + text + "} }").str());
  sluice::fuzz::runPipeline("schedule file { table from \"input.csv\"; }", text);
  return 0;
}
