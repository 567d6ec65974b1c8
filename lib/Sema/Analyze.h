// Syntax tree to checked file: names, kinds of settings and ops, imports. Values are not looked at.
#pragma once

#include "Sema/Checked.h"

#include <functional>

namespace sluice {

/// Reads the files that `import` and `table from` name. The path is as written; `from` is the name of the
/// file that asks. Returns the span of the text in the source manager, or why it cannot be read.
struct FileReader {
  virtual ~FileReader() = default;
  struct Result {
    Span text;
    std::string error;
  };
  virtual Result read(llvm::StringRef path, llvm::StringRef from) = 0;
  /// The measured times in a text that `read` gave for `path`, as `named` asks. Null after findings 117, or
  /// where there are no files.
  virtual std::shared_ptr<const Profile> profile(Span, llvm::StringRef /*path*/, Span /*named*/,
                                                 Diagnostics &) {
    return nullptr;
  }
  /// Paths that `import` could have meant, for suggestions.
  virtual std::vector<std::string> known() const = 0;
};

/// Reports 101-115, 8xx and 9xx findings that need no values. The result may be used if no errors were
/// reported.
CheckedFile analyze(const ast::File &file, const SourceManager &sources, FileReader &reader,
                    Diagnostics &diagnostics);

} // namespace sluice
