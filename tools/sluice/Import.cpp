// sluice import: a schedule in another system's format, as a schedule file.
#include "Common.h"

#include "Formats/Format.h"
#include "Formats/PrintFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace sluice::tool {

namespace cl = llvm::cl;

static cl::list<std::string> arguments(cl::Positional, cl::desc("FORMAT FILE..."), cl::sub(importCommand));
static cl::opt<std::string> output("o", cl::desc("Write to a file instead of standard output"),
                                   cl::value_desc("FILE"), cl::sub(importCommand));

ExitCode runImport() {
  if (arguments.empty())
    return usageError("sluice import FORMAT FILE [-o FILE]; " + formatList(/*read=*/true));
  const Format *format = findFormat(arguments[0]);
  if (!format || !format->read)
    return usageError(noSuchFormat(arguments[0], /*read=*/true));
  if (arguments.size() < 2)
    return usageError("name a file to import, or - for standard input");
  if (arguments.size() > 2 && !format->takesSeveral)
    return usageError("the format " + format->name.str() + " is one file a schedule, not " +
                      std::to_string(arguments.size() - 1));
  Session session;
  std::vector<Span> texts;
  for (const std::string &path : llvm::drop_begin(arguments)) {
    FileLoader::Result file = session.loader.open(path);
    if (!file.error.empty())
      return usageError("cannot read " + path + ": " + file.error);
    texts.push_back(file.text);
  }
  ReadOptions options;
  options.maxOps = compileOptions().elaborate.maxOps;
  std::vector<std::string> lost;
  auto schedule = format->read(session.sources, texts, options, session.diagnostics, lost);
  if (!schedule)
    return session.finish();
  std::string text = printFile(*schedule, lost);
  printLost(lost);
  ExitCode code = session.finish();
  if (output.empty()) {
    print(text);
    return code;
  }
  ExitCode written = writeFile(output, text);
  return written == Clean ? code : written;
}

} // namespace sluice::tool
