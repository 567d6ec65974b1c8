// The rows of one schedule in an SVG: labels, idle track, ops, axis; below each row, where they are asked
// for, a strip of what is under way and one of memory. Private to lib/Emit.
#pragma once

#include "Emit/Palette.h"
#include "Emit/Svg.h"
#include "Emit/UnderWay.h"

namespace sluice {

/// Hundredths of a pixel.
using Pixels = int64_t;
inline constexpr Pixels pixel = 100;
/// `12.5`
std::string str(Pixels length);
/// Text with what XML reserves replaced.
std::string escaped(llvm::StringRef text);

/// `attributes` follow the place.
std::string rect(Pixels x, Pixels y, Pixels w, Pixels h, llvm::StringRef attributes);

/// Which looks a picture shows, and in how many shades: what its legend lists.
struct SvgLooks {
  std::array<unsigned, lookCount> shades{}; ///< Per look; 0: not shown.
  bool labels = false;                      ///< Microbatches are written into ops.
  bool overlap = false;                     ///< Some ops are fused.
  bool shares = false;                      ///< Some rows show shares of time.
  bool critical = false;                    ///< The critical path is drawn.
  bool memory = false;                      ///< Memory is drawn,
  bool limit = false;                       ///< with a limit.
};
inline constexpr unsigned maxShades = 6;
/// Class of a shade of a look: `f0`.
std::string classOf(Look look, unsigned shade);

class SvgRows {
public:
  /// `width`: of the time shown, which is the part that the schedule names.
  SvgRows(const TimedSchedule &schedule, Pixels width);

  /// Width that lets the ops be told apart and labelled, within bounds.
  static Pixels naturalWidth(const TimedSchedule &schedule);
  /// Time shown, in ticks or nanoseconds; 0 where it leaves 64 bits.
  static Rational shown(const TimedSchedule &schedule);

  Pixels height() const;
  /// The group of rows with its upper left corner at (left, top); the time starts at `left`.
  std::string text(Pixels left, Pixels top, SvgLooks &looks);

  static constexpr Pixels axisHeight = 26 * pixel;
  /// Right edges of the columns beside the rows, from the end of the time.
  static constexpr Pixels idleColumn = 76 * pixel, peakColumn = 140 * pixel;
  static constexpr Pixels messageHeight = 12 * pixel, memoryHeight = 20 * pixel;

private:
  struct Run {
    OpId first, end;
    int64_t start, stop;
    Pixels x, width;
  };
  /// What the axis and the idle times count: the unit that the end of the time shown reads best in.
  struct AxisUnit {
    std::string name;
    Rational length; ///< In CostModel::unit.
  };
  AxisUnit axisUnit() const;
  uint32_t rows() const;
  uint32_t perRow() const;
  Pixels rowHeight() const;
  Pixels pitch() const; ///< From row to row, with the strips between.
  Pixels at(int64_t time) const;
  std::vector<Run> runsOf(uint32_t device) const;
  bool needsShares() const;
  /// Of the longest number of a microbatch.
  unsigned digits() const;
  /// Largest size that lets nine of ten labels fit, else half of them; 0: none.
  unsigned fontSize() const;

  std::string axis(Pixels left, Pixels top) const;
  std::string label(uint32_t device, uint32_t end, Pixels top) const;
  std::string summary(uint32_t device, Pixels left, Pixels top) const;
  std::string opRow(uint32_t device, Pixels left, Pixels top, unsigned font, SvgLooks &looks) const;
  std::string box(const Op &op, llvm::ArrayRef<uint32_t> stages, Pixels x, Pixels y, Pixels w, Pixels h,
                  bool hasGap, SvgLooks &looks) const;
  std::string shareRow(uint32_t device, uint32_t end, Pixels left, Pixels top, SvgLooks &looks) const;

  /// Time that each look takes in each bin of a row, times the number of bins; a bin is to - from long then.
  struct Shares {
    std::vector<std::array<__int128, lookCount>> time;
    __int128 whole; ///< Of a bin that is full.
  };
  Shares sharesOf(Pixels bin) const;
  void addShare(Shares &shares, Look look, int64_t start, int64_t stop, int64_t part) const;
  /// One path a look, from the floor of the row upwards.
  std::string sharePaths(const Shares &shares, Pixels bin, Pixels left, Pixels top, Pixels height,
                         SvgLooks &looks) const;

  // SvgStrips.cpp
  bool hasMessages() const { return schedule.part.transfers && perRow() == 1; }
  bool hasMemory() const { return schedule.part.memoryStrip && perRow() == 1; }
  /// Sorted by device, then time.
  void gatherMessages();
  std::string messageStrip(uint32_t device, Pixels left, Pixels top, SvgLooks &looks) const;
  void gatherMemory();
  std::string memoryStrip(uint32_t device, Pixels left, Pixels top, SvgLooks &looks) const;
  std::string memoryText(int64_t value) const;
  std::string criticalPath(Pixels left, Pixels top, bool shares) const;

  const TimedSchedule &schedule;
  const Program &program;
  uint32_t firstDevice, deviceEnd;
  int64_t from, to;
  Pixels width;
  std::vector<UnderWay> messages;
  std::vector<std::vector<MemoryPoint>> memory; ///< Per device shown.
  bool inBytes = false;                         ///< What `memory` shows; else activations.
  int64_t mostMemory = 1;                       ///< Full height of a strip.
};

} // namespace sluice
