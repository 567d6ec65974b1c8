#include "Timeline/ClosedForms.h"

#include "Timeline/Figures.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <fmt/format.h>

namespace sluice {

namespace {

// An order of one stage a device: `warmup` forwards, then a forward and a backward in turn, then the
// remaining backwards. GPipe is a warm-up of all forwards.
struct KnownOrder {
  const char *name;
  uint32_t (*warmup)(uint32_t devicesBehind, uint32_t microbatches);
  bool backwardsReversed;
};
constexpr KnownOrder knownOrders[] = {
    {"GPipe", [](uint32_t, uint32_t m) { return m; }, false},
    {"GPipe, backwards reversed", [](uint32_t, uint32_t m) { return m; }, true},
    {"1F1B", [](uint32_t behind, uint32_t m) { return std::min(behind, m); }, false},
    {"eager 1F1B", [](uint32_t behind, uint32_t m) { return std::min(2 * behind, m); }, false},
};

/// The op at `position` of the compute ops of `stage`, for position < 2M.
Op opAt(const KnownOrder &order, const Program &program, uint32_t stage, uint32_t position) {
  const uint32_t m = program.microbatches;
  const uint32_t warmup = order.warmup(program.stages - 1 - stage, m);
  Op op{OpKind::Forward, 0, static_cast<uint16_t>(stage), position};
  if (position < warmup)
    return op;
  const uint32_t turn = (position - warmup) / 2;
  const bool inTurns = turn < m - warmup;
  if (inTurns && (position - warmup) % 2 == 0) {
    op.microbatch = warmup + turn;
    return op;
  }
  op.kind = OpKind::Backward;
  op.microbatch = inTurns ? turn : position - m;
  if (order.backwardsReversed)
    op.microbatch = m - 1 - op.microbatch;
  return op;
}

struct Mismatch {
  OpId op = noOp;      ///< noOp: the device has fewer ops than the order.
  uint32_t agreed = 0; ///< Ops in agreement before it, over all devices.
  uint32_t device = 0, position = 0;
};

/// Where the program leaves the order; nothing if it follows it.
std::optional<Mismatch> compare(const KnownOrder &order, const Program &program) {
  Mismatch at;
  for (at.device = 0; at.device < program.devices; ++at.device) {
    at.position = 0;
    for (at.op = program.deviceBegin[at.device]; at.op < program.deviceBegin[at.device + 1]; ++at.op) {
      const Op &op = program.ops[at.op];
      if (!op.isCompute())
        continue; // takes no time, or checkOtherWork has said it
      if (at.position == 2 * program.microbatches || op.has(OverlapFirst) || op.has(OverlapFollower))
        return at;
      Op expected = opAt(order, program, op.stage, at.position);
      if (op.kind != expected.kind || op.microbatch != expected.microbatch)
        return at;
      ++at.position;
      ++at.agreed;
    }
    if (at.position < 2 * program.microbatches) {
      at.op = noOp;
      return at;
    }
  }
  return std::nullopt;
}

class Assumptions {
public:
  Assumptions(const Program &program, const CostModel &costs, const Figures &figures)
      : program(program), costs(costs), figures(figures) {}

  ClosedForms check() {
    checkCosts("forward", costs.forward);
    checkCosts("backward", costs.backward);
    if (hasOtherWork(costs))
      checkOtherWork();
    if (figures.transferExposed != 0)
      fail(fmt::format("{} lengthen the makespan by {}", exposedNames(),
                       formatUnits(costs, figures.transferExposed)),
           declaredAt("link"));
    if (figures.makespan == 0)
      fail("no op takes time", {});
    if (checkPlacement())
      checkOrder();
    return std::move(result);
  }

private:
  void fail(std::string message, Span span) { result.failed.push_back({std::move(message), span}); }
  Span declaredAt(const char *setting) const {
    auto found = costs.declaredAt.find(setting);
    return found == costs.declaredAt.end() ? Span{} : found->second;
  }

  void checkCosts(const char *what, const StageTable<int64_t> &table) {
    for (uint32_t row = 0; row < table.rowCount(); ++row)
      for (uint32_t stage = 0; stage < program.stages; ++stage)
        if (table.inRow(row, stage) != table.inRow(0, 0))
          return fail(fmt::format("stage {}{} has {} {}, stage 0 {}", stage, microbatchOf(table, row), what,
                                  formatUnits(costs, table.inRow(row, stage)),
                                  formatUnits(costs, table.inRow(0, 0))),
                      declaredAt(what));
  }
  std::string microbatchOf(const StageTable<int64_t> &table, uint32_t row) const {
    for (uint32_t m = 0; row > 0 && m < program.microbatches; ++m)
      if (table.row(m) == row)
        return fmt::format(", microbatch {},", m);
    return "";
  }

