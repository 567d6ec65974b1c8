#include "StepGradients.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::machine {

Rational times(const Rational &a, const Rational &b) { return *multiply(a, b); }
Rational plus(const Rational &a, const Rational &b) { return *sluice::add(a, b); }

Gradients::Gradients(const StepProgram &program, std::vector<Wrong> &wrongs)
    : program(program), setting(program.setting), wrongs(wrongs), deviceSteps(setting.devices) {
  bool reduces = false;
  for (const std::vector<Statement> &device : program.devices)
    for (const Statement &op : device) {
      reduces |= op.word == Word::Reduce;
      hasUpdates |= op.word == Word::Update;
      hasZero |= op.word == Word::Zero || op.overwrite;
    }
  // A width that is not said is some width above one as soon as anything is reduced.
  replicas_ = setting.replicas ? static_cast<uint32_t>(*setting.replicas) : reduces ? 2 : 1;
  for (uint32_t stage = 0; stage < setting.stages; ++stage)
    for (uint32_t device : setting.devicesOf(stage))
      copies[{device, stage}].replicas.resize(replicas_);
}

void Gradients::wrong(unsigned family, unsigned other, uint32_t device, uint32_t step, std::string what) {
  wrongs.push_back({family, other, device, step, std::move(what)});
}

/// Samples, or tokens where those are counted.
static int64_t sizeOf(const Setting &setting, uint32_t microbatch) {
  const bool byTokens = setting.loss == Loss::MeanOverTokens;
  const std::vector<int64_t> &sizes = byTokens ? setting.tokens : setting.samples;
  return sizes.empty() ? 1 : sizes[setting.whole(microbatch)];
}

Rational wanted(const Setting &setting, uint32_t microbatch) {
  const int64_t R = setting.replicas.value_or(1), count = setting.microbatches / setting.splits;
  int64_t sum = 0;
  for (uint32_t m = 0; m < setting.microbatches; m += setting.splits)
    sum += sizeOf(setting, m);
  switch (setting.loss) {
  case Loss::MeanOverSamples:
  case Loss::MeanOverTokens:
    return *Rational::make(1, R * sum);
  case Loss::MeanOverMicrobatches:
    return *Rational::make(1, R * count * sizeOf(setting, microbatch));
  case Loss::Sum:
    break;
  }
  return 1;
}

Rational own(const Setting &setting, uint32_t microbatch) {
  if (setting.scale == ScalePoint::AtLoss)
    return wanted(setting, microbatch);
  return setting.isMicrobatchLossSum ? Rational(1) : *Rational::make(1, sizeOf(setting, microbatch));
}

int64_t Gradients::members(uint32_t stage) const {
  return replicas_ * static_cast<int64_t>(setting.devicesOf(stage).size());
}

std::vector<Gradients::Copy *> Gradients::copiesOf(uint32_t stage) {
  std::vector<Copy *> found;
  for (uint32_t device : setting.devicesOf(stage))
    found.push_back(&copy(device, stage));
  return found;
}

/// Something reads or writes the accumulator of a copy.
void Gradients::touch(uint32_t device, uint32_t step, uint32_t stage, const std::string &who) {
  if (copy(device, stage).inFlight > 0)
    wrong(device, step, who + " touches a gradient in flight");
}

void Gradients::clear(Copy &copy) {
  for (Accumulator &accumulator : copy.replicas)
    accumulator = {};
}

void Gradients::add(uint32_t device, uint32_t step, uint32_t stage, uint32_t weight, const Statement &op,
                    Entry entry) {
  Copy &held = copy(device, stage);
  touch(device, step, stage, str(op));
  if (held.isReduced && members(stage) > 1 && !setting.isAsynchronous)
    wrong(device, step, str(op) + " comes after the reduction of its step");
  if (held.isEmptied && weight == 0)
    wrong(device, step, str(op) + " comes after its step's gradient was discarded");
  if (weight > 0 && held.isTiedReduced)
    wrong(5, 6, device, step, str(op) + " comes after the tied reduction of its step");
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    auto [found, isNew] =
        held.replicas[replica].weights[weight].try_emplace({step, replica, op.stage, op.microbatch}, entry);
    if (isNew)
      continue;
    found->second.factor = plus(found->second.factor, entry.factor);
    ++found->second.count;
  }
}

