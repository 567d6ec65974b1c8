// Programs with written communication, for property tests: a random schedule with its sends and receives
// lowered, then some neighbours grouped and some started, with waits somewhere before the value's use or the
// end. Each is right in itself; whether it sticks depends on the rules of its channels.
#pragma once

#include "RandomSchedules.h"

namespace sluice::slow {

struct RandomExplicit {
  RandomSchedule schedule;
  Program inferred, program;
  bool hasGroups = false, hasStarts = false;
  std::string placement;
};
enum class Writing { Plain, WithStarts, WithGroups, WithBoth };
RandomExplicit randomExplicit(uint64_t seed, Writing writing);
/// The same of a given schedule, `inferred` being its program.
RandomExplicit randomExplicit(RandomSchedule schedule, Program inferred, uint64_t seed, Writing writing);
/// Any model, key, service, progress, connection and groups.
ChannelRules randomRules(Random &random);
std::string str(const ChannelRules &rules);

} // namespace sluice::slow
