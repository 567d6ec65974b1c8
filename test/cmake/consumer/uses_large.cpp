#include "Describe.h"
#include "pipeline.h"

std::string large() { return describe(pipeline::schedule); }
