#include "TableMachine.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace sluice::test {

using runtime::ChannelModel;
using runtime::Instruction;
using runtime::noSlot;
using runtime::Op;

namespace {

enum class Content : uint8_t { Nothing, Activation, Gradient, SkipActivation, SkipGradient, Saved, Pending };

/// `of`: the stage it goes into or belongs to; over a skip edge the edge.
struct Token {
  Content content = Content::Nothing;
  uint32_t of = 0, microbatch = 0;
  uint64_t step = 0;
  Rational factor = 1;  // of gradients and pending halves
  uint32_t version = 0; // of the weights that a saved activation was made with
  bool is(Content what, uint32_t where, uint32_t m, uint64_t when) const {
    return content == what && of == where && microbatch == m && step == when;
  }
};

struct Request {
  uint32_t device, slot, channel, ordinal, statement;
  bool isSend, isDone = false;
  Token payload; // of a send
};

struct Carry {
  bool isThere = false;
  uint32_t stage = 0, whole = 0, forwards = 0, backwards = 0;
};

/// The copy of a stage on a device.
struct CopyState {
  std::vector<uint32_t> slots; // which version is in each
  uint32_t newest = 0, newestSlot = 0;
  std::map<uint32_t, Rational> gradient; // by unit
  bool isUsed = true;                    // nothing since the last update
  bool hasLast = false;
  uint32_t updates = 0;
  bool isGathered = false, isTracked = false, isReduced = false;
};

struct Operands {
  std::vector<std::pair<uint32_t, uint32_t>> skipInputs, skipOutputs; // slot, edge
  uint32_t carry = noSlot, weights = noSlot, factor = noSlot;
};

struct DeviceState {
  uint32_t at = 0;
  uint64_t step = 0;
  bool isPosted = false; // the row at hand has started what it waits for
  std::vector<Token> boundaries, saveds, pendings, hosts;
  std::vector<Carry> carries;
  std::vector<size_t> open;                 // per boundary: request + 1
  std::set<std::pair<Op, uint32_t>> moving; // saved slots and host slots between a start and its wait
  std::map<uint32_t, CopyState> copies;
  std::map<std::pair<Op, uint32_t>, uint32_t> calls, waits; // joint ops made, waited for
  uint32_t statements = 0;
};

class Machine {
public:
  Machine(const ExecutorTables &tables, const MachineOptions &options)
      : tables(tables), options(options), devices(tables.devices.size()), made(tables.channels.size()),
        done(tables.channels.size()) {
    for (size_t d = 0; d < devices.size(); ++d) {
      DeviceState &device = devices[d];
      const DeviceTable &table = tables.devices[d];
      device.boundaries.resize(table.boundaries);
      device.open.resize(table.boundaries);
      device.saveds.resize(table.saveds);
      device.pendings.resize(table.pendings);
      device.hosts.resize(table.hosts);
      device.carries.resize(table.carries);
    }
    for (const runtime::Copy &copy : tables.copies) {
      CopyState &state = devices[copy.device].copies[copy.stage];
      state.slots.assign(copy.versions, ~0u);
      state.slots[0] = 0;
      members[copy.stage].push_back(copy.device);
    }
    for (size_t d = 0; d < devices.size(); ++d)
      for (const Instruction &row : tables.devices[d].rows)
        if (row.op == Op::Unshard)
          devices[d].copies.at(row.stage).isTracked = true;
  }

