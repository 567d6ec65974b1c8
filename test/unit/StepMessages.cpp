#include "StepVariation.h"

namespace sluice::machine {

/// Makes the output, or the input gradient, of a stage.
static bool makes(const Statement &op, uint32_t stage, bool isGradient) {
  const bool isKind =
      isGradient ? op.word == Word::Backward || op.word == Word::BackwardInput : op.word == Word::Forward;
  return isKind && op.stage == stage;
}

std::vector<uint32_t> Variation::microbatches(uint32_t device, uint32_t stage, bool isGradient) const {
  std::vector<uint32_t> found;
  for (const Block &block : blocks[device])
    for (const Statement &op : block)
      if (makes(op, stage, isGradient))
        found.push_back(op.microbatch);
  return found;
}

/// A send behind each op of the stage that makes the value, or a receive in front of it.
void Variation::write(uint32_t device, uint32_t stage, uint32_t other, bool isGradient, Word word) {
  const bool isSend = word == Word::SendActivation || word == Word::SendGradient;
  for (size_t at = 0; at < blocks[device].size(); ++at) {
    std::vector<Statement> messages;
    for (const Statement &op : blocks[device][at])
      if (makes(op, stage, isGradient)) {
        messages.push_back(pairOp(word, op));
        messages.back().neighbour = other;
      }
    for (const Statement &message : messages)
      insert(device, isSend ? ++at : at++, message);
  }
}

/// An edge beside the chain; in written communication with messages of its own, where no others go between
/// the two devices and both take the microbatches in one order.
void Variation::skip() {
  if (setting.stages < 3)
    return;
  const uint32_t from = random.below(setting.stages - 2);
  const uint32_t to = from + 2 + random.below(setting.stages - from - 2);
  const Skip edge{from, to, random.chance(70)};
  if (setting.isExplicit && !writeSkip(edge))
    return;
  setting.skips.push_back(edge);
  note("a skip edge");
}

bool Variation::writeSkip(const Skip &edge) {
  const std::vector<uint32_t> froms = setting.devicesOf(edge.from), tos = setting.devicesOf(edge.to);
  if (froms.size() > 1 || tos.size() > 1)
    return false;
  const uint32_t a = froms.front(), b = tos.front();
  if (a == b)
    return true; // handed over
  for (uint32_t s = 0; s < setting.stages; ++s)
    for (uint32_t other : setting.behind(s, false))
      for (uint32_t m = 0; m < setting.microbatches; ++m)
        if ((setting.device(s, m) == a && setting.device(other, m) == b) ||
            (setting.device(s, m) == b && setting.device(other, m) == a))
          return false;
  if (microbatches(a, edge.from, false) != microbatches(b, edge.to, false) ||
      microbatches(a, edge.from, true) != microbatches(b, edge.to, true))
    return false;
  write(a, edge.from, edge.to, false, Word::SendActivation);
  write(b, edge.to, edge.from, false, Word::RecvActivation);
  if (edge.hasGradient) {
    write(b, edge.to, edge.from, true, Word::SendGradient);
    write(a, edge.from, edge.to, true, Word::RecvGradient);
  }
  return true;
}

/// Neighbouring sends and receives posted together.
void Variation::groupMessages() {
  note("groups");
  for (std::vector<Block> &ops : blocks)
    for (size_t at = 0; at + 1 < ops.size();) {
      const Statement &a = ops[at].back(), &b = ops[at + 1].front();
      const bool joins =
          a.isMessage() && b.isMessage() && a.prefix == Prefix::None && b.prefix == Prefix::None;
      if (!joins || random.chance(40)) {
        ++at;
        continue;
      }
      ops[at].insert(ops[at].end(), ops[at + 1].begin(), ops[at + 1].end());
      ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(at + 1));
    }
}

/// Receives that are started earlier among ops that are no messages, sends that are waited for at the end.
void Variation::startMessages() {
  note("started messages");
  for (uint32_t device = 0; device < setting.devices; ++device) {
    std::vector<Statement> waits;
    for (size_t at = 0; at < blocks[device].size(); ++at) {
      const Statement op = blocks[device][at][0];
      if (blocks[device][at].size() > 1 || !op.isMessage() || op.prefix != Prefix::None || random.chance(40))
        continue;
      blocks[device][at][0].prefix = Prefix::Start;
      if (op.isSend()) {
        // An output is dropped only when it has left.
        const size_t drop = find(
            device,
            [&](const Statement &later) {
              return later.word == Word::Drop && later.stage == op.stage && later.microbatch == op.microbatch;
            },
            at + 1);
        if (drop < blocks[device].size())
          insert(device, drop, prefixed(op, Prefix::Wait));
        else
          waits.push_back(prefixed(op, Prefix::Wait));
        continue;
      }
      insert(device, at + 1, prefixed(op, Prefix::Wait));
      size_t to = at;
      while (to > 0 && !blocks[device][to - 1][0].isMessage() && random.chance(70))
        --to;
      std::rotate(blocks[device].begin() + static_cast<std::ptrdiff_t>(to),
                  blocks[device].begin() + static_cast<std::ptrdiff_t>(at),
                  blocks[device].begin() + static_cast<std::ptrdiff_t>(at + 1));
      ++at;
    }
    for (const Statement &wait : waits)
      insert(device, blocks[device].size(), wait);
  }
}

} // namespace sluice::machine
