#include "GoldenOrders.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

namespace sluice::golden {

uint32_t Order::stages() const {
  uint32_t count = 0;
  for (const std::vector<Op> &row : rows)
    for (const Op &op : row)
      count = std::max(count, op.stage + 1u);
  return count;
}

uint32_t Order::microbatches() const {
  uint32_t count = 0;
  for (const std::vector<Op> &row : rows)
    for (const Op &op : row)
      count = std::max(count, op.microbatch + 1);
  return count;
}

/// `(a b)*3 c*2` as words: no brackets in brackets.
static std::vector<std::string> unfold(std::istream &text) {
  std::vector<std::string> words;
  size_t open = std::string::npos;
  for (std::string word; text >> word;) {
    if (word.front() == '(') {
      open = words.size();
      word.erase(0, 1);
    }
    size_t star = word.rfind('*');
    size_t times = star == std::string::npos ? 1 : std::stoul(word.substr(star + 1));
    word.erase(std::min(star, word.size()));
    size_t begin = words.size();
    if (word.back() == ')') {
      word.pop_back();
      begin = open;
    }
    words.push_back(word);
    const std::vector<std::string> turn(words.begin() + static_cast<ptrdiff_t>(begin), words.end());
    for (size_t i = 1; i < times; ++i)
      words.insert(words.end(), turn.begin(), turn.end());
  }
  return words;
}

namespace {

/// Reads the ops of one row; knows which microbatch is next of each kind and stage.
class RowReader {
public:
  std::vector<Op> read(std::istream &text) {
    std::vector<Op> ops;
    for (const std::string &word : unfold(text)) {
      if (word.front() != 'O') {
        ops.push_back(op(word, 0));
        continue;
      }
      const size_t bar = word.find('|');
      ops.push_back(op(word.substr(2, bar - 2), OverlapFirst));
      ops.push_back(op(word.substr(bar + 1, word.size() - bar - 2), OverlapFollower));
    }
    return ops;
  }

private:
  /// `F@1`, `B3@1`, `W@1`, `BW@1`, `SA@1`.
  Op op(const std::string &word, uint8_t flags) {
    static const std::map<std::string, OpKind> kinds = {
        {"F", OpKind::Forward},       {"B", OpKind::BackwardInput},   {"W", OpKind::BackwardWeight},
        {"BW", OpKind::Backward},     {"SA", OpKind::SendActivation}, {"RA", OpKind::RecvActivation},
        {"SG", OpKind::SendGradient}, {"RG", OpKind::RecvGradient}};
    const size_t letters = word.find_first_of("0123456789@"), at = word.find('@');
    const auto stage = static_cast<uint16_t>(std::stoul(word.substr(at + 1)));
    const OpKind kind = kinds.at(word.substr(0, letters));
    uint32_t &next = nexts[{kind == OpKind::BackwardInput ? OpKind::Backward : kind, stage}];
    if (letters != at)
      next = static_cast<uint32_t>(std::stoul(word.substr(letters, at - letters)));
    return {kind, flags, stage, next++};
  }
  std::map<std::pair<OpKind, uint16_t>, uint32_t> nexts;
};

Rational rational(const std::string &text) {
  const size_t slash = text.find('/');
  const int64_t den = slash == std::string::npos ? 1 : std::stoll(text.substr(slash + 1));
  return Rational::make(std::stoll(text), den).value();
}

void readFile(const std::filesystem::path &path, std::vector<Order> &orders) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "order")
      orders.emplace_back();
    if (key.empty())
      continue;
    Order &order = orders.back();
    if (key == "order") {
      std::getline(words >> std::ws, order.name);
    } else if (key == "source") {
      std::getline(words >> std::ws, order.source);
    } else if (key == "params") {
      for (std::string word; words >> word;) {
        const size_t equals = word.find('=');
        order.parameters.emplace_back(word.substr(0, equals), std::stoll(word.substr(equals + 1)));
      }
    } else if (key == "cost") {
      std::string forward, input, weight, overlap, latency;
      words >> forward >> input >> weight >> overlap >> latency;
      order.costs = {rational(forward), rational(input), rational(weight), std::nullopt, rational(latency)};
      if (overlap != "-")
        order.costs->overlap = rational(overlap);
    } else if (key == "figures") {
      Figures &figures = order.figures.emplace();
      words >> figures.makespan >> figures.idleFraction >> figures.overheadRatio >> figures.spanBubbleRate;
    } else if (key == "idle") {
      for (const std::string &word : unfold(words))
        order.figures->idle.push_back(std::stod(word));
    } else if (key == "peak_at_w" || key == "peak_at_b") {
      for (double peak = 0; words >> peak;)
        (key == "peak_at_w" ? order.peakAtWeight : order.peakAtInput).push_back(peak);
    } else if (key == "buffers") {
      std::string device;
      words >> device;
      order.buffers.emplace_back();
      for (const std::string &word : unfold(words))
        order.buffers.back().push_back(static_cast<uint32_t>(std::stoul(word)));
    } else if (key == "as") {
      std::string other;
      std::getline(words >> std::ws, other);
      for (const Order &earlier : orders)
        if (earlier.name == other)
          order.rows = earlier.rows;
    } else {
      order.rows.push_back(RowReader().read(words));
    }
  }
}

} // namespace

