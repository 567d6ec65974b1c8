// Random stuck programs: every one is repaired, by edits that keep pairs and local order; one edit wherever
// trying all moves and groupings finds one.
#include "Events/Moves.h"
#include "Passes/LowerCommunication.h"
#include "RandomOrder.h"
#include "StuckPrograms.h"
#include "Verify/Verify.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sluice::test {
namespace {

using slow::Random;

std::string text(const Program &program) {
  std::string all;
  for (uint32_t device = 0; device < program.devices; ++device) {
    all += fmt::format("device {}:", device);
    for (OpId id = program.deviceBegin[device]; id < program.deviceBegin[device + 1]; ++id)
      all += (program.ops[id].has(GroupFollower) && program.ops[id].isCommunication() ? " & " : "; ") +
             str(program, id);
    all += "\n";
  }
  return all;
}

ChannelRules randomRules(Random &random) {
  ChannelRules rules;
  const uint32_t depths[] = {0, 0, 1, 2, ChannelRules::unbounded};
  rules.depth = depths[random.below(5)];
  rules.key = static_cast<ChannelRules::Key>(random.below(4));
  rules.deviceService = random.chance(15);
  return rules;
}

/// Sends and receives alone: messages in some order on all devices, then exchanges that keep the order of
/// each direction, then groups.
Program randomPosts(Random &random) {
  const uint32_t devices = 2 + random.below(3), stages = devices + random.below(devices + 1);
  const uint32_t microbatches = 1 + random.below(3);
  std::vector<uint32_t> deviceOf;
  for (uint32_t s = 0; s < stages; ++s)
    deviceOf.push_back(s % devices);
  std::vector<Message> messages;
  for (uint32_t s = 0; s + 1 < stages; ++s)
    for (uint32_t m = 0; m < microbatches; ++m) {
      if (random.chance(60))
        messages.push_back({s, s + 1, m, false});
      if (random.chance(60))
        messages.push_back({s + 1, s, m, true});
    }
  for (size_t i = messages.size(); i > 1; --i)
    std::swap(messages[i - 1], messages[random.below(static_cast<uint32_t>(i))]);
  struct Post {
    Op op;
    uint32_t peer;
  };
  std::vector<std::vector<Post>> posts(devices);
  for (const Message &message : messages) {
    posts[deviceOf[message.from]].push_back({sendOf(message), deviceOf[message.to]});
    posts[deviceOf[message.to]].push_back({receiveOf(message), deviceOf[message.from]});
  }
  std::vector<Statements> statements(devices);
  for (uint32_t device = 0; device < devices; ++device) {
    std::vector<Post> &mine = posts[device];
    for (size_t tries = 0; !mine.empty() && tries < 3 * mine.size(); ++tries) {
      const size_t at = random.below(static_cast<uint32_t>(mine.size()));
      if (at + 1 < mine.size() &&
          (mine[at].peer != mine[at + 1].peer || mine[at].op.isSend() != mine[at + 1].op.isSend()))
        std::swap(mine[at], mine[at + 1]);
    }
    for (const Post &post : mine)
      if (!statements[device].empty() && random.chance(15))
        statements[device].back().push_back(post.op);
      else
        statements[device].push_back({post.op});
  }
  return programOf(deviceOf, microbatches, statements);
}

/// Whether moving one statement or one member of a group, or putting it into another group, lets the program
/// complete: everything tried.
bool isFreedByOneEdit(const Program &program, const std::vector<uint32_t> &deviceOf,
                      const ChannelRules &rules) {
  const std::vector<Statements> all = statementsOf(program);
  auto isFree = [&](uint32_t device, const Statements &changed) {
    std::vector<Statements> devices = all;
    devices[device] = changed;
    const Program tried = programOf(deviceOf, program.microbatches, devices);
    return arePairsRight(tried, rules) && !stuckUnder(tried, rules);
  };
  for (uint32_t device = 0; device < all.size(); ++device)
    for (size_t i = 0; i < all[device].size(); ++i)
      for (size_t member = 0; member <= all[device][i].size(); ++member) {
        // The last turn takes the whole statement.
        Statement taken = all[device][i];
        Statements rest = all[device];
        size_t behind = i; // the first statement behind those that were in front of what is taken
        if (member < taken.size()) {
          if (taken.size() == 1)
            continue;
          rest[i].erase(rest[i].begin() + static_cast<ptrdiff_t>(member));
          taken = {taken[member]};
        } else {
          rest.erase(rest.begin() + static_cast<ptrdiff_t>(i));
        }
        for (size_t place = 0; place <= rest.size(); ++place) {
          Statements moved = rest;
          moved.insert(moved.begin() + static_cast<ptrdiff_t>(place), taken);
          if (isFree(device, moved))
            return true;
          if (place == rest.size())
            continue;
          Statements grouped = rest;
          grouped[place].insert(place < behind ? grouped[place].end() : grouped[place].begin(), taken.begin(),
                                taken.end());
          if (isFree(device, grouped))
            return true;
        }
      }
  return false;
}

TEST(RepairProperty, OneEditWhereverThereIsOne) {
  unsigned stuck = 0, editsOf[5] = {}; // of 0: the whole program changes
  for (uint64_t seed = 0; stuck < 600; ++seed) {
    Random random(seed);
    const Program program = randomPosts(random);
    const ChannelRules rules = randomRules(random);
    std::optional<WaitCycle> cycle = stuckUnder(program, rules);
    if (!cycle)
      continue;
    ++stuck;
    const std::string seen =
        fmt::format("seed {}, {} {}\n{}", seed, channelText(rules), name(rules.key).str(), text(program));
    const std::optional<Repair> found = smallestRepair(program, rules, *cycle);
    ASSERT_TRUE(found) << seen;
    ASSERT_TRUE(hasSameOps(program, found->repaired)) << seen << text(found->repaired);
    ASSERT_TRUE(arePairsRight(found->repaired, rules)) << seen << text(found->repaired);
    ASSERT_FALSE(stuckUnder(found->repaired, rules)) << seen << text(found->repaired);
    std::vector<uint32_t> deviceOf;
    for (uint32_t s = 0; s < program.stages; ++s)
      deviceOf.push_back(program.deviceOf(s, 0));
    ASSERT_EQ(isFreedByOneEdit(program, deviceOf, rules), found->edits.size() == 1) << seen;
    ASSERT_LE(found->edits.size(), 4u) << seen;
    ++editsOf[found->edits.size()];
  }
  RecordProperty("edits", fmt::format("1: {}, 2: {}, 3: {}, 4: {}, all: {}", editsOf[1], editsOf[2],
                                      editsOf[3], editsOf[4], editsOf[0]));
  EXPECT_GT(editsOf[1], 250u);
  EXPECT_GT(editsOf[2], 20u);
  EXPECT_LT(editsOf[0], 40u);
}

/// A legal order with its communication written, and sends and receives moved about as far as nothing but
/// another device forbids it; some of them started, and waited for where they stood or before they are used.
std::vector<Statements> shuffled(const Program &program, Random &random) {
  std::vector<Statements> devices = statementsOf(program);
  for (Statements &statements : devices) {
    for (size_t tries = 0; tries < 4 * statements.size(); ++tries) {
      const size_t at = random.below(static_cast<uint32_t>(statements.size()));
      if (at + 1 < statements.size() &&
          (statements[at][0].isCommunication() || statements[at + 1][0].isCommunication()))
        std::swap(statements[at], statements[at + 1]);
    }
    for (size_t at = 0; at < statements.size(); ++at) {
      const Op post = statements[at][0];
      if (!post.isCommunication() || post.isWait() || !random.chance(20))
        continue;
      statements[at][0] = start(post);
      const size_t behind = at + 1 + random.below(static_cast<uint32_t>(statements.size() - at));
      statements.insert(statements.begin() + static_cast<ptrdiff_t>(behind), {wait(post)});
    }
    for (size_t at = 1; at < statements.size(); ++at)
      if (random.chance(15) && isPlainPost(statements[at][0]) && isPlainPost(statements[at - 1][0])) {
        statements[at - 1].push_back(statements[at][0]);
        statements.erase(statements.begin() + static_cast<ptrdiff_t>(at));
      }
  }
  return devices;
}

struct Judged {
  std::vector<unsigned> errors;
  std::string text;
};

/// What `check` says under `rules`, but for losses and updates that such a program has none of.
Judged judge(const Program &program, const ChannelRules &rules) {
  Diagnostics diagnostics;
  CostModel costs = CostModel::ofTicks(program.stages);
  costs.channels = rules;
  costs.hasChannelModel = true;
  verify(program, ProgramIndex(program), costs, diagnostics, nullptr);
  Judged judged;
  for (const Finding &finding : diagnostics.findings())
    if (finding.severity == Severity::Error) {
      judged.errors.push_back(info(finding.rule).number);
      judged.text +=
          fmt::format("{} {}; fix: {}\n", judged.errors.back(), finding.message, finding.fix.message);
    }
  return judged;
}

TEST(RepairProperty, KeepsWhatEachDeviceNeeds) {
  unsigned stuck = 0, edited = 0, changed = 0;
  for (uint64_t seed = 0; stuck < 80; ++seed) {
    Random random(seed);
    const slow::RandomOrder order = slow::randomOrder(random, 1);
    ScheduleBuilder builder("g", order.sizes);
    builder.place([&](Stage s, Microbatch) { return order.deviceOf[s]; });
    builder.program([&](DeviceProgram &p, Device d) {
      for (const Op &op : order.devices[d])
        slow::write(p, op);
    });
    const Program computed = builder.build();
    const std::optional<Program> written = lowerCommunication(
        computed, ProgramIndex(computed),
        random.chance(50) ? CommunicationPlacement::JustInTime : CommunicationPlacement::Early);
    ASSERT_TRUE(written);
    Program program = programOf(order.deviceOf, order.sizes.microbatches, shuffled(*written, random));
    if (random.chance(30)) { // as many buffers as the order takes
      std::vector<uint32_t> row(program.stages, 0);
      for (uint32_t m = 0; m < program.microbatches; ++m) {
        program.buffers.addMicrobatch(row);
        std::fill(row.begin(), row.end(), random.below(m + 2));
      }
      program.buffers.finish();
    }
    ChannelRules rules = randomRules(random);
    rules.progressInWait = random.chance(30);
    rules.atomicGroups = random.chance(20);
    const Judged before = judge(program, rules);
    if (before.errors != std::vector<unsigned>{301})
      continue; // it breaks something else as well, or nothing
    ++stuck;
    const std::string seen = fmt::format("seed {}, {} {}{}{}\n{}{}", seed, channelText(rules),
                                         name(rules.key).str(), rules.progressInWait ? ", in wait" : "",
                                         rules.atomicGroups ? ", atomic" : "", text(program), before.text);
    const std::optional<Repair> found = smallestRepair(program, rules, *stuckUnder(program, rules));
    if (!found) {
      ADD_FAILURE() << "no repair: " << seen;
      continue;
    }
    ChannelRules mended = rules;
    if (found->change == Repair::Change::Deepen)
      mended.depth = found->depth;
    const Judged after = judge(found->repaired, mended);
    EXPECT_TRUE(after.errors.empty()) << seen << "repaired:\n" << text(found->repaired) << after.text;
    (found->change == Repair::Change::None ? edited : changed) += 1;
  }
  RecordProperty("repaired", fmt::format("{} by edits, {} as a whole", edited, changed));
  EXPECT_GT(edited, 65u);
}

} // namespace
} // namespace sluice::test
