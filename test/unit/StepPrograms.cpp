#include "StepPrograms.h"

#include "Driver/Compilation.h"
#include "IR/Print.h"
#include "Passes/LowerCommunication.h"
#include "RandomSchedules.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sluice::machine {

static constexpr std::pair<Word, OpKind> kinds[] = {
    {Word::Forward, OpKind::Forward},
    {Word::Backward, OpKind::Backward},
    {Word::BackwardInput, OpKind::BackwardInput},
    {Word::BackwardWeight, OpKind::BackwardWeight},
    {Word::Recompute, OpKind::Recompute},
    {Word::Drop, OpKind::Drop},
    {Word::Offload, OpKind::Offload},
    {Word::Reload, OpKind::Reload},
    {Word::SendActivation, OpKind::SendActivation},
    {Word::RecvActivation, OpKind::RecvActivation},
    {Word::SendGradient, OpKind::SendGradient},
    {Word::RecvGradient, OpKind::RecvGradient},
    {Word::Zero, OpKind::Zero},
    {Word::Scale, OpKind::Scale},
    {Word::Reduce, OpKind::Reduce},
    {Word::ReduceTied, OpKind::ReduceTied},
    {Word::Norm, OpKind::Norm},
    {Word::Update, OpKind::Update},
    {Word::Unshard, OpKind::Unshard},
    {Word::Reshard, OpKind::Reshard},
};

static Statement statementOf(const Program &program, OpId id) {
  const Op &op = program.ops[id];
  Statement statement;
  for (const auto &[word, kind] : kinds)
    if (kind == op.kind)
      statement.word = word;
  statement.stage = op.kind == OpKind::ReduceTied ? op.microbatch : op.stage;
  statement.microbatch = op.hasMicrobatch() ? op.microbatch : 0;
  statement.prefix = op.isStarted() ? Prefix::Start : op.isWait() ? Prefix::Wait : Prefix::None;
  if (op.kind == OpKind::Forward || op.kind == OpKind::Drop)
    statement.kept = op.has(KeepInput)                                ? Kept::Input
                     : op.has(KeepNothing) || op.kind == OpKind::Drop ? Kept::Nothing
                                                                      : Kept::All;
  statement.replay = op.kind == OpKind::Recompute && op.has(Replay);
  statement.overwrite = op.overwrites();
  statement.local = op.kind == OpKind::Norm && op.has(Local);
  statement.follows = op.has(OverlapFollower) || op.has(GroupFollower);
  if (op.hasFactor())
    statement.factor = program.factorOf(id);
  if (op.namesPeer())
    statement.neighbour = program.peerStageOf(id);
  for (const NamedVersion &named : program.namedVersions)
    if (named.op == id)
      statement.version = named.version;
  return statement;
}

static constexpr std::pair<ScalePoint, TrainingTerms::Scaling> scalePoints[] = {
    {ScalePoint::AtLoss, TrainingTerms::Scaling::Loss},
    {ScalePoint::AtAccumulator, TrainingTerms::Scaling::Accumulator},
    {ScalePoint::AtReduced, TrainingTerms::Scaling::Reduced},
    {ScalePoint::InProgram, TrainingTerms::Scaling::Program},
};

