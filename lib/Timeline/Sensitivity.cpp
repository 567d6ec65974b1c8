#include "Timeline/Sensitivity.h"

#include "Timeline/ScaledCosts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <system_error>
#include <thread>

namespace sluice {

namespace {

/// Runs `work(0)` to `work(count - 1)`, each once, in any order. False as soon as one has returned false.
bool runAll(size_t count, unsigned threads, llvm::function_ref<bool(size_t)> work) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> holds = true;
  auto take = [&] {
    for (size_t i = next++; i < count && holds; i = next++)
      if (!work(i))
        holds = false;
  };
  const size_t wanted = threads ? threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(wanted, count); ++i) {
    try {
      others.emplace_back(take);
    } catch (const std::system_error &) {
      break; // the system gives no more; those there are do it all
    }
  }
  take();
  for (std::thread &thread : others)
    thread.join();
  return holds;
}

struct Question {
  std::function<CostModel()> costs;
  Rational *gain;
};

} // namespace

// Without queues times are sums along chains, and the longest is the makespan. A chain that a part is not on
// is as long as before, so the makespan is too.
static bool needsRun(const Program &program, const CostModel &costs, bool isOnPath) {
  return isOnPath || program.isExplicit || costs.laneCount > 0 || !costs.hostRoutes.empty();
}

std::optional<Sensitivity> sensitivities(const Program &program, const ProgramIndex &index,
                                         const CostModel &costs, const Timeline &timeline,
                                         const Makeup &makeup, unsigned threads) {
  const ScaledCosts scaled(program, costs);
  if (!scaled.fits())
    return std::nullopt;
  Sensitivity result;
  result.stages.resize(program.stages);
  for (uint32_t link : scaled.links())
    result.links.push_back({link, 0});
  if (scaled.hasCollectives())
    result.collectives = Rational(0);

  std::vector<Question> questions;
  for (uint32_t stage = 0; stage < program.stages; ++stage)
    if (needsRun(program, costs, makeup.timeOf(stage) != 0))
      questions.push_back({[&, stage] { return scaled.withFasterStage(stage); }, &result.stages[stage]});
  for (LinkSensitivity &link : result.links) {
    const bool isOnPath = makeup.host != 0 ||
                          llvm::any_of(makeup.links, [&](const PathLink &l) { return l.link == link.link; });
    if (needsRun(program, costs, isOnPath))
      questions.push_back({[&] { return scaled.withFasterLink(link.link); }, &link.gain});
  }
  if (result.collectives && needsRun(program, costs, makeup.collectives != 0))
    questions.push_back({[&] { return scaled.withFasterCollectives(); }, &*result.collectives});

  const __int128 before = static_cast<__int128>(timeline.makespan) * scaled.factor();
  const bool holds = runAll(questions.size(), threads, [&](size_t i) {
    Diagnostics unused; // a time that does not fit
    const auto faster = simulate(program, index, questions[i].costs(), unused);
    const auto gain = faster ? Rational::make(before - faster->makespan, scaled.factor()) : std::nullopt;
    if (gain)
      *questions[i].gain = *gain;
    return gain.has_value();
  });
  return holds ? std::optional(std::move(result)) : std::nullopt;
}

uint64_t sensitivityWork(const Program &program, const CostModel &costs) {
  return static_cast<uint64_t>(program.size()) * (program.stages + costs.links.size());
}

} // namespace sluice
