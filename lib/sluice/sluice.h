// Sluice as a library: build a schedule in C++, find out whether it is right, how long it takes and what it
// keeps in memory, and write its executor. Needs the library Sluice::Sluice. Schedule files are read by
// Driver/Compilation.h, from the library Sluice::Driver.
//
//   ScheduleBuilder    a Program from device programs written as callables
//   verify             findings, each with its place in the C++ that built the program
//   simulate           when each op runs;  computeFigures  what follows from it
//   chart, figuresJson, findingsText, findingsJson, printSluice    texts of all these
//   emitCpp            the executor
#pragma once

#include "Emit/Chart.h"
#include "Emit/Cpp.h"
#include "Emit/FiguresJson.h"
#include "Emit/FindingsJson.h"
#include "Emit/FindingsText.h"
#include "IR/Builder.h"
#include "IR/Print.h"
#include "Timeline/Figures.h"
#include "Timeline/Simulate.h"
#include "Verify/Verify.h"