  void run() {
    std::vector<uint32_t> order(devices.size());
    for (uint32_t d = 0; d < order.size(); ++d)
      order[d] = d;
    std::mt19937_64 random(options.seed);
    for (bool moved = true; moved;) {
      moved = progress();
      if (options.seed != 0)
        std::shuffle(order.begin(), order.end(), random);
      for (uint32_t d : order)
        for (int turn = options.seed == 0 ? 1 << 20 : 3; turn > 0 && advance(d); --turn)
          moved = true;
    }
    for (uint32_t d = 0; d < devices.size(); ++d)
      if (devices[d].step < options.steps)
        throw TableFault(fmt::format("device {} stands at row {}", d, devices[d].at));
    for (const DeviceState &device : devices) {
      for (const auto *pool : {&device.saveds, &device.pendings, &device.hosts})
        for (const Token &token : *pool)
          if (token.content != Content::Nothing)
            throw TableFault("something is left at the end");
      if (!options.waitsLazily)
        for (size_t request : device.open)
          if (request != 0)
            throw TableFault("a message is not waited for");
    }
    if (std::any_of(requests.begin(), requests.end(), [](const Request &r) { return !r.isDone; }))
      throw TableFault("a message is left at the end");
  }

private:
  [[noreturn]] void fault(uint32_t d, const std::string &what) const {
    const Instruction &row = tables.devices[d].rows[devices[d].at];
    throw TableFault(fmt::format("device {} step {} row {} {}({}, {}): {}", d, devices[d].step, devices[d].at,
                                 name(row.op), row.stage, row.microbatch, what));
  }
  void require(bool holds, uint32_t d, const char *what) const {
    if (!holds)
      fault(d, what);
  }

  /// The queue that a request stands in at its end.
  uint64_t queueOf(const Request &request) const {
    const runtime::Channel &channel = tables.channels[request.channel];
    if (options.model == ChannelModel::rendezvousDevice)
      return request.device;
    if (options.model == ChannelModel::rendezvousPair)
      return uint64_t(request.device) << 32 | (request.isSend ? channel.to : channel.from);
    return uint64_t(request.channel) << 1 | request.isSend;
  }
  bool isReady(size_t index) const {
    const std::vector<size_t> &queue = queues.at(queueOf(requests[index]));
    for (size_t other : queue)
      if (!requests[other].isDone)
        return requests[other].statement == requests[index].statement;
    return true;
  }
  const size_t *find(uint32_t channel, bool isSend, uint32_t ordinal) const {
    auto found = byOrdinal.find({channel, isSend, ordinal});
    return found == byOrdinal.end() ? nullptr : &found->second;
  }
  bool mayComplete(size_t index) const {
    const Request &request = requests[index];
    if (!isReady(index))
      return false;
    const size_t *other = find(request.channel, !request.isSend, request.ordinal);
    if (options.model >= ChannelModel::rendezvous)
      return other && isReady(*other);
    if (!request.isSend)
      return other && requests[*other].isDone;
    if (options.model == ChannelModel::unbounded || request.ordinal == 0)
      return true;
    const size_t *before = find(request.channel, false, request.ordinal - 1);
    return before && requests[*before].isDone;
  }
  void complete(size_t index) {
    Request &request = requests[index];
    request.isDone = true;
    if (request.isSend)
      return;
    const Request &send = requests[*find(request.channel, true, request.ordinal)];
    devices[request.device].boundaries[request.slot] = send.payload;
  }
  bool progress() {
    bool any = false;
    for (bool moved = true; moved;) {
      moved = false;
      for (auto &[key, queue] : queues) {
        while (!queue.empty() && requests[queue.front()].isDone)
          queue.erase(queue.begin());
        for (size_t i = 0; i < queue.size(); ++i) {
          const size_t index = queue[i];
          if (requests[index].isDone)
            continue;
          if (requests[index].statement != requests[queue.front()].statement)
            break;
          if (!mayComplete(index))
            continue;
          if (options.model >= ChannelModel::rendezvous)
            complete(*find(requests[index].channel, !requests[index].isSend, requests[index].ordinal));
          complete(index);
          moved = any = true;
        }
      }
    }
    return any;
  }

