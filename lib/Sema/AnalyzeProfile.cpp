// `cost from "profile.json";`: what a model does not say of its ops is what was measured. Each measured op
// becomes a setting like any other, so that the model, `let` and `expect` can use it by its name.
#include "Sema/Analyzer.h"

#include <fmt/format.h>

namespace sluice {

using ast::Setting;

void Analyzer::declareProfile(const Setting &setting) {
  if (setting.form != Setting::Form::From) {
    diagnostics.report(Rule::SyntaxError, setting.span,
                       {{"what", "`cost from \"profile.json\";`"}, {"token", "\"cost\" in another form"}});
    return;
  }
  profileSpan = setting.span;
  const std::string &path = setting.words[0];
  FileReader::Result read = reader.read(path, fileName);
  if (!read.error.empty()) {
    diagnostics
        .report(Rule::BadProfile, setting.span, {{"path", fmt::format("\"{}\"", path)}, {"what", read.error}})
        .fix.message = "a path relative to this file";
    return;
  }
  result.profile = reader.profile(read.text, path, setting.span, diagnostics);
}

/// A setting of the model for each op that was measured and that the model says nothing of.
void Analyzer::declareMeasured(CheckedBlock &model) {
  for (size_t op = 0; result.profile && op < profileOps().size(); ++op) {
    const std::string name = profileOps()[op].str();
    if (!result.profile->ops[op].isMeasured() || model.settings.count(name))
      continue;
    CheckedSetting measured;
    measured.name = name;
    measured.span = profileSpan;
    measured.isMeasured = true;
    model.settings[name] = static_cast<uint32_t>(result.settings.size());
    result.settings.push_back(std::move(measured));
  }
}

/// Of the stage, and of the microbatch only where these differ in samples.
void Analyzer::fillMeasured(CheckedBlock &model) {
  for (size_t op = 0; result.profile && op < profileOps().size(); ++op) {
    auto found = model.settings.find(profileOps()[op].str());
    if (found == model.settings.end() || !result.settings[found->second].isMeasured)
      continue;
    auto add = [&](NodeOp kind, uint32_t a, std::vector<NodeId> operands) {
      Node node{kind, profileSpan, a, static_cast<uint32_t>(result.code.operands.size()),
                static_cast<uint32_t>(operands.size())};
      result.code.operands.insert(result.code.operands.end(), operands.begin(), operands.end());
      return result.code.add(node);
    };
    auto slot = [&](SlotId of) { return result.code.add({NodeOp::Slot, profileSpan, of}); };
    std::vector<SlotId> parameters{result.code.addSlot("s")};
    std::vector<NodeId> arguments{slot(parameters[0])};
    if (op < profileOpsOfMicrobatches && !result.training) {
      arguments.push_back(constant(Value::of(Rational(1)), profileSpan));
    } else if (op < profileOpsOfMicrobatches) {
      const uint32_t samples = result.training->settings.find("samples")->second;
      std::vector<NodeId> microbatch;
      if (result.uniformSamples == noSlot) {
        // Costs know splits of microbatches, samples whole ones.
        if (result.splits == noSlot)
          result.splits = result.code.addSlot("sequence_splits");
        parameters.push_back(result.code.addSlot("m"));
        const NodeId unit = slot(parameters[1]), splits = slot(result.splits);
        microbatch = {add(NodeOp::Builtin, static_cast<uint32_t>(Builtin::Div), {unit, splits})};
      }
      arguments.push_back(add(NodeOp::Setting, samples, std::move(microbatch)));
    }
    const NodeId value = add(NodeOp::Measured, static_cast<uint32_t>(op), std::move(arguments));
    result.settings[found->second].parameters = std::move(parameters);
    result.settings[found->second].value = value;
  }
}

} // namespace sluice