void Gradients::contribute(uint32_t device, uint32_t step, const Statement &op, const Rational &factor,
                           uint32_t version) {
  if (op.overwrite)
    zero(device, step, op.stage);
  Entry entry;
  entry.factor = factor;
  entry.version = version;
  add(device, step, op.stage, 0, op, entry);
  for (uint32_t tie = 0; tie < setting.ties.size(); ++tie) {
    const Tie &tied = setting.ties[tie];
    if (std::find(tied.stages.begin(), tied.stages.end(), op.stage) == tied.stages.end())
      continue;
    // A weight that exists once on one device adds up at the first stage named.
    add(device, step, setting.onlyDevice(tied) ? tied.stages.front() : op.stage, 1 + tie, op, entry);
  }
  if (deviceSteps[device].isNormed)
    wrong(device, step, str(op) + " comes after the norm of its step");
}

void Gradients::zero(uint32_t device, uint32_t step, uint32_t stage) {
  touch(device, step, stage, fmt::format("zero({})", stage));
  Copy &held = copy(device, stage);
  if (!hasUpdates) {
    checkCoverage(device, step, stage);
    for (const auto &[key, entry] : held.replicas.front().weights[0])
      held.isEmptied |= key.step == step;
  }
  for (const auto &[weight, gradient] : held.replicas.front().weights)
    for (const auto &[key, entry] : gradient)
      if (!entry.isUsed && hasUpdates) {
        wrong(device, step, fmt::format("zero({}) discards what no update has used", stage));
        clear(held);
        return;
      }
  clear(held);
}

void Gradients::scale(uint32_t device, uint32_t step, const Statement &op) {
  touch(device, step, op.stage, str(op));
  for (Accumulator &accumulator : copy(device, op.stage).replicas)
    for (auto &[weight, gradient] : accumulator.weights)
      for (auto &[key, entry] : gradient)
        entry.factor = times(entry.factor, *op.factor);
}

void Gradients::post(uint32_t device, uint32_t step, const Statement &op) {
  DeviceStep &here = deviceSteps[device];
  if (op.word == Word::Norm) {
    for (uint32_t stage = 0; stage < setting.stages; ++stage)
      if (setting.isOn(stage, device))
        touch(device, step, stage, "norm");
    if (here.isUpdated)
      wrong(device, step, "a norm comes after an update");
    here.isNormed = true;
    here.isNormedLocally |= op.local;
    return;
  }
  if (here.isNormed && (op.word == Word::ReduceTied || members(op.stage) > 1))
    wrong(device, step, str(op) + " comes after the norm of its step");
  std::vector<uint32_t> stages = {op.stage};
  if (op.word == Word::ReduceTied)
    stages = setting.ties[op.stage].stages;
  for (uint32_t stage : stages)
    if (setting.isOn(stage, device)) {
      touch(device, step, stage, str(op));
      Copy &held = copy(device, stage);
      held.inFlight += op.prefix == Prefix::Start;
      (op.word == Word::Reduce ? held.isReduced : held.isTiedReduced) = true;
    }
}

void Gradients::wait(uint32_t device, const Statement &op) {
  std::vector<uint32_t> stages = {op.stage};
  if (op.word == Word::ReduceTied)
    stages = setting.ties[op.stage].stages;
  for (uint32_t stage : stages)
    if (setting.isOn(stage, device))
      --copy(device, stage).inFlight;
}

/// Where the executor itself makes the declared loss of the microbatches' own.
void Gradients::applyFactor(Accumulator &accumulator, uint32_t device, uint32_t step, uint32_t stage) {
  if (accumulator.isFactored || setting.isAsynchronous)
    return;
  std::optional<Rational> common;
  for (auto &[weight, gradient] : accumulator.weights)
    for (auto &[key, entry] : gradient) {
      const Rational factor = *divide(target(key.microbatch), own(setting, key.microbatch));
      if (common && !(*common == factor) && hasUpdates)
        wrong(device, step, fmt::format("no one factor serves the microbatches of stage {}", stage));
      common = factor;
    }
  if (!common)
    return; // nothing is in there
  for (auto &[weight, gradient] : accumulator.weights)
    for (auto &[key, entry] : gradient)
      entry.factor = times(entry.factor, *common);
  accumulator.isFactored = true;
}