  /// Ops that occupy a device without being a forward or a backward: the first of each sort.
  void checkOtherWork() {
    std::array<bool, opKindCount> seen{};
    for (OpId id = 0; id < program.size(); ++id) {
      const Op &op = program.ops[id];
      const size_t sort =
          op.isCommunication() ? static_cast<size_t>(OpKind::SendActivation) : static_cast<size_t>(op.kind);
      if (op.isCompute() || seen[sort])
        continue;
      const int64_t time = durationOf(costs, op);
      if (time == 0)
        continue;
      seen[sort] = true;
      fail(fmt::format("{} occupies device {} for {}", str(program, id), program.deviceOf(id),
                       formatUnits(costs, time)),
           settingOf(op.kind));
    }
  }
  /// Where the time of such an op is said.
  Span settingOf(OpKind kind) const {
    if ((kind == OpKind::Offload || kind == OpKind::Reload) && !costs.hostRoutes.empty())
      return costs.links[costs.hostRoutes.front().link].span;
    const bool isMessage = kind >= OpKind::SendActivation && kind <= OpKind::RecvGradient;
    return declaredAt(kind == OpKind::Update ? "update" : isMessage ? "link" : "reduce");
  }
  std::string exposedNames() const {
    auto takesTime = [](llvm::ArrayRef<int64_t> times) {
      return llvm::any_of(times, [](int64_t time) { return time != 0; });
    };
    std::string names = "transfers";
    if (takesTime(costs.reduce) || takesTime(costs.unshard) || takesTime(costs.reduceTied))
      names += ", collectives";
    if (takesTime(costs.offload.all()) || takesTime(costs.reload.all()))
      names += ", moves to and from the host";
    return names;
  }

  bool checkPlacement() {
    std::vector<uint32_t> stageOn(program.devices, noStage);
    if (program.placement.rowCount() > 1) {
      fail("the device of a stage depends on the microbatch", program.span);
      return false;
    }
    for (uint32_t stage = 0; program.microbatches > 0 && stage < program.stages; ++stage) {
      uint32_t device = program.placement.inRow(0, stage);
      if (device == noDevice)
        continue;
      if (stageOn[device] != noStage) {
        fail(fmt::format("stages {} and {} share device {}", stageOn[device], stage, device), program.span);
        return false;
      }
      stageOn[device] = stage;
    }
    if (llvm::is_contained(stageOn, noStage)) {
      fail("a device has no stage", program.span);
      return false;
    }
    return true;
  }

  void checkOrder() {
    const KnownOrder *nearest = nullptr;
    Mismatch farthest;
    for (const KnownOrder &order : knownOrders) {
      auto mismatch = compare(order, program);
      if (!mismatch) {
        result.order = order.name;
        return;
      }
      if (!nearest || mismatch->agreed > farthest.agreed) {
        nearest = &order;
        farthest = *mismatch;
      }
    }
    fail(fmt::format("the order is not GPipe, 1F1B or eager 1F1B: {}", describe(*nearest, farthest)),
         farthest.op == noOp ? program.programSpan[farthest.device] : program.spanOf(farthest.op));
  }
  std::string describe(const KnownOrder &order, const Mismatch &at) const {
    if (at.position == 2 * program.microbatches)
      return fmt::format("device {} runs {} after all ops of {}", at.device, str(program.ops[at.op]),
                         order.name);
    std::string found = at.op == noOp ? "nothing" : str(program.ops[at.op]);
    if (at.op != noOp && program.ops[at.op].has(OverlapFirst))
      found = "an overlap";
    uint32_t stage = program.stagesOn(at.device).front();
    return fmt::format("device {} runs {} where {} has {}", at.device, found, order.name,
                       str(opAt(order, program, stage, at.position)));
  }

  const Program &program;
  const CostModel &costs;
  const Figures &figures;
  ClosedForms result;
};

} // namespace

ClosedForms closedForms(const Program &program, const CostModel &costs, const Figures &figures) {
  ClosedForms forms = Assumptions(program, costs, figures).check();
  if (!forms.failed.empty())
    return forms;
  const int64_t behind = int64_t(program.stages) - 1, m = program.microbatches;
  forms.overheadRatio = Rational::make(behind, m);
  forms.idleFraction = Rational::make(behind, m + behind);
  if (program.isExplicit && forms.idleFraction != figures.idleFraction) {
    forms = {};
    forms.failed.push_back({"written sends and receives hold up compute", program.span});
    return forms;
  }
  assert(forms.overheadRatio == figures.overheadRatio && forms.idleFraction == figures.idleFraction &&
         "a closed form differs from the timeline");
  return forms;
}

} // namespace sluice
