#include "StepVariation.h"

#include "StepGradients.h"

namespace sluice::machine {

Blocks blocksOf(const StepProgram &program) {
  Blocks blocks(program.devices.size());
  for (size_t device = 0; device < blocks.size(); ++device)
    for (const Statement &op : program.devices[device]) {
      if (!op.follows)
        blocks[device].emplace_back();
      blocks[device].back().push_back(op);
    }
  return blocks;
}

void setBlocks(StepProgram &program, const Blocks &blocks) {
  for (size_t device = 0; device < blocks.size(); ++device) {
    program.devices[device].clear();
    for (const Block &block : blocks[device])
      for (size_t i = 0; i < block.size(); ++i) {
        program.devices[device].push_back(block[i]);
        program.devices[device].back().follows = i > 0;
      }
  }
}

static Predicate is(Word word, uint32_t stage) {
  return [=](const Statement &op) { return op.word == word && op.stage == stage; };
}
static Predicate isAny(std::initializer_list<Word> words) {
  return [set = std::vector<Word>(words)](const Statement &op) {
    return std::find(set.begin(), set.end(), op.word) != set.end();
  };
}
static const Predicate isUpdate = [](const Statement &op) { return op.word == Word::Update; };
static const Predicate isReduce = [](const Statement &op) { return op.word == Word::Reduce; };

static Predicate isContribution(uint32_t stage) {
  return [=](const Statement &op) { return op.contributes() && op.stage == stage; };
}

void Variation::chooseReplicas() {
  bool isReduced = true, isAny = false;
  forCopies([&](uint32_t device, uint32_t stage) {
    const bool found = find(device, is(Word::Reduce, stage)) < blocks[device].size();
    isReduced &= found;
    isAny |= found;
  });
  if (!isReduced)
    return;
  setting.replicas.reset();
  if (const uint32_t replicas = random.below(4); replicas > 0)
    setting.replicas = replicas;
}

/// The weight half somewhere behind, before the accumulator is read.
void Variation::splitBackwards() {
  note("split backwards");
  for (uint32_t device = 0; device < setting.devices; ++device)
    for (size_t at = 0; at < blocks[device].size(); ++at) {
      if (blocks[device][at].size() > 1 || blocks[device][at][0].word != Word::Backward || random.chance(30))
        continue;
      Statement &whole = blocks[device][at][0];
      whole.word = Word::BackwardInput;
      const Statement half = pairOp(Word::BackwardWeight, whole);
      const size_t end = find(device, [&](const Statement &op) { return !op.hasMicrobatch(); }, at + 1);
      insert(device, at + 1 + random.below(static_cast<uint32_t>(end - at)), half);
    }
}

/// Recomputed, dropped and recomputed, or parked on the host.
void Variation::keepLess() {
  note("activations that are recomputed or parked");
  for (uint32_t device = 0; device < setting.devices; ++device)
    for (size_t at = 0; at < blocks[device].size(); ++at) {
      if (blocks[device][at].size() > 1)
        continue;
      Statement &forward = blocks[device][at][0];
      if (forward.word != Word::Forward || forward.kept != Kept::All || random.chance(60))
        continue;
      const Statement pair = forward;
      auto isOfPair = [&](const Statement &op) {
        return op.stage == pair.stage && op.microbatch == pair.microbatch;
      };
      auto touches = [&](const Statement &op) { return isOfPair(op) && !op.isMessage(); };
      const size_t use = find(device, touches, at + 1);
      const uint32_t way = random.below(4);
      if (use == blocks[device].size() || blocks[device][use][0].word == Word::Recompute)
        continue;
      if (way == 0) {
        forward.kept = Kept::Input;
        insert(device, use, pairOp(Word::Recompute, pair));
      } else if (way == 1) {
        insert(device, use, pairOp(Word::Recompute, pair));
        Statement drop = pairOp(Word::Drop, pair);
        drop.kept = Kept::Input;
        insert(device, at + 1, drop);
      } else if (way == 2) {
        insert(device, use, pairOp(Word::Reload, pair));
        insert(device, at + 1, pairOp(Word::Offload, pair));
      } else {
        const size_t back = at + 1 + random.below(static_cast<uint32_t>(use - at));
        insert(device, use, pairOp(Word::Reload, pair, Prefix::Wait));
        insert(device, back, pairOp(Word::Reload, pair, Prefix::Start));
        insert(device, back, pairOp(Word::Offload, pair, Prefix::Wait));
        insert(device, at + 1, pairOp(Word::Offload, pair, Prefix::Start));
      }
    }
}

/// Two stages share a weight; where they live on several devices their gradients are added up.
void Variation::tie() {
  const uint32_t a = random.below(setting.stages), b = random.below(setting.stages);
  if (a >= b || setting.devicesOf(a).size() > 1 || setting.devicesOf(b).size() > 1)
    return;
  // Reductions that stand among the backwards leave no one place for the tied one.
  for (uint32_t device = 0; device < setting.devices; ++device)
    if (find(device, isReduce) < behindLast(device, [](const Statement &op) { return op.contributes(); }))
      return;
  setting.ties.push_back({"embedding", {a, b}});
  note("tied stages");
  if (setting.onlyDevice(setting.ties.back()))
    return;
  // Before all scales and reductions, or behind the last reduction: shares are added in one unit.
  const bool isFirst = setting.isReducedSharded || !has(isReduce) || random.chance(50);
  for (uint32_t device : setting.devicesOf(setting.ties.back())) {
    const size_t first = find(device, isAny({Word::Scale, Word::Reduce, Word::Update}));
    insert(device, isFirst ? first : behindLast(device, isReduce), stageOp(Word::ReduceTied, 0));
  }
}

/// What the loss is and who applies its factor.
void Variation::chooseLoss() {
  setting.loss = static_cast<Loss>(random.below(4));
  setting.isMicrobatchLossSum = random.chance(50);
  const bool isUneven = random.chance(40);
  const bool byTokens = setting.loss == Loss::MeanOverTokens;
  for (uint32_t m = 0; m < setting.microbatches / setting.splits; ++m)
    (byTokens ? setting.tokens : setting.samples).push_back(isUneven ? 1 + random.below(4) : 2);
  setting.isReductionMean = setting.replicas && random.chance(30);
  setting.isReducedSharded = random.chance(30);
  setting.isReducedCopied = setting.isReducedSharded && random.chance(50);
  setting.scale = static_cast<ScalePoint>(random.below(4));
  auto ratio = [&](uint32_t m) { return *divide(wanted(setting, m), own(setting, m)); };
  bool isOne = true;
  for (uint32_t m = 0; m < setting.microbatches; ++m)
    isOne &= ratio(m) == ratio(0);
  if (!isOne && setting.scale != ScalePoint::AtLoss)
    setting.scale = ScalePoint::InProgram;
  // A mean over replicas divides once more.
  Rational rest =
      setting.isReductionMean && has(isReduce) ? Rational(setting.replicas.value_or(1)) : Rational(1);
  if (setting.scale == ScalePoint::InProgram) {
    note("scales in the program");
    if (isOne && random.chance(50))
      rest = times(rest, ratio(0));
    else
      scaleBackwards();
  }
  if (!(rest == Rational(1)))
    scaleAccumulators(rest);
}

/// From the last stage down: a contribution is scaled where its gradient is not yet; what is passed on may
/// be.
void Variation::scaleBackwards() {
  std::vector<std::vector<bool>> isScaled(setting.stages, std::vector<bool>(setting.microbatches));
  for (uint32_t stage = setting.stages; stage-- > 0;)
    for (uint32_t m = 0; m < setting.microbatches; ++m) {
      const Rational factor = *divide(wanted(setting, m), own(setting, m));
      const bool arrives = stage + 1 < setting.stages && isScaled[stage + 1][m];
      isScaled[stage][m] = arrives;
      const bool passes = !arrives && (random.chance(60) || !setting.skips.empty());
      for (auto &block : blocks[setting.device(stage, m)])
        for (Statement &op : block) {
          if (op.stage != stage || op.microbatch != m || arrives)
            continue;
          if (op.contributes() || (op.word == Word::BackwardInput && passes))
            op.factor = factor;
          isScaled[stage][m] =
              isScaled[stage][m] || op.word == Word::Backward || (op.word == Word::BackwardInput && passes);
        }
    }
}

void Variation::scaleAccumulators(const Rational &factor) {
  note("scaled accumulators");
  const bool isLate = random.chance(50) && !setting.isReducedCopied;
  forCopies([&](uint32_t device, uint32_t stage) {
    Statement op = stageOp(Word::Scale, stage);
    op.factor = factor;
    size_t at = find(device, is(isLate ? Word::Update : Word::Reduce, stage));
    if (at == blocks[device].size())
      at = find(device, is(Word::Update, stage));
    insert(device, at, op);
  });
}

/// `zero` at the beginning or behind the update, or a first contribution that overwrites.
void Variation::clearGradients() {
  const bool isShared = !setting.ties.empty() && setting.onlyDevice(setting.ties.front());
  const uint32_t way = random.below(isShared ? 2 : 3);
  note(way < 2 ? "zero" : "overwriting contributions");
  forCopies([&](uint32_t device, uint32_t stage) {
    if (way == 0)
      insert(device, 0, stageOp(Word::Zero, stage));
    else if (way == 1)
      insert(device, std::min(blocks[device].size(), find(device, is(Word::Update, stage)) + 1),
             stageOp(Word::Zero, stage));
    else if (size_t at = find(device, isContribution(stage)); at < blocks[device].size())
      std::find_if(blocks[device][at].begin(), blocks[device][at].end(), isContribution(stage))->overwrite =
          true;
  });
}

void Variation::addNorm() {
  const bool isLocal = setting.devices == 1 && !setting.isReducedSharded && random.chance(50);
  for (uint32_t device = 0; device < setting.devices; ++device) {
    const size_t first = find(device, isUpdate);
    const size_t last = behindLast(device, isAny({Word::Reduce, Word::ReduceTied, Word::Scale}));
    if (first < last || first == blocks[device].size())
      return;
  }
  note("a norm");
  for (uint32_t device = 0; device < setting.devices; ++device) {
    Statement op = stageOp(Word::Norm, 0);
    op.local = isLocal;
    insert(device, find(device, isUpdate), op);
  }
}

static Predicate usesWeights(uint32_t stage) {
  return [=](const Statement &op) {
    return op.isCompute() && op.word != Word::BackwardWeight && op.stage == stage;
  };
}

/// Weights that are gathered: for the step, for its ops, or for each of them.
void Variation::shard() {
  note("gathered weights");
  setting.isReshardedAfterReduce = random.chance(20);
  std::vector<bool> isGathered;
  for (uint32_t stage = 0; stage < setting.stages; ++stage)
    isGathered.push_back(random.chance(75));
  forCopies([&](uint32_t device, uint32_t stage) {
    const uint32_t way = 1 + random.below(3);
    const size_t first = find(device, usesWeights(stage));
    if (!isGathered[stage] || first == blocks[device].size())
      return;
    const Statement gather = stageOp(Word::Unshard, stage), leave = stageOp(Word::Reshard, stage);
    if (way == 3) {
      for (size_t at = first; at < blocks[device].size(); at = find(device, usesWeights(stage), at + 2)) {
        insert(device, at + 1, leave);
        insert(device, at++, gather);
      }
      return;
    }
    if (way == 2)
      insert(device, behindLast(device, usesWeights(stage)), leave);
    if (random.chance(40)) {
      insert(device, first, prefixed(gather, Prefix::Wait));
      insert(device, random.below(static_cast<uint32_t>(first + 1)), prefixed(gather, Prefix::Start));
    } else
      insert(device, random.below(static_cast<uint32_t>(first + 1)), gather);
  });
}

/// The wait stands before whatever touches one of the accumulators next.
void Variation::startReductions() {
  note("started reductions");
  for (uint32_t device = 0; device < setting.devices; ++device)
    for (size_t at = 0; at < blocks[device].size(); ++at) {
      const Statement op = blocks[device][at][0];
      const bool isTied = op.word == Word::ReduceTied;
      if ((op.word != Word::Reduce && !isTied) || op.prefix != Prefix::None || random.chance(30))
        continue;
      const std::vector<uint32_t> stages = isTied ? setting.ties[op.stage].stages : std::vector{op.stage};
      auto touches = [&](const Statement &later) {
        const bool isOne = std::find(stages.begin(), stages.end(), later.stage) != stages.end();
        const bool isOfStage =
            isOne && (later.contributes() || (later.word >= Word::Zero && later.word <= Word::Update));
        return isOfStage || later.word == Word::ReduceTied || later.word == Word::Norm;
      };
      const size_t end = find(device, touches, at + 1);
      blocks[device][at][0].prefix = Prefix::Start;
      insert(device, end, prefixed(op, Prefix::Wait));
    }
}

/// Asynchronous training over replicas, and with other rules of which version a backward reads.
void Variation::changeAsynchronous() {
  if (!has(isReduce) && random.chance(50)) {
    note("replicas");
    setting.replicas = 1 + random.below(3);
    for (uint32_t device = 0; device < setting.devices; ++device)
      for (size_t at = 0; at < blocks[device].size(); ++at)
        if (const Statement op = blocks[device][at][0]; op.word == Word::Update)
          insert(device, at++, stageOp(Word::Reduce, op.stage));
  }
  const bool namesVersions = has([](const Statement &op) { return op.version.has_value(); });
  if (namesVersions || random.chance(60))
    return;
  setting.versions = random.chance(50) ? Read::Newest : Read::Queued;
  setting.mostVersions = 0;
  note("other versions");
}

/// Forwards alone, which keep nothing or drop it.
void Variation::evaluate() {
  setting.isEvaluation = true;
  note("evaluation");
  for (std::vector<Block> &ops : blocks) {
    for (Block &block : ops)
      std::erase_if(block, [](const Statement &op) {
        return op.word != Word::Forward && op.word != Word::SendActivation && op.word != Word::RecvActivation;
      });
    std::erase_if(ops, [](const Block &block) { return block.empty(); });
    for (size_t at = 0; at < ops.size(); ++at) {
      if (ops[at][0].word != Word::Forward)
        continue;
      for (Statement &op : ops[at])
        op.kept = Kept::Nothing;
      if (ops[at].size() > 1 || random.chance(70))
        continue;
      ops[at][0].kept = Kept::All;
      ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(at + 1), Block{pairOp(Word::Drop, ops[at][0])});
    }
  }
}

StepProgram vary(StepProgram legal, Random &random, std::string &what) {
  Variation v{legal, random, what};
  if (!v.setting.isAsynchronous && random.chance(4)) {
    v.evaluate();
    v.finish();
    return legal;
  }
  v.chooseReplicas();
  if (random.chance(30))
    v.splitBackwards();
  if (random.chance(30))
    v.keepLess();
  if (v.setting.isAsynchronous) {
    v.changeAsynchronous();
    if (random.chance(30))
      v.startReductions();
    v.finish();
    return legal;
  }
  if (random.chance(15))
    v.skip();
  if (random.chance(50))
    v.chooseLoss();
  if (random.chance(25))
    v.tie();
  if (random.chance(30))
    v.clearGradients();
  if (random.chance(25))
    v.addNorm();
  if (random.chance(30))
    v.shard();
  if (random.chance(30))
    v.startReductions();
  if (v.setting.isExplicit && random.chance(30))
    v.groupMessages();
  if (v.setting.isExplicit && random.chance(50))
    v.startMessages();
  v.finish();
  return legal;
}

} // namespace sluice::machine
