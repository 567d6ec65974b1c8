// Every schedule of the library over many sizes: its rows plus repeats are its rows, bit for bit, and
// generating it twice gives the same bytes.
#include "Packed.h"

#include "Driver/Compilation.h"
#include "Emit/Cpp.h"
#include "Std/LibraryText.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::test;

namespace {

/// A file of the library by itself, at any size.
class LibraryFileUse {
public:
  explicit LibraryFileUse(const LibraryFile &file) : compilation(sources, loader) {
    Diagnostics diagnostics;
    EXPECT_TRUE(compilation.load(*sources.addFile(file.name.str(), file.text.str()), diagnostics))
        << file.name.str();
  }
  /// Each schedule of the file that may have this size.
  void run(int64_t P, int64_t M, const std::function<void(Instance &)> &visit) {
    Diagnostics diagnostics;
    compilation.run({{"P", Value::of(Rational(P))}, {"M", Value::of(Rational(M))}}, {},
                    Compilation::Depth::Verify, diagnostics, [&](Instance &instance) {
                      if (instance.isCompiled && instance.verdict.clean)
                        visit(instance);
                    });
  }
  std::vector<std::string> schedules() const { return compilation.schedules({}, {}); }

private:
  SourceManager sources;
  FileLoader loader{sources};
  Compilation compilation;
};

} // namespace

TEST(PackRows, GivesTheLibraryAgain) {
  size_t instances = 0;
  for (const LibraryFile &file : libraryFiles()) {
    LibraryFileUse use(file);
    std::map<std::string, size_t> legal;
    for (const std::string &name : use.schedules())
      legal[name] = 0;
    for (int64_t P : {1, 2, 3, 4, 5, 6, 8})
      for (int64_t M : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 33, 64, 96})
        use.run(P, M, [&](Instance &instance) {
          const std::string what = instance.name + " at " + instance.parameterText();
          const std::optional<ExecutorTables> tables = executorTables(instance.program, instance.costs);
          ASSERT_TRUE(tables) << what;
          for (const DeviceTable &device : tables->devices)
            keptRows(device.rows, what);
          ++legal[instance.name];
          ++instances;
        });
    for (const auto &[name, count] : legal)
      EXPECT_GT(count, 0u) << name;
  }
  EXPECT_GT(instances, 1000u);
}

TEST(EmitCpp, TheLibraryGivesTheSameBytesEachTime) {
  for (const LibraryFile &file : libraryFiles()) {
    LibraryFileUse first(file), second(file);
    std::vector<std::string> texts;
    auto emit = [&](Instance &instance) {
      for (size_t explicitRows : {0, 20'000})
        for (const EmittedFile &emitted :
             emitCpp(instance.program, instance.costs, {.explicitRows = explicitRows}))
          texts.push_back(emitted.text);
    };
    first.run(4, 8, emit);
    const std::vector<std::string> before = std::exchange(texts, {});
    second.run(4, 8, emit);
    EXPECT_EQ(texts, before) << file.name.str();
  }
}
