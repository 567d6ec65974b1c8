// Small explicit programs for the tests of what blocks: made from lists of ops or drawn at random, and as
// statements for the slow machine of CommunicationMachine.h.
#pragma once

#include "CommunicationMachine.h"
#include "IR/ChannelRules.h"
#include "IR/Program.h"
#include "RandomSchedules.h"

#include <functional>
#include <vector>

namespace sluice::slow {

using DeviceOps = std::vector<std::vector<Op>>;

inline Op sendActivation(uint32_t s, uint32_t m) {
  return {OpKind::SendActivation, 0, static_cast<uint16_t>(s), m};
}
inline Op recvActivation(uint32_t s, uint32_t m) {
  return {OpKind::RecvActivation, 0, static_cast<uint16_t>(s), m};
}
inline Op sendGradient(uint32_t s, uint32_t m) {
  return {OpKind::SendGradient, 0, static_cast<uint16_t>(s), m};
}
inline Op recvGradient(uint32_t s, uint32_t m) {
  return {OpKind::RecvGradient, 0, static_cast<uint16_t>(s), m};
}
Op started(Op op);
Op waits(Op op);
/// `ops` as one group.
std::vector<Op> group(std::vector<Op> ops);
std::vector<Op> operator+(std::vector<Op> a, const std::vector<Op> &b);

/// Where each stage of each microbatch is placed: a row of stages for each.
using PlacementRows = std::vector<std::vector<uint32_t>>;
/// Where a stage has a skip edge it has one each way at most, so that ops with NamesPeer say which they mean.
Program explicitProgram(const PlacementRows &rows, const DeviceOps &devices,
                        const std::vector<SkipEdge> &skips = {}, const std::vector<TiedWeight> &ties = {});
DeviceOps devicesOf(const Program &program);
/// `program` with other ops on its devices.
Program withDevices(const Program &program, const DeviceOps &devices);
/// What is left of `program` once no single op can go without `isWanted` failing.
Program smallest(const Program &program, const std::function<bool(const Program &)> &isWanted);

/// What the machine runs. Tags are op ids: of an action its own, of a statement that of its first op.
ExplicitProgram machineProgram(const Program &program);

/// Everything follows from the seed: 2 to 4 devices, a few messages and collectives, now and then one without
/// a partner, posted one by one, in groups and by `start` and `wait`.
Program randomCommunication(uint64_t seed);

/// Any model, with one or two slots where it is eager, key and other rules.
Blocking randomBlocking(Random &random);
/// The same for the compiler.
ChannelRules rulesOf(const Blocking &blocking);

/// Devices, ops and flags in one line a device.
std::string describe(const Program &program);

} // namespace sluice::slow
