// Finds the whole runtime beside the generated files.
#include "Describe.h"
#include "from_table.h"

#include <sluice/Executor.h>

std::string cells() { return describe(consumer::tables::from_table::schedule); }
