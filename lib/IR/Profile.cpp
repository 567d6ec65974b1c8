#include "IR/Profile.h"

#include <algorithm>

namespace sluice {

std::optional<Rational> ProfileCurve::at(const Rational &samples) const {
  if (points.size() == 1)
    return points[0].time;
  // The right end of the piece that holds `samples`, or that goes on to it.
  auto right = std::upper_bound(points.begin() + 1, points.end() - 1, samples,
                                [](const Rational &at, const Point &point) { return at < point.samples; });
  const Point &a = *(right - 1), &b = *right;
  if (samples == b.samples)
    return b.time;
  auto rise = subtract(b.time, a.time), run = subtract(b.samples, a.samples);
  auto from = subtract(samples, a.samples);
  auto slope = rise && run ? divide(*rise, *run) : std::nullopt;
  auto change = slope && from ? multiply(*slope, *from) : std::nullopt;
  auto time = change ? add(a.time, *change) : std::nullopt;
  return time && time->num < 0 ? Rational(0) : time;
}

const ProfileCurve *ProfileOp::find(uint32_t stage) const {
  auto found = ofStage.find(stage);
  if (found != ofStage.end())
    return &found->second;
  return others ? &*others : nullptr;
}

llvm::ArrayRef<llvm::StringRef> profileOps() {
  static constexpr llvm::StringRef names[] = {"forward",   "backward", "backward_input", "backward_weight",
                                              "recompute", "update",   "reduce"};
  return names;
}

} // namespace sluice
