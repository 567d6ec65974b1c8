// The instructions of a DeepSpeed schedule as they are written, stage by stage; what they mean is
// DeepSpeed.cpp's.
#pragma once

#include "Support/Diagnostics.h"

#include <optional>
#include <vector>

namespace sluice::deepspeed {

enum class Kind : uint8_t {
  LoadMicroBatch,
  ForwardPass,
  BackwardPass,
  ForwardBackwardPass,
  WeightPass,
  SendActivation,
  RecvActivation,
  SendGrad,
  RecvGrad,
  CommitP2P,
  ReduceTiedGrads,
  ReduceGrads,
  OptimizerStep,
};

struct Instruction {
  Kind kind;
  Span place;
  uint32_t buffer = 0;
  uint32_t phase = 0;
  bool defersWeight = false; ///< `enable_zb=True` of a backward: its weight half comes later.
};

/// Of one stage, or with phases of one device. A ForwardBackwardPass is followed by its two members.
struct Program {
  std::vector<Instruction> instructions;
  Span span;
};

struct Text {
  std::vector<Program> stages;
  bool hasPhases = false;
};

/// Reads one text of all stages, or several of one stage each.
std::optional<Text> read(const SourceManager &sources, llvm::ArrayRef<Span> texts, Diagnostics &diagnostics);

} // namespace sluice::deepspeed
