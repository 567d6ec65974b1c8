// An executor that the tool of this build has generated while the build went on.
#include "consumer/Describe.h"
#include "pipeline.h"

#include <cstdio>

int main() {
  const std::string is = describe(pipeline::schedule), wanted = "pipeline: 2 devices, 4 microbatches";
  if (is != wanted)
    std::printf("%s, not %s\n", is.c_str(), wanted.c_str());
  return is == wanted ? 0 : 1;
}
