// The state of one analysis, shared by the files that each check some constructs; private to lib/Sema.
#pragma once

#include "Sema/Analyze.h"
#include "Sema/Settings.h"
#include "Support/Words.h"

#include <set>

namespace sluice {

class Analyzer {
public:
  Analyzer(CheckedFile &result, const SourceManager &sources, FileReader &reader, Diagnostics &diagnostics)
      : result(result), sources(sources), reader(reader), diagnostics(diagnostics) {}

  // Analyze.cpp
  void file(const ast::File &file, bool isImported);

private:
  struct Entry {
    enum class Kind : uint8_t { Slot, Function, Schedule, Queue };
    Kind kind;
    uint32_t index;
    Span span;
    bool isBeingDefined = false;
  };
  /// What a file offers to those that import it.
  using Scope = std::map<std::string, Entry>;

  // Names. Only parameters and names bound by `place` may hide others.
  enum class Hiding : uint8_t { Refused, Allowed };
  void declare(const std::string &name, Entry entry, Hiding hiding = Hiding::Refused);
  SlotId declareSlot(const ast::Identifier &name, Hiding hiding = Hiding::Refused);
  Entry *lookUp(llvm::StringRef name);
  void unknown(Span span, llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> more = {});
  void notYet(Span span, std::string what);
  template <typename Body> void inScope(Body body) {
    scopes.emplace_back();
    body();
    scopes.pop_back();
  }

  // Analyze.cpp
  void importFile(const ast::Import &import, const std::string &from);
  void param(const ast::Param &param, bool isImported);
  void function(const ast::Function &function);
  CheckedStep let(const ast::Identifier &name, const ast::Expr &value);
  CheckedStep requirement(const ast::Require &require);
  void allowance(const ast::Allow &allow, const std::string &schedule);
  void expect(const ast::Expect &expect, bool isImported);

  // AnalyzeExpr.cpp
  NodeId expr(const ast::Expr &expr);
  NodeId name(const ast::Expr &expr);
  NodeId call(const ast::Expr &expr);
  NodeId comprehension(const ast::Expr &expr);
  NodeId figure(const ast::Expr &expr);
  bool isFigureHere(llvm::StringRef name) const;
  NodeId operands(Node node, const ast::Expr &expr);
  NodeId constant(Value value, Span span);
  NodeId optional(const ast::ExprPtr &expr) { return expr ? this->expr(*expr) : noNode; }
  CheckedRange range(const ast::Range &range, const ast::ExprPtr &step = nullptr);
  std::optional<CheckedRange> range(const std::optional<ast::Range> &range);
  void wrongCount(const ast::Expr &expr, const std::string &takes);
  std::optional<uint32_t> settingNamed(llvm::StringRef name) const;
  NodeId settingValue(const ast::Expr &expr, uint32_t setting);

  // AnalyzeSettings.cpp
  void declareBlock(const ast::Block &block);
  void fillBlock(const ast::Block &block);
  void declareSetting(CheckedBlock &block, llvm::StringRef blockName, const ast::Setting &setting);
  void fillSetting(CheckedBlock &block, llvm::StringRef blockName, const ast::Setting &setting);
  const SettingInfo *settingOf(llvm::StringRef blockName, const ast::Setting &setting);
  void duplicate(const ast::Identifier &name, Span first);
  void edge(CheckedBlock &model, const ast::Setting &setting);
  void tied(CheckedBlock &model, const ast::Setting &setting);

  // AnalyzeLinks.cpp
  void link(CheckedBlock &cluster, const ast::Setting &setting);
  bool linkIsReached(const CheckedBlock &cluster, const ast::Setting &setting);
  void linkSetting(CheckedLink &link, const ast::Setting &block, const ast::Setting &setting);
  void checkSharing(const CheckedLink &link, const ast::Setting &block);
  void nameLinks(CheckedBlock &cluster);
  NodeId linkCondition(const ast::Setting &setting);

  // AnalyzeProfile.cpp
  void declareProfile(const ast::Setting &setting);
  void declareMeasured(CheckedBlock &model);
  void fillMeasured(CheckedBlock &model);

  // AnalyzeLayers.cpp
  void declareLayers(CheckedBlock &model, const ast::Setting &layer);
  void declareLayerSums(CheckedBlock &model);
  void fillLayers(CheckedBlock &model, const ast::Setting &layer);
  void fillLayerSums(CheckedBlock &model);
  void layerRange(CheckedBlock &model, const ast::Setting &setting);
  std::optional<NodeId> siblingOfLayer(const ast::Expr &expr);
  void word(CheckedSetting &checked, const SettingInfo &info, const ast::Setting &setting);
  void number(CheckedSetting &checked, const SettingInfo &info, const ast::Setting &setting);
  NodeId staleness(const ast::Expr &bound);

  // AnalyzeSchedule.cpp
  void schedule(const ast::Schedule &schedule, bool isImported);
  void scheduleItem(const ast::ScheduleItem &item, const std::string &from);
  void scheduleSetting(const ast::Setting &setting);
  CheckedSchedule::Use use(const ast::Expr &expr);
  CheckedPlace place(const ast::Place &place);
  void device(const ast::DeviceBlock &device);
  std::vector<CheckedStatement> statements(const ast::Statements &list);
  std::optional<CheckedStatement> statement(const ast::Statement &statement);
  uint32_t site(Span span);

  // AnalyzeOps.cpp
  bool op(const ast::OpCall &call, CheckedOp &op);
  bool prefix(const ast::OpCall &call, CheckedOp &op);
  bool tiedWeight(const ast::Expr &named, CheckedOp &op);
  void microbatch(const ast::Expr &expr, CheckedOp &op);
  bool suffix(const ast::Suffix &suffix, CheckedOp &op);

  CheckedFile &result;
  const SourceManager &sources;
  FileReader &reader;
  Diagnostics &diagnostics;

  std::vector<Scope> scopes;
  /// Which names an expression of `expect` may use beside those of the file.
  enum class Expecting : uint8_t {
    Nothing,   ///< Outside `expect`.
    Condition, ///< Behind `when`: what closed forms rest on.
    Comparison ///< These and all figures.
  };
  Expecting expecting = Expecting::Nothing;
  bool hidesSettings = false; ///< In an imported `expect`: it speaks of any model, not of this file's.
  bool inOverlap = false, inGroup = false, inTimetable = false;
  SlotId layer = noSlot, layerMicrobatch = noSlot; ///< Inside a `layer` block: its parameters.
  std::string fileName;
  Span profileSpan; ///< The `cost from` line.
  CheckedSchedule *current = nullptr;
  std::map<std::string, Span> currentSettings; ///< Of the schedule at hand, where each is written.
  std::vector<std::string> loops;              ///< Names of the loops around the statement at hand.

  std::map<std::string, Scope> imported; ///< By resolved name, each file once.
  std::vector<std::string> importing;    ///< The chain being read.
};

} // namespace sluice