  /// False: the slot's message is still under way.
  bool isFree(uint32_t d, uint32_t slot) {
    if (slot == noSlot)
      return true;
    DeviceState &device = devices[d];
    require(slot < device.boundaries.size(), d, "no such boundary");
    size_t &open = device.open[slot];
    if (open == 0)
      return true;
    require(options.waitsLazily, d, "a slot is used while its message is under way");
    if (!requests[open - 1].isDone)
      return false;
    if (requests[open - 1].isSend)
      device.boundaries[slot] = {};
    open = 0;
    return true;
  }

  bool advance(uint32_t d) {
    DeviceState &device = devices[d];
    if (device.step == options.steps)
      return false;
    const std::vector<Instruction> &rows = tables.devices[d].rows;
    if (device.at == rows.size())
      return endStep(d);
    const uint32_t first = device.at;
    Operands operands;
    uint32_t at = first;
    for (; runtime::isOperand(rows[at].op); ++at) {
      const Instruction &row = rows[at];
      require(at + 1 < rows.size() && row.stage == rows[at + 1].stage &&
                  row.microbatch == rows[at + 1].microbatch,
              d, "an operand of another op");
      if (row.op == Op::SkipInput || row.op == Op::SkipOutput) {
        if (!isFree(d, row.a))
          return false;
        (row.op == Op::SkipInput ? operands.skipInputs : operands.skipOutputs).push_back({row.a, row.b});
      } else if (row.op == Op::Carry) {
        operands.carry = row.a;
      } else if (row.op == Op::Weights) {
        operands.weights = row.a;
      } else {
        operands.factor = row.d;
      }
    }
    device.at = at;
    if (carryOut(d, rows[at], operands)) {
      device.isPosted = false;
      device.at = at + 1;
      return true;
    }
    device.at = first;
    return false;
  }

  bool endStep(uint32_t d) {
    DeviceState &device = devices[d];
    for (const Carry &carry : device.carries)
      if (carry.isThere)
        throw TableFault("a carry is left at the end of a step");
    for (const runtime::Copy &copy : tables.copies) {
      if (copy.device != d)
        continue;
      CopyState &state = device.copies.at(copy.stage);
      if (state.newestSlot != copy.newest)
        throw TableFault("the newest weights are not where the table says");
      std::swap(state.slots[0], state.slots[copy.newest]);
      state.newestSlot = 0;
      state.updates = 0;
      // What later ops of the step before would still have read is gone.
      for (uint32_t slot = 1; slot < state.slots.size(); ++slot)
        state.slots[slot] = ~0u;
    }
    for (auto &[stage, state] : device.copies) {
      state.hasLast = false;
      if (!tables.uses.update && !options.keepsUsed)
        state.isUsed = true;
    }
    device.at = 0;
    ++device.step;
    return true;
  }

  /// The row's slots, of pools that have so many.
  Token &slot(uint32_t d, std::vector<Token> &pool, uint32_t index) {
    require(index < pool.size(), d, "no such slot");
    return pool[index];
  }
  Token &boundary(uint32_t d, uint32_t index) { return slot(d, devices[d].boundaries, index); }
  Token &saved(uint32_t d, uint32_t index) {
    require(!devices[d].moving.contains({Op::Offload, index}) &&
                !devices[d].moving.contains({Op::Reload, index}),
            d, "a saved activation is on its way");
    return slot(d, devices[d].saveds, index);
  }
  static Token take(Token &token) { return std::exchange(token, {}); }