void Gradients::reduce(uint32_t stage) {
  const std::vector<Copy *> held = copiesOf(stage);
  if (members(stage) == 1)
    return; // the identity, which may as well be left out
  const uint32_t device = setting.devicesOf(stage).front();
  std::map<uint32_t, Gradient> total;
  for (Copy *copy : held)
    for (uint32_t replica = 0; replica < replicas_; ++replica) {
      Accumulator &accumulator = copy->replicas[replica];
      if (setting.scale == ScalePoint::AtAccumulator)
        applyFactor(accumulator, device, 0, stage);
      for (const auto &[weight, gradient] : accumulator.weights)
        for (const auto &[key, entry] : gradient) {
          auto [found, isNew] = total[weight].try_emplace(key, entry);
          if (isNew)
            continue;
          found->second.factor = plus(found->second.factor, entry.factor);
          found->second.isUsed |= entry.isUsed;
          // The mean of what all replicas hold alike is what they hold: once more changes nothing.
          if (!setting.isReductionMean || copy != held.front())
            found->second.count += entry.count;
        }
    }
  for (auto &[weight, gradient] : total)
    for (auto &[key, entry] : gradient) {
      entry.isReduced = true;
      if (setting.isReductionMean)
        entry.factor = times(entry.factor, *Rational::make(1, setting.replicas.value_or(1)));
    }
  for (Copy *copy : held)
    for (Accumulator &accumulator : copy->replicas) {
      accumulator.weights = total;
      accumulator.isSharded = setting.isReducedSharded;
      if (setting.scale == ScalePoint::AtReduced)
        applyFactor(accumulator, device, 0, stage);
      if (setting.isReducedCopied)
        accumulator.copied = accumulator.weights;
    }
}

void Gradients::reduceTied(uint32_t device, uint32_t step, uint32_t tie) {
  const Tie &tied = setting.ties[tie];
  if (setting.onlyDevice(tied))
    return; // there is one accumulator, which has all of it
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    Gradient total;
    std::vector<Accumulator *> held;
    for (uint32_t stage : tied.stages)
      for (Copy *copy : copiesOf(stage)) {
        held.push_back(&copy->replicas[replica]);
        if (held.back()->isSharded && replica == 0)
          wrong(6, 6, device, step, "shards of unlike stages are added: " + tied.name);
        for (const auto &[key, entry] : held.back()->weights[1 + tie]) {
          auto [found, isNew] = total.try_emplace(key, entry);
          if (isNew)
            continue;
          found->second.factor = plus(found->second.factor, entry.factor);
          found->second.count += entry.count;
        }
      }
    for (Accumulator *accumulator : held)
      accumulator->weights[1 + tie] = total;
  }
}

/// `member`'s microbatches in the gradient of one weight: each of this step once, with the factor that the
/// loss wants, and of no other step.
void Gradients::checkUpdate(const Gradient &gradient, uint32_t device, uint32_t step, uint32_t stage,
                            uint32_t member, uint32_t weight) {
  size_t found = 0;
  std::string why;
  for (const auto &[key, entry] : gradient) {
    if (key.stage != member)
      continue;
    ++found;
    if (key.step != step || entry.isUsed)
      why = "a gradient that was used before";
    else if (entry.count != 1)
      why = fmt::format("microbatch {} {} times", key.microbatch, entry.count);
    else if (!(entry.factor == target(key.microbatch)))
      why = fmt::format("microbatch {} with {} for {}", key.microbatch, entry.factor.str(),
                        target(key.microbatch).str());
  }
  const bool isTied = weight > 0 && !setting.onlyDevice(setting.ties[weight - 1]);
  if (found == 0)
    return wrong(isTied && member != stage ? 6 : 5, 5, device, step,
                 fmt::format("update({}) finds nothing of stage {}", stage, member));
  const size_t all = static_cast<size_t>(replicas_) * setting.microbatches;
  if (why.empty() && found != all)
    why = fmt::format("{} of {} gradients", found, all);
  if (!why.empty())
    wrong(5, isTied ? 6 : 5, device, step,
          fmt::format("update({}) applies {} of stage {}", stage, why, member));
}

