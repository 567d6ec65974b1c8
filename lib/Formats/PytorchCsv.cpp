#include "Formats/PytorchCsv.h"

#include "Passes/BackwardHalves.h"
#include "Passes/LowerReductions.h"
#include "Passes/LowerSharding.h"
#include "Passes/Rewrite.h"

#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <memory>

namespace sluice {

namespace {

constexpr uint32_t firstWithOverlaps = 9, firstWithReductions = 10;

/// What the rows cannot say, as opposed to what they leave out.
std::string refusal(const FormattedSchedule &schedule) {
  const Program &program = schedule.program;
  if (schedule.costs.asynchronous)
    return "it is asynchronous, and PyTorch's pipelines end every step in a flush";
  if (program.sequenceSplits > 1)
    return "microbatches are split along the sequence, and rows would make each split a microbatch of its "
           "own";
  if (program.placement.rowCount() > 1)
    for (uint32_t s = 0; s < program.stages; ++s)
      if (std::vector<uint32_t> devices = program.devicesOf(s); devices.size() > 1)
        return fmt::format("stage {} has copies on devices {} and {}, and a row places a stage on its rank "
                           "for all microbatches",
                           s, devices[0], devices[1]);
  if (!program.skips.empty())
    return fmt::format(
        "edge {} -> {} passes over a stage, and PyTorch hands an output to the next stage alone",
        program.skips[0].from, program.skips[0].to);
  for (uint32_t d = 0; d < program.devices; ++d)
    if (std::ranges::none_of(program.opsOf(d), &Op::isUseful))
      return fmt::format("device {} computes nothing, and PyTorch takes no empty row", d);
  return "";
}

/// Counts what is left out, and says it in a fixed order.
class Losses {
public:
  explicit Losses(const PytorchOptions &options) : options(options) {}

  /// Whether `op` has a cell; counts it if not.
  bool keeps(const Op &op) {
    if (op.isUseful()) {
      const bool keepsLess = op.kind == OpKind::Forward && (op.has(KeepInput) || op.has(KeepNothing));
      forwards += keepsLess;
      factors += op.hasFactor();
      overwrites += op.overwrites();
      return true;
    }
    if (op.isCommunication())
      groups += op.has(GroupFirst);
    if (op.isWait()) {
      ++waits;
      return false;
    }
    const bool isComms = op.isCommunication() || op.kind == OpKind::Unshard || op.kind == OpKind::Reshard ||
                         (op.kind == OpKind::Reduce && options.release >= firstWithReductions);
    if (isComms && options.communication)
      return true;
    ++counts[static_cast<unsigned>(op.kind)];
    return false;
  }

  void say(std::vector<std::string> &lost) const {
    auto say = [&](uint64_t count, const char *what, const char *why) {
      if (count > 0)
        lost.push_back(fmt::format("{} {}{}: {}", count, what, count == 1 ? "" : "s", why));
    };
    say(forwards, "shortened activation", "PyTorch keeps what autograd saved");
    say(of(OpKind::Recompute), "recompute", "a CSV has none; wrap the stage in activation checkpointing");
    say(of(OpKind::Drop), "drop", "PyTorch frees an activation at its backward");
    say(of(OpKind::Offload) + of(OpKind::Reload), "offload and reload", "a CSV has none");
    const uint64_t communication = of(OpKind::SendActivation) + of(OpKind::RecvActivation) +
                                   of(OpKind::SendGradient) + of(OpKind::RecvGradient);
    say(communication, "send and receive", "compute_only has none, PyTorch places its own");
    if (options.communication)
      say(groups, "group of sends and receives",
          "each is posted by itself, and may block where a group does not");
    say(of(OpKind::Unshard) + of(OpKind::Reshard), "unshard and reshard",
        "compute_only has none, PyTorch places its own");
    say(of(OpKind::Reduce), "reduction",
        options.communication ? "REDUCE_GRAD is known from PyTorch 2.10 on; before, the last backward reduces"
                              : "compute_only has none, PyTorch reduces after a stage's last backward");
    say(waits, "wait",
        "PyTorch starts each transfer where its cell stands and waits where the value is used");
    say(of(OpKind::Zero) + overwrites, "zeroing", "the training loop clears gradients");
    say(of(OpKind::Scale) + factors, "gradient factor", "the training loop scales the loss");
    say(of(OpKind::ReduceTied), "tied reduction", "a CSV has none");
    say(of(OpKind::Norm), "norm", "the training loop clips gradients");
    say(of(OpKind::Update), "update", "the training loop steps the optimizer");
  }

private:
  uint64_t of(OpKind kind) const { return counts[static_cast<unsigned>(kind)]; }

