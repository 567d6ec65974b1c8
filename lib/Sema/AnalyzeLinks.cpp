// The blocks of a cluster that say how long something is under way: `link`, of which there may be several for
// different pairs of devices, `host` and `collective`.
#include "Sema/Analyzer.h"

#include "llvm/ADT/STLExtras.h"

#include <fmt/format.h>

namespace sluice {

using ast::Setting;

/// What the parameters of such a block are, if it is written with them.
static unsigned parametersOf(llvm::StringRef block) { return block == "link" ? 2 : 1; }

void Analyzer::link(CheckedBlock &cluster, const Setting &setting) {
  const std::string kind = setting.name.text;
  auto refuse = [&](Span span, std::string what, std::string fix) {
    diagnostics.report(Rule::WrongArguments, span, {{"what", std::move(what)}}).fix.message = std::move(fix);
  };
  if (setting.form != Setting::Form::Block) {
    diagnostics.report(Rule::SyntaxError, setting.span,
                       {{"what", kind + " { ... }"}, {"token", fmt::format("\"{}\" in another form", kind)}});
    return;
  }
  const bool isLink = kind == "link";
  if (const size_t given = setting.parameters.size(); given != 0 && given != parametersOf(kind))
    refuse(setting.name.span,
           fmt::format("{} takes {} or none, found {}", kind,
                       isLink           ? "2 devices"
                       : kind == "host" ? "1 device"
                                        : "1 number of members",
                       given),
           isLink ? "link(a, b) { ... }: a sends, b receives" : fmt::format("{} {{ ... }}", kind));
  if (!isLink && (setting.label || setting.condition))
    return refuse(setting.name.span, fmt::format("{} takes no {}", kind, setting.label ? "name" : "`when`"),
                  fmt::format("one {} block, whose values may depend on its parameter", kind));
  if (isLink && !linkIsReached(cluster, setting))
    return;
  std::optional<CheckedLink> &single = kind == "host" ? cluster.host : cluster.collective;
  if (!isLink && single)
    return duplicate(setting.name, single->span);

  CheckedLink checked;
  checked.span = setting.span;
  checked.name = setting.label ? setting.label->text : kind;
  inScope([&] {
    for (const ast::Identifier &parameter : setting.parameters)
      checked.parameters.push_back(declareSlot(parameter, Hiding::Allowed));
    if (setting.condition)
      checked.condition = linkCondition(setting);
    for (const Setting &inner : setting.settings)
      linkSetting(checked, setting, inner);
  });
  checkSharing(checked, setting);
  if (!isLink)
    single = std::move(checked);
  else
    cluster.links.push_back(std::move(checked));
  nameLinks(cluster);
}

/// What is on a lane at once shares its bandwidth; latencies delay nothing. `shared = no` beside a lane is a
/// comparison, a lane alone a mistake.
void Analyzer::checkSharing(const CheckedLink &link, const Setting &block) {
  const bool saysSharing =
      llvm::any_of(block.settings, [](const Setting &setting) { return setting.name.text == "shared"; });
  if (!saysSharing && link.lane != CheckedLink::none)
    diagnostics
        .report(Rule::WrongArguments, result.settings[link.lane].span,
                {{"what", "a lane says which transfers share, but this link is not shared"}})
        .fix.message = "shared = fifo; or shared = fair;";
  if (link.sharing != Sharing::No && link.bandwidth == CheckedLink::none)
    diagnostics
        .report(Rule::ValueMissing, link.span,
                {{"figure", fmt::format("sharing {}", link.name)}, {"setting", "`bandwidth`"}})
        .fix.message = "bandwidth = ...; latencies alone delay nothing, so nothing is shared";
}

/// Links without a name go by their lines where there are several of them.
void Analyzer::nameLinks(CheckedBlock &cluster) {
  auto isUnnamed = [](const CheckedLink &link) {
    return link.name == "link" || llvm::StringRef(link.name).starts_with("link at line ");
  };
  if (llvm::count_if(cluster.links, isUnnamed) < 2)
    return;
  for (CheckedLink &link : cluster.links)
    if (isUnnamed(link))
      link.name = fmt::format("link at line {}", sources.locate(link.span.begin).line);
}

/// A link behind one that takes every pair is never asked for.
bool Analyzer::linkIsReached(const CheckedBlock &cluster, const Setting &setting) {
  for (const CheckedLink &before : cluster.links) {
    if (setting.label && before.name == setting.label->text) {
      duplicate(*setting.label, before.span);
      return false;
    }
    if (before.condition != noNode)
      continue;
    Finding &finding = diagnostics.report(
        Rule::WrongArguments, setting.label ? setting.label->span : setting.name.span,
        {{"what", fmt::format("this link can never be used: the one at line {} takes every pair of devices",
                              sources.locate(before.span.begin).line)}});
    finding.notes.push_back({"it has no `when`", before.span, {}, {}});
    finding.fix.message =
        setting.condition ? "put this one before it" : "link(a, b) when ... { ... } for the first";
    return false;
  }
  return true;
}

/// `when c`. The devices have names only where the block gives them some.
NodeId Analyzer::linkCondition(const Setting &setting) {
  const size_t before = diagnostics.findings().size();
  const NodeId condition = expr(*setting.condition);
  if (setting.parameters.empty())
    for (Finding &finding : llvm::MutableArrayRef(diagnostics.findings()).drop_front(before))
      if (finding.rule == Rule::UnknownName)
        finding.fix.message = "link(a, b) when ...: a sends, b receives";
  return condition;
}

void Analyzer::linkSetting(CheckedLink &link, const Setting &block, const Setting &setting) {
  const SettingInfo *info = settingOf(block.name.text, setting);
  if (!info)
    return;
  auto seen =
      llvm::find_if(block.settings, [&](const Setting &s) { return s.name.text == setting.name.text; });
  if (&*seen != &setting)
    return duplicate(setting.name, seen->name.span);
  CheckedSetting checked;
  if (info->type == SettingType::Word) {
    word(checked, *info, setting);
    const llvm::StringRef is = checked.words.empty() ? "no" : llvm::StringRef(checked.words[0]);
    link.sharing = is == "fifo" ? Sharing::Fifo : is == "fair" ? Sharing::Fair : Sharing::No;
    return;
  }
  number(checked, *info, setting);
  if (checked.value == noNode)
    return;
  uint32_t &place = setting.name.text == "latency"     ? link.latency
                    : setting.name.text == "bandwidth" ? link.bandwidth
                                                       : link.lane;
  place = static_cast<uint32_t>(result.settings.size());
  result.settings.push_back(std::move(checked));
}

} // namespace sluice
