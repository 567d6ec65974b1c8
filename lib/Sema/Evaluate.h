// Evaluation of compiled expressions. Values live in slots; errors are findings at the expression's place
// and give Value::Nothing, so that the caller stops that statement and nothing else.
#pragma once

#include "Sema/Checked.h"

#include <functional>
#include <map>

namespace sluice {

class Evaluator {
public:
  Evaluator(const CheckedFile &file, Diagnostics &diagnostics);

  Value eval(NodeId node);
  /// A whole number without dimension; anything else is 105 (`what` names it) or 104.
  std::optional<int64_t> evalInteger(NodeId node, llvm::StringRef what);
  std::optional<bool> evalBoolean(NodeId node, llvm::StringRef what);
  /// A number of the given dimension (a literal 0 has every one); 104 otherwise.
  std::optional<Rational> evalQuantity(NodeId node, Dimension dimension, llvm::StringRef what);
  /// Evaluates first, last and step; a step of 0 or less is 106.
  struct Bounds {
    int64_t first, last, step;
  };
  std::optional<Bounds> evalRange(const CheckedRange &range);

  /// The value of a setting for these arguments. A list is indexed by the first one.
  Value evalSetting(uint32_t setting, llvm::ArrayRef<Value> arguments, Span use);
  /// Gives a setting this value from here on, whatever the file says of it.
  void hold(uint32_t setting, const Value &value) { held[setting] = value; }

  /// The same for an expression of plain whole numbers alone, as the inner loops of programs have them:
  /// no findings, false where `evalInteger` must decide.
  bool tryInteger(NodeId node, int64_t &result);
  /// Evaluates into a slot; false after an error.
  bool assign(SlotId slot, NodeId node);
  void set(SlotId slot, Value value) { slots[slot] = value; }
  void set(SlotId slot, int64_t value) { slots[slot] = Value::of(Rational(value)); }
  const Value &get(SlotId slot) const { return slots[slot]; }

  /// The value as a person reads it: `13 ms`, `[1, 2]`, `true`.
  std::string str(const Value &value) const;
  llvm::ArrayRef<Value> list(const Value &value) const { return lists[value.index()]; }
  llvm::StringRef text(const Value &value) const { return file.code.texts[value.index()]; }

  /// Runs the `let`s and `require`s of a scope in order; false if one fails. `params` are those the
  /// message of a failed `require` may suggest other values for.
  bool run(llvm::ArrayRef<CheckedStep> steps, llvm::ArrayRef<CheckedParam> params);

  static constexpr int64_t slowWork = 8; ///< Of what takes ten times as long as a turn.
  /// Work that makes no op - turns of loops, calls, elements of lists - is limited apart from the ops, so
  /// that every file ends. False once the limit is reached; the first time that is 113 at `span`.
  bool spend(Span span, int64_t work = 1) { return (budget -= work) >= 0 || exhausted(span); }
  /// Sets the limit to what a schedule of at most `maxOps` ops may need.
  void limitWork(uint64_t maxOps);
  /// Ops have been made: programs may spend this much more for each.
  void earn(int64_t ops = 1) { budget += workPerOp * ops; }
  /// Lists made from here on can be given back once no value of them is in use.
  size_t listMark() const { return lists.size(); }
  void releaseLists(size_t mark) { lists.resize(mark); }

  /// Gives figures to expressions of `expect`; without it they are unknown.
  std::function<Value(llvm::StringRef name, llvm::ArrayRef<Value> arguments, Span span)> figure;

  Diagnostics &diagnostics;
  const CheckedFile &checked() const { return file; }

private:
  bool tryBoolean(NodeId node, bool &result);
  Value arithmetic(const Node &node, const Value &a, const Value &b);
  Value compare(const Node &node, const Value &a, const Value &b);
  Value call(const Node &node);
  Value builtin(const Node &node, llvm::ArrayRef<Value> arguments);
  Value comprehension(const Node &node);
  Value measured(const Node &node, llvm::ArrayRef<Value> arguments);
  Value index(const Node &node);
  Value overflow(const Node &node);
  Value tooHighPower(const Node &node);
  bool exhausted(Span span);
  Value unlike(const Node &node, llvm::StringRef operation, const Value &a, const Value &b);
  /// 104 for an operation that does not take such a value.
  Value unsuited(const Node &node, llvm::StringRef operation, const Value &value);
  std::optional<std::vector<Value>> evalOperands(const Node &node);
  void suggestForRequire(Finding &finding, size_t step, llvm::ArrayRef<CheckedStep> steps,
                         llvm::ArrayRef<CheckedParam> params);

  const CheckedFile &file;
  std::vector<Value> slots;
  std::vector<bool> isOpen; ///< Settings that are being evaluated.
  std::map<uint32_t, Value> held;
  std::vector<std::vector<Value>> lists;
  unsigned depth = 0, quickCalls = 0;
  static constexpr int64_t workPerOp = 16;
  int64_t budget = 0, limit = 0;
  bool isExhausted = false;
};

} // namespace sluice
