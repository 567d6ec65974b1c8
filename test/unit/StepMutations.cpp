#include "StepVariants.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::machine {

namespace {

/// One mistake somewhere in a program. Each way returns what it did, or nothing if it found no place.
struct Mistake {
  StepProgram &program;
  Random &random;
  Setting &setting = program.setting;
  Blocks blocks = blocksOf(program);
  uint32_t device = random.below(setting.devices);
  std::vector<Block> &ops = blocks[device];

  size_t below(size_t bound) { return random.below(static_cast<uint32_t>(bound)); }
  auto place(size_t at) { return ops.begin() + static_cast<std::ptrdiff_t>(at); }
  std::string text(const Block &block) const {
    std::string all;
    for (const Statement &op : block)
      all += (all.empty() ? "" : " ") + str(op);
    return all;
  }
  /// A random place of a block for which `is` holds of one op; the size if there is none.
  template <typename Predicate> size_t pick(Predicate is) {
    std::vector<size_t> places;
    for (size_t at = 0; at < ops.size(); ++at)
      if (std::any_of(ops[at].begin(), ops[at].end(), is))
        places.push_back(at);
    return places.empty() ? ops.size() : places[below(places.size())];
  }

  std::string swapNeighbours();
  std::string swapAny();
  std::string lose();
  std::string lose(size_t at, const char *how);
  std::string repeat();
  std::string retarget();
  std::string moveToDevice();
  std::string freeEarly();
  std::string moveTail();
  std::string changeFactor();
  std::string changePrefix();
  std::string changeWeights();
  std::string changeWord();
  std::string joinOrPart();
  std::string changeSetting();
  std::string once();
};

} // namespace

std::string Mistake::swapNeighbours() {
  if (ops.size() < 2)
    return "";
  const size_t at = below(ops.size() - 1);
  std::swap(ops[at], ops[at + 1]);
  return fmt::format("swapped {} and {}", text(ops[at + 1]), text(ops[at]));
}

std::string Mistake::swapAny() {
  const size_t a = below(ops.size()), b = below(ops.size());
  std::swap(ops[a], ops[b]);
  return fmt::format("exchanged {} and {}", text(ops[a]), text(ops[b]));
}

std::string Mistake::lose(size_t at, const char *how) {
  if (at == ops.size())
    return "";
  Block &block = ops[at];
  const size_t member = below(block.size());
  const std::string what = fmt::format("{} {}", how, str(block[member]));
  block.erase(block.begin() + static_cast<std::ptrdiff_t>(member));
  if (block.empty())
    ops.erase(place(at));
  return what;
}

std::string Mistake::lose() { return lose(below(ops.size()), "lost"); }

std::string Mistake::repeat() {
  const Block again = ops[below(ops.size())];
  const size_t at = below(ops.size() + 1);
  ops.insert(place(at), again);
  return fmt::format("repeated {} at {}", text(again), at);
}

/// Another microbatch, another stage, another neighbour.
std::string Mistake::retarget() {
  Block &block = ops[below(ops.size())];
  Statement &op = block[below(block.size())];
  if (op.word == Word::Norm || op.word == Word::ReduceTied)
    return "";
  const Statement before = op;
  if (op.hasMicrobatch() && random.chance(60))
    op.microbatch = random.below(setting.microbatches);
  else if (op.version)
    op.version = random.below(4);
  else
    op.stage = random.below(setting.stages);
  // A message that named its neighbour names the one of another stage no longer.
  op.neighbour.reset();
  return op == before ? "" : fmt::format("{} became {}", str(before), str(op));
}

std::string Mistake::moveToDevice() {
  const size_t from = below(ops.size());
  const Block moved = ops[from];
  const uint32_t to = random.below(setting.devices);
  ops.erase(place(from));
  std::vector<Block> &theirs = blocks[to];
  theirs.insert(theirs.begin() + static_cast<std::ptrdiff_t>(below(theirs.size() + 1)), moved);
  return fmt::format("gave {} to device {}", text(moved), to);
}

