#include "Formats/DeepSpeedText.h"

#include "Formats/Json.h"
#include "Support/Words.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice::deepspeed {

namespace {

struct Name {
  llvm::StringRef text;
  Kind kind;
  bool hasBuffer;
};
constexpr Name names[] = {{"LoadMicroBatch", Kind::LoadMicroBatch, true},
                          {"ForwardPass", Kind::ForwardPass, true},
                          {"BackwardPass", Kind::BackwardPass, true},
                          {"ForwardBackwardPass", Kind::ForwardBackwardPass, false},
                          {"WeightPass", Kind::WeightPass, false},
                          {"SendActivation", Kind::SendActivation, true},
                          {"RecvActivation", Kind::RecvActivation, true},
                          {"SendGrad", Kind::SendGrad, true},
                          {"RecvGrad", Kind::RecvGrad, true},
                          {"CommitP2P", Kind::CommitP2P, false},
                          {"ReduceTiedGrads", Kind::ReduceTiedGrads, false},
                          {"ReduceGrads", Kind::ReduceGrads, false},
                          {"OptimizerStep", Kind::OptimizerStep, false}};
constexpr uint32_t maxStage = 1u << 16, maxBuffer = 1u << 30;

/// Reads the text of one stage after the other. `rest` is always what has not been read yet.
class Reader {
public:
  Reader(const SourceManager &sources, Diagnostics &diagnostics)
      : sources(sources), diagnostics(diagnostics) {}

  bool file(Span span, std::optional<uint32_t> onlyStage) {
    begin(span);
    llvm::StringRef start = whole.ltrim();
    if (start.consume_front("[") && (start.ltrim().starts_with("[")) && isJson())
      return json(span, onlyStage);
    return lines(onlyStage);
  }
  Text take() { return std::move(text); }

private:
  void begin(Span span) {
    whole = rest = sources.text(span);
    offset = span.begin;
  }
  /// JSON quotes its instructions; a printed list of lists does not.
  bool isJson() const {
    size_t name = whole.find_if([](char c) { return llvm::isAlpha(c) || c == '"'; });
    return name == llvm::StringRef::npos || whole[name] == '"';
  }
  Span spanOf(llvm::StringRef part) const {
    auto at = offset + static_cast<uint32_t>(part.data() - whole.data());
    return {at, at + static_cast<uint32_t>(std::max<size_t>(part.size(), 1))};
  }
  /// The next word or character of `rest`, for messages.
  llvm::StringRef token() const {
    llvm::StringRef word = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    return word.empty() ? rest.take_front(1) : word.take_front(40);
  }
  bool expected(std::string what) { return expected(std::move(what), token()); }
  bool expected(std::string what, llvm::StringRef found) {
    Finding &finding = diagnostics.report(
        Rule::SyntaxError, spanOf(found),
        {{"what", std::move(what)}, {"token", found.trim().empty() ? "the end of the line" : quoted(found)}});
    if (stage)
      finding.device = *stage;
    return false;
  }

  Program &current() {
    if (text.stages.size() <= *stage)
      text.stages.resize(*stage + 1);
    Program &program = text.stages[*stage];
    if (!program.span.isValid())
      program.span = spanOf(rest.take_until([](char c) { return c == '\n'; }));
    return program;
  }

