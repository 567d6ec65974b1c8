#include "Syntax/Ast.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

namespace sluice::ast {

namespace {

/// Every operation in parentheses, so that precedence is visible.
std::string str(const Expr &expr) {
  auto child = [&](size_t i) { return str(*expr.children[i]); };
  auto list = [&] {
    std::string text;
    for (size_t i = 0; i < expr.children.size(); ++i) {
      text += i == 0 ? "" : ", ";
      if (i < expr.argumentNames.size() && !expr.argumentNames[i].empty())
        text += expr.argumentNames[i] + " = ";
      text += child(i);
    }
    return text;
  };
  switch (expr.kind) {
  case ExprKind::Number:
  case ExprKind::Name:
    return expr.text;
  case ExprKind::String:
    return fmt::format("\"{}\"", expr.text);
  case ExprKind::Call:
    return fmt::format("{}({})", expr.text, list());
  case ExprKind::Comprehension:
    return fmt::format("{}({} for {} in {}..{}{})", expr.text, child(0), expr.variable, child(1), child(2),
                       expr.children[3] ? " by " + child(3) : "");
  case ExprKind::Unary:
    return fmt::format("({}{})", expr.text, child(0));
  case ExprKind::Binary:
    return fmt::format("({} {} {})", child(0), expr.text, child(1));
  case ExprKind::Conditional:
    return fmt::format("({} ? {} : {})", child(0), child(1), child(2));
  case ExprKind::List:
    return fmt::format("[{}]", list());
  case ExprKind::Index:
    return fmt::format("{}[{}]", child(0), child(1));
  }
  return "";
}

std::string str(const Range &range) { return str(*range.first) + ".." + str(*range.last); }
std::string in(const std::optional<Range> &range) { return range ? " in " + str(*range) : ""; }
std::string by(const ExprPtr &step) { return step ? " by " + str(*step) : ""; }

std::string str(const std::vector<Identifier> &names) {
  std::vector<std::string> texts;
  for (const Identifier &name : names)
    texts.push_back(name.text);
  return "(" + llvm::join(texts, ", ") + ")";
}

std::string str(const std::vector<ExprPtr> &exprs) {
  std::vector<std::string> texts;
  for (const ExprPtr &expr : exprs)
    texts.push_back(str(*expr));
  return llvm::join(texts, ", ");
}

std::string str(const OpCall &op) {
  std::string text = op.prefix == OpCall::Prefix::Start  ? "start "
                     : op.prefix == OpCall::Prefix::Wait ? "wait "
                                                         : "";
  text += op.name.text;
  if (op.hasArguments)
    text += "(" + str(op.arguments) + ")";
  for (const Suffix &suffix : op.suffixes)
    text += " " + suffix.word + (suffix.name.empty() ? "" : " " + suffix.name) +
            (suffix.value ? " " + str(*suffix.value) : "");
  return text;
}

class Printer {
public:
  explicit Printer(const SourceManager &sources) : sources(sources) {}

  void line(Span span, const std::string &text) {
    std::string place = "-";
    if (span.isValid()) {
      Location location = sources.locate(span.begin);
      place = fmt::format("{}:{}", location.line, location.column);
    }
    out += fmt::format("{:>8}  {}{}\n", place, std::string(2 * depth, ' '), text);
  }

  void documentation(const std::string &text) {
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef entry : lines)
      line({}, "/// " + entry.str());
  }

  void operator()(const Param &p) {
    documentation(p.documentation);
    line(p.name.span, "param " + p.name.text + " = " + str(*p.value) + in(p.range));
  }
  void operator()(const Let &l) { line(l.name.span, "let " + l.name.text + " = " + str(*l.value)); }
  void operator()(const Function &f) {
    line(f.name.span, "fn " + f.name.text + str(f.parameters) + " = " + str(*f.body));
  }
  void operator()(const Require &r) {
    line(r.span, fmt::format("require {}, \"{}\"", str(*r.condition), r.message));
  }
  void operator()(const Import &i) { line(i.span, fmt::format("import \"{}\"", i.path)); }
  void operator()(const Allow &a) { line(a.span, fmt::format("allow {}, \"{}\"", a.rule, a.reason)); }