/// A drop or an offload somewhere behind a forward.
std::string Mistake::freeEarly() {
  const size_t at = pick([](const Statement &op) { return op.word == Word::Forward; });
  if (at == ops.size())
    return "";
  Statement op = ops[at].front();
  op.word = random.chance(60) ? Word::Drop : Word::Offload;
  op.kept = op.word == Word::Drop && random.chance(50) ? Kept::Input : Kept::Nothing;
  if (op.word == Word::Offload)
    op.kept = Kept::All;
  op.version.reset();
  op.follows = false;
  const size_t to = at + 1 + below(ops.size() - at);
  ops.insert(place(to), Block{op});
  return fmt::format("added {} at {}", str(op), to);
}

/// What stands around the backwards stands somewhere else.
std::string Mistake::moveTail() {
  const size_t from = pick([](const Statement &op) { return !op.hasMicrobatch(); });
  if (from == ops.size())
    return "";
  const Block moved = ops[from];
  ops.erase(place(from));
  const size_t to =
      random.chance(50) ? below(ops.size() + 1) : std::min(ops.size(), below(4) + (from > 2 ? from - 2 : 0));
  ops.insert(place(to), moved);
  return fmt::format("moved {} from {} to {}", text(moved), from, to);
}

std::string Mistake::changeFactor() {
  const size_t scaled = pick([](const Statement &op) { return op.factor.has_value(); });
  const bool adds = scaled == ops.size() || random.chance(20);
  const size_t at =
      adds ? pick([](const Statement &op) { return op.contributes() || op.word == Word::BackwardInput; })
           : scaled;
  if (at == ops.size())
    return "";
  for (Statement &op : ops[at]) {
    if (adds ? !(op.contributes() || op.word == Word::BackwardInput) : !op.factor)
      continue;
    const Statement before = op;
    if (adds)
      op.factor = *multiply(op.factor.value_or(1), *Rational::make(1 + random.below(2), 2));
    else if (op.word == Word::Scale && random.chance(40))
      return lose(at, "lost");
    else if (op.word == Word::Scale || random.chance(40))
      op.factor = *multiply(*op.factor, *Rational::make(1, 2));
    else
      op.factor.reset();
    return fmt::format("{} became {}", str(before), str(op));
  }
  return "";
}

std::string Mistake::changePrefix() {
  const size_t at = pick([](const Statement &op) { return op.prefix != Prefix::None; });
  if (at == ops.size())
    return "";
  if (random.chance(50))
    return lose(at, "lost");
  const Block moved = ops[at];
  ops.erase(place(at));
  const size_t to = below(ops.size() + 1);
  ops.insert(place(to), moved);
  return fmt::format("moved {} from {} to {}", text(moved), at, to);
}

std::string Mistake::changeWeights() {
  const size_t at =
      pick([](const Statement &op) { return op.word == Word::Unshard || op.word == Word::Reshard; });
  if (at == ops.size())
    return "";
  if (random.chance(40))
    return lose(at, "lost");
  Block again = ops[at];
  if (again.front().prefix == Prefix::None && random.chance(50))
    again.front().word = again.front().word == Word::Unshard ? Word::Reshard : Word::Unshard;
  const size_t to = below(ops.size() + 1);
  ops.insert(place(to), again);
  return fmt::format("added {} at {}", text(again), to);
}

std::string Mistake::changeWord() {
  Block &block = ops[below(ops.size())];
  Statement &op = block[below(block.size())];
  const Statement before = op;
  switch (op.word) {
  case Word::Backward:
    op.word = random.chance(50) ? Word::BackwardInput : Word::BackwardWeight;
    op.overwrite = op.overwrite && op.word == Word::BackwardWeight;
    break;
  case Word::BackwardInput:
    op.word = random.chance(50) ? Word::Backward : Word::BackwardWeight;
    break;
  case Word::BackwardWeight:
    op.word = random.chance(50) ? Word::Backward : Word::BackwardInput;
    op.overwrite = op.overwrite && op.word == Word::Backward;
    break;
  case Word::Forward:
  case Word::Drop:
    if (op.word == Word::Drop)
      op.kept = op.kept == Kept::Input ? Kept::Nothing : Kept::Input;
    else
      op.kept = static_cast<Kept>(random.below(3));
    break;
  case Word::Reduce:
    op.word = Word::Update;
    op.prefix = Prefix::None;
    break;
  case Word::Update:
    op.word = random.chance(50) ? Word::Reduce : Word::Zero;
    break;
  case Word::Norm:
    op.local = !op.local;
    break;
  default:
    return "";
  }
  return op == before ? "" : fmt::format("{} became {}", str(before), str(op));
}

