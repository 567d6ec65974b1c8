#include "Syntax/Parse.h"

#include "Syntax/BuildAst.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <fmt/format.h>

namespace sluice {

using grammar::SluiceLexer;
using grammar::SluiceParser;

namespace {

constexpr unsigned maxNesting = 256;
constexpr unsigned maxOperators = 1024;
constexpr unsigned maxSyntaxErrors = 20;

/// Turns what ANTLR says into 101 findings.
class Listener : public antlr4::BaseErrorListener {
public:
  Listener(const SourceManager &sources, Span text, Diagnostics &diagnostics)
      : sources(sources), text(text), diagnostics(diagnostics) {}

  void syntaxError(antlr4::Recognizer *recognizer, antlr4::Token *token, size_t, size_t, const std::string &,
                   std::exception_ptr) override {
    // A lexer has no token to show; its grammar ends in a rule for any character, so it never errs.
    auto *parser = dynamic_cast<SluiceParser *>(recognizer);
    if (!parser || !token || ++count > maxSyntaxErrors)
      return;
    // A missing `;` is noticed at whatever follows; people look for it where the line ends.
    const antlr4::Token *before = previous(*parser, token);
    bool lineEnds = before && before->getLine() < token->getLine() &&
                    parser->getExpectedTokens().contains(static_cast<size_t>(SluiceLexer::SEMICOLON));
    if (!lineEnds)
      return report(token, describeExpected(*parser));
    uint32_t end = spanOf(before, text).end;
    diagnostics.report(Rule::SyntaxError, {end, end + 1},
                       {{"what", describeExpected(*parser)}, {"token", "the end of the line"}});
  }

  void report(const antlr4::Token *token, const std::string &what, const std::string &found = "") {
    diagnostics.report(Rule::SyntaxError, spanOf(token, text),
                       {{"what", what}, {"token", found.empty() ? describe(token) : found}});
  }

  unsigned count = 0;

private:
  /// The token before, comments left out; null at the beginning.
  static const antlr4::Token *previous(SluiceParser &parser, const antlr4::Token *token) {
    for (size_t i = token->getTokenIndex(); i-- > 0;)
      if (const antlr4::Token *before = parser.getTokenStream()->get(i);
          before->getChannel() == antlr4::Token::DEFAULT_CHANNEL)
        return before;
    return nullptr;
  }

  std::string describe(const antlr4::Token *token) const {
    if (token->getType() == antlr4::Token::EOF)
      return "the end of the file";
    std::string word = sources.text(spanOf(token, text)).str();
    if (token->getType() == SluiceLexer::TABLE_BODY)
      return "a table";
    if (word == "\"")
      return "a text that is not closed";
    // The lexer takes a character beyond ASCII byte by byte; people see it whole.
    llvm::StringRef rest = sources.fileText(text.begin).drop_front(token->getStopIndex() + 1);
    if (static_cast<unsigned char>(word[0]) >= 0xc0)
      word += rest.take_while([](char c) { return (c & 0xc0) == 0x80; });
    if (word.size() > 40)
      word = word.substr(0, 37) + "...";
    return fmt::format("\"{}\"", llvm::StringRef(word).trim().str());
  }

  static std::string describeExpected(SluiceParser &parser) {
    antlr4::misc::IntervalSet expected = parser.getExpectedTokens();
    bool name = expected.contains(static_cast<size_t>(SluiceLexer::IDENTIFIER));
    bool value = name && expected.contains(static_cast<size_t>(SluiceLexer::NUMBER));
    std::vector<std::string> choices;
    if (value)
      choices.push_back("a value");
    else if (name)
      choices.push_back("a name");
    const auto &vocabulary = parser.getVocabulary();
    for (ssize_t type : expected.toList()) {
      if (type < 0) {
        choices.push_back("the end of the file");
        continue;
      }
      std::string literal = vocabulary.getLiteralName(static_cast<size_t>(type));
      // Words that may also be names are part of "a name"; what starts a value is part of "a value".
      bool isWord = literal.size() > 2 && (isalpha(literal[1]) || literal[1] == '_');
      bool startsValue = literal == "'('" || literal == "'['" || literal == "'-'" || literal == "'!'";
      if ((name && isWord) || (value && startsValue) || literal.empty())
        continue;
      choices.push_back(fmt::format("\"{}\"", literal.substr(1, literal.size() - 2)));
    }
    // A forgotten ";" or ")" is likelier than any of the words that may go on here.
    std::stable_partition(choices.begin(), choices.end(), [](const std::string &choice) {
      return choice.front() != '"' || !isalpha(static_cast<unsigned char>(choice[1]));
    });
    constexpr size_t shown = 6;
    bool cut = choices.size() > shown;
    if (cut)
      choices.resize(shown);
    if (choices.empty())
      return "something else";
    std::string last = choices.back();
    choices.pop_back();
    if (choices.empty())
      return last;
    return fmt::format("{}{}{}{}", llvm::join(choices, ", "), cut ? ", " : " or ", last, cut ? " ..." : "");
  }