  void operator()(const Block &b) {
    static constexpr const char *kinds[] = {"model", "cluster", "training", "queue"};
    documentation(b.documentation);
    line(b.span, kinds[static_cast<unsigned>(b.kind)] + (b.name ? " " + b.name->text : std::string()));
    nested([&] { all(b.settings); });
  }
  void operator()(const Setting &s) {
    std::string text = s.name.text;
    if (s.label)
      text += " " + s.label->text;
    if (!s.parameters.empty())
      text += str(s.parameters);
    if (s.condition)
      text += " when " + str(*s.condition);
    if (s.value)
      text += " = " + str(*s.value);
    if (s.range)
      text += " = " + str(*s.range);
    if (s.form == Setting::Form::From)
      text += fmt::format(" from \"{}\"", s.words[0]);
    else if (!s.words.empty())
      text += " = " + llvm::join(s.words, " ");
    if (!s.operands.empty())
      text += " on " + str(s.operands);
    line(s.span, text);
    nested([&] { all(s.settings); });
  }
  void operator()(const Place &p) {
    line(p.span, "place " + p.stage.text + in(p.stages) + " on " + str(*p.device) +
                     (p.microbatch ? " for " + p.microbatch->text : "") + in(p.microbatches) + by(p.step));
  }
  void operator()(const DeviceBlock &d) {
    line(d.span, "device " + (d.variable ? d.variable->text : str(*d.device)) + in(d.range));
    nested([&] { all(d.body); });
  }
  void operator()(const Timetable &t) {
    line(t.span, "timetable");
    nested([&] { all(t.body); });
  }
  void operator()(const Table &t) {
    line(t.span, t.path.empty() ? "table" : fmt::format("table from \"{}\"", t.path));
    if (t.path.empty())
      line(t.body, "cells " + llvm::join(llvm::split(sources.text(t.body).trim(), '\n'), " "));
  }
  void operator()(const Schedule &s) {
    documentation(s.documentation);
    std::string text = "schedule " + s.name.text;
    for (const ScheduleParameter &parameter : s.parameters)
      text += (&parameter == s.parameters.data() ? "(" : ", ") + parameter.name.text +
              (parameter.value ? " = " + str(*parameter.value) : "") + in(parameter.range);
    text += s.parameters.empty() ? "" : ")";
    if (s.derived)
      text += " = " + str(*s.derived);
    line(s.name.span, text);
    nested([&] {
      for (const ScheduleItem &item : s.items)
        std::visit(*this, item);
    });
  }
  void operator()(const Expect &e) {
    line(e.name.span, "expect " + e.name.text);
    nested([&] {
      for (const Expected &item : e.items)
        line(item.span, item.comparison
                            ? str(*item.comparison) + (item.variable ? " for " + item.variable->text : "") +
                                  in(item.range) + by(item.step) +
                                  (item.condition ? " when " + str(*item.condition) : "")
                            : "deadlock_free under " + str(item.under));
    });
  }
  void operator()(const Statement &s) {
    switch (s.kind) {
    case Statement::Kind::Op:
      return line(s.span, str(s.op));
    case Statement::Kind::Fill:
      return line(s.span, "fill " + str(s.op));
    case Statement::Kind::Let:
      return line(s.span, "let " + s.variable.text + " = " + str(*s.value));
    case Statement::Kind::At:
      line(s.span, "at " + str(*s.value) + (s.bodyIsOverlap ? ": overlap" : ": " + str(s.op)));
      break;
    case Statement::Kind::For:
      line(s.span, "for " + s.variable.text + " in " +
                       (s.reversed ? "reversed(" + str(*s.range) + ")" : str(*s.range)) + by(s.value));
      break;
    case Statement::Kind::If:
      line(s.span, "if " + str(*s.value));
      break;
    case Statement::Kind::Repeat:
      line(s.span, "repeat " + str(*s.value));
      break;
    case Statement::Kind::Overlap:
      line(s.span, "overlap");
      break;
    case Statement::Kind::Group:
      line(s.span, "group");
      break;
    }
    nested([&] { all(s.body); });
    if (!s.otherwise.empty()) {
      line(s.span, "else");
      nested([&] { all(s.otherwise); });
    }
  }

  template <typename List> void all(const List &list) {
    for (const auto &entry : list)
      (*this)(entry);
  }
  template <typename Body> void nested(Body body) {
    ++depth;
    body();
    --depth;
  }

  std::string out;

private:
  const SourceManager &sources;
  unsigned depth = 0;
};

} // namespace

std::string print(const File &file, const SourceManager &sources) {
  Printer printer(sources);
  for (const Item &item : file.items)
    std::visit(printer, item);
  return printer.out;
}

} // namespace sluice::ast
