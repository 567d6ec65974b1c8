#include "Driver/CsvFile.h"

#include "Formats/Rows.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

namespace sluice {

bool isCsvFile(llvm::StringRef path) { return llvm::sys::path::extension(path).equals_insensitive(".csv"); }

bool isCsvText(llvm::StringRef text) {
  text.consume_front("\xef\xbb\xbf"); // a byte order mark
  // In front of the first op only empty cells: blanks, commas, quotes and lone underscores.
  while (!text.empty() && (llvm::isSpace(text[0]) || text[0] == ',' || text[0] == '"' ||
                           (text[0] == '_' && text.drop_front().ltrim(" \"").starts_with(","))))
    text = text.drop_front();
  text.consume_front("(");
  return !text.empty() && llvm::isDigit(text[0]);
}

std::string scheduleOfCsv(llvm::StringRef path) {
  return fmt::format(R"(// The schedule file that a PyTorch CSV stands for: `-D` sets its costs, in ticks.
param forward         = 1;
param backward_input  = 1;
param backward_weight = 1;   // a whole backward takes the sum of its halves
param transfer        = 0;   // between devices, for each message

model {{
  forward         = forward;
  backward_input  = backward_input;
  backward_weight = backward_weight;
}}
cluster {{ link {{ latency = transfer; }} }}

schedule {} {{ table from "order.csv"; }}
)",
                     identifier(path == "-" ? "order" : llvm::sys::path::stem(path)));
}

} // namespace sluice
