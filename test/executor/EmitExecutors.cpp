// Writes executors of test schedules: EmitExecutors DIR NAME... , each into DIR/NAME.h and DIR/NAME.cpp.
//
// The name `twins` stands for two parameterisations of one schedule, in DIR/a and DIR/b; `runtime` for the
// runtime's headers, in DIR/runtime; `forms` for a schedule of every construct, in DIR/forms, each as a table
// of all its rows and as one of rows plus repeats, with a Library.inc that names them all for
// LibraryTest.cpp.
#include "Compiled.h"
#include "Forms.h"
#include "Schedules.h"

#include "Emit/Cpp.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace sluice;
using namespace sluice::test;

static void write(const std::string &folder, const std::vector<EmittedFile> &files) {
  for (const EmittedFile &file : files) {
    const std::string path = folder + "/" + file.name;
    std::error_code error = llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path));
    llvm::raw_fd_ostream stream(path, error);
    if (error) {
      llvm::errs() << path << ": " << error.message() << "\n";
      std::exit(1);
    }
    stream << file.text;
  }
}

static void emit(const std::string &folder, const Program &program, CppOptions options) {
  write(folder, emitCpp(program, CostModel::ofTicks(program.stages), options));
}

static void emitForms(const std::string &folder) {
  std::string includes, list;
  for (const Form &form : forms)
    for (const CompiledSchedule &schedule : compileSchedules(form.text, {}))
      for (const bool packed : {false, true}) {
        const std::string nameSpace = packed ? "packed" : "forms", name = schedule.program.name;
        const std::string place = packed ? "packed/" : "";
        write(folder + "/" + place,
              emitCpp(schedule.program, schedule.costs,
                      {.nameSpace = nameSpace,
                       .parameters = form.name,
                       .explicitRows = packed ? size_t(0) : CppOptions().explicitRows}));
        // Each lives in a namespace of its own, so all fit into one translation unit.
        includes += "#include \"" + place + cppIdentifier(name) + ".cpp\"\n";
        list += " \\\n  RUN(" + nameSpace + "::" + cppIdentifier(name) + "::schedule);";
      }
  write(folder, {{"Library.inc", includes + "#define FOR_EACH_SCHEDULE(RUN)" + list + "\n"}});
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  const std::string folder = argv[1];
  const std::vector<TestCase> cases = allCases();
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "twins") {
      emit(folder + "/a", gpipe(2, 3),
           {.name = "twin", .nameSpace = "generated", .parameters = "P = 2, M = 3"});
      emit(folder + "/b", gpipe(3, 2),
           {.name = "twin", .nameSpace = "generated", .parameters = "P = 3, M = 2"});
      continue;
    }
    if (name == "runtime") {
      emit(folder + "/runtime", gpipe(2, 2), {.withRuntime = true});
      continue;
    }
    if (name == "forms") {
      emitForms(folder + "/forms");
      continue;
    }
    const auto found = std::ranges::find(cases, name, &TestCase::name);
    if (found == cases.end()) {
      llvm::errs() << "no schedule " << name << "\n";
      return 2;
    }
    emit(folder, found->program, {.nameSpace = "generated", .source = "Schedules.cpp"});
  }
}
