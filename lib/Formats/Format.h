// Formats of other systems and our JSON: one table, a row a format, with what reads and what writes it.
//
// A reader turns texts into the IR and, where the format has them, costs; every op remembers its place, so
// that findings point into the file that was read. What is wrong with a text is a finding; what a format
// says and the IR cannot hold is a line of `lost`. A writer is the way back and keeps the same promise:
// nothing is left out silently.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Support/Diagnostics.h"

#include <optional>

namespace sluice {

/// A schedule as formats carry it.
struct FormattedSchedule {
  Program program;
  CostModel costs; ///< `isDefault` where the format has none.
  /// Where the order comes from, in the words of the file; empty if it does not say.
  std::string source;
};

struct ReadOptions {
  uint64_t maxOps = 200'000'000;
};

/// Reads `texts`, which are one file, or one a stage or device where Format::takesSeveral. Nothing if there
/// was an error; findings are in `diagnostics` then.
using FormatReader = std::optional<FormattedSchedule> (*)(SourceManager &sources, llvm::ArrayRef<Span> texts,
                                                          const ReadOptions &options,
                                                          Diagnostics &diagnostics,
                                                          std::vector<std::string> &lost);
/// The text of a schedule. Nothing if the format cannot say some op: `error` names it and says why.
using FormatWriter = std::optional<std::string> (*)(const FormattedSchedule &schedule,
                                                    std::vector<std::string> &lost, std::string &error);

struct Format {
  llvm::StringRef name, description;
  FormatReader read = nullptr;  ///< null: it is only written
  FormatWriter write = nullptr; ///< null: it is only read
  bool takesSeveral = false;    ///< One text a stage.
  llvm::StringRef suffix = "";  ///< Of files that are read in this format unasked, such as `.json`.
};

/// All formats, by name.
llvm::ArrayRef<Format> allFormats();
/// Null if there is none of this name.
const Format *findFormat(llvm::StringRef name);
/// The format that a file is read in by its name alone; null for schedule files.
const Format *formatOfFile(llvm::StringRef path);

} // namespace sluice
