// Legal programs in other dress, and broken ones: from a legal program of the step machine its variants with
// zeroing, explicit scales, split backwards, recomputation, parked activations, gathered weights, tied
// stages, norms and started ops; and one random mistake in a program.
#pragma once

#include "RandomSchedules.h"
#include "StepMachine.h"

namespace sluice::machine {

using slow::Random;

/// An op, an overlap or a group: what stays together.
using Block = std::vector<Statement>;
/// Per device.
using Blocks = std::vector<std::vector<Block>>;
Blocks blocksOf(const StepProgram &program);
void setBlocks(StepProgram &program, const Blocks &blocks);

/// Another legal program of the same stages and microbatches; `what` says in words what was added.
StepProgram vary(StepProgram legal, Random &random, std::string &what);

/// The program with one mistake, which `what` names. Now and then it changes nothing that matters.
StepProgram mutate(StepProgram legal, Random &random, std::string &what);

} // namespace sluice::machine