  bool lines(std::optional<uint32_t> onlyStage) {
    stage = onlyStage;
    while (true) {
      rest = rest.ltrim();
      if (rest.empty())
        return true;
      if (rest.starts_with("#")) {
        rest = rest.drop_until([](char c) { return c == '\n'; });
        continue;
      }
      if (!rest.starts_with("[") && !header())
        return false;
      if (rest.starts_with("[") && !step())
        return false;
    }
  }
  /// `stage 0`, `stage 0:`, alone or before a step.
  bool header() {
    llvm::StringRef line = rest;
    if (!rest.consume_front_insensitive("stage") && !rest.consume_front_insensitive("rank"))
      return expected("`stage N` or a step such as [ForwardPass(buffer_id=0)]");
    rest = rest.ltrim(" \t=:");
    uint32_t number = 0;
    if (rest.empty() || !llvm::isDigit(rest[0]) || rest.consumeInteger(10, number) || number >= maxStage)
      return expected(fmt::format("the number of a stage, below {}", maxStage));
    if (stage && isOneStage && number != *stage)
      return expected(fmt::format("steps of stage {}, as there is a file for each stage", *stage),
                      line.drop_back(rest.size()));
    stage = number;
    rest = rest.ltrim(" \t");
    rest.consume_front(":");
    rest = rest.ltrim(" \t");
    if (!rest.empty() && rest[0] != '\n' && rest[0] != '\r' && rest[0] != '[')
      return expected("the end of the line or a step");
    current();
    return true;
  }
  bool step() {
    if (!stage) {
      llvm::StringRef word = rest.take_front(1);
      Finding &finding = diagnostics.report(
          Rule::SyntaxError, spanOf(word), {{"what", "`stage 0` before the first step"}, {"token", "\"[\""}});
      finding.fix.message = "print the stage before its steps, or name one file a stage";
      return false;
    }
    return list(current(), /*ofSteps=*/true);
  }
  /// A step, or a list of steps as `print(list(schedule))` shows it.
  bool list(Program &program, bool ofSteps) {
    rest = rest.drop_front().ltrim();
    if (rest.consume_front("]"))
      return true;
    while (true) {
      if (ofSteps && rest.starts_with("[") ? !list(program, /*ofSteps=*/false) : !instruction(program))
        return false;
      rest = rest.ltrim();
      if (rest.consume_front("]"))
        return true;
      if (!rest.consume_front(","))
        return expected("\",\" or \"]\"");
      rest = rest.ltrim();
    }
  }

  /// `ForwardPass(buffer_id=0)` or `ForwardPass0` at the front of `rest`.
  bool instruction(Program &program) {
    llvm::StringRef start = rest, word = rest.take_while(llvm::isAlpha);
    if (word == "CommitP" && rest.starts_with("CommitP2P"))
      word = rest.take_front(9);
    const Name *known = llvm::find_if(names, [&](const Name &name) { return name.text == word; });
    if (known == std::end(names)) {
      std::vector<llvm::StringRef> all;
      for (const Name &name : names)
        all.push_back(name.text);
      llvm::StringRef near = nearest(word, all);
      llvm::StringRef shown = word.empty() ? token() : word;
      expected("an instruction of DeepSpeed", shown);
      if (!near.empty())
        diagnostics.findings().back().fix.message = near.str() + "?";
      return false;
    }
    rest = rest.drop_front(word.size());
    const size_t index = program.instructions.size();
    program.instructions.push_back({known->kind, spanOf(word)});
    bool hasBuffer = false;
    if (rest.consume_front("(")) {
      if (!arguments(program, index, hasBuffer))
        return false;
    } else if (!rest.empty() && llvm::isDigit(rest[0])) {
      hasBuffer = true;
      if (!number(program.instructions[index].buffer, maxBuffer, "a buffer"))
        return false;
    }
    llvm::StringRef all = start.drop_back(rest.size());
    program.instructions[index].place = spanOf(all);
    if (hasBuffer != known->hasBuffer)
      return expected(known->hasBuffer ? fmt::format("{}(buffer_id=N)", known->text.str())
                                       : fmt::format("{} without a buffer", known->text.str()),
                      all);
    if (known->kind == Kind::ForwardBackwardPass &&
        (program.instructions.size() != index + 3 ||
         program.instructions[index + 1].kind != Kind::ForwardPass ||
         program.instructions[index + 2].kind != Kind::BackwardPass))
      return expected("ForwardBackwardPass(forward=ForwardPass(..), backward=BackwardPass(..))", all);
    return true;
  }
  bool number(uint32_t &result, uint32_t bound, const char *what) {
    if (!rest.empty() && llvm::isDigit(rest[0]) && !rest.consumeInteger(10, result) && result < bound)
      return true;
    return expected(fmt::format("{}, a number below {}", what, bound));
  }
  bool arguments(Program &program, size_t index, bool &hasBuffer) {
    bool members = program.instructions[index].kind == Kind::ForwardBackwardPass;
    rest = rest.ltrim();
    if (rest.consume_front(")"))
      return true;
    while (true) {
      llvm::StringRef key = rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
      llvm::StringRef behind = rest.drop_front(key.size()).ltrim();
      if (!behind.consume_front("="))
        return expected("an argument such as buffer_id=0");
      llvm::StringRef keyAt = rest;
      rest = behind.ltrim();
      if (key == "buffer_id" && !members) {
        hasBuffer = true;
        if (!number(program.instructions[index].buffer, maxBuffer, "a buffer"))
          return false;
      } else if (key == "phase" && !members) {
        text.hasPhases = true;
        if (!number(program.instructions[index].phase, 2, "a phase"))
          return false;
      } else if (key == "enable_zb" && program.instructions[index].kind == Kind::BackwardPass) {
        bool isTrue = rest.consume_front("True");
        if (!isTrue && !rest.consume_front("False"))
          return expected("True or False");
        program.instructions[index].defersWeight = isTrue;
      } else if (members && (key == "forward" || key == "backward")) {
        if (depth > 0)
          return expected("no pass of two inside another", key);
        ++depth;
        bool good = instruction(program);
        --depth;
        if (!good)
          return false;
      } else {
        rest = keyAt;
        return expected(members ? "forward= or backward=" : "buffer_id=, phase= or enable_zb= of a backward");
      }
      rest = rest.ltrim();
      if (rest.consume_front(")"))
        return true;
      if (!rest.consume_front(","))
        return expected("\",\" or \")\"");
      rest = rest.ltrim();
    }
  }

