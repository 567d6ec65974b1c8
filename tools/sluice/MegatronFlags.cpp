#include "MegatronFlags.h"

#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice::tool {

using namespace megatron;

namespace {

enum class Form : uint8_t { Count, Word, Words, Flag };
struct Option {
  llvm::StringRef name;
  Form form;
  int64_t least = 1; ///< Of a count.
};

// What says something about the pipeline. torchrun's options give the world size where it is not named.
constexpr Option options[] = {{pipeline, Form::Count},
                              {"--tensor-model-parallel-size", Form::Count},
                              {"--context-parallel-size", Form::Count},
                              {"--expert-model-parallel-size", Form::Count},
                              {layersFlag, Form::Count},
                              {perChunk, Form::Count},
                              {chunksFlag, Form::Count},
                              {chunksName, Form::Count},
                              {groupFlag, Form::Count},
                              {layoutFlag, Form::Word},
                              {firstFlag, Form::Count},
                              {lastFlag, Form::Count},
                              {embeddingFlag, Form::Flag},
                              {lossFlag, Form::Flag},
                              {microFlag, Form::Count},
                              {globalFlag, Form::Count},
                              {worldFlag, Form::Count},
                              {"--nnodes", Form::Count},
                              {"--nproc-per-node", Form::Count},
                              {"--nproc_per_node", Form::Count},
                              {predictionsFlag, Form::Count, 0},
                              {"--overlap-p2p-communication", Form::Flag},
                              {noOverlap, Form::Flag},
                              {expertOverlap, Form::Flag},
                              {"--delay-wgrad-compute", Form::Flag},
                              {"--recompute-activations", Form::Flag},
                              {granularity, Form::Word},
                              {method, Form::Word},
                              {recomputed, Form::Count},
                              {"--recompute-modules", Form::Words},
                              {"--seq-length", Form::Count},
                              {"--hidden-size", Form::Count},
                              {"--sequence-parallel", Form::Flag},
                              {"--bf16", Form::Flag},
                              {"--fp16", Form::Flag}};

/// As a shell splits a line: blanks, quotes of both kinds, backslashes before a character or line end.
std::vector<std::string> splitWords(llvm::StringRef text) {
  std::vector<std::string> words;
  bool inWord = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quote && llvm::isSpace(c)) {
      inWord = false;
      continue;
    }
    if (!quote && c == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
      ++i;
      inWord = false;
      continue;
    }
    if (!inWord)
      words.emplace_back();
    inWord = true;
    if (c == '\\' && quote != '\'' && i + 1 < text.size())
      words.back() += text[++i];
    else if (quote ? c == quote : c == '"' || c == '\'')
      quote = quote ? 0 : c;
    else
      words.back() += c;
  }
  return words;
}

bool isNumber(llvm::StringRef word) {
  return word.size() > 1 && word[0] == '-' && (llvm::isDigit(word[1]) || word[1] == '.');
}
bool isCommand(llvm::StringRef word) { return word.ends_with(".py"); }

} // namespace

MegatronFlags::MegatronFlags(llvm::StringRef arguments, std::vector<std::string> &errors) : errors(errors) {
  const std::vector<std::string> split = splitWords(arguments);
  text = llvm::join(split, " ");
  take(split);
}

int64_t MegatronFlags::count(llvm::StringRef name, int64_t otherwise) const {
  auto found = counts.find(name);
  return found == counts.end() ? otherwise : found->second;
}

std::string MegatronFlags::word(llvm::StringRef name) const {
  auto found = words.find(name);
  return found == words.end() ? "" : found->second;
}

std::string MegatronFlags::shown(llvm::StringRef name) const {
  return has(name) ? fmt::format("{} {}", name.str(), count(name))
                   : fmt::format("{} 1 (the default)", name.str());
}

void MegatronFlags::take(llvm::ArrayRef<std::string> arguments) {
  for (size_t i = 0; i < arguments.size();) {
    llvm::StringRef word = arguments[i];
    if (!word.starts_with("-") || isNumber(word)) {
      if (llvm::StringRef(word).ends_with(".py") || word == "torchrun" || word == "python") {
        ++i; // of a whole command line
        continue;
      }
      errors.push_back(fmt::format("\"{}\" belongs to no option: an option begins with --", word.str()));
      ++i;
      continue;
    }
    auto [name, value] = word.split('=');
    std::vector<std::string> values;
    if (word.contains('='))
      values.push_back(value.str());
    for (++i; i < arguments.size() &&
              (!llvm::StringRef(arguments[i]).starts_with("-") || isNumber(arguments[i])) &&
              !isCommand(arguments[i]);
         ++i)
      values.push_back(arguments[i]);
    option(name, values);
  }
}

void MegatronFlags::option(llvm::StringRef name, llvm::ArrayRef<std::string> values) {
  const auto *known = llvm::find_if(options, [&](const Option &o) { return o.name == name; });
  if (known == std::end(options)) {
    if (!llvm::is_contained(ignored, name.str()))
      ignored.push_back(name.str());
    suggest(name);
    return;
  }
  const size_t wanted = known->form == Form::Flag ? 0 : known->form == Form::Words ? values.size() : 1;
  if (values.size() != wanted) {
    errors.push_back(fmt::format("{} takes {}, not {}", name.str(), wanted == 0 ? "no value" : "one value",
                                 values.empty() ? "none" : "\"" + llvm::join(values, " ") + "\""));
    return;
  }
  if (known->form != Form::Count) {
    words[known->name] = wanted == 0 ? "" : llvm::join(values, " ");
    return;
  }
  int64_t number;
  if (llvm::StringRef(values[0]).getAsInteger(10, number) || number < known->least || number > 1'000'000'000)
    errors.push_back(
        fmt::format("{} {}: a whole number from {} is wanted", name.str(), values[0], known->least));
  else
    counts[known->name] = number;
}
// A flag that is all but one of the known ones is more likely misspelt than another.
void MegatronFlags::suggest(llvm::StringRef name) {
  std::vector<llvm::StringRef> names;
  for (const Option &o : options)
    names.push_back(o.name);
  llvm::StringRef near = nearest(name, names);
  if (!near.empty() && name.size() > 8 && near.edit_distance(name) <= 2)
    errors.push_back(fmt::format("there is no {}: {}?", name.str(), near.str()));
}

} // namespace sluice::tool