static Setting settingOf(const Program &program, const CostModel &costs) {
  Setting setting;
  setting.stages = program.stages;
  setting.microbatches = program.microbatches;
  setting.devices = program.devices;
  setting.splits = program.sequenceSplits;
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    setting.deviceOf.emplace_back();
    for (uint32_t s = 0; s < program.stages; ++s)
      setting.deviceOf.back().push_back(program.deviceOf(s, m));
  }
  for (const SkipEdge &skip : program.skips)
    setting.skips.push_back({skip.from, skip.to, skip.hasGradient});
  for (const TiedWeight &tie : program.ties)
    setting.ties.push_back({tie.name, tie.stages});
  setting.isExplicit = program.isExplicit;
  setting.isEvaluation = program.isEvaluation;
  setting.isAsynchronous = costs.asynchronous;
  setting.replicas = costs.replicas;
  setting.samples = costs.samples;
  setting.tokens = costs.tokens;
  setting.loss = costs.loss == "mean over tokens"         ? Loss::MeanOverTokens
                 : costs.loss == "mean over microbatches" ? Loss::MeanOverMicrobatches
                 : costs.loss == "sum"                    ? Loss::Sum
                                                          : Loss::MeanOverSamples;
  for (const auto &[point, scaling] : scalePoints)
    if (scaling == costs.scaling)
      setting.scale = point;
  setting.isMicrobatchLossSum = costs.microbatchLossIsSum;
  setting.isReductionMean = costs.reductionIsMean;
  setting.isReducedSharded = costs.isSharded;
  setting.isReducedCopied = costs.isCopied;
  setting.isReshardedAfterReduce = costs.reshardsAfterReduce;
  setting.versions = program.versions == VersionRule::Newest   ? Read::Newest
                     : program.versions == VersionRule::Queued ? Read::Queued
                                                               : Read::Stashed;
  setting.mostVersions = program.mostVersions;
  setting.stalenessBound = costs.stalenessBound;
  return setting;
}

StepProgram stepProgram(const Program &program, const CostModel &costs) {
  StepProgram result;
  result.setting = settingOf(program, costs);
  result.devices.resize(program.devices);
  for (uint32_t device = 0; device < program.devices; ++device)
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
      result.devices[device].push_back(statementOf(program, id));
  return result;
}

static uint8_t flagsOf(const Statement &op, bool isFollowed) {
  uint8_t flags = 0;
  if (op.kept == Kept::Input)
    flags |= KeepInput;
  if (op.kept == Kept::Nothing && op.word == Word::Forward)
    flags |= KeepNothing;
  if (op.prefix != Prefix::None)
    flags |= op.prefix == Prefix::Start ? Started : Waits;
  if (op.replay)
    flags |= Replay;
  if (op.factor && op.word != Word::Scale)
    flags |= Scaled;
  if (op.overwrite)
    flags |= Overwrite;
  if (op.neighbour)
    flags |= NamesPeer;
  if (op.local)
    flags |= Local;
  if (op.follows)
    flags |= op.isMessage() ? GroupFollower : OverlapFollower;
  else if (isFollowed)
    flags |= op.isMessage() ? GroupFirst : OverlapFirst;
  return flags;
}

Program programOf(const StepProgram &program, const Program &like) {
  const Setting &setting = program.setting;
  Program result = like;
  result.microbatches = setting.microbatches;
  result.isEvaluation = setting.isEvaluation;
  result.versions = setting.versions == Read::Newest   ? VersionRule::Newest
                    : setting.versions == Read::Queued ? VersionRule::Queued
                                                       : VersionRule::Stashed;
  result.mostVersions = setting.mostVersions;
  result.placement = {};
  for (const std::vector<uint32_t> &row : setting.deviceOf)
    result.placement.addMicrobatch(row);
  result.placement.finish();
  result.skips.clear();
  for (const Skip &skip : setting.skips)
    result.skips.push_back({skip.from, skip.to, skip.hasGradient, {}});
  result.ties.clear();
  for (const Tie &tie : setting.ties)
    result.ties.push_back({tie.name, tie.stages, {}});
  result.ops.clear();
  result.siteOf.clear();
  result.frameOf.clear();
  result.sites.clear();
  result.namedVersions.clear();
  result.factors.clear();
  result.peers.clear();
  result.payloads.clear();
  result.deviceBegin = {0};
  for (uint32_t device = 0; device < setting.devices; ++device) {
    const std::vector<Statement> &ops = program.devices[device];
    for (size_t at = 0; at < ops.size(); ++at) {
      const Statement &op = ops[at];
      const OpId id = result.size();
      Op written{OpKind::Forward, flagsOf(op, at + 1 < ops.size() && ops[at + 1].follows),
                 static_cast<uint16_t>(op.stage), op.hasMicrobatch() ? op.microbatch : noMicrobatch};
      for (const auto &[word, kind] : kinds)
        if (word == op.word)
          written.kind = kind;
      if (op.word == Word::ReduceTied) {
        written.microbatch = op.stage;
        const std::vector<uint32_t> &members = setting.ties[op.stage].stages;
        auto here = std::find_if(members.begin(), members.end(),
                                 [&](uint32_t stage) { return setting.isOn(stage, device); });
        written.stage = static_cast<uint16_t>(here == members.end() ? members.front() : *here);
      }
      if (op.factor)
        result.factors.push_back({id, *op.factor});
      if (op.neighbour)
        result.peers.push_back({id, *op.neighbour});
      if (op.version)
        result.namedVersions.push_back({id, *op.version});
      result.ops.push_back(written);
    }
    result.deviceBegin.push_back(result.size());
  }
  return result;
}

