// Any bytes as a profile of measured times, and the times that one gives.
#include "Formats/ProfileJson.h"
#include "Pipeline.h"

namespace sluice::fuzz {

/// Times are not below 0, whole between two measured points of whole times, and those points themselves.
static void look(const Profile &profile) {
  for (const ProfileOp &op : profile.ops)
    for (uint32_t stage = 0; stage < 4; ++stage)
      if (const ProfileCurve *curve = op.find(stage)) {
        for (int64_t samples : {0, 1, 3, 1'000'000'007})
          if (auto time = curve->at(Rational(samples)))
            demand(time->num >= 0, "no time is below 0");
        for (size_t i = 0; i < curve->points.size(); ++i) {
          const ProfileCurve::Point &point = curve->points[i];
          demand(!curve->namesSamples || i == 0 || curve->points[i - 1].samples < point.samples,
                 "samples ascend");
          demand(curve->covers(point.samples), "a measured point lies in what was measured");
          if (auto time = curve->at(point.samples))
            demand(*time == point.time, "a measured point has its time");
        }
      }
}

} // namespace sluice::fuzz

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) {
  using namespace sluice;
  SourceManager sources;
  Diagnostics diagnostics;
  auto text = sources.addFile("profile.json", std::string(reinterpret_cast<const char *>(data), size));
  if (!text)
    return 0;
  auto profile = readProfile(sources, *text, "profile.json", {}, diagnostics);
  fuzz::demand((profile != nullptr) != diagnostics.hasErrors(), "a profile is read, or has an error");
  for (const Finding &finding : diagnostics.findings())
    fuzz::demand(finding.rule == Rule::BadProfile, "what is wrong with a profile is 117");
  if (profile)
    fuzz::look(*profile);
  return 0;
}
