#include "Sema/Analyzer.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice {

using ast::Setting;

static llvm::StringRef blockName(ast::Block::Kind kind) {
  static constexpr llvm::StringRef names[] = {"model", "cluster", "training", "queue"};
  return names[static_cast<unsigned>(kind)];
}

/// The settings of an inner block lie beside those of the outer one, behind its name.
static std::string keyOf(llvm::StringRef blockName, const Setting &setting) {
  return (blockName == "layer" ? "layer." : "") + setting.name.text;
}

void Analyzer::declareBlock(const ast::Block &block) {
  llvm::StringRef kind = blockName(block.kind);
  CheckedBlock checked;
  checked.span = block.span;
  if (block.name)
    checked.name = block.name->text;
  for (const Setting &setting : block.settings)
    declareSetting(checked, kind, setting);
  if (block.kind == ast::Block::Kind::Model) {
    declareLayerSums(checked);
    declareMeasured(checked);
  }
  if (block.kind == ast::Block::Kind::Queue) {
    declare(*checked.name,
            {Entry::Kind::Queue, static_cast<uint32_t>(result.queues.size()), block.name->span});
    result.queues.push_back(std::move(checked));
    return;
  }
  auto &place = block.kind == ast::Block::Kind::Model     ? result.model
                : block.kind == ast::Block::Kind::Cluster ? result.cluster
                                                          : result.training;
  if (place)
    return duplicate({kind.str(), block.span}, place->span);
  place = std::move(checked);
}

/// Null after 102.
const SettingInfo *Analyzer::settingOf(llvm::StringRef blockName, const Setting &setting) {
  const SettingInfo *info = findSetting(blockName, setting.name.text);
  if (info)
    return info;
  std::vector<llvm::StringRef> names = settingNames(blockName);
  llvm::StringRef near = nearest(setting.name.text, names);
  diagnostics.report(Rule::UnknownName, setting.name.span, {{"name", setting.name.text}}).fix.message =
      near.empty() ? fmt::format("{} has {}", blockName.str(), llvm::join(names, ", ")) : near.str() + "?";
  return nullptr;
}

void Analyzer::declareSetting(CheckedBlock &block, llvm::StringRef blockName, const Setting &setting) {
  const SettingInfo *info = settingOf(blockName, setting);
  if (!info)
    return;
  if (!info->isSupported)
    return notYet(setting.name.span, fmt::format("`{}` in a {}", setting.name.text, blockName.str()));
  if (info->type == SettingType::Tied && setting.form == Setting::Form::Tied) {
    // Their names are known before any program is read.
    for (const CheckedTied &other : block.tied)
      if (other.name == setting.words[0])
        return duplicate({setting.words[0], setting.span}, other.span);
    block.tied.push_back({setting.words[0], {}, setting.span});
    return;
  }
  if ((info->type == SettingType::Edge && setting.form == Setting::Form::Edge) ||
      info->type == SettingType::LinkBlock)
    return; // there may be several, and none is a value
  std::string key = keyOf(blockName, setting);
  auto [found, isNew] = block.settings.try_emplace(key, static_cast<uint32_t>(result.settings.size()));
  if (!isNew)
    return duplicate(setting.name, result.settings[found->second].span);
  CheckedSetting checked;
  checked.name = setting.name.text;
  checked.span = setting.span;
  result.settings.push_back(std::move(checked));
  if (info->type == SettingType::LayerBlock)
    declareLayers(block, setting);
  else if (info->type == SettingType::Profile)
    declareProfile(setting);
}

void Analyzer::duplicate(const ast::Identifier &name, Span first) {
  diagnostics
      .report(Rule::DuplicateName, name.span,
              {{"name", name.text}, {"line", std::to_string(sources.locate(first.begin).line)}})
      .notes.push_back({"first one here", first, {}, {}});
}