  const PytorchOptions &options;
  std::array<uint64_t, opKindCount> counts{};
  uint64_t forwards = 0, groups = 0, waits = 0, factors = 0, overwrites = 0;
};

/// The ops that have a cell. An overlap of which one op is left is no overlap any more.
Program withCells(const Program &program, const PytorchOptions &options, Losses &losses, uint64_t &overlaps) {
  Rewriter writer(program, program.size(), /*withPlaces=*/false);
  for (uint32_t d = 0; d < program.devices; ++d) {
    writer.beginDevice();
    for (OpId begin = program.deviceBegin[d]; begin < program.deviceBegin[d + 1];) {
      const OpId end = std::min(program.groupEnd(begin), program.deviceBegin[d + 1]);
      if (end - begin == 1) {
        const Op &op = program.ops[begin];
        if (losses.keeps(op))
          writer.insert({op.kind, 0, op.stage, op.microbatch}, begin);
      } else {
        llvm::SmallVector<OpId, 4> kept;
        for (OpId op = begin; op < end; ++op)
          if (losses.keeps(program.ops[op]))
            kept.push_back(op);
        const bool isOverlap = kept.size() > 1 && options.release >= firstWithOverlaps;
        overlaps += kept.size() > 1 && !isOverlap;
        for (OpId op : kept) {
          const uint8_t flags = !isOverlap ? 0 : op == kept.front() ? OverlapFirst : OverlapFollower;
          writer.insert({program.ops[op].kind, flags, program.ops[op].stage, program.ops[op].microbatch}, op);
        }
      }
      begin = end;
    }
  }
  return writer.take();
}

bool hasWrittenSharding(const Program &program) {
  return std::ranges::any_of(program.ops, [](const Op &op) { return op.kind == OpKind::Unshard; });
}

/// UNSHARD and RESHARD, REDUCE_GRAD, then sends and receives, in the order in which PyTorch adds them: the
/// rounds of the last pass count the ops of the first two.
std::optional<Program> lowered(Program program, const PytorchOptions &options,
                               std::vector<std::string> &lost) {
  if (options.activeStages > 0 && !hasWrittenSharding(program))
    program = lowerSharding(program, options.activeStages);
  if (options.release >= firstWithReductions) {
    auto isReduction = [](const Op &op) { return op.kind == OpKind::Reduce; };
    const auto written = std::ranges::count_if(program.ops, isReduction);
    Program reduced = lowerReductions(program);
    if (written > 0 && reduced.ops != program.ops)
      lost.push_back(fmt::format("the places of {} reduction{}: PyTorch reduces a stage right after its last "
                                 "backward",
                                 written, written == 1 ? "" : "s"));
    program = std::move(reduced);
  }
  return lowerCommunication(program, ProgramIndex(program), options.placement);
}

/// Longest: `(65535SEND_F4294967295;`.
constexpr size_t longestCell = 24;
constexpr const char *wordOf[opKindCount] = {
    "F",      "B",      "I",     "W",           nullptr, nullptr,   nullptr,   nullptr, "SEND_F", "RECV_F",
    "SEND_B", "RECV_B", nullptr, "REDUCE_GRAD", nullptr, "UNSHARD", "RESHARD", nullptr, nullptr,  nullptr};

/// A short text that is copied whole, in one step, whatever its length: into a buffer with room for all of
/// it.
template <size_t room> struct Piece {
  std::array<char, room - 1> text{};
  uint8_t length = 0;
  void set(llvm::StringRef from) {
    length = static_cast<uint8_t>(from.size());
    std::memcpy(text.data(), from.data(), from.size());
  }
  char *copyTo(char *at) const {
    std::memcpy(at, text.data(), text.size());
    return at + length;
  }
};

class RowPrinter {
public:
  explicit RowPrinter(const Program &program) : program(program) {
    for (unsigned kind = 0; kind < opKindCount; ++kind)
      if (wordOf[kind])
        words[kind].set(wordOf[kind]);
    numbers.resize(std::min(std::max(program.stages, program.microbatches), mostNumbers));
    for (uint32_t value = 0; value < numbers.size(); ++value)
      numbers[value].set(fmt::format_int(value).c_str());
    size_t longest = 0;
    for (uint32_t d = 0; d < program.devices; ++d)
      longest = std::max(longest, program.opsOf(d).size());
    // A cell may close an overlap, too.
    buffer = std::make_unique_for_overwrite<char[]>(longest * (longestCell + closing.size() + 1) + 1 +
                                                    sizeof(Piece<16>));
  }
  void print(uint32_t device, std::string &out) {
    at = buffer.get();
    llvm::ArrayRef<Op> ops = program.opsOf(device);
    bool isOpen = false;
    for (size_t i = 0; i < ops.size(); ++i) {
      const Op &op = ops[i];
      if (i > 0)
        *at++ = op.has(OverlapFollower) ? ';' : ',';
      if (op.has(OverlapFirst)) {
        *at++ = '(';
        isOpen = true;
      }
      cell(op);
      if (isOpen && (i + 1 == ops.size() || !ops[i + 1].has(OverlapFollower))) {
        put(closing);
        isOpen = false;
      }
    }
    *at++ = '\n';
    out.append(buffer.get(), at);
  }

private:
  static constexpr llvm::StringLiteral closing = ")OVERLAP_F_B";

