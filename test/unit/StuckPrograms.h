// Programs of sends and receives for the tests of repairs: built from lists of ops, a list a device, without
// places in a source.
#pragma once

#include "Events/Repair.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <initializer_list>

namespace sluice::test {

using Statement = std::vector<Op>;
using Statements = std::vector<Statement>; // of one device

inline Op op(OpKind kind, uint32_t stage, uint32_t microbatch, uint8_t flags = 0) {
  return {kind, flags, static_cast<uint16_t>(stage), microbatch};
}
inline Op F(uint32_t s, uint32_t m) { return op(OpKind::Forward, s, m); }
inline Op B(uint32_t s, uint32_t m) { return op(OpKind::Backward, s, m); }
inline Op SF(uint32_t s, uint32_t m) { return op(OpKind::SendActivation, s, m); }
inline Op RF(uint32_t s, uint32_t m) { return op(OpKind::RecvActivation, s, m); }
inline Op SB(uint32_t s, uint32_t m) { return op(OpKind::SendGradient, s, m); }
inline Op RB(uint32_t s, uint32_t m) { return op(OpKind::RecvGradient, s, m); }
inline Op start(Op post) { return post.flags |= Started, post; }
inline Op wait(Op post) { return post.flags |= Waits, post; }

/// `deviceOf`: per stage, for all microbatches. Statements of several ops are groups.
inline Program programOf(const std::vector<uint32_t> &deviceOf, uint32_t microbatches,
                         const std::vector<Statements> &devices) {
  Program program;
  program.name = "g";
  program.stages = static_cast<uint32_t>(deviceOf.size());
  program.microbatches = microbatches;
  program.devices = static_cast<uint32_t>(devices.size());
  program.isExplicit = true;
  program.placement = StageTable<uint32_t>(deviceOf);
  program.deviceBegin = {0};
  for (const Statements &statements : devices) {
    for (const Statement &statement : statements)
      for (size_t i = 0; i < statement.size(); ++i) {
        program.ops.push_back(statement[i]);
        if (statement.size() > 1)
          program.ops.back().flags |= i == 0 ? GroupFirst : GroupFollower;
      }
    program.deviceBegin.push_back(program.size());
  }
  return program;
}

inline Statements each(std::initializer_list<Op> ops) {
  Statements statements;
  for (const Op &post : ops)
    statements.push_back({post});
  return statements;
}

/// The statements of each device, without the flags of groups.
inline std::vector<Statements> statementsOf(const Program &program) {
  std::vector<Statements> devices(program.devices);
  for (uint32_t device = 0; device < program.devices; ++device)
    for (Op post : program.opsOf(device)) {
      const bool isMember = post.has(GroupFollower);
      if (post.isCommunication())
        post.flags = static_cast<uint8_t>(post.flags & ~(GroupFirst | GroupFollower));
      if (isMember)
        devices[device].back().push_back(post);
      else
        devices[device].push_back({post});
    }
  return devices;
}

/// On each channel and direction the n-th send and the n-th receive carry the same message.
inline bool arePairsRight(const Program &program, const ChannelRules &rules) {
  const Requests requests(program, rules);
  for (RequestId r = 0; r < requests.size(); ++r)
    if (!requests.isCall(r)) {
      const RequestId partner = requests.partner(r);
      if (partner == noRequest ||
          messageOf(program, requests.op[r]) != messageOf(program, requests.op[partner]))
        return false;
    }
  return true;
}

/// The same ops on every device, in whatever order and groups.
inline bool hasSameOps(const Program &a, const Program &b) {
  auto sorted = [](const Program &program, uint32_t device) {
    std::vector<std::tuple<OpKind, uint8_t, uint32_t, uint32_t>> ops;
    for (const Op &op : program.opsOf(device))
      ops.emplace_back(op.kind, op.isCommunication() ? op.flags & ~(GroupFirst | GroupFollower) : op.flags,
                       op.stage, op.microbatch);
    llvm::sort(ops);
    return ops;
  };
  for (uint32_t device = 0; device < a.devices; ++device)
    if (sorted(a, device) != sorted(b, device))
      return false;
  return a.devices == b.devices;
}

} // namespace sluice::test
