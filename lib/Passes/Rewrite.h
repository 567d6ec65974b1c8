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
  result.skips = program.skips;
  result.ties = program.ties;
  result.isEvaluation = program.isEvaluation;
  result.phaseSpan = program.phaseSpan;
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

/// Gives ops of `to` the entries of a list of `from`. Passes keep the order of a device's ops that satisfy
/// `mayHave`, to which all ops of the list belong, or leave all of them out.
template <typename Entry, typename Predicate>
void copyEntries(const Program &from, const std::vector<Entry> &entries, Program &to,
                 std::vector<Entry> &copies, Predicate mayHave) {
  copies.clear();
  auto next = entries.begin();
  for (uint32_t d = 0; d < from.devices && next != entries.end(); ++d) {
    OpId copied = to.deviceBegin[d];
    for (OpId op = from.deviceBegin[d]; op < from.deviceBegin[d + 1]; ++op) {
      if (!mayHave(from.ops[op]))
        continue;
      while (copied < to.deviceBegin[d + 1] && !mayHave(to.ops[copied]))
        ++copied;
      if (next != entries.end() && next->op == op) {
        if (copied < to.deviceBegin[d + 1])
          copies.emplace_back(*next).op = copied;
        ++next;
      }
      copied += copied < to.deviceBegin[d + 1];
    }
  }
}

/// Gives the ops of `to` what those of `from` name beside stage and microbatch.
inline void copyNames(const Program &from, Program &to) {
  copyEntries(from, from.namedVersions, to, to.namedVersions,
              [](const Op &op) { return op.kind == OpKind::Forward; });
  copyEntries(from, from.factors, to, to.factors, [](const Op &op) { return op.hasFactor(); });
  auto isPost = [](const Op &op) { return op.isCommunication() && !op.isWait(); };
  copyEntries(from, from.payloads, to, to.payloads, isPost);
  copyEntries(from, from.peers, to, to.peers, [](const Op &op) { return op.namesPeer(); });
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
  /// The send or receive inserted last goes to, or comes from, `stage`. `program` has no such ops of its own.
  void namePeer(uint32_t stage) { peers.push_back({result.size() - 1, stage}); }
  /// Call once, after the last device.
  Program take() {
    result.deviceBegin.push_back(result.size());
    copyNames(program, result);
    if (!peers.empty())
      result.peers = std::move(peers);
    return std::move(result);
  }

private:
  const Program &program;
  const bool hasPlaces;
  Program result;
  std::vector<OpPeer> peers;
};

} // namespace sluice
