// The picture of Emit/Svg in pixels, two for each of its own, drawn by librsvg and cairo with the fonts of
// the machine. Without them in the build it is an error that says what to install.
#pragma once

#include "Emit/TimedSchedule.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace sluice {

/// The bytes of a PNG file; on one machine the same input gives the same.
llvm::Expected<std::string> png(llvm::ArrayRef<TimedSchedule> schedules);

} // namespace sluice