  const SourceManager &sources;
  Span text;
  Diagnostics &diagnostics;
};

/// Reports what would nest or chain too deep for a recursive walk. True if the parser may start.
bool fitsTheStack(antlr4::CommonTokenStream &tokens, Listener &listener) {
  unsigned depth = 0, operators = 0;
  size_t before = antlr4::Token::EOF;
  for (const antlr4::Token *token : tokens.getTokens()) {
    // An index after an index has no token of its own.
    operators += before == SluiceLexer::RBRACKET && token->getType() == SluiceLexer::LBRACKET;
    before = token->getType();
    switch (token->getType()) {
    case SluiceLexer::LPAREN:
    case SluiceLexer::LBRACE:
    case SluiceLexer::LBRACKET:
      ++depth;
      break;
    case SluiceLexer::RPAREN:
    case SluiceLexer::RBRACE:
    case SluiceLexer::RBRACKET:
      depth -= depth > 0;
      break;
    case SluiceLexer::SEMICOLON:
      operators = 0;
      break;
    default:
      if (token->getType() >= SluiceLexer::AND && token->getType() <= SluiceLexer::QUESTION)
        ++operators;
    }
    if (depth > maxNesting || operators > maxOperators) {
      listener.report(token, depth > maxNesting
                                 ? fmt::format("at most {} levels of brackets", maxNesting)
                                 : fmt::format("at most {} operators in one statement", maxOperators));
      return false;
    }
  }
  return true;
}

/// Reports a comment or table that is never closed at its beginning, where the mistake is, instead of at
/// whatever the parser stumbles over behind it.
bool isClosed(antlr4::CommonTokenStream &tokens, Listener &listener) {
  const antlr4::Token *before = nullptr;
  for (const antlr4::Token *token : tokens.getTokens()) {
    if (token->getChannel() != antlr4::Token::DEFAULT_CHANNEL)
      continue;
    bool follows = before && before->getStopIndex() + 1 == token->getStartIndex();
    bool comment =
        follows && before->getType() == SluiceLexer::SLASH && token->getType() == SluiceLexer::STAR;
    bool table = before && before->getType() == SluiceLexer::TABLE && token->getType() == SluiceLexer::LBRACE;
    if (comment || table) {
      listener.report(before,
                      comment ? "\"*/\" at the end of this comment" : "\"}\" after the rows of this table",
                      "the end of the file");
      return false;
    }
    before = token;
  }
  return true;
}

} // namespace

std::optional<ast::File> parse(const SourceManager &sources, Span text, Diagnostics &diagnostics) {
  llvm::StringRef content = sources.fileText(text.begin);
  Listener listener(sources, text, diagnostics);
  // The lexer counts code points; spans count bytes. Other characters only occur in comments and texts,
  // so every byte above 127 is shown to it as one character.
  std::string latin;
  bool ascii = llvm::all_of(content, [](char c) { return static_cast<unsigned char>(c) < 128; });
  if (!ascii) {
    latin = content.str();
    for (char &c : latin)
      if (static_cast<unsigned char>(c) >= 128)
        c = '\x7f';
  }
  antlr4::ANTLRInputStream input(ascii ? content.str() : latin);
  SluiceLexer lexer(&input);
  lexer.removeErrorListeners();
  antlr4::CommonTokenStream tokens(&lexer);
  tokens.fill();
  if (!isClosed(tokens, listener) || !fitsTheStack(tokens, listener))
    return std::nullopt;

  SluiceParser parser(&tokens);
  parser.removeErrorListeners();
  auto *interpreter = parser.getInterpreter<antlr4::atn::ParserATNSimulator>();
  // The fast strategy decides nearly every file; where it fails the full one tells right from wrong.
  interpreter->setPredictionMode(antlr4::atn::PredictionMode::SLL);
  parser.setErrorHandler(std::make_shared<antlr4::BailErrorStrategy>());
  SluiceParser::FileContext *tree = nullptr;
  try {
    tree = parser.file();
  } catch (const antlr4::ParseCancellationException &) {
    tokens.seek(0);
    parser.reset();
    parser.addErrorListener(&listener);
    parser.setErrorHandler(std::make_shared<antlr4::DefaultErrorStrategy>());
    interpreter->setPredictionMode(antlr4::atn::PredictionMode::LL);
    tree = parser.file();
  }
  if (listener.count > 0)
    return std::nullopt;
  ast::File file = buildAst(*tree, tokens, sources, text, diagnostics);
  file.name = sources.locate(text.begin).file.str();
  return file;
}

} // namespace sluice
