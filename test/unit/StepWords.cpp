// The plain parts of the step machine's types: names, who stands where, the order of blame.
#include "StepMachine.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice::machine {

static const char *const words[] = {
    "forward",       "backward",      "backward_input", "backward_weight", "recompute",
    "drop",          "offload",       "reload",         "send_activation", "recv_activation",
    "send_gradient", "recv_gradient", "zero",           "scale",           "reduce",
    "reduce_tied",   "norm",          "update",         "unshard",         "reshard"};

std::string str(const Statement &op) {
  std::string text = op.prefix == Prefix::Start ? "start " : op.prefix == Prefix::Wait ? "wait " : "";
  text += words[static_cast<size_t>(op.word)];
  if (op.word == Word::ReduceTied)
    text += fmt::format("(tie {})", op.stage);
  else if (op.word == Word::Scale)
    text += fmt::format("({}, {})", op.stage, op.factor->str());
  else if (op.hasMicrobatch())
    text += fmt::format("({}, {})", op.stage, op.microbatch);
  else if (op.word != Word::Norm)
    text += fmt::format("({})", op.stage);
  if (op.neighbour)
    text += fmt::format(" {} {}", op.isSend() ? "to" : "from", *op.neighbour);
  if (op.kept != Kept::All)
    text += op.kept == Kept::Input ? " keep input" : " keep nothing";
  if (op.version)
    text += fmt::format(" using version {}", *op.version);
  if (op.factor && op.word != Word::Scale)
    text += " scale " + op.factor->str();
  text += op.replay ? " replay" : "";
  text += op.overwrite ? " overwrite" : "";
  text += op.local ? " local" : "";
  return op.follows ? "& " + text : text;
}

std::vector<uint32_t> Setting::devicesOf(uint32_t stage) const {
  std::vector<uint32_t> found;
  for (const std::vector<uint32_t> &row : deviceOf)
    found.push_back(row[stage]);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool Setting::isOn(uint32_t stage, uint32_t device) const {
  return std::any_of(deviceOf.begin(), deviceOf.end(),
                     [&](const std::vector<uint32_t> &row) { return row[stage] == device; });
}

std::vector<uint32_t> Setting::behind(uint32_t stage, bool ofGradients) const {
  std::vector<uint32_t> found;
  if (stage + 1 < stages)
    found.push_back(stage + 1);
  for (const Skip &skip : skips)
    if (skip.from == stage && (skip.hasGradient || !ofGradients))
      found.push_back(skip.to);
  return found;
}

std::vector<uint32_t> Setting::before(uint32_t stage, bool ofGradients) const {
  std::vector<uint32_t> found;
  if (stage > 0)
    found.push_back(stage - 1);
  for (const Skip &skip : skips)
    if (skip.to == stage && (skip.hasGradient || !ofGradients))
      found.push_back(skip.from);
  return found;
}

std::vector<uint32_t> Setting::devicesOf(const Tie &tie) const {
  std::vector<uint32_t> found;
  for (uint32_t stage : tie.stages)
    for (uint32_t device : devicesOf(stage))
      found.push_back(device);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::optional<uint32_t> Setting::onlyDevice(const Tie &tie) const {
  std::vector<uint32_t> found = devicesOf(tie);
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

static unsigned rank(unsigned family) {
  static constexpr unsigned order[] = {8, 2, 4, 3, 5, 6, 7};
  return static_cast<unsigned>(std::find(std::begin(order), std::end(order), family) - std::begin(order));
}

bool isBlamedBefore(unsigned a, unsigned b) { return rank(a) < rank(b); }

std::vector<unsigned> blamed(const std::vector<Wrong> &wrongs) {
  std::vector<unsigned> families;
  for (const Wrong &wrong : wrongs) {
    if (!families.empty() && isBlamedBefore(families.front(), wrong.family))
      continue;
    if (!families.empty() && isBlamedBefore(wrong.family, families.front()))
      families.clear();
    families.push_back(wrong.family);
    families.push_back(wrong.otherFamily);
  }
  if (std::any_of(wrongs.begin(), wrongs.end(), [](const Wrong &wrong) { return wrong.isUnpaired; }))
    families.push_back(3);
  return families;
}

std::string str(const std::vector<Wrong> &wrongs) {
  std::string text;
  for (const Wrong &wrong : wrongs)
    text += fmt::format("{}xx, device {}, step {}: {}\n", wrong.family, wrong.device, wrong.step, wrong.what);
  return text;
}

} // namespace sluice::machine
