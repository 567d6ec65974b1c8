// Runs the tables of a lowered program without generating and compiling code, so that tests can look at
// many schedules and damage their tables.
#pragma once

#include "Passes/AssignSlots.h"

#include <string>
#include <vector>

namespace sluice::test {

/// Every callback there is: in-memory tables are not known when the test is compiled.
inline constexpr runtime::Uses allUses{true, true, true, true, true, true, true, true,
                                       true, true, true, true, true, true, true, true};
using AnySchedule = runtime::Schedule<allUses, runtime::ChannelModels{true, true, true, true, true}>;

/// The runtime's view of `tables`, which must outlive it.
class InMemory {
public:
  InMemory(std::string name, const ExecutorTables &tables) : name(std::move(name)) {
    for (const DeviceTable &device : tables.devices)
      devices.push_back({device.rows,
                         device.boundaries,
                         device.saveds,
                         device.pendings,
                         device.hosts,
                         device.carries,
                         {},
                         {}});
    for (const LossFactor &factor : tables.lossFactors)
      lossFactors.push_back(factor.value());
    for (const Fraction &factor : tables.factors)
      factors.push_back(factor.value());
    for (const TieTable &tie : tables.ties)
      ties.push_back({tie.name, tie.stages, tie.isLocal});
    static_cast<runtime::Tables &>(schedule) = {.provenance = {this->name, "", ""},
                                                .stages = tables.stages,
                                                .microbatches = tables.microbatches,
                                                .devices = devices,
                                                .channels = tables.channels,
                                                .copies = tables.copies,
                                                .lossFactor = lossFactors,
                                                .splits = tables.splits,
                                                .replicas = tables.replicas,
                                                .reduction = tables.reduction,
                                                .factors = factors,
                                                .ties = ties,
                                                .skips = tables.skips};
  }
  InMemory(const InMemory &) = delete;
  AnySchedule schedule{};

private:
  std::string name;
  std::vector<runtime::Device> devices;
  std::vector<double> lossFactors, factors;
  std::vector<runtime::Tie> ties;
};

inline ExecutorTables lower(const Program &program) {
  return assignSlots(program, CostModel::ofTicks(program.stages)).value();
}

} // namespace sluice::test
