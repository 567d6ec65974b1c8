// The text of a table as flat columns of ops: one row of cells a device, written in the file or read from a
// CSV. One pass over the text, no memory but the columns. Private to lib/Elaborate.
#pragma once

#include "IR/Program.h"
#include "Support/Diagnostics.h"

namespace sluice {

struct TableText {
  std::vector<Op> ops;          ///< Row by row, in the order of the text.
  std::vector<uint32_t> siteOf; ///< Per op.
  /// The ops of one device, [begin, end), and its row in the text; nowhere if the table has none.
  struct Row {
    uint32_t begin = 0, end = 0;
    Span span;
  };
  std::vector<Row> rows; ///< Per device.
  bool hasCommunication = false;

  llvm::ArrayRef<Op> opsOf(size_t device) const {
    return llvm::ArrayRef(ops).slice(rows[device].begin, rows[device].end - rows[device].begin);
  }
};

struct TableLimits {
  uint64_t maxOps;
};

/// Reads `0: 0F0 0B0; 1: ...`; `offset` is where `text` begins in the sources. Appends a site for each cell
/// to `sites`. Reports 101, 110, 113, 803 and 804; nothing if there was an error.
std::optional<TableText> readTableRows(llvm::StringRef text, uint32_t offset, TableLimits limits,
                                       std::vector<Site> &sites, Diagnostics &diagnostics);

/// Reads a CSV: line n is the row of device n, as PyTorch counts them, so a blank line between others is a
/// device without ops. Lines without ops at the end are none. Lines end in \n, \r\n or \r.
std::optional<TableText> readCsvRows(llvm::StringRef text, uint32_t offset, TableLimits limits,
                                     std::vector<Site> &sites, Diagnostics &diagnostics);

} // namespace sluice