void Analyzer::fillBlock(const ast::Block &block) {
  CheckedBlock *checked = nullptr;
  if (block.kind == ast::Block::Kind::Queue) {
    for (CheckedBlock &queue : result.queues)
      if (queue.span == block.span)
        checked = &queue;
  } else {
    auto &place = block.kind == ast::Block::Kind::Model     ? result.model
                  : block.kind == ast::Block::Kind::Cluster ? result.cluster
                                                            : result.training;
    if (place && place->span == block.span)
      checked = &*place;
  }
  if (!checked)
    return; // a second block of its kind, reported already
  inScope([&] {
    // `4 /s` in a queue is a rate: there `s` is one second.
    if (block.kind == ast::Block::Kind::Queue) {
      SlotId second = result.code.addSlot("s");
      scopes.back()["s"] = {Entry::Kind::Slot, second, {}};
      result.steps.push_back(
          {CheckedStep::Kind::Let, second, constant(Value::of(*unitNamed("s")), {}), {}, {}});
    }
    for (const Setting &setting : block.settings)
      fillSetting(*checked, blockName(block.kind), setting);
    if (block.kind == ast::Block::Kind::Model) {
      fillLayerSums(*checked);
      fillMeasured(*checked);
    }
  });
}

void Analyzer::fillSetting(CheckedBlock &block, llvm::StringRef blockName, const Setting &setting) {
  const SettingInfo *info = findSetting(blockName, setting.name.text);
  if (info && info->type == SettingType::Edge && setting.form == Setting::Form::Edge)
    return edge(block, setting);
  if (info && info->type == SettingType::Tied && setting.form == Setting::Form::Tied)
    return tied(block, setting);
  if (info && info->type == SettingType::LinkBlock)
    return link(block, setting);
  std::string key = keyOf(blockName, setting);
  auto found = block.settings.find(key);
  if (!info || !info->isSupported || found == block.settings.end())
    return;
  uint32_t index = found->second;
  auto expectForm = [&](bool holds, llvm::StringRef form) {
    if (!holds)
      diagnostics.report(Rule::SyntaxError, setting.span,
                         {{"what", form.str()}, {"token", "\"" + setting.name.text + "\" in another form"}});
    return holds;
  };
  switch (info->type) {
  case SettingType::LayerBlock:
    if (expectForm(setting.form == Setting::Form::Block, "layer(l) { ... }"))
      fillLayers(block, setting);
    return;
  case SettingType::Range:
    if (expectForm(setting.form == Setting::Form::Range, fmt::format("`{}(s) = a..b;`", setting.name.text)))
      layerRange(block, setting);
    return;
  case SettingType::Flag:
    expectForm(setting.form == Setting::Form::Flag, fmt::format("`{};`", setting.name.text));
    return;
  case SettingType::Stages:
    if (expectForm(setting.form == Setting::Form::On, fmt::format("`{} on s, t;`", setting.name.text)))
      for (const ast::ExprPtr &stage : setting.operands) {
        NodeId node = expr(*stage);
        result.settings[index].operands.push_back(node);
      }
    return;
  case SettingType::Edge:
    expectForm(false, "`edge a -> b;`");
    return;
  case SettingType::Tied:
    expectForm(false, "`tied NAME on s, t;`");
    return;
  case SettingType::Word:
    return word(result.settings[index], *info, setting);
  case SettingType::Profile:
    return; // read where it was declared
  default:
    break;
  }
  number(result.settings[index], *info, setting);
}

/// `edge a -> b { boundary = …; no_gradient; }`
void Analyzer::edge(CheckedBlock &model, const Setting &setting) {
  CheckedEdge checked;
  checked.span = setting.span;
  checked.from = expr(*setting.operands[0]);
  checked.to = expr(*setting.operands[1]);
  for (const Setting &inner : setting.settings) {
    const SettingInfo *info = settingOf("edge", inner);
    if (!info) {
      continue;
    } else if (info->type == SettingType::Flag) {
      checked.hasGradient = false;
    } else if (checked.boundary != ~0u) {
      duplicate(inner.name, result.settings[checked.boundary].span);
    } else {
      CheckedSetting boundary;
      number(boundary, *info, inner);
      checked.boundary = static_cast<uint32_t>(result.settings.size());
      result.settings.push_back(std::move(boundary));
    }
  }
  model.edges.push_back(checked);
}

/// `tied NAME on s, t;`
void Analyzer::tied(CheckedBlock &model, const Setting &setting) {
  auto declared =
      llvm::find_if(model.tied, [&](const CheckedTied &known) { return known.span == setting.span; });
  if (declared == model.tied.end())
    return; // its name has been taken: reported already
  std::vector<NodeId> stages;
  for (const ast::ExprPtr &stage : setting.operands)
    stages.push_back(expr(*stage));
  declared->stages = std::move(stages);
}

