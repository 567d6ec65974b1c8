#include "DependencyFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace sluice::tool {

/// `path` from the root on, with a backslash before what would end a name and a dollar doubled.
static std::string escaped(llvm::StringRef path) {
  llvm::SmallString<256> absolute(path);
  llvm::sys::fs::make_absolute(absolute); // without a current folder the path stays as it is
  llvm::sys::path::remove_dots(absolute);
  std::string text;
  for (char c : absolute) {
    if (c == ' ' || c == '#')
      text += '\\';
    if (c == '$')
      text += '$';
    text += c;
  }
  return text;
}

std::string dependencyText(llvm::StringRef stamp, llvm::ArrayRef<std::string> opened) {
  static int inTheTool; // an address by which it is found where there is no /proc
  std::string text = escaped(stamp) + ":";
  for (const std::string &path : opened)
    text += " \\\n  " + escaped(path);
  if (std::string tool = llvm::sys::fs::getMainExecutable("sluice", &inTheTool); !tool.empty())
    text += " \\\n  " + escaped(tool);
  return text + "\n";
}

std::string stampText(llvm::ArrayRef<EmittedFile> files) {
  std::string text;
  for (const EmittedFile &file : files)
    text += file.name + "\n";
  return text;
}

} // namespace sluice::tool