std::vector<Order> readOrders(const std::string &folder) {
  std::vector<Order> orders;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".txt")
      readFile(entry.path(), orders);
  std::sort(orders.begin(), orders.end(), [](const Order &a, const Order &b) { return a.name < b.name; });
  return orders;
}

Program programOf(const Order &order) {
  Program program;
  program.name = "golden";
  program.stages = order.stages();
  program.microbatches = order.microbatches();
  program.devices = static_cast<uint32_t>(order.rows.size());
  program.programSpan.resize(program.devices);
  program.sites.resize(1);
  program.deviceBegin = {0};
  std::vector<uint32_t> home(program.stages, noDevice);
  std::vector<std::vector<uint32_t>> placement(program.microbatches,
                                               std::vector<uint32_t>(program.stages, noDevice));
  for (uint32_t d = 0; d < program.devices; ++d) {
    for (const Op &op : order.rows[d]) {
      home[op.stage] = d;
      placement[op.microbatch][op.stage] = d;
    }
    std::copy_if(order.rows[d].begin(), order.rows[d].end(), std::back_inserter(program.ops),
                 [](const Op &op) { return op.isCompute(); });
    program.deviceBegin.push_back(program.size());
  }
  for (std::vector<uint32_t> &row : placement) {
    for (uint32_t s = 0; s < program.stages; ++s)
      if (row[s] == noDevice)
        row[s] = home[s];
    program.placement.addMicrobatch(row);
  }
  program.placement.finish();
  program.siteOf.assign(program.size(), 0);
  program.frameOf.assign(program.size(), 0);
  return program;
}

CostModel costsOf(const Order &order, const Program &program, int64_t &perCost) {
  const Costs &given = *order.costs;
  perCost = 1;
  for (const Rational &cost :
       {given.forward, given.input, given.weight, given.latency, given.overlap.value_or(0)})
    perCost = std::lcm(perCost, cost.den);
  auto units = [&](const Rational &cost) { return cost.num * (perCost / cost.den); };
  CostModel costs =
      CostModel::ofTicks(program.stages, units(given.forward), units(given.input), units(given.weight));
  costs.activationTransfer = costs.gradientTransfer = {};
  costs.links = {{"link", Sharing::No, {}}};
  costs.routes = {{0, noLane, units(given.latency)}};
  std::vector<int64_t> outputs(program.stages), gradients(program.stages);
  std::vector<uint32_t> ways(program.stages, noRoute), back(program.stages, noRoute);
  for (uint32_t m = 0; m < program.microbatches; ++m) {
    for (uint32_t s = 0; s + 1 < program.stages; ++s) {
      const bool isHere = program.deviceOf(s, m) == program.deviceOf(s + 1, m);
      outputs[s] = gradients[s + 1] = isHere ? 0 : units(given.latency);
      ways[s] = back[s + 1] = isHere ? noRoute : 0;
    }
    costs.activationTransfer.addMicrobatch(outputs);
    costs.gradientTransfer.addMicrobatch(gradients);
    costs.activationRoute.addMicrobatch(ways);
    costs.gradientRoute.addMicrobatch(back);
  }
  costs.activationTransfer.finish();
  costs.gradientTransfer.finish();
  costs.activationRoute.finish();
  costs.gradientRoute.finish();
  if (given.overlap)
    for (uint32_t s = 0; s < program.stages; ++s)
      for (uint32_t t = 0; t < program.stages; ++t)
        costs.overlapped[{s, t}] = units(*given.overlap);
  return costs;
}

std::string tableText(const Order &order) {
  auto cell = [](const Op &op) {
    const char *kind = op.kind == OpKind::Forward         ? "F"
                       : op.kind == OpKind::Backward      ? "B"
                       : op.kind == OpKind::BackwardInput ? "I"
                                                          : "W";
    return fmt::format("{}{}{}", op.stage, kind, op.microbatch);
  };
  std::string text = "table {\n";
  for (size_t d = 0; d < order.rows.size(); ++d) {
    text += fmt::format("  {}:", d);
    for (size_t i = 0; i < order.rows[d].size(); ++i)
      if (order.rows[d][i].has(OverlapFirst))
        text += fmt::format(" ({};{})OVERLAP_F_B", cell(order.rows[d][i]), cell(order.rows[d][i + 1]));
      else if (!order.rows[d][i].has(OverlapFollower))
        text += " " + cell(order.rows[d][i]);
    text += ";\n";
  }
  return text + "}\n";
}

} // namespace sluice::golden