CostModel costsOf(const Setting &setting, const CostModel &like) {
  CostModel costs = like;
  costs.replicas = setting.replicas;
  costs.stalenessBound = setting.stalenessBound;
  costs.samples = setting.samples;
  costs.tokens = setting.tokens;
  costs.batch.reset();
  static constexpr const char *losses[] = {"mean over samples", "mean over tokens", "mean over microbatches",
                                           "sum"};
  costs.loss = losses[static_cast<size_t>(setting.loss)];
  costs.microbatchLossIsSum = setting.isMicrobatchLossSum;
  for (const auto &[point, scaling] : scalePoints)
    if (point == setting.scale)
      costs.scaling = scaling;
  costs.reductionIsMean = setting.isReductionMean;
  costs.isSharded = setting.isReducedSharded;
  costs.isCopied = setting.isReducedCopied;
  costs.reshardsAfterReduce = setting.isReshardedAfterReduce;
  costs.skipBoundary.assign(setting.skips.size(), StageTable<int64_t>(std::vector<int64_t>{0}));
  costs.skipTransfer.assign(setting.skips.size(), StageTable<int64_t>(std::vector<int64_t>{0, 0}));
  return costs;
}

std::vector<unsigned> checkedFamilies(const StepProgram &program, const Start &start, std::string &findings) {
  const Program ir = programOf(program, start.program);
  const CostModel costs = costsOf(program.setting, start.costs);
  Diagnostics diagnostics;
  verify(ir, ProgramIndex(ir), costs, diagnostics);
  std::vector<unsigned> families;
  for (const Finding &finding : diagnostics.findings()) {
    const unsigned number = info(finding.rule).number;
    findings += fmt::format("{} {}\n", number, finding.message);
    if (finding.severity == Severity::Error)
      families.push_back(number / 100);
  }
  std::stable_sort(families.begin(), families.end(), isBlamedBefore);
  return families;
}

static void addPair(Start start, std::vector<Start> &all) {
  const ProgramIndex index(start.program);
  for (CommunicationPlacement placement : {CommunicationPlacement::Early, CommunicationPlacement::JustInTime})
    if (std::optional<Program> written = lowerCommunication(start.program, index, placement)) {
      Start lowered = start;
      lowered.name += placement == CommunicationPlacement::Early ? ", early" : ", just in time";
      lowered.program = std::move(*written);
      all.push_back(std::move(lowered));
    }
  all.push_back(std::move(start));
}

std::vector<Start> startsIn(const std::string &source) {
  SourceManager sources;
  FileLoader loader(sources);
  Diagnostics diagnostics;
  Compilation compilation(sources, loader);
  std::vector<Start> found;
  if (compilation.load(*sources.addFile("start.sluice", source), diagnostics))
    compilation.run({}, {}, Compilation::Depth::Elaborate, diagnostics, [&](Instance &instance) {
      if (instance.isCompiled)
        found.push_back({instance.name, std::move(instance.program), std::move(instance.costs)});
    });
  return found;
}