  void put(llvm::StringRef text) {
    std::memcpy(at, text.data(), text.size());
    at += text.size();
  }
  void number(uint32_t value) {
    at = value < numbers.size() ? numbers[value].copyTo(at) : std::to_chars(at, at + 10, value).ptr;
  }
  void cell(const Op &op) {
    number(op.stage);
    at = words[static_cast<unsigned>(op.kind)].copyTo(at);
    if (op.hasMicrobatch())
      number(op.microbatch);
  }

  const Program &program;
  static constexpr uint32_t mostNumbers = 1 << 15; // of 8 bytes: they stay in the caches
  std::array<Piece<16>, opKindCount> words;
  std::vector<Piece<8>> numbers;  // the digits of the first ones
  std::unique_ptr<char[]> buffer; // for the longest row
  char *at = nullptr;
};

/// About the bytes of all rows, rather more than fewer: a text that grows is copied again and again.
size_t roomFor(const Program &program) {
  const size_t stage = fmt::formatted_size("{}", program.stages);
  const size_t microbatch = fmt::formatted_size("{}", program.microbatches);
  size_t room = program.devices;
  for (const Op &op : program.ops)
    room += stage + (op.isCommunication() ? 6 : 1) + microbatch + 1;
  return room;
}

} // namespace

std::optional<std::string> writePytorchCsv(const FormattedSchedule &schedule, const PytorchOptions &options,
                                           std::vector<std::string> &lost, std::string &error) {
  error = refusal(schedule);
  if (!error.empty())
    return std::nullopt;
  Losses losses(options);
  uint64_t overlaps = 0;
  Program program = withCells(schedule.program, options, losses, overlaps);
  losses.say(lost);
  if (overlaps > 0)
    lost.push_back(fmt::format("{} overlap{}: OVERLAP_F_B is known from PyTorch 2.9 on; their ops stand one "
                               "after the other",
                               overlaps, overlaps == 1 ? "" : "s"));
  if (!schedule.costs.isDefault)
    lost.push_back("costs and sizes");
  if (options.halves == PytorchOptions::Halves::Merged)
    program = mergeHalves(program);
  else if (options.halves == PytorchOptions::Halves::Split)
    program = splitBackwards(program);
  if (options.communication) {
    std::optional<Program> whole = lowered(std::move(program), options, lost);
    if (!whole) {
      error = "its compute order is cyclic, so that no sends and receives can be placed; run check";
      return std::nullopt;
    }
    program = std::move(*whole);
  }
  std::string out;
  out.reserve(roomFor(program));
  RowPrinter printer(program);
  for (uint32_t d = 0; d < program.devices; ++d)
    printer.print(d, out);
  return out;
}

std::optional<std::string> writePytorch(const FormattedSchedule &schedule, std::vector<std::string> &lost,
                                        std::string &error) {
  return writePytorchCsv(schedule, {}, lost, error);
}

} // namespace sluice