  bool carryOut(uint32_t d, const Instruction &row, const Operands &operands) {
    switch (row.op) {
    case Op::Load:
      if (!isFree(d, row.a))
        return false;
      boundary(d, row.a) = {Content::Activation, row.stage, row.microbatch, devices[d].step};
      return true;
    case Op::Loss: {
      if (!isFree(d, row.a) || !isFree(d, row.b))
        return false;
      require(boundary(d, row.a).is(Content::Activation, row.stage + 1, row.microbatch, devices[d].step), d,
              "not the last output");
      const LossFactor &factor = tables.lossFactors.at(row.microbatch);
      boundary(d, row.b) = {Content::Gradient, row.stage, row.microbatch, devices[d].step,
                            *Rational::make(factor.numerator, factor.denominator)};
      return true;
    }
    case Op::Forward:
      return forward(d, row, operands);
    case Op::Recompute:
      return recompute(d, row, operands);
    case Op::Backward:
    case Op::BackwardInput:
      return backward(d, row, operands);
    case Op::BackwardWeight: {
      Token &pending = slot(d, devices[d].pendings, row.d);
      require(pending.is(Content::Pending, row.stage, row.microbatch, devices[d].step), d,
              "not its other half");
      contribute(d, row, *multiply(take(pending).factor, factorOf(d, operands)));
      return true;
    }
    case Op::Drop:
    case Op::Offload:
    case Op::Reload:
      move(d, row);
      return true;
    case Op::Zero: {
      CopyState &state = copy(d, row.stage);
      state.gradient.clear();
      state.isUsed = true;
      state.hasLast = false;
      return true;
    }
    case Op::Scale:
      for (auto &[unit, factor] : copy(d, row.stage).gradient)
        factor = *multiply(factor, fraction(d, row.d));
      return true;
    case Op::Update:
      update(d, row);
      return true;
    case Op::Unshard:
      copy(d, row.stage).isGathered = true;
      return true;
    case Op::Reshard:
      require(copy(d, row.stage).isGathered, d, "weights are dropped that are not there");
      copy(d, row.stage).isGathered = false;
      return true;
    case Op::Reduce:
    case Op::ReduceTied:
    case Op::Norm:
      return join(d, row);
    case Op::SendActivation:
    case Op::SendGradient:
    case Op::ReceiveActivation:
    case Op::ReceiveGradient:
      return start(d, row);
    case Op::Wait:
      return wait(d, row);
    default:
      fault(d, "an operand where an op should be");
    }
  }

  CopyState &copy(uint32_t d, uint32_t stage) {
    auto found = devices[d].copies.find(stage);
    require(found != devices[d].copies.end(), d, "a stage that is not here");
    return found->second;
  }
  Rational fraction(uint32_t d, uint32_t index) {
    require(index < tables.factors.size(), d, "no such factor");
    return *Rational::make(tables.factors[index].numerator, tables.factors[index].denominator);
  }
  Rational factorOf(uint32_t d, const Operands &operands) {
    return operands.factor == noSlot ? Rational(1) : fraction(d, operands.factor);
  }

  /// The version that an op reads.
  uint32_t weights(uint32_t d, const Instruction &row, const Operands &operands) {
    CopyState &state = copy(d, row.stage);
    require(!state.isTracked || state.isGathered, d, "weights are not gathered");
    const uint32_t index = operands.weights == noSlot ? 0 : operands.weights;
    require(index < state.slots.size() && (state.slots.size() > 1) == (operands.weights != noSlot), d,
            "no such version");
    require(state.slots[index] != ~0u, d, "a version that is not there");
    return state.slots[index];
  }

  std::vector<uint32_t> edges(uint32_t stage, bool into, bool onlyWithGradient) const {
    std::vector<uint32_t> result;
    for (uint32_t i = 0; i < tables.skips.size(); ++i)
      if ((into ? tables.skips[i].to : tables.skips[i].from) == stage &&
          (tables.skips[i].hasGradient || !onlyWithGradient))
        result.push_back(i);
    return result;
  }
  void checkSkips(uint32_t d, const Instruction &row, const std::vector<std::pair<uint32_t, uint32_t>> &given,
                  const std::vector<uint32_t> &wanted, Content content, bool isInput) {
    require(given.size() == wanted.size(), d, "another number of skip edges");
    for (size_t i = 0; i < given.size(); ++i) {
      require(given[i].second == wanted[i], d, "another skip edge");
      if (isInput)
        require(boundary(d, given[i].first).is(content, wanted[i], row.microbatch, devices[d].step), d,
                "not what comes over the skip edge");
    }
  }
  void fillSkips(uint32_t d, const Instruction &row, const Operands &operands, Content content,
                 Rational factor = 1) {
    for (auto [index, edge] : operands.skipOutputs)
      boundary(d, index) = {content, edge, row.microbatch, devices[d].step, factor};
  }

