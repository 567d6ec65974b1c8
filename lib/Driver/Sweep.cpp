#include "Driver/Sweep.h"

#include "Driver/Region.h"

#include "llvm/ADT/STLExtras.h"

#include <atomic>
#include <fmt/format.h>
#include <system_error>
#include <thread>

namespace sluice {

namespace {

using Place = std::pair<uint32_t, Rule>; // begin of the span

/// What one thread has seen. The numbers of its settings ascend, so the first it sees is its smallest.
struct Seen {
  std::map<Place, SweptFinding> findings;
  std::vector<std::pair<uint32_t, std::string>> communication; // by schedule: first setting, what it had
  unsigned allowed = 0;
};

constexpr uint32_t never = UINT32_MAX;

class Worker {
public:
  Worker(const Compilation &compilation, llvm::ArrayRef<Setting> settings, const CompileOptions &options,
         const SweepOptions &how, Sweep &sweep)
      : compilation(compilation), settings(settings), options(options), how(how), sweep(sweep) {
    seen.communication.assign(sweep.schedules.size(), {never, ""});
  }

  void run(uint32_t setting) {
    Diagnostics diagnostics;
    if (how.prepare)
      how.prepare(diagnostics);
    CompileOptions own = options;
    if (how.adjust)
      how.adjust(setting, own);
    compilation.run(settings[setting], own, how.depth, diagnostics, [&](Instance &instance) {
      size_t schedule = indexOf(instance.name);
      sweep.schedules[schedule].states[setting] |= Sweep::Ran;
      if (auto &[first, text] = seen.communication[schedule]; first == never)
        std::tie(first, text) = std::pair(setting, instance.costs.communication);
      if (how.visit)
        how.visit(setting, instance);
    });
    seen.allowed += diagnostics.finish();
    if (how.finished)
      how.finished(setting, diagnostics);
    for (Finding &finding : diagnostics.findings()) {
      // A setting that the file itself rules out is no fault of the schedule.
      if (finding.rule == Rule::RequireFailed)
        mark(finding, setting, Sweep::Refused);
      else
        add(finding, setting);
    }
  }

  Seen seen;

private:
  size_t indexOf(llvm::StringRef name) const {
    for (size_t i = 0; i < sweep.schedules.size(); ++i)
      if (sweep.schedules[i].name == name)
        return i;
    return 0;
  }

  /// No two threads run one setting, so no two write one of these bytes.
  void mark(const Finding &finding, uint32_t setting, uint8_t states) {
    sweep.schedules[indexOf(finding.schedule)].states[setting] |= states;
    for (const std::string &other : finding.alsoIn)
      sweep.schedules[indexOf(other)].states[setting] |= states;
  }

