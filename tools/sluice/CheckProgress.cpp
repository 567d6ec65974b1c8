#include "CheckProgress.h"

#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

namespace sluice::tool {

Progress::Progress(size_t total)
    : total(total), isTerminal(llvm::sys::Process::StandardErrIsDisplayed()),
      next(Clock::now() + std::chrono::seconds(1)) {}

void Progress::show(size_t done) {
  if (!isTerminal)
    return;
  Clock::time_point now = Clock::now();
  if (now < next)
    return;
  next = now + std::chrono::milliseconds(200);
  isShown = true;
  llvm::errs() << '\r' << done << " of " << total << " settings checked";
}

void Progress::clear() {
  if (isShown)
    llvm::errs() << "\r\033[K";
  isShown = false;
}

} // namespace sluice::tool