  void carry(uint32_t d, const Instruction &row, const Operands &operands) {
    require((tables.splits > 1) == (operands.carry != noSlot), d, "a carry where none is, or the reverse");
    if (operands.carry == noSlot)
      return;
    require(operands.carry < devices[d].carries.size(), d, "no such carry");
    Carry &state = devices[d].carries[operands.carry];
    const uint32_t split = row.microbatch % tables.splits, whole = row.microbatch / tables.splits;
    if (row.op == Op::Forward && split == 0) {
      require(!state.isThere, d, "a carry is in use");
      state = {true, row.stage, whole, 0, 0};
    }
    require(state.isThere && state.stage == row.stage && state.whole == whole, d, "not its carry");
    if (row.op == Op::Forward)
      require(state.forwards++ == split, d, "splits out of order");
    else if (row.op != Op::Recompute)
      require(tables.splits - 1 - state.backwards++ == split, d, "splits out of order");
    const bool isOver = row.op == Op::Forward
                            ? split + 1 == tables.splits && (row.flags & runtime::KeepNothing)
                            : row.op != Op::Recompute && split == 0;
    if (isOver)
      state = {};
  }

  bool forward(uint32_t d, const Instruction &row, const Operands &operands) {
    DeviceState &device = devices[d];
    if (!isFree(d, row.a) || !isFree(d, row.b))
      return false;
    require(boundary(d, row.a).is(Content::Activation, row.stage, row.microbatch, device.step), d,
            "not its input");
    checkSkips(d, row, operands.skipInputs, edges(row.stage, true, false), Content::SkipActivation, true);
    checkSkips(d, row, operands.skipOutputs, edges(row.stage, false, false), Content::SkipActivation, false);
    carry(d, row, operands);
    const uint32_t version = weights(d, row, operands);
    const bool keepsAll = !(row.flags & (runtime::KeepInput | runtime::KeepNothing));
    require(keepsAll == (row.c != noSlot), d, "a saved slot where none is kept, or the reverse");
    require(row.a != row.b, d, "the output in place of the input");
    boundary(d, row.b) = {Content::Activation, row.stage + 1u, row.microbatch, device.step};
    fillSkips(d, row, operands, Content::SkipActivation);
    forwardVersion[{row.stage, row.microbatch}] = version;
    if (keepsAll)
      save(d, row, version);
    return true;
  }
  void save(uint32_t d, const Instruction &row, uint32_t version) {
    require(saved(d, row.c).content == Content::Nothing, d, "a saved slot is in use");
    saved(d, row.c) = {Content::Saved, row.stage, row.microbatch, devices[d].step, 1, version};
  }
  void checkVersion(uint32_t d, const Instruction &row, uint32_t version) {
    const uint32_t wanted =
        options.readsNewest ? copy(d, row.stage).newest : forwardVersion.at({row.stage, row.microbatch});
    require(version == wanted, d, "another version of the weights than its forward read");
  }

  bool recompute(uint32_t d, const Instruction &row, const Operands &operands) {
    if (!isFree(d, row.a))
      return false;
    require(boundary(d, row.a).is(Content::Activation, row.stage, row.microbatch, devices[d].step), d,
            "not the kept input");
    checkSkips(d, row, operands.skipInputs, edges(row.stage, true, false), Content::SkipActivation, true);
    require(operands.skipOutputs.empty(), d, "a recompute makes no output");
    carry(d, row, operands);
    checkVersion(d, row, weights(d, row, operands));
    save(d, row, 0);
    return true;
  }