  /// A list of stages, of steps, of instructions; of one stage's file a list of steps.
  bool json(Span span, std::optional<uint32_t> onlyStage) {
    auto document = parseJson(sources, span, diagnostics);
    if (!document)
      return false;
    if (onlyStage)
      return jsonStage(document->root, *onlyStage);
    for (const JsonValue &steps : document->root.items) {
      if (text.stages.size() == maxStage)
        return jsonExpected(steps, "at most 65536 stages");
      if (!jsonStage(steps, static_cast<uint32_t>(text.stages.size())))
        return false;
    }
    return true;
  }
  bool jsonExpected(const JsonValue &value, const char *what) {
    diagnostics.report(Rule::SyntaxError, value.span, {{"what", what}, {"token", describe(value)}});
    return false;
  }
  bool jsonStage(const JsonValue &steps, uint32_t number) {
    stage = number;
    text.stages.resize(std::max<size_t>(text.stages.size(), number + 1));
    Program &program = text.stages[number];
    program.span = steps.span;
    if (!steps.is(JsonValue::Kind::Array))
      return jsonExpected(steps, "the steps of a stage, an array");
    for (const JsonValue &step : steps.items) {
      if (!step.is(JsonValue::Kind::Array))
        return jsonExpected(step, "a step, an array of instructions");
      for (const JsonValue &entry : step.items) {
        // Texts with escapes do not lie in the file; no instruction needs one.
        if (!entry.is(JsonValue::Kind::Text) || entry.text.size() + 2 != entry.span.end - entry.span.begin)
          return jsonExpected(entry, "an instruction such as \"ForwardPass0\"");
        rest = entry.text;
        if (!instruction(program))
          return false;
        if (!rest.empty())
          return expected("the end of the instruction", rest.take_front(40));
      }
    }
    return true;
  }

public:
  bool isOneStage = false;

private:
  const SourceManager &sources;
  Diagnostics &diagnostics;
  Text text;
  llvm::StringRef whole, rest;
  uint32_t offset = 0;
  std::optional<uint32_t> stage;
  unsigned depth = 0;
};

} // namespace

std::optional<Text> read(const SourceManager &sources, llvm::ArrayRef<Span> texts, Diagnostics &diagnostics) {
  Reader reader(sources, diagnostics);
  reader.isOneStage = texts.size() > 1;
  for (uint32_t i = 0; i < texts.size(); ++i)
    if (!reader.file(texts[i], reader.isOneStage ? std::optional(i) : std::nullopt))
      return std::nullopt;
  return reader.take();
}

} // namespace sluice::deepspeed