static void addLibrary(const std::string &file, const std::string &use, std::vector<Start> &all) {
  const bool isDrained = file.find("pipedream") == std::string::npos;
  std::vector<Start> found = startsIn(
      fmt::format("{}import \"std/{}\";\nschedule main = {};\n",
                  isDrained ? "" : "training { semantics = asynchronous(staleness <= 3); }\n", file, use));
  ASSERT_EQ(found.size(), 1u) << use;
  found.front().name = use;
  addPair(std::move(found.front()), all);
}

std::vector<Start> starts(size_t randomOnes) {
  static constexpr std::pair<const char *, const char *> library[] = {
      {"naive", "naive(2, 2)"},
      {"gpipe", "gpipe(1, 3)"},
      {"gpipe", "gpipe(2, 3)"},
      {"one_f_one_b", "one_f_one_b(2, 3)"},
      {"one_f_one_b", "one_f_one_b(3, 4)"},
      {"eager_one_f_one_b", "eager_one_f_one_b(3, 4)"},
      {"looped_bfs", "looped_bfs(2, 2, v = 2)"},
      {"interleaved_pytorch", "interleaved_pytorch(2, 4, v = 2)"},
      {"interleaved_overlapped", "interleaved_overlapped(2, 4, v = 2)"},
      {"zb_h1", "zb_h1(3, 4)"},
      {"zbv", "zbv(2, 3)"},
      {"v_min", "v_min(2, 3)"},
      {"dualpipe", "dualpipe(2, 4)"},
      {"dualpipev", "dualpipev(2, 4)"},
      {"chimera", "chimera(2, 4)"},
      {"chimera", "chimera(4, 4)"},
      {"bitpipe", "bitpipe(2)"},
      {"wave", "wave(2, 2, W = 1)"},
      {"seq1f1b", "seq1f1b(2, 2, k = 2)"},
      {"pipedream", "pipedream(3, 4)"},
      {"pipedream_2bw", "pipedream_2bw(2, 6, N = 2)"},
  };
  std::vector<Start> all;
  for (const auto &[file, use] : library)
    addLibrary(file, use, all);
  for (uint64_t seed = 0; seed < randomOnes; ++seed) {
    slow::RandomSchedule schedule = slow::randomSchedule(seed);
    Program program = schedule.build();
    if (program.size() <= 60)
      addPair({fmt::format("random {}", seed), std::move(program), schedule.costs}, all);
  }
  return all;
}

static std::string str(const Setting &setting) {
  static constexpr const char *scales[] = {"loss", "accumulator", "reduced", "program"};
  std::string samples, tokens;
  for (int64_t each : setting.samples)
    samples += fmt::format(" {}", each);
  for (int64_t each : setting.tokens)
    tokens += fmt::format(" {}", each);
  std::string beside;
  for (const Skip &skip : setting.skips)
    beside += fmt::format(" edge {} -> {}{};", skip.from, skip.to, skip.hasGradient ? "" : " (no gradient)");
  for (const Tie &tie : setting.ties)
    for (uint32_t stage : tie.stages)
      beside += fmt::format(" {} on {};", tie.name, stage);
  return fmt::format(
      "// replicas {}; loss {} with microbatch_loss {}; samples{}; tokens{}; scale = {}; reduction = {}; "
      "reduced = {}{};{}{}{}\n",
      setting.replicas ? std::to_string(*setting.replicas) : "not said",
      costsOf(setting, CostModel::ofTicks(setting.stages)).loss, setting.isMicrobatchLossSum ? "sum" : "mean",
      samples, tokens, scales[static_cast<size_t>(setting.scale)], setting.isReductionMean ? "mean" : "sum",
      setting.isReducedSharded ? "sharded" : "full", setting.isReducedCopied ? " copied" : "", beside,
      setting.isReshardedAfterReduce ? " after_reduce = resharded;" : "",
      setting.isAsynchronous ? " asynchronous;" : "");
}

std::string text(const StepProgram &program, const Start &start) {
  return str(program.setting) + printSluice(programOf(program, start.program));
}

} // namespace sluice::machine
