// The compiler as a list of steps: parse, analyze, then for each setting of the parameters and each
// schedule elaborate, evaluate costs, verify, simulate, check expectations. Each step is one free function
// of another room; here they only meet.
#pragma once

#include "Driver/FileLoader.h"
#include "Elaborate/Costs.h"
#include "Elaborate/Elaborate.h"
#include "IR/CostModel.h"
#include "Sema/Evaluate.h"
#include "Timeline/Figures.h"
#include "Verify/Equivalence.h"
#include "Verify/Verify.h"

#include <memory>

namespace sluice {

/// One value of a parameter given from outside: `-D M=32`. A number or a truth value.
struct Definition {
  std::string name;
  Value value;
};
using Setting = std::vector<Definition>;
/// As a person writes them: `10 ms`, `true`; `P=4, M=8`.
std::string str(const Value &value);
std::string str(const Setting &setting);

/// The product of all definitions: each is `NAME=VALUE`, `NAME=A,B,C` or `NAME=A..B` (B not included). Values
/// ascend, each once, those of the last definition turning fastest. On a malformed one `error` says why and
/// nothing is returned.
std::vector<Setting> parseDefinitions(llvm::ArrayRef<std::string> definitions, std::string &error);

struct CompileOptions {
  std::string schedule;     ///< `--schedule`: only this one; empty: all that are no templates.
  std::string transport;    ///< `--transport`: instead of what the file says.
  bool closedForms = false; ///< Also check what imported files state of their schedules.
  /// Samples that stay the same over the settings of a sweep; only for files with a `training`.
  std::optional<HeldSamples> held;
  /// Told what is about to be done, by the thread that does it: `elaborating`, `checking`, `simulating`.
  std::function<void(llvm::StringRef schedule, llvm::StringRef doing)> progress = {};
  ElaborateOptions elaborate;
};

/// One schedule with values for all its parameters. Later parts are there as far as the earlier ones hold.
struct Instance {
  std::string name;
  std::vector<std::pair<std::string, std::string>> parameters; ///< In order of declaration.
  const CheckedSchedule *schedule = nullptr; ///< The template, where the schedule derives from one.
  /// The schedule as declared and what it derives from, down to that template.
  std::vector<const CheckedSchedule *> uses;
  std::vector<Span> tightened; ///< Each `tighten` that was applied, in this order.
  bool isCompiled = false;     ///< Program and costs are there.
  Program program;
  std::unique_ptr<ProgramIndex> index;
  CostModel costs;
  Verdict verdict;
  /// What the timeline is of, where that is another program (Posted.h).
  std::optional<Program> posted;
  std::unique_ptr<ProgramIndex> postedIndex;
  std::optional<Timeline> timeline; ///< Of `timed()`.
  std::optional<Figures> figures;

  /// The program that runs: that of timeline and figures.
  const Program &timed() const { return posted ? *posted : program; }
  const ProgramIndex &timedIndex() const { return posted ? *postedIndex : *index; }
  /// `P=4, M=8`
  std::string parameterText() const;
};

class Compilation {
public:
  Compilation(SourceManager &sources, FileLoader &loader) : sources(sources), loader(loader) {}

  /// Parses and analyzes, or reads another format; `text` is in the source manager. False if there were
  /// errors.
  bool load(Span text, Diagnostics &diagnostics);

  /// Names of the schedules that would run with these values, in order.
  std::vector<std::string> schedules(const CompileOptions &options, const Setting &setting) const;
  /// Parameters that `-D` can set: those of the file and of the schedules that run. What a template gets is
  /// said where it is used.
  std::vector<std::string> parameterNames(const CompileOptions &options) const;

  /// A count that the training declares (`batch`, `replicas`) with these values, whether or not a `require`
  /// of the file rules them out. Nothing if it is not declared, or not without an error.
  std::optional<int64_t> trainingCount(llvm::StringRef name, const Setting &setting,
                                       Diagnostics &diagnostics) const;

