// Checks of a program that need no times: placement (8xx), activations (2xx), written communication
// (4xx), the compute order (3xx), gradients, reductions and updates (5xx), versions of weights (6xx) and
// declared buffers (7xx). Findings follow an order of blame, 8xx > 2xx > 4xx > 3xx > 5xx > 6xx > 7xx: per
// device and stage (in 2xx also per microbatch) only the first cause is reported, and findings of one rule,
// cause and line are one finding. Linear in the number of ops; one byte per stage and microbatch.
#pragma once

#include "IR/CostModel.h"
#include "IR/Program.h"
#include "Support/Diagnostics.h"

namespace sluice {

struct Verdict {
  /// Every op finds what it needs and the compute order is acyclic: the program runs to its end.
  bool complete = false;
  /// Nothing of severity error was found.
  bool clean = false;
};

/// `sources` is only asked for the line numbers that findings mention; without it they say "earlier".
Verdict verify(const Program &program, const ProgramIndex &index, const CostModel &costs,
               Diagnostics &diagnostics, const SourceManager *sources = nullptr);

} // namespace sluice
