// The time that a profile gives an op on a stage at a number of samples.
#include "Sema/Evaluate.h"

#include "Support/Words.h"

#include <fmt/format.h>

namespace sluice {

/// `stages 0 to 3, 6`, as the profile names them.
static std::string stagesOf(const ProfileOp &op) {
  std::vector<uint32_t> stages;
  for (const auto &[stage, curve] : op.ofStage)
    stages.push_back(stage);
  return listed("stage", "stages", stages);
}

Value Evaluator::measured(const Node &node, llvm::ArrayRef<Value> arguments) {
  const std::string op = profileOps()[node.a].str();
  for (const Value &argument : arguments)
    if (!argument.isPlainInteger()) {
      const char *what = &argument == arguments.begin() ? "stage" : "number of samples";
      diagnostics.report(Rule::NotAnInteger, node.span,
                         {{"what", fmt::format("the {} of {}", what, op)}, {"value", str(argument)}});
      return {};
    }
  const Value &stage = arguments[0];
  const bool isStage = stage.number.num >= 0 && stage.number.num < static_cast<int64_t>(maxStages);
  const ProfileOp &measured = file.profile->ops[node.a];
  const ProfileCurve *curve = isStage ? measured.find(static_cast<uint32_t>(stage.number.num)) : nullptr;
  if (!curve) {
    diagnostics
        .report(Rule::ValueMissing, node.span,
                {{"figure", fmt::format("the time of {} on stage {}", op, stage.number.num)},
                 {"setting", fmt::format("an entry in profile \"{}\" beside {}", file.profile->path,
                                         stagesOf(measured))}})
        .fix.message =
        fmt::format("an entry for that stage, one without \"stage\", or {}(s) in the model", op);
    return {};
  }
  auto time = curve->at(arguments.size() > 1 ? arguments[1].number : Rational(0));
  return time ? Value::of(*time, timeDimension) : overflow(node);
}

} // namespace sluice
