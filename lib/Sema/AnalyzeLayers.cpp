// Layers: `layers(s) = a..b` says which a stage holds, `layer(l) { … }` what each costs and takes. What a
// model does not say of its stages is the sum over their layers. Such a sum becomes a setting like any other,
// so nothing behind this file knows of layers but the check that the ranges follow each other.
#include "Sema/Analyzer.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

using ast::Setting;

void Analyzer::declareLayers(CheckedBlock &model, const Setting &layer) {
  if (layer.parameters.size() > 1)
    diagnostics.report(Rule::WrongArguments, layer.name.span,
                       {{"what", fmt::format("layer takes 1 parameter, found {}", layer.parameters.size())}});
  for (const Setting &setting : layer.settings) {
    const llvm::StringRef name = setting.name.text;
    if (!findSetting("layer", name) && findSetting("model", name)) {
      diagnostics
          .report(Rule::WrongArguments, setting.name.span,
                  {{"what", fmt::format("{} of a stage is no sum over its layers", name.str())}})
          .fix.message = fmt::format("{} in the model; a layer gives {}", name.str(),
                                     llvm::join(settingNames("layer"), ", "));
      continue;
    }
    declareSetting(model, "layer", setting);
  }
}

/// A setting of the model for each that only layers give, to be filled once these are.
void Analyzer::declareLayerSums(CheckedBlock &model) {
  for (llvm::StringRef name : settingNames("layer")) {
    auto given = model.settings.find("layer." + name.str());
    if (given == model.settings.end() || model.settings.count(name.str()))
      continue;
    CheckedSetting sum;
    sum.name = name.str();
    sum.span = result.settings[given->second].span;
    model.settings[name.str()] = static_cast<uint32_t>(result.settings.size());
    model.layerSums.push_back(name.str());
    result.settings.push_back(std::move(sum));
  }
}

void Analyzer::fillLayers(CheckedBlock &model, const Setting &layerBlock) {
  inScope([&] {
    layer = layerBlock.parameters.empty() ? result.code.addSlot("l")
                                          : declareSlot(layerBlock.parameters[0], Hiding::Allowed);
    for (const Setting &setting : layerBlock.settings) {
      fillSetting(model, "layer", setting);
      auto found = model.settings.find("layer." + setting.name.text);
      if (found == model.settings.end())
        continue;
      std::vector<SlotId> &parameters = result.settings[found->second].parameters;
      parameters.insert(parameters.begin(), layer);
    }
    layer = noSlot;
  });
}

/// In a `layer` block `forward` alone is that of the same layer.
std::optional<NodeId> Analyzer::siblingOfLayer(const ast::Expr &expr) {
  if (layer == noSlot || !result.model)
    return std::nullopt;
  auto found = result.model->settings.find("layer." + expr.text);
  if (found == result.model->settings.end())
    return std::nullopt;
  Node node{NodeOp::Setting, expr.span, found->second};
  node.b = static_cast<uint32_t>(result.code.operands.size());
  std::vector<NodeId> arguments{result.code.add({NodeOp::Slot, expr.span, layer})};
  if (layerMicrobatch != noSlot)
    arguments.push_back(result.code.add({NodeOp::Slot, expr.span, layerMicrobatch}));
  node.c = static_cast<uint32_t>(arguments.size());
  result.code.operands.insert(result.code.operands.end(), arguments.begin(), arguments.end());
  return result.code.add(node);
}

/// The ends of the range, each a setting of the stage.
void Analyzer::layerRange(CheckedBlock &model, const Setting &setting) {
  inScope([&] {
    std::vector<SlotId> parameters;
    for (const ast::Identifier &parameter : setting.parameters)
      parameters.push_back(declareSlot(parameter, Hiding::Allowed));
    if (parameters.size() > 1)
      diagnostics.report(Rule::WrongArguments, setting.name.span,
                         {{"what", fmt::format("layers takes 1 parameter, found {}", parameters.size())}});
    const CheckedRange bounds = range(*setting.range);
    for (auto [key, value] : {std::pair("layers.first", bounds.first), {"layers.last", bounds.last}}) {
      CheckedSetting end;
      end.name = "layers";
      end.parameters = parameters;
      end.value = value;
      end.span = setting.span;
      model.settings[key] = static_cast<uint32_t>(result.settings.size());
      result.settings.push_back(std::move(end));
    }
  });
}

void Analyzer::fillLayerSums(CheckedBlock &model) {
  if (model.layerSums.empty())
    return;
  auto first = model.settings.find("layers.first"), last = model.settings.find("layers.last");
  if (first == model.settings.end() || last == model.settings.end()) {
    if (!model.settings.count("layers")) // else its form was wrong
      diagnostics
          .report(Rule::ValueMissing, result.settings[model.settings.find("layer")->second].span,
                  {{"figure", "the sum over the layers of a stage"}, {"setting", "`layers(s)`"}})
          .fix.message = "layers(s) = n * s..n * (s + 1);";
    return;
  }
  auto add = [&](NodeOp op, Span span, uint32_t a, std::vector<NodeId> operands, uint32_t c) {
    Node node{op, span, a, static_cast<uint32_t>(result.code.operands.size()), c};
    result.code.operands.insert(result.code.operands.end(), operands.begin(), operands.end());
    return result.code.add(node);
  };
  auto slot = [&](SlotId of, Span span) { return result.code.add({NodeOp::Slot, span, of}); };
  for (const std::string &name : model.layerSums) {
    const uint32_t each = model.settings.find("layer." + name)->second;
    CheckedSetting &sum = result.settings[model.settings.find(name)->second];
    const bool perMicrobatch = result.settings[each].parameters.size() > 1;
    const Span span = sum.span;
    sum.parameters = {result.code.addSlot("s")};
    if (perMicrobatch)
      sum.parameters.push_back(result.code.addSlot("m"));
    const SlotId l = result.code.addSlot("l");
    std::vector<NodeId> arguments{slot(l, span)};
    if (perMicrobatch)
      arguments.push_back(slot(sum.parameters[1], span));
    const auto count = static_cast<uint32_t>(arguments.size());
    const NodeId element = add(NodeOp::Setting, span, each, std::move(arguments), count);
    NodeId ends[2];
    for (int i = 0; i < 2; ++i)
      ends[i] =
          add(NodeOp::Setting, span, (i == 0 ? first : last)->second, {slot(sum.parameters[0], span)}, 1);
    sum.value = add(NodeOp::Comprehension, span, static_cast<uint32_t>(Builtin::Sum),
                    {element, ends[0], ends[1], noNode}, l);
  }
}

} // namespace sluice