/// A setting whose value is an expression, perhaps of parameters.
void Analyzer::number(CheckedSetting &checked, const SettingInfo &info, const Setting &setting) {
  if (setting.form != Setting::Form::Value) {
    diagnostics.report(Rule::SyntaxError, setting.span,
                       {{"what", fmt::format("`{} = value;`", setting.name.text)},
                        {"token", "\"" + setting.name.text + "\" in another form"}});
    return;
  }
  if (setting.parameters.size() > info.maxParameters)
    diagnostics.report(Rule::WrongArguments, setting.name.span,
                       {{"what", fmt::format("{} takes at most {} parameter{}, found {}", setting.name.text,
                                             info.maxParameters, info.maxParameters == 1 ? "" : "s",
                                             setting.parameters.size())}});
  inScope([&] {
    std::vector<SlotId> parameters;
    for (const ast::Identifier &parameter : setting.parameters)
      parameters.push_back(declareSlot(parameter, Hiding::Allowed));
    layerMicrobatch = layer != noSlot && !parameters.empty() ? parameters[0] : noSlot;
    NodeId value = expr(*setting.value);
    checked.name = setting.name.text;
    checked.span = setting.span;
    checked.parameters = std::move(parameters);
    checked.value = value;
  });
}

/// `nccl`, `mean over samples`, `eager(2)`, `inferred(early)`: the words of a value without a number.
static std::string wordsOf(const Setting &setting) {
  if (setting.form == Setting::Form::Words)
    return llvm::join(setting.words, " ");
  if (setting.form == Setting::Form::Value &&
      (setting.value->kind == ast::ExprKind::Name || setting.value->kind == ast::ExprKind::Call))
    return setting.value->text;
  return "";
}

/// The k of `staleness <= k`.
NodeId Analyzer::staleness(const ast::Expr &bound) {
  if (bound.kind == ast::ExprKind::Binary && bound.text == "<=" &&
      bound.children[0]->kind == ast::ExprKind::Name && bound.children[0]->text == "staleness")
    return expr(*bound.children[1]);
  diagnostics.report(Rule::SyntaxError, bound.span,
                     {{"what", "`staleness <= k`"}, {"token", "another bound"}});
  return noNode;
}

void Analyzer::word(CheckedSetting &checked, const SettingInfo &info, const Setting &setting) {
  auto refuse = [&](Span span, std::string what) {
    diagnostics.report(Rule::WrongArguments, span, {{"what", std::move(what)}});
  };
  if (!setting.parameters.empty())
    return refuse(setting.name.span, fmt::format("{} takes no parameters", setting.name.text));
  std::string words = wordsOf(setting);
  if (llvm::is_contained(info.words, llvm::StringRef(words)) && !words.empty()) {
    const bool isCall = setting.value && setting.value->kind == ast::ExprKind::Call;
    const size_t given = isCall ? setting.value->children.size() : 0;
    // `stashed` and `asynchronous` stand alone or with a bound.
    const bool mayBeBounded = words == "stashed" || words == "asynchronous";
    const size_t taken = words == "eager" || words == "inferred" || (mayBeBounded && isCall) ? 1 : 0;
    if (given != taken || (isCall && taken == 0))
      return refuse(setting.value ? setting.value->span : setting.span,
                    words == "eager"      ? "eager takes its depth, as in eager(1)"
                    : words == "inferred" ? "inferred takes early or just_in_time"
                    : words == "stashed"  ? "stashed takes the most versions kept at once, as in stashed(2)"
                    : words == "asynchronous"
                        ? "asynchronous takes a bound, as in asynchronous(staleness <= 1)"
                        : fmt::format("{} stands without parentheses", words));
    checked.words = {words};
    if (words == "asynchronous" && isCall)
      checked.operands = {staleness(*setting.value->children[0])};
    else if (words == "inferred")
      checked.words.push_back(sources.text(setting.value->children[0]->span).str());
    else if (isCall)
      checked.operands = {expr(*setting.value->children[0])};
    return;
  }
  llvm::ArrayRef<llvm::StringRef> all = info.words;
  Span span = setting.value ? setting.value->span : setting.span;
  llvm::StringRef near = nearest(words, all);
  diagnostics.report(Rule::UnknownName, span, {{"name", words.empty() ? "this" : words}}).fix.message =
      near.empty() ? fmt::format("one of {}", llvm::join(all, ", ")) : near.str() + "?";
}

} // namespace sluice