/// What is there is there once, from all replicas, reduced if anyone else has a share, and scaled by nothing
/// but the loss.
void Gradients::checkAsynchronousUpdate(const Gradient &gradient, uint32_t device, uint32_t step,
                                        uint32_t stage) {
  std::map<uint32_t, uint32_t> replicasOf; // per microbatch
  bool isWhole = !gradient.empty();
  for (const auto &[key, entry] : gradient) {
    isWhole &= entry.count == 1 && !entry.isUsed && (members(stage) == 1 || entry.isReduced);
    isWhole &= entry.factor == Rational(1);
    ++replicasOf[key.microbatch];
  }
  for (const auto &[microbatch, count] : replicasOf)
    isWhole &= count == replicas_;
  if (!isWhole)
    wrong(device, step, fmt::format("update({}) applies no gradient or a part of one", stage));
}

void Gradients::update(uint32_t device, uint32_t step, uint32_t stage, uint32_t versionBefore) {
  touch(device, step, stage, fmt::format("update({})", stage));
  DeviceStep &here = deviceSteps[device];
  here.isUpdated = true;
  bool seesAll = !setting.isReducedSharded || replicas_ == 1; // else a shard of what it holds
  for (uint32_t s = 0; s < setting.stages; ++s)
    seesAll &= setting.isOn(s, device);
  if (here.isNormedLocally && !seesAll)
    wrong(device, step, fmt::format("update({}) follows a norm of this device alone", stage));
  Copy &held = copy(device, stage);
  for (uint32_t replica = 0; replica < replicas_; ++replica) {
    Accumulator &accumulator = held.replicas[replica];
    if (setting.scale == ScalePoint::AtAccumulator || setting.scale == ScalePoint::AtReduced)
      applyFactor(accumulator, device, step, stage);
    std::map<uint32_t, Gradient> read = accumulator.copied ? *accumulator.copied : accumulator.weights;
    for (const auto &[key, entry] : read[0])
      if (setting.stalenessBound && replica == 0 && !entry.isUsed &&
          versionBefore - entry.version > *setting.stalenessBound)
        wrong(6, 6, device, step, fmt::format("update({}) applies too old a gradient", stage));
    if (setting.isAsynchronous) {
      checkAsynchronousUpdate(read[0], device, step, stage);
      continue;
    }
    checkUpdate(read[0], device, step, stage, stage, 0);
    for (uint32_t tie = 0; tie < setting.ties.size(); ++tie) {
      const Tie &tied = setting.ties[tie];
      const bool isMember = std::find(tied.stages.begin(), tied.stages.end(), stage) != tied.stages.end();
      if (isMember && (!setting.onlyDevice(tied) || tied.stages.front() == stage))
        for (uint32_t member : tied.stages)
          checkUpdate(read[1 + tie], device, step, stage, member, 1 + tie);
    }
  }
  for (Accumulator &accumulator : held.replicas) {
    accumulator.copied.reset();
    for (auto &[weight, gradient] : accumulator.weights)
      for (auto &[key, entry] : gradient)
        entry.isUsed = true;
  }
  if (!hasZero)
    clear(held);
  if (setting.isAsynchronous)
    held.isReduced = false;
}

/// Of a program without updates only the reductions it has can be judged.
void Gradients::checkCoverage(uint32_t device, uint32_t step, uint32_t stage) {
  for (const auto &[key, entry] : copy(device, stage).replicas.front().weights[0])
    if (key.step == step && entry.count != 1)
      return wrong(device, step, fmt::format("stage {} is reduced {} times", stage, entry.count));
}

void Gradients::endStep(uint32_t device, uint32_t step) {
  for (uint32_t stage = 0; stage < setting.stages; ++stage) {
    if (!setting.isOn(stage, device))
      continue;
    Copy &held = copy(device, stage);
    bool isLeft = false;
    for (const auto &[key, entry] : held.replicas.front().weights[0])
      isLeft |= !entry.isUsed;
    if (hasUpdates && isLeft)
      wrong(device, step, fmt::format("no update applies what stage {} has", stage));
    if (!hasUpdates)
      checkCoverage(device, step, stage);
    if (!hasUpdates && !hasZero)
      clear(held);
    held.isReduced = held.isTiedReduced = held.isEmptied = false;
  }
  deviceSteps[device] = {};
}

} // namespace sluice::machine
