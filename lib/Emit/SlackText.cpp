#include "Emit/FiguresLines.h"

#include "Emit/Columns.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace sluice {

namespace {

/// Ops of one kind and stage on one device.
struct Similar {
  uint32_t count = 0, critical = 0;
  int64_t least = INT64_MAX, most = -1;
  OpId loosest = noOp; ///< The first with the most.
};

} // namespace

std::string slackText(const Program &program, const CostModel &costs, const Figures &figures,
                      const ChartOptions &options) {
  if (figures.slack.empty())
    return program.size() == 0 ? "" : "  slack: not given where transfers share a lane\n";
  auto time = [&](int64_t units) { return units == 0 ? "0" : formatUnits(costs, Rational(units)); };
  std::vector<std::vector<std::string>> rows = {
      {"slack: how much later ops could end", "ops", "critical", "least", "most", "of"}};
  for (uint32_t d = options.firstDevice; d < std::min(options.deviceEnd, program.devices); ++d) {
    std::map<std::pair<uint16_t, OpKind>, Similar> groups;
    for (OpId op = program.deviceBegin[d]; op < program.deviceBegin[d + 1]; ++op) {
      if (!program.ops[op].isCompute())
        continue;
      Similar &group = groups[{program.ops[op].stage, program.ops[op].kind}];
      const int64_t slack = figures.slack[op];
      ++group.count;
      group.critical += slack == 0;
      group.least = std::min(group.least, slack);
      if (slack > group.most) {
        group.most = slack;
        group.loosest = op;
      }
    }
    for (const auto &[key, group] : groups)
      rows.push_back({fmt::format("device {}: {} of stage {}", d, name(key.second).str(), key.first),
                      std::to_string(group.count), std::to_string(group.critical), time(group.least),
                      time(group.most), group.most == 0 ? "" : str(program.ops[group.loosest])});
  }
  return inColumns(rows);
}

} // namespace sluice
