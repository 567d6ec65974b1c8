// The abstract syntax tree: what a file says, construct by construct, before any name is looked up.
// Trees own their children; every node has the span of its text. Comments are not part of it, except
// `///` documentation of declarations.
#pragma once

#include "Support/Quantity.h"
#include "Support/Source.h"

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sluice::ast {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind : uint8_t {
  Number,        ///< `quantity`; `text` as written
  String,        ///< `text` without its quotes
  Name,          ///< `text`
  Call,          ///< `text`(children), names in `argumentNames`
  Comprehension, ///< `text`(children[0] for `variable` in children[1]..children[2] by children[3])
  Unary,         ///< `text` is the operator
  Binary,
  Conditional, ///< children: condition, then, else
  List,
  Index, ///< children: list, index
};

struct Expr {
  ExprKind kind;
  Span span;
  std::string text;
  Quantity quantity;
  std::vector<ExprPtr> children;
  std::vector<std::string> argumentNames; ///< Per child of a call; empty where unnamed.
  std::string variable;
};

struct Identifier {
  std::string text;
  Span span;
};

/// `first .. last`, last not included.
struct Range {
  ExprPtr first, last;
};

struct Param {
  Identifier name;
  ExprPtr value;
  std::optional<Range> range;
  std::string documentation;
};
struct Let {
  Identifier name;
  ExprPtr value;
};
struct Function {
  Identifier name;
  std::vector<Identifier> parameters;
  ExprPtr body;
  std::string documentation;
};
struct Require {
  ExprPtr condition;
  std::string message;
  Span span;
};
struct Import {
  std::string path;
  Span span;
};
struct Allow {
  std::string rule, reason;
  Span span;
};

/// One entry of a model, cluster, training, queue or schedule block. Which names exist is Sema's business.
struct Setting {
  enum class Form : uint8_t {
    Value, ///< `forward(s) = value;`
    Range, ///< `layers(s) = first..last;`
    Words, ///< `loss = mean over samples;`: `words` holds them all
    From,  ///< `cost from "profile.json"`: the path is words[0]
    Block, ///< `link ib (a, b) when c { … }`: `label` is ib, `condition` c
    Edge,  ///< `edge a -> b { … }`: operands a, b
    Tied,  ///< `tied NAME on s, t;`: words[0] is NAME
    On,    ///< `random on s, t;`
    Flag,  ///< `fused;`
  };
  Form form;
  Identifier name;
  std::optional<Identifier> label;
  std::vector<Identifier> parameters;
  ExprPtr condition;
  ExprPtr value;
  std::optional<Range> range;
  std::vector<std::string> words;
  std::vector<ExprPtr> operands;
  std::vector<Setting> settings;
  Span span;
};

/// model, cluster, training, queue.
struct Block {
  enum class Kind : uint8_t { Model, Cluster, Training, Queue };
  Kind kind;
  std::optional<Identifier> name;
  std::vector<Setting> settings;
  Span span; ///< From the keyword to its name.
  std::string documentation;
};

/// `keep input`, `using version e`, `scale q`, `replay`, `overwrite`, `local`, `to t`, `from t`, `if any`.
struct Suffix {
  std::string word; ///< `keep`, `version`, `scale`, `replay`, `overwrite`, `local`, `to`, `from`, `any`
  std::string name; ///< Of `keep`.
  ExprPtr value;    ///< Of `version`, `scale`, `to`, `from`.
  Span span;
};

struct OpCall {
  enum class Prefix : uint8_t { None, Start, Wait };
  Prefix prefix = Prefix::None;
  Identifier name;
  bool hasArguments = false;
  std::vector<ExprPtr> arguments;
  std::vector<Suffix> suffixes;
  Span span;
};

struct Statement;
using Statements = std::vector<Statement>;

struct Statement {
  enum class Kind : uint8_t { Op, Let, For, If, Repeat, Overlap, Group, At, Fill };
  Kind kind;
  Span span;           ///< The head; for ops the whole statement.
  OpCall op;           ///< Op, Fill, At (unless its body is an overlap).
  Identifier variable; ///< Let, For.
  ExprPtr value;       ///< Let: value. If: condition. Repeat: count. At: slot. For: step, may be null.
  std::optional<Range> range;
  bool reversed = false;
  bool bodyIsOverlap = false; ///< At.
  Statements body;
  Statements otherwise; ///< If: the else branch (`else if` is a nested If).
};

struct Place {
  Identifier stage;
  std::optional<Range> stages;
  ExprPtr device;
  std::optional<Identifier> microbatch;
  std::optional<Range> microbatches;
  ExprPtr step;
  Span span;
};

struct DeviceBlock {
  std::optional<Identifier> variable;
  std::optional<Range> range;
  ExprPtr device; ///< One device: `device 0`, `device (e)`.
  Statements body;
  Span span;
};

struct Timetable {
  Statements body;
  Span span;
};

struct Table {
  Span body;        ///< Between the braces; nowhere for `from`.
  std::string path; ///< Of `table from "x.csv"`.
  Span span;
};

using ScheduleItem =
    std::variant<Let, Function, Require, Allow, Place, DeviceBlock, Timetable, Table, Setting>;

struct ScheduleParameter {
  Identifier name;
  ExprPtr value; ///< Default; may be null.
  std::optional<Range> range;
};

struct Schedule {
  Identifier name;
  std::vector<ScheduleParameter> parameters;
  std::vector<ScheduleItem> items;
  ExprPtr derived; ///< `schedule main = …;`: no items then.
  std::string documentation;
};

struct Expected {
  ExprPtr comparison; ///< Null for deadlock_free.
  std::optional<Identifier> variable;
  std::optional<Range> range;
  ExprPtr step;
  ExprPtr condition;          ///< `when`
  std::vector<ExprPtr> under; ///< deadlock_free under …
  Span span;
};

struct Expect {
  Identifier name;
  std::vector<Expected> items;
};

using Item = std::variant<Param, Let, Function, Require, Import, Block, Schedule, Expect, Allow>;

struct File {
  std::string name;
  std::vector<Item> items;
};

/// The tree as indented text, one node a line with its place (`sluice dump ast`).
std::string print(const File &file, const SourceManager &sources);

} // namespace sluice::ast