/// Neighbours in one overlap or group, or the members of one apart.
std::string Mistake::joinOrPart() {
  const size_t at = below(ops.size());
  if (ops[at].size() > 1) {
    const Block parted = ops[at];
    ops.erase(place(at));
    for (const Statement &op : parted)
      ops.insert(place(at), Block{op});
    return "parted " + text(parted);
  }
  if (at + 1 == ops.size())
    return "";
  const Statement &a = ops[at].back(), &b = ops[at + 1].front();
  const bool isOverlap = a.isCompute() && b.isCompute();
  const bool isGroup = a.isMessage() && b.isMessage() && a.prefix == Prefix::None && b.prefix == Prefix::None;
  if (!isOverlap && !isGroup)
    return "";
  ops[at].insert(ops[at].end(), ops[at + 1].begin(), ops[at + 1].end());
  ops.erase(place(at + 1));
  return "joined " + text(ops[at]);
}

/// The program stays, but the file says something else of it. Where copies each scale an accumulator of their
/// own before it is reduced, the definition does not say whether one factor has to serve all.
std::string Mistake::changeSetting() {
  for (uint32_t stage = 0; stage < setting.stages; ++stage)
    if (setting.devicesOf(stage).size() > 1)
      return "";
  switch (random.below(6)) {
  case 0:
    setting.replicas = 1 + random.below(3);
    return fmt::format("replicas became {}", *setting.replicas);
  case 1:
    if (setting.loss == Loss::MeanOverTokens)
      return "";
    setting.loss = random.chance(50) ? Loss::MeanOverMicrobatches : Loss::Sum;
    return "another loss";
  case 2:
    if (setting.isAsynchronous)
      return "";
    setting.scale = static_cast<ScalePoint>(random.below(4));
    return "another place of the loss's factor";
  case 3:
    if (!setting.replicas)
      return "";
    setting.isReductionMean = !setting.isReductionMean;
    return "mean and sum exchanged";
  case 4:
    if (!setting.stalenessBound || *setting.stalenessBound == 0)
      return "";
    --*setting.stalenessBound;
    return "a smaller staleness";
  default:
    if (!setting.isAsynchronous)
      return "";
    setting.versions = Read::Stashed;
    setting.mostVersions = 1 + random.below(3);
    return "fewer versions";
  }
}

std::string Mistake::once() {
  if (ops.empty())
    return "";
  switch (random.below(17)) {
  case 0:
    return swapNeighbours();
  case 1:
    return swapAny();
  case 2:
  case 3:
    return lose();
  case 4:
    return repeat();
  case 5:
    return retarget();
  case 6:
    return moveToDevice();
  case 7:
    return freeEarly();
  case 8:
  case 9:
    return moveTail();
  case 10:
    return changeFactor();
  case 11:
    return changePrefix();
  case 12:
    return changeWeights();
  case 13:
    return joinOrPart();
  case 15:
    return random.chance(30) ? changeSetting() : "";
  case 14:
    return lose(pick([](const Statement &op) { return !op.hasMicrobatch(); }), "lost");
  default:
    return changeWord();
  }
}

StepProgram mutate(StepProgram legal, Random &random, std::string &what) {
  for (;;) {
    StepProgram mutant = legal;
    Mistake mistake{mutant, random};
    what = mistake.once();
    if (what.empty())
      continue;
    setBlocks(mutant, mistake.blocks);
    return mutant;
  }
}

} // namespace sluice::machine
