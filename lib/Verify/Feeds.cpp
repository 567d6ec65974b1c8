// What the members of an overlap may not make for each other.
#include "Verify/Activations.h"

namespace sluice {

/// Whether `consumer` needs what `producer` makes for a neighbouring split of the same microbatch.
static bool feedsSplit(const Program &program, const Op &producer, const Op &consumer) {
  if (producer.stage != consumer.stage)
    return false;
  if (consumer.kind == OpKind::Forward)
    return producer.kind == OpKind::Forward && program.hasSplitBefore(consumer.microbatch) &&
           producer.microbatch + 1 == consumer.microbatch;
  return consumer.makesGradient() && producer.makesGradient() &&
         program.hasSplitBehind(consumer.microbatch) && producer.microbatch == consumer.microbatch + 1;
}

/// Whether an edge beside the chain carries what `producer` makes to `consumer`, of the same microbatch.
static bool feedsOverSkip(const Program &program, const Op &producer, const Op &consumer) {
  for (const SkipEdge &skip : program.skips) {
    if (consumer.kind == OpKind::Forward && producer.kind == OpKind::Forward && skip.from == producer.stage &&
        skip.to == consumer.stage)
      return true;
    if (skip.hasGradient && consumer.makesGradient() && producer.makesGradient() &&
        skip.from == consumer.stage && skip.to == producer.stage)
      return true;
  }
  return false;
}

bool feeds(const Program &program, const Op &producer, const Op &consumer) {
  if (!producer.touchesActivation())
    return false;
  if (producer.microbatch != consumer.microbatch)
    return program.sequenceSplits > 1 && feedsSplit(program, producer, consumer);
  if (feedsOverSkip(program, producer, consumer))
    return true;
  const bool sameStage = producer.stage == consumer.stage;
  const bool makesActivation =
      sameStage && (producer.kind == OpKind::Forward || producer.kind == OpKind::Recompute);
  switch (consumer.kind) {
  case OpKind::Forward:
    return producer.kind == OpKind::Forward && producer.stage + 1 == consumer.stage;
  case OpKind::Backward:
  case OpKind::BackwardInput:
    return makesActivation || (producer.stage == consumer.stage + 1 && producer.makesGradient());
  case OpKind::BackwardWeight:
    return sameStage && producer.kind == OpKind::BackwardInput;
  case OpKind::Recompute:
    return sameStage && producer.kind == OpKind::Forward;
  case OpKind::Drop:
    return makesActivation;
  default: // an overlap holds no others
    return false;
  }
}

} // namespace sluice
