// What sizes and costs leave out. 808 size-ignores-samples: microbatches differ in samples, a setting of the
// model does not. 811 free-transfer: a link is declared, and yet something crosses it in no time, though no
// computed latency says so. Both look at the tables of the cost model alone, a row for each kind of
// microbatch.
#include "Verify/Faults.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

static void checkSamples(VerifyContext &context) {
  const CostModel &costs = context.costs;
  if (costs.samples.empty() || llvm::all_equal(costs.samples))
    return;
  const auto [few, many] = std::minmax_element(costs.samples.begin(), costs.samples.end());
  for (auto [setting, table] : {std::pair("forward", &costs.forward),
                                {"activation", &costs.activation},
                                {"boundary", &costs.boundary}}) {
    auto declared = costs.declaredAt.find(setting), profile = costs.declaredAt.find("cost");
    const bool isMeasured = profile != costs.declaredAt.end() && declared != costs.declaredAt.end() &&
                            profile->second == declared->second;
    if (declared == costs.declaredAt.end() || isMeasured || table->rowCount() != 1 ||
        llvm::all_of(table->all(), [](int64_t value) { return value == 0; }))
      continue;
    Finding &finding = context.diagnostics.report(
        Rule::SizeIgnoresSamples, declared->second,
        {{"few", std::to_string(*few)}, {"many", std::to_string(*many)}, {"setting", setting}});
    if (auto given = costs.declaredAt.find("samples"); given != costs.declaredAt.end())
      finding.notes.push_back({"the samples are given here", given->second, {}, ""});
    finding.fix.message = fmt::format("{}(s, m) = samples(m) * ...", setting);
  }
}

namespace {

/// An edge between stages that some microbatch takes to another device, and how long any of them takes.
struct Crossing {
  uint32_t from, to;
  uint32_t device = noDevice, other = noDevice;
  uint32_t link = noLink; ///< From `device` to `other`; noLink where the file has but one.
  bool takesTime = false; ///< Or a latency that is worked out says that it takes none.
};

} // namespace

static void cross(const Program &program, Crossing &crossing, uint32_t m, uint32_t link, bool takesTime) {
  const uint32_t here = program.deviceOf(crossing.from, m), there = program.deviceOf(crossing.to, m);
  if (here == there || here == noDevice || there == noDevice)
    return;
  if (crossing.device == noDevice) {
    crossing.device = here;
    crossing.other = there;
    crossing.link = link;
  }
  crossing.takesTime |= takesTime;
}

static std::vector<Crossing> freeCrossings(const Program &program, const CostModel &costs) {
  std::vector<Crossing> crossings;
  for (uint32_t stage = 0; stage + 1 < program.stages; ++stage)
    crossings.push_back({stage, stage + 1});
  for (const SkipEdge &skip : program.skips)
    crossings.push_back({skip.from, skip.to});
  const size_t chain = crossings.size() - program.skips.size();
  // Rows repeat: where neither the placement nor the times depend on the microbatch, one is all.
  bool isUniform = program.placement.rowCount() == 1 && costs.activationTransfer.rowCount() == 1;
  std::vector<bool> hasComputedLatency;
  for (size_t link = 0; link < costs.links.size(); ++link)
    hasComputedLatency.push_back(costs.declaredAt.count(fmt::format("link {} latency", link)) != 0);
  auto look = [&](size_t i, uint32_t m, int64_t time, uint32_t route) {
    const uint32_t link = route == noRoute ? noLink : costs.routes[route].link;
    cross(program, crossings[i], m, link, time != 0 || (link != noLink && hasComputedLatency[link]));
  };
  for (const StageTable<int64_t> &times : costs.skipTransfer)
    isUniform &= times.rowCount() == 1;
  for (uint32_t m = 0; m < (isUniform ? 1 : program.microbatches); ++m)
    for (size_t i = 0; i < crossings.size(); ++i) {
      const size_t skip = i - chain;
      if (i < chain)
        look(i, m, costs.activationTransfer.at(crossings[i].from, m),
             costs.activationRoute.empty() ? noRoute : costs.activationRoute.at(crossings[i].from, m));
      else
        look(i, m, skip < costs.skipTransfer.size() ? costs.skipTransfer[skip].at(0, m) : 0,
             skip < costs.skipRoute.size() ? costs.skipRoute[skip].at(0, m) : noRoute);
    }
  llvm::erase_if(crossings, [](const Crossing &c) { return c.takesTime || c.device == noDevice; });
  return crossings;
}

static void checkTransfers(VerifyContext &context) {
  const CostModel &costs = context.costs;
  auto link = costs.declaredAt.find("link");
  if (link == costs.declaredAt.end() || costs.activationTransfer.empty() || context.program.microbatches == 0)
    return;
  const std::vector<Crossing> crossings = freeCrossings(context.program, costs);
  if (crossings.empty())
    return;
  const Crossing &first = crossings.front();
  Finding &finding = context.diagnostics.report(
      Rule::FreeTransfer, first.link == noLink ? link->second : costs.links[first.link].span,
      {{"from", std::to_string(first.from)},
       {"to", std::to_string(first.to)},
       {"devices", fmt::format("{} and {}", first.device, first.other)}});
  if (crossings.size() > 1)
    finding.notes.push_back(
        {fmt::format("the same holds for {}", counted(crossings.size() - 1, "further edge", "further edges")),
         {},
         {},
         ""});
  const bool hasBoundary = costs.declaredAt.count("boundary") != 0;
  finding.fix.message = hasBoundary ? "give the link a latency or a bandwidth"
                                    : "boundary = ...; in the model, or a latency for the link";
}

void verifySizes(VerifyContext &context) {
  if (context.costs.isDefault)
    return;
  checkSamples(context);
  checkTransfers(context);
}

} // namespace sluice
