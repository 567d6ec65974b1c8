#include "Formats/Format.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

// One row a format. Readers and writers are declared in the header of their format.
static const std::vector<Format> &formats() {
  static const std::vector<Format> table = {};
  return table;
}

llvm::ArrayRef<Format> allFormats() { return formats(); }

const Format *findFormat(llvm::StringRef name) {
  auto found = llvm::find_if(formats(), [&](const Format &format) { return format.name == name; });
  return found == formats().end() ? nullptr : &*found;
}

const Format *formatOfFile(llvm::StringRef path) {
  auto found = llvm::find_if(formats(), [&](const Format &format) {
    return format.read && !format.suffix.empty() && path.ends_with(format.suffix);
  });
  return found == formats().end() ? nullptr : &*found;
}

} // namespace sluice