  bool backward(uint32_t d, const Instruction &row, const Operands &operands) {
    DeviceState &device = devices[d];
    if (!isFree(d, row.a) || !isFree(d, row.b))
      return false;
    require(boundary(d, row.a).is(Content::Gradient, row.stage, row.microbatch, device.step), d,
            "not its gradient");
    checkSkips(d, row, operands.skipInputs, edges(row.stage, false, true), Content::SkipGradient, true);
    checkSkips(d, row, operands.skipOutputs, edges(row.stage, true, true), Content::SkipGradient, false);
    Token &kept = saved(d, row.c);
    require(kept.is(Content::Saved, row.stage, row.microbatch, device.step), d, "not its activation");
    carry(d, row, operands);
    checkVersion(d, row, weights(d, row, operands));
    const Rational arrived = boundary(d, row.a).factor;
    for (auto [index, edge] : operands.skipInputs)
      require(boundary(d, index).factor == arrived, d, "gradients of two edges with two factors");
    take(kept);
    const Rational passed = *multiply(arrived, factorOf(d, operands));
    require(row.a != row.b, d, "the input gradient in place of the gradient");
    require((row.stage == 0) == (row.b == noSlot), d, "an input gradient where none is, or the reverse");
    if (row.b != noSlot)
      boundary(d, row.b) = {Content::Gradient, row.stage - 1u, row.microbatch, device.step, passed};
    fillSkips(d, row, operands, Content::SkipGradient, passed);
    if (row.op == Op::Backward) {
      contribute(d, row, passed);
      return true;
    }
    Token &pending = slot(d, device.pendings, row.d);
    require(pending.content == Content::Nothing, d, "a pending slot is in use");
    pending = {Content::Pending, row.stage, row.microbatch, device.step, arrived};
    return true;
  }

  void contribute(uint32_t d, const Instruction &row, Rational factor) {
    CopyState &state = copy(d, row.stage);
    const bool isFirst = row.flags & runtime::FirstContribution;
    require(!state.hasLast, d, "a contribution behind the last");
    if (!options.keepsUsed)
      require(isFirst == state.isUsed, d, "a first contribution that is none, or the reverse");
    if (isFirst)
      state.gradient.clear();
    state.isUsed = false;
    require(state.gradient.try_emplace(row.microbatch, factor).second, d, "a contribution twice");
    state.hasLast = row.flags & runtime::LastContribution;
    state.isReduced = false;
  }

  void move(uint32_t d, const Instruction &row) {
    DeviceState &device = devices[d];
    auto is = [&](const Token &token) {
      return token.is(Content::Saved, row.stage, row.microbatch, device.step);
    };
    if (row.op == Op::Drop) {
      require(row.c == noSlot || row.d == noSlot, d, "a drop of two things");
      if (row.c != noSlot)
        require(is(take(saved(d, row.c))), d, "another activation is dropped");
      if (row.d != noSlot)
        require(is(take(slot(d, device.hosts, row.d))), d, "another host activation is dropped");
      return;
    }
    const bool isOffload = row.op == Op::Offload;
    Token &from = isOffload ? saved(d, row.c) : slot(d, device.hosts, row.d);
    Token &to = isOffload ? slot(d, device.hosts, row.d) : saved(d, row.c);
    require(is(from) && to.content == Content::Nothing, d, "not what moves, or its place is taken");
    to = from;
    if (row.flags & runtime::Started)
      device.moving.insert({row.op, row.c});
    else
      from = {};
  }

