#include "Emit/PageFiles.h"

#include "llvm/ADT/STLExtras.h"

#include <cassert>

namespace sluice {

llvm::StringRef pageFile(llvm::StringRef name) {
  const PageFile *found = llvm::find_if(pageFiles(), [&](const PageFile &file) { return file.name == name; });
  assert(found != pageFiles().end() && "lib/Emit/page has no such file");
  return found->text;
}

std::string filledPage(llvm::StringRef name,
                       llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> parts) {
  std::string out;
  llvm::StringRef rest = pageFile(name);
  for (size_t at; (at = rest.find("@{")) != llvm::StringRef::npos;) {
    out += rest.substr(0, at);
    const size_t close = rest.find('}', at);
    const llvm::StringRef wanted = rest.slice(at + 2, close);
    const auto *part = llvm::find_if(parts, [&](const auto &candidate) { return candidate.first == wanted; });
    out += part != parts.end() ? part->second : pageFile(wanted);
    rest = rest.substr(close + 1);
  }
  return out += rest;
}

std::string scriptSafe(llvm::StringRef json) {
  std::string out;
  out.reserve(json.size());
  for (char c : json)
    if (c == '<')
      out += "\\u003c"; // only ever inside a string
    else
      out += c;
  return out;
}

} // namespace sluice
