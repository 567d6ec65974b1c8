// One line about a generated schedule.
#pragma once

#include <sluice/Schedule.h>

#include <string>

inline std::string describe(const sluice::runtime::Tables &tables) {
  return std::string(tables.provenance.schedule) + ": " + std::to_string(tables.devices.size()) +
         " devices, " + std::to_string(tables.microbatches) + " microbatches";
}