  void update(uint32_t d, const Instruction &row) {
    CopyState &state = copy(d, row.stage);
    const uint32_t read = row.a == noSlot ? 0 : row.a, written = row.b == noSlot ? 0 : row.b;
    require(read < state.slots.size() && written < state.slots.size() && read == state.newestSlot, d,
            "an update of another version");
    require(!state.isUsed && (state.hasLast || options.keepsUsed), d,
            "an update before the last contribution");
    const std::map<uint32_t, Rational> all = gradientOf(row.stage, d);
    for (const auto &[unit, factor] : all)
      if (const Rational wanted = options.wanted(unit, all.size()); wanted != factor)
        fault(d, fmt::format("microbatch {} counts {} instead of {}", unit, factor.str(), wanted.str()));
    state.slots[written] = ++state.newest;
    state.newestSlot = written;
    ++state.updates;
    state.isUsed = true;
    state.hasLast = false;
  }
  /// Of this copy, with a reduction's mean; other copies have their own microbatches.
  std::map<uint32_t, Rational> gradientOf(uint32_t stage, uint32_t d) {
    std::map<uint32_t, Rational> result = devices[d].copies.at(stage).gradient;
    if (tables.reduction.mean && devices[d].copies.at(stage).isReduced)
      for (auto &[unit, factor] : result)
        factor = *divide(factor, Rational(tables.replicas));
    return result;
  }

  std::pair<Op, uint32_t> nameOf(Op op, const Instruction &row) const {
    return {op, op == Op::Reduce ? row.stage : op == Op::ReduceTied ? row.d : 0};
  }
  std::vector<uint32_t> membersOf(uint32_t d, Op op, const Instruction &row) {
    std::set<uint32_t> result;
    if (op == Op::Reduce)
      result.insert(members[row.stage].begin(), members[row.stage].end());
    else if (op == Op::ReduceTied)
      for (uint32_t stage : tables.ties.at(row.d).stages)
        result.insert(members[stage].begin(), members[stage].end());
    else
      for (uint32_t each = 0; each < devices.size(); ++each)
        result.insert(each);
    require(result.contains(d), d, "a joint op of other devices");
    return {result.begin(), result.end()};
  }
  bool haveCome(uint32_t d, Op op, const Instruction &row, uint32_t count) {
    for (uint32_t member : membersOf(d, op, row))
      if (devices[member].calls[nameOf(op, row)] < count)
        return false;
    return true;
  }
  bool join(uint32_t d, const Instruction &row) {
    DeviceState &device = devices[d];
    if (row.op == Op::Norm && (row.flags & runtime::Local))
      return true;
    if (row.op == Op::ReduceTied)
      for (uint32_t stage : tables.ties.at(row.d).stages)
        if (auto here = device.copies.find(stage); here != device.copies.end())
          require(stage >= row.stage && !here->second.isUsed, d, "a tied weight before its gradient");
    uint32_t &calls = device.calls[nameOf(row.op, row)];
    if (!device.isPosted) {
      device.isPosted = true;
      ++calls;
      if (row.op == Op::Reduce) {
        CopyState &state = copy(d, row.stage);
        require(!state.isUsed && state.hasLast, d, "a reduction before the last contribution");
        state.isReduced = true;
      }
    }
    if (row.flags & runtime::Started)
      return true;
    device.waits[nameOf(row.op, row)] = calls;
    return haveCome(d, row.op, row, calls);
  }

