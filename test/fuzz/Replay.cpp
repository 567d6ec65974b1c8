// Runs a fuzz target on files instead of made-up inputs: each argument is a file, or a folder whose files
// are all taken. What was once found by fuzzing stays found in builds without libFuzzer.
#include "Pipeline.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace fs = std::filesystem;

int main(int argc, char **argv) {
  std::vector<fs::path> files;
  for (const char *argument : std::vector<const char *>(argv + 1, argv + argc)) {
    if (!fs::is_directory(argument)) {
      files.emplace_back(argument);
      continue;
    }
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(argument))
      if (entry.is_regular_file())
        files.push_back(entry.path());
  }
  if (files.empty()) {
    std::fprintf(stderr, "no file to replay\n");
    return 2;
  }
  std::sort(files.begin(), files.end());
  for (const fs::path &file : files) {
    // Named first: if the target aborts, the last line says on which file.
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "cannot read it\n");
      return 1;
    }
    std::string text{std::istreambuf_iterator<char>(in), {}};
    LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char *>(text.data()), text.size());
  }
  std::printf("%zu files, none ended the process\n", files.size());
  return 0;
}
