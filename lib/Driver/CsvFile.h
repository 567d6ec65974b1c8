// PyTorch CSVs as files of their own. A CSV holds an order and no costs; the schedule file that it stands for
// is a few lines of the language around `table from`, with parameters for the costs, so that everything that
// takes a schedule file takes a CSV and `-D forward=3` works as anywhere.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace sluice {

/// By the name: `.csv`, in either case.
bool isCsvFile(llvm::StringRef path);

/// Whether a text without a name (standard input) is a CSV: it begins with a cell, which no schedule file
/// does.
bool isCsvText(llvm::StringRef text);

/// The schedule file that the CSV `path` stands for. Its schedule has the name of the file, made a name of
/// the language: `1F1B-2.csv` is `schedule_1F1B_2`. Its table is `"order.csv"`, whatever `path` is.
std::string scheduleOfCsv(llvm::StringRef path);

} // namespace sluice