  void add(Finding &finding, uint32_t setting) {
    const bool isExpectation = info(finding.rule).number / 100 == 9;
    if (finding.severity == Severity::Error)
      mark(finding, setting, isExpectation ? Sweep::Faulty : Sweep::Faulty | Sweep::Hiding);
    auto [entry, isNew] = seen.findings.try_emplace({finding.span.begin, finding.rule});
    SweptFinding &swept = entry->second;
    if (isNew || swept.settings.back() != setting)
      swept.settings.push_back(setting);
    if (isNew)
      swept.finding = std::move(finding);
    else
      addSchedules(swept.finding, finding);
  }

public:
  /// The fault of one schedule at one setting and of another at the next is one.
  static void addSchedules(Finding &finding, const Finding &other) {
    auto add = [&](const std::string &name) {
      if (name != finding.schedule && !llvm::is_contained(finding.alsoIn, name))
        finding.alsoIn.push_back(name);
    };
    add(other.schedule);
    for (const std::string &name : other.alsoIn)
      add(name);
  }

private:
  const Compilation &compilation;
  llvm::ArrayRef<Setting> settings;
  const CompileOptions &options;
  const SweepOptions &how;
  Sweep &sweep;
};

} // namespace

/// Adds what one thread has seen to what the others have, whichever comes first.
static void merge(Seen &all, Seen &part) {
  all.allowed += part.allowed;
  for (auto [mine, other] : llvm::zip(all.communication, part.communication))
    mine = std::min(mine, other);
  for (auto &[place, swept] : part.findings) {
    auto [entry, isNew] = all.findings.try_emplace(place, swept);
    if (isNew)
      continue;
    SweptFinding &known = entry->second;
    if (swept.settings.front() < known.settings.front())
      std::swap(known, swept);
    Worker::addSchedules(known.finding, swept.finding);
    size_t middle = known.settings.size();
    known.settings.insert(known.settings.end(), swept.settings.begin(), swept.settings.end());
    std::inplace_merge(known.settings.begin(), known.settings.begin() + static_cast<ptrdiff_t>(middle),
                       known.settings.end());
  }
}

Sweep sweep(const Compilation &compilation, llvm::ArrayRef<Setting> settings, const CompileOptions &options,
            const SweepOptions &how) {
  Sweep result;
  result.schedules.push_back({"", {}, ""});
  for (const std::string &name : compilation.schedules(options, settings.front()))
    result.schedules.push_back({name, {}, ""});
  for (Sweep::Schedule &schedule : result.schedules)
    schedule.states.assign(settings.size(), 0);

  size_t wanted = how.threads ? how.threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<Worker> workers(std::min(wanted, settings.size()),
                              Worker(compilation, settings, options, how, result));
  std::atomic<size_t> next = 0, done = 0;
  auto work = [&](Worker &worker, bool reports) {
    for (size_t i = next++; i < settings.size(); i = next++) {
      worker.run(static_cast<uint32_t>(i));
      size_t count = ++done;
      if (reports && how.progress)
        how.progress(count);
    }
  };
  std::vector<std::thread> threads;
  for (Worker &worker : llvm::drop_begin(workers)) {
    try {
      threads.emplace_back([&] { work(worker, false); });
    } catch (const std::system_error &) {
      break; // the system gives no more; those there are do it all
    }
  }
  work(workers.front(), true);
  for (std::thread &thread : threads)
    thread.join();

  Seen all = std::move(workers.front().seen);
  for (Worker &worker : llvm::drop_begin(workers))
    merge(all, worker.seen);
  for (auto &[place, swept] : all.findings) {
    // Which schedule has it first is a matter of settings; the others follow as the file declares them.
    auto order = [&](const std::string &name) {
      return llvm::find_if(result.schedules, [&](const Sweep::Schedule &s) { return s.name == name; });
    };
    llvm::sort(swept.finding.alsoIn,
               [&](const std::string &a, const std::string &b) { return order(a) < order(b); });
    result.findings.push_back(std::move(swept));
  }
  for (auto [schedule, communication] : llvm::zip(result.schedules, all.communication))
    schedule.communication = communication.second;
  result.allowed = all.allowed;
  return result;
}

bool concerns(const Finding &finding, llvm::StringRef schedule) {
  return finding.schedule.empty() || finding.schedule == schedule ||
         llvm::is_contained(finding.alsoIn, schedule);
}

/// What a finding means at each setting, as far as the schedules are concerned that have it somewhere.
static std::vector<Outcome> outcomesOf(const SweptFinding &swept, const Sweep &sweep) {
  std::vector<const Sweep::Schedule *> concerned;
  for (const Sweep::Schedule &schedule : sweep.named())
    if (concerns(swept.finding, schedule.name))
      concerned.push_back(&schedule);
  const std::vector<uint8_t> &file = sweep.file().states;
  std::vector<Outcome> outcomes(file.size(), Outcome::Passes);
  for (size_t i = 0; i < outcomes.size(); ++i) {
    auto is = [&](Sweep::State state) {
      return [i, state](const Sweep::Schedule *schedule) { return (schedule->states[i] & state) != 0; };
    };
    if ((file[i] & Sweep::Refused) || (!concerned.empty() && llvm::all_of(concerned, is(Sweep::Refused))))
      outcomes[i] = Outcome::Refused;
    else if ((file[i] & Sweep::Hiding) || llvm::any_of(concerned, is(Sweep::Hiding)))
      outcomes[i] = Outcome::Hidden;
  }
  for (uint32_t setting : swept.settings)
    outcomes[setting] = Outcome::Fails;
  return outcomes;
}

std::string refusedText(size_t refused) {
  return refused == 0 ? "" : fmt::format("; {} refused by require", refused);
}

std::vector<Finding> findingsOf(const Sweep &sweep, llvm::ArrayRef<Setting> settings) {
  std::vector<Finding> findings;
  for (const SweptFinding &swept : sweep.findings) {
    if (swept.finding.rule == Rule::UnusedAllow && swept.settings.size() < settings.size())
      continue; // it is needed at another setting
    const std::vector<Outcome> outcomes = outcomesOf(swept, sweep);
    const char *verb = swept.finding.severity == Severity::Error ? "fails" : "found";
    Finding &finding = findings.emplace_back(swept.finding);
    if (settings.size() == 1)
      continue;
    finding.instance = fmt::format("{} at {} of {}, smallest {}{}", verb, swept.settings.size(),
                                   settings.size(), str(settings[swept.settings.front()]),
                                   refusedText(static_cast<size_t>(llvm::count(outcomes, Outcome::Refused))));
    if (std::string region = describeRegion(settings, outcomes); !region.empty())
      finding.region = fmt::format("{} {}", verb, region);
  }
  return findings;
}

} // namespace sluice
