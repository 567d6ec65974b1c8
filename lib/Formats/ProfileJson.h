// Measured times as JSON, for `cost from "profile.json"`; docs/profiles.md describes the file.
//
//   {"version": 1, "time_unit": "us",
//    "ops": {"forward": [{"stage": 0, "samples": [1, 2, 4], "time": [10, 18, 35.5]}],
//            "update": [{"time": 120}]}}
#pragma once

#include "IR/Profile.h"
#include "Support/Diagnostics.h"

#include <memory>

namespace sluice {

/// Reads the profile that a schedule file names as `path`, at `named`. Null if there was an error: 117 at its
/// place in `text`, with a note at `named` where that is somewhere.
std::shared_ptr<const Profile> readProfile(const SourceManager &sources, Span text, llvm::StringRef path,
                                           Span named, Diagnostics &diagnostics);

} // namespace sluice
