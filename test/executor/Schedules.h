// Schedules that the executor tests run, written with the C++ builder. P devices, M microbatches; every
// schedule ends its step with a reduction and an update of each stage unless it says otherwise.
#pragma once

#include "IR/Builder.h"

#include <string>
#include <vector>

namespace sluice::test {

Program gpipe(uint32_t P, uint32_t M);
Program gpipeReversed(uint32_t P, uint32_t M);
Program oneFOneB(uint32_t P, uint32_t M);
/// Weight halves held back to fill the bubble (Qi et al., 2023).
Program zbH1(uint32_t P, uint32_t M);
/// Stage s on device s mod P, v stages each; M a multiple of P (Megatron-LM).
Program interleaved(uint32_t P, uint32_t M, uint32_t v);
/// GPipe that keeps inputs alone and recomputes right before each backward.
Program recomputing(uint32_t P, uint32_t M);
/// GPipe that keeps everything, drops it to the input once all forwards are done, and recomputes.
Program dropping(uint32_t P, uint32_t M);
/// One fused forward and backward a slot in the steady state.
Program overlapped(uint32_t P, uint32_t M);
/// Forwards only, nothing kept.
Program evaluation(uint32_t P, uint32_t M);
/// 1F1B whose accumulators are emptied by `zero` at the start of the step.
Program zeroing(uint32_t P, uint32_t M);

/// Where each stage lives in a list-scheduled order.
enum class Shape { Linear, V, Bidirectional };
/// Any order that respects the needs of its ops: in unit time each device runs a ready op, chosen by `seed`.
/// V: 2P stages, stage s and 2P - 1 - s on one device. Bidirectional: odd microbatches go up the devices.
Program listScheduled(Shape shape, uint32_t P, uint32_t M, bool splitBackward, uint32_t seed);

struct TestCase {
  std::string name; ///< A C++ identifier: schedule, P, M.
  Program program;
};
/// All of the above over several P and M.
std::vector<TestCase> allCases();

} // namespace sluice::test