  enum class Depth : uint8_t { Elaborate, Verify, Expectations, Figures };
  /// Runs one setting; findings go to `diagnostics`. `visit` sees each instance that was elaborated.
  /// Expectations are always checked from Depth::Expectations on, where that needs it with a timeline.
  /// Nothing here changes: threads may run settings of one compilation side by side.
  void run(const Setting &setting, const CompileOptions &options, Depth depth, Diagnostics &diagnostics,
           const std::function<void(Instance &)> &visit) const;

  /// Visits the queue blocks of the file with its parameters set.
  void runQueues(const Setting &setting, Diagnostics &diagnostics,
                 const std::function<void(const CheckedBlock &, Evaluator &)> &visit) const;

  /// What the format of the file said and a schedule cannot hold.
  const std::vector<std::string> &lost() const { return lost_; }
  /// Where a file in another format says that it comes from; empty for schedule files.
  std::string source() const { return formatted ? formatted->source : ""; }
  bool hasTree() const { return ast.has_value(); }
  const ast::File &tree() const { return *ast; }
  const CheckedFile &checked() const { return *file; }

private:
  static bool isChosen(const CheckedSchedule &schedule, const CompileOptions &options);
  bool setParameters(llvm::ArrayRef<CheckedParam> params, const Setting &setting, Evaluator &evaluator) const;
  bool isInRange(const CheckedParam &param, Evaluator &evaluator, Span given, llvm::StringRef fix) const;
  void runSchedule(const CheckedSchedule &declared, const Setting &setting, const CompileOptions &options,
                   Depth depth, Evaluator &evaluator, const std::function<void(Instance &)> &visit) const;
  bool prepare(Instance &instance, const CheckedSchedule &declared, const Setting &setting,
               Evaluator &evaluator) const;
  bool instantiate(Instance &instance, const CheckedSchedule::Use &use, Evaluator &evaluator) const;
  void compile(Instance &instance, const CompileOptions &options, Depth depth, Evaluator &evaluator) const;
  Verdict verifyPosted(const Instance &instance, Diagnostics &diagnostics) const;
  void judge(Instance &instance, const CompileOptions &options, Depth depth, Evaluator &evaluator) const;
  bool loadFormatted(const Format &format, Span text, Diagnostics &diagnostics);
  void runFormatted(const CompileOptions &options, Depth depth, Evaluator &evaluator,
                    const std::function<void(Instance &)> &visit) const;

  SourceManager &sources;
  FileLoader &loader;
  std::optional<ast::File> ast;
  std::optional<CheckedFile> file;
  /// The schedule of a file in another format; `file` is empty then.
  std::optional<FormattedSchedule> formatted;
  std::vector<std::string> lost_;
};

/// Checks what `expect` says of this instance (901, 902, 102, 115); `figures` may be null if a finding
/// stands in the way of a timeline. Equations of figures that hold become Figures::closed.stated.
/// `withImported`: also what imported files say.
void checkExpectations(Instance &instance, Evaluator &evaluator, const SourceManager &sources,
                       bool withImported);
/// True if some expectation speaks of the instance.
bool hasExpectations(const CheckedFile &file, const Instance &instance, bool withImported);
/// How many statements of `expect` blocks of the file itself speak of the instance.
size_t expectationCount(const CheckedFile &file, const Instance &instance);

/// Optimizer equivalence of one instance, with the findings of its run.
Equivalence equivalenceOf(const Instance &instance, const Diagnostics &diagnostics);

/// The timeline of an instance whose programs run to their end, unless it is there already. False if a time
/// leaves 64 bits, which is finding 106.
bool addTimeline(Instance &instance, Diagnostics &diagnostics);

/// Lints.cpp: what a program without errors has too much of, by work (813), memory (701, 706) and receives
/// that hold up ready work (311). The timeline that memory needs is left for the expectations. Asked at
/// Depth::Expectations alone: a command that shows figures shows them whether they are good or not.
void checkCosts(Instance &instance, Diagnostics &diagnostics, const SourceManager &sources);
/// Whether the depth looks for what the rule finds, so that an `allow` of it must silence something.
bool isAsked(Rule rule, Compilation::Depth depth);

/// What a clean verdict covers: `main at P=4, M=8; completes under nccl; …`.
std::string reach(const Instance &instance);

} // namespace sluice
