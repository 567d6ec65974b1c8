#include "Driver/FileLoader.h"

#include "Driver/CsvFile.h"
#include "Formats/ProfileJson.h"
#include "Std/LibraryText.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <fmt/format.h>

namespace sluice {

FileLoader::Result FileLoader::add(const std::string &name, llvm::StringRef text) {
  text.consume_front("\xef\xbb\xbf"); // a byte order mark, as Windows and spreadsheets write it
  auto span = sources.addFile(name, text.str());
  if (!span)
    return {{}, "the files together are larger than 4 GiB"};
  loaded[name] = *span;
  return {*span, ""};
}

FileLoader::Result FileLoader::open(const std::string &path) {
  std::string name = path == "-" ? "<stdin>" : path;
  if (auto found = loaded.find(name); found != loaded.end())
    return {found->second, ""};
  if (path != "-" && llvm::sys::fs::is_directory(path))
    return {{}, "it is a folder"};
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return {{}, buffer.getError().message()};
  if (path != "-")
    paths.push_back(path);
  return add(name, (*buffer)->getBuffer());
}

FileLoader::Result FileLoader::openSchedule(const std::string &path) {
  Result file = open(path);
  if (!file.error.empty())
    return file;
  const bool isNamed = llvm::StringRef(path).ends_with(".sluice") || isCsvFile(path);
  if (const Format *format = input && !isNamed ? input : formatOfFile(path)) {
    formats[file.text.begin] = format;
    return file;
  }
  if (!(path == "-" ? isCsvText(sources.text(file.text)) : isCsvFile(path)))
    return file;
  std::string name = fmt::format("<parameters of {}>", path == "-" ? "<stdin>" : path);
  tables[name] = file.text;
  return add(name, scheduleOfCsv(path));
}

FileLoader::Result FileLoader::addSchedule(const std::string &name, llvm::StringRef text) {
  Result file = add(name, text);
  if (const Format *format = formatOfFile(name); format && file.error.empty())
    formats[file.text.begin] = format;
  return file;
}

const Format *FileLoader::formatOf(Span text) const {
  auto found = formats.find(text.begin);
  return found == formats.end() ? nullptr : found->second;
}

FileLoader::Result FileLoader::read(llvm::StringRef path, llvm::StringRef from) {
  if (auto table = tables.find(from.str()); table != tables.end())
    return {table->second, ""};
  llvm::StringRef library = path;
  if (library.consume_front("std/")) {
    if (auto found = loaded.find(path.str()); found != loaded.end())
      return {found->second, ""};
    for (const LibraryFile &file : libraryFiles())
      if (file.name == library || file.name.drop_back(7) == library)
        return add(path.str(), file.text);
    return {{}, "the library has no such schedule"};
  }
  llvm::SmallString<128> resolved;
  if (!llvm::sys::path::is_absolute(path) && from != "<stdin>")
    resolved = llvm::sys::path::parent_path(from);
  llvm::sys::path::append(resolved, path);
  llvm::sys::path::remove_dots(resolved, /*remove_dot_dot=*/true);
  // Standard input is no file beside another.
  return open(resolved == "-" ? "./-" : resolved.str().str());
}

std::shared_ptr<const Profile> FileLoader::profile(Span text, llvm::StringRef path, Span named,
                                                   Diagnostics &diagnostics) {
  return readProfile(sources, text, path, named, diagnostics);
}

std::vector<std::string> FileLoader::known() const {
  std::vector<std::string> names;
  for (const LibraryFile &file : libraryFiles())
    names.push_back("std/" + file.name.drop_back(7).str());
  return names;
}

} // namespace sluice
