// The embedded form: schedules written in C++ become the same IR as schedule files.
//
//   ScheduleBuilder b("one_f_one_b", {.stages = 4, .microbatches = 8, .devices = 4});
//   b.place([](Stage s, Microbatch) { return Device(s); });
//   b.program([&](DeviceProgram &p, Device d) { p.forward(d, 0); ... p.reduce(); p.update(); });
//   Program program = b.build();
//
// Nothing is checked while building but sizes (assertions on the stage and microbatch counts); what is
// wrong with the schedule is found by verify, at the C++ line of the call.
#pragma once

#include "IR/Program.h"

#include <functional>
#include <optional>
#include <source_location>

namespace sluice {

using Stage = uint32_t;
using Microbatch = uint32_t;
using Device = uint32_t;

struct Sizes {
  uint32_t stages = 0, microbatches = 0, devices = 0;
  uint32_t sequenceSplits = 1; ///< Above 1 `microbatches` counts splits, of whole microbatches.
};

/// `using version`: a copy's count of updates.
enum class Version : uint32_t {};

/// What `keep` says at a forward.
enum class Keep : uint8_t { All, Input, Nothing };

class ScheduleBuilder;

/// The program of one device while it is written. Each call appends one op; indices outside the
/// builder's sizes are refused by an assertion.
class DeviceProgram {
public:
  using Where = std::source_location;
  void forward(Stage s, Microbatch m, Keep keep = Keep::All, Where where = Where::current());
  void forward(Stage s, Microbatch m, Version version, Where where = Where::current());
  void backward(Stage s, Microbatch m, Where where = Where::current());
  void backwardInput(Stage s, Microbatch m, Where where = Where::current());
  void backwardWeight(Stage s, Microbatch m, Where where = Where::current());
  void recompute(Stage s, Microbatch m, bool replay = false, Where where = Where::current());
  void drop(Stage s, Microbatch m, bool keepInput = false, Where where = Where::current());
  void offload(Stage s, Microbatch m, Where where = Where::current());
  void reload(Stage s, Microbatch m, Where where = Where::current());
  void sendActivation(Stage s, Microbatch m, Where where = Where::current());
  void recvActivation(Stage s, Microbatch m, Where where = Where::current());
  void sendGradient(Stage s, Microbatch m, Where where = Where::current());
  void recvGradient(Stage s, Microbatch m, Where where = Where::current());
  void unshard(Stage s, Where where = Where::current());
  void reshard(Stage s, Where where = Where::current());
  void scale(Stage s, Rational factor, Where where = Where::current());
  /// Of a weight that ScheduleBuilder::tie has named, by its number there.
  void reduceTied(uint32_t weight, Where where = Where::current());
  void norm(bool local = false, Where where = Where::current());
  /// The op appended last multiplies what it makes (a backward or half), empties its accumulator first, goes
  /// to or comes from another stage (a send or receive over a skip edge), or carries so many bytes.
  void scaled(Rational factor);
  void overwriting();
  void withPeer(Stage other);
  void carrying(int64_t bytes);
  /// The op appended last is only started here, or is the wait for the one started before.
  void started();
  void waited();
  /// All sends and receives that `members` appends are posted at one moment.
  void group(const std::function<void()> &members);
  /// All ops that `members` appends run as one fused op.
  void overlap(const std::function<void()> &members);
  /// Of one stage, or without it of every stage placed on the device, ascending.
  void zero(Where where = Where::current());
  void zero(Stage s, Where where = Where::current());
  void reduce(Where where = Where::current());
  void reduce(Stage s, Where where = Where::current());
  void update(Where where = Where::current());
  void update(Stage s, Where where = Where::current());

private:
  friend class ScheduleBuilder;
  DeviceProgram(ScheduleBuilder &builder, Device device) : builder(builder), device(device) {}
  void append(Op op, const Where &where);
  void appendAll(OpKind kind, const Where &where);

  ScheduleBuilder &builder;
  Device device;
  bool inOverlap = false, inGroup = false, hasMember = false;
};

class ScheduleBuilder {
public:
  ScheduleBuilder(std::string name, Sizes sizes);

  /// Device of each stage and microbatch; noDevice leaves it unplaced. To call before `program`.
  void place(const std::function<Device(Stage, Microbatch)> &deviceOf,
             std::source_location where = std::source_location::current());
  /// Which version of its weights a backward reads; `most` 0: no bound on how many are kept.
  void versions(VersionRule rule, uint32_t most = 0);
  /// The buffer of each stage and microbatch.
  void buffers(const std::function<uint32_t(Stage, Microbatch)> &bufferOf,
               std::source_location where = std::source_location::current());
  /// Sends and receives are written by the programs instead of being inferred.
  void explicitCommunication() { program_.isExplicit = true; }
  /// One weight on several stages; its number.
  uint32_t tie(std::string name, std::vector<Stage> stages);
  /// An output of `from` that a later stage `to` takes as well.
  void skip(Stage from, Stage to, bool hasGradient = true);
  /// Forwards only.
  void evaluation() { program_.isEvaluation = true; }
  /// Writes the program of one device, or of all. A device written twice is appended to.
  void program(Device device, const std::function<void(DeviceProgram &)> &write);
  void program(const std::function<void(DeviceProgram &, Device)> &write);

  /// The IR. `sources` receives the C++ places, so that findings can name them; without it ops have none.
  Program build(SourceManager *sources = nullptr) const;

private:
  friend class DeviceProgram;
  Program program_;
  struct Written {
    Op op;
    uint32_t site;
    std::optional<uint32_t> version = std::nullopt, peer = std::nullopt;
    std::optional<Rational> factor = std::nullopt;
    std::optional<int64_t> bytes = std::nullopt;
  };
  std::vector<std::vector<Written>> written; // per device
  std::vector<std::source_location> places;  // per site
  std::optional<std::source_location> placedAt, buffersAt;
  std::map<std::pair<std::string, std::pair<unsigned, unsigned>>, uint32_t> siteOf;
};

} // namespace sluice
