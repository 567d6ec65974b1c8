// What passes share that write a program anew: the same stages, microbatches, placement and source, other
// ops. Every new op takes the place in the source of the op that it belongs to.
#pragma once

#include "IR/Program.h"

namespace sluice {

/// `program` without its ops and what names them; `withPlaces`: with the loops and lines that its ops come
/// from.
inline Program withoutOps(const Program &program, bool withPlaces) {
  Program result;
  result.name = program.name;
  result.stages = program.stages;
  result.microbatches = program.microbatches;
  result.devices = program.devices;
  result.sequenceSplits = program.sequenceSplits;
  result.versions = program.versions;
  result.mostVersions = program.mostVersions;
  result.buffers = program.buffers;
  result.bufferSpan = program.bufferSpan;
  result.isExplicit = program.isExplicit;
  result.placement = program.placement;
  result.placedBy = program.placedBy;
  result.placeSpans = program.placeSpans;
  if (withPlaces) { // as long as the program itself where loops turn often
    result.sites = program.sites;
    result.nests = program.nests;
    result.frames = program.frames;
  }
  result.programSpan = program.programSpan;
  result.span = program.span;
  return result;
}

/// Gives the forwards of `to` the versions that those of `from` name. Passes keep a device's forwards in
/// their order.
inline void copyNamedVersions(const Program &from, Program &to) {
  to.namedVersions.clear();
  auto named = from.namedVersions.begin();
  for (uint32_t d = 0; d < from.devices && named != from.namedVersions.end(); ++d) {
    OpId copied = to.deviceBegin[d];
    for (OpId op = from.deviceBegin[d]; op < from.deviceBegin[d + 1]; ++op) {
      if (from.ops[op].kind != OpKind::Forward)
        continue;
      while (to.ops[copied].kind != OpKind::Forward)
        ++copied;
      if (named != from.namedVersions.end() && named->op == op)
        to.namedVersions.push_back({copied, named++->version});
      ++copied;
    }
  }
}

/// Appends ops device by device.
class Rewriter {
public:
  /// `expected`: ops of the result, so that columns grow once. Without places the result's ops have none in
  /// the source, and take half the room.
  Rewriter(const Program &program, size_t expected, bool withPlaces = true)
      : program(program), hasPlaces(withPlaces && !program.siteOf.empty()),
        result(withoutOps(program, hasPlaces)) {
    result.deviceBegin.reserve(program.devices + 1);
    result.ops.reserve(expected);
    if (hasPlaces) {
      result.siteOf.reserve(expected);
      result.frameOf.reserve(expected);
    }
  }
  /// What follows is the next device's.
  void beginDevice() { result.deviceBegin.push_back(result.size()); }
  void copy(OpId op) { insert(program.ops[op], op); }
  void copy(OpId begin, OpId end) {
    auto append = [&](const auto &from, auto &to) {
      to.insert(to.end(), from.begin() + begin, from.begin() + end);
    };
    append(program.ops, result.ops);
    if (hasPlaces) {
      append(program.siteOf, result.siteOf);
      append(program.frameOf, result.frameOf);
    }
  }
  /// `op`, on account of `origin` of the program.
  void insert(const Op &op, OpId origin) {
    result.ops.push_back(op);
    if (hasPlaces) {
      result.siteOf.push_back(program.siteOf[origin]);
      result.frameOf.push_back(program.frameOf[origin]);
    }
  }
  /// Call once, after the last device.
  Program take() {
    result.deviceBegin.push_back(result.size());
    copyNamedVersions(program, result);
    return std::move(result);
  }

private:
  const Program &program;
  const bool hasPlaces;
  Program result;
};

} // namespace sluice