  bool start(uint32_t d, const Instruction &row) {
    DeviceState &device = devices[d];
    if (!isFree(d, row.a))
      return false;
    require(row.b < tables.channels.size(), d, "no such channel");
    const bool isSend = runtime::isSend(row.op);
    require((isSend ? tables.channels[row.b].from : tables.channels[row.b].to) == d, d,
            "a channel of other devices");
    device.statements += (row.flags & runtime::GroupFirst) || !inGroup(d);
    const uint32_t ordinal = (isSend ? made : done)[row.b]++;
    const Token content = boundary(d, row.a);
    if (isSend) {
      const bool isGradient = row.op == Op::SendGradient;
      const bool isRight =
          content.microbatch == row.microbatch && content.step == device.step &&
          (isGradient
               ? (content.content == Content::Gradient && content.of + 1 == row.stage) ||
                     (content.content == Content::SkipGradient && tables.skips.at(content.of).to == row.stage)
               : (content.content == Content::Activation && content.of == row.stage + 1u) ||
                     (content.content == Content::SkipActivation &&
                      tables.skips.at(content.of).from == row.stage));
      require(isRight, d, "another thing is sent");
      const bool isOverSkip =
          content.content == Content::SkipActivation || content.content == Content::SkipGradient;
      require(row.c == (isOverSkip ? content.of : runtime::noSlot), d, "a message of another edge");
    }
    require(skipOf.try_emplace({row.b, ordinal}, row.c).first->second == row.c, d,
            "two ends of a message name two edges");
    boundary(d, row.a) = isSend ? content : Token();
    byOrdinal[{row.b, isSend, ordinal}] = requests.size();
    requests.push_back({d, row.a, row.b, ordinal, device.statements, isSend, false, content});
    queues[queueOf(requests.back())].push_back(requests.size() - 1);
    device.open[row.a] = requests.size();
    progress();
    return true;
  }
  /// Whether the row at hand follows another member of its group.
  bool inGroup(uint32_t d) const {
    const std::vector<Instruction> &rows = tables.devices[d].rows;
    for (uint32_t at = devices[d].at; at-- > 0 && runtime::isMessage(rows[at].op);)
      if (rows[at].flags & runtime::GroupLast)
        return false;
      else if (rows[at].flags & runtime::GroupFirst)
        return true;
    return false;
  }

  bool wait(uint32_t d, const Instruction &row) {
    DeviceState &device = devices[d];
    const Op of = static_cast<Op>(row.b);
    if (runtime::isMessage(of)) {
      require(row.a < device.open.size() && device.open[row.a] != 0, d, "a wait for nothing");
      const Request &request = requests[device.open[row.a] - 1];
      require(request.isSend == runtime::isSend(of), d, "a wait for another message");
      if (!request.isDone)
        return false;
      if (request.isSend) {
        require(request.payload.microbatch == row.microbatch, d, "a wait for another message");
        device.boundaries[row.a] = {};
      } else {
        require(device.boundaries[row.a].microbatch == row.microbatch, d, "a wait for another message");
      }
      device.open[row.a] = 0;
      return true;
    }
    if (of == Op::Offload || of == Op::Reload) {
      require(device.moving.erase({of, row.c}) == 1, d, "a wait for nothing");
      Token &from = of == Op::Offload ? slot(d, device.saveds, row.c) : slot(d, device.hosts, row.d);
      const Token &to = of == Op::Offload ? slot(d, device.hosts, row.d) : slot(d, device.saveds, row.c);
      require(from.is(Content::Saved, row.stage, row.microbatch, device.step) &&
                  to.is(Content::Saved, row.stage, row.microbatch, device.step),
              d, "a wait for another move");
      from = {};
      return true;
    }
    if (of == Op::Unshard)
      return true;
    require(of == Op::Reduce || of == Op::ReduceTied, d, "a wait for what does not start");
    uint32_t &waits = device.waits[nameOf(of, row)];
    require(waits < device.calls[nameOf(of, row)], d, "a wait for nothing");
    if (!haveCome(d, of, row, waits + 1))
      return false;
    ++waits;
    return true;
  }

  const ExecutorTables &tables;
  const MachineOptions &options;
  std::vector<DeviceState> devices;
  std::map<uint32_t, std::vector<uint32_t>> members; // of each stage
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> forwardVersion;
  std::vector<Request> requests;
  std::vector<uint32_t> made, done; // sends and receives of each channel
  std::map<std::tuple<uint32_t, bool, uint32_t>, size_t> byOrdinal;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> skipOf; // by channel and number
  std::map<uint64_t, std::vector<size_t>> queues;
};

} // namespace

void runTables(const ExecutorTables &tables, const MachineOptions &options) {
  Machine(tables, options).run();
}

} // namespace sluice::test
