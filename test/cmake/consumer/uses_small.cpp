#include "Describe.h"
#include "pipeline.h"

std::string small() { return describe(pipeline::schedule); }
