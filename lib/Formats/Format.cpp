#include "Formats/Format.h"

#include "Formats/DeepSpeed.h"
#include "Formats/Megatron.h"
#include "Formats/PytorchCsv.h"
#include "Formats/ScheduleJson.h"

#include "llvm/ADT/STLExtras.h"

namespace sluice {

// One row a format. Readers and writers are declared in the header of their format.
static const std::vector<Format> &formats() {
  static const std::vector<Format> table = {
      {"deepspeed", "DeepSpeed's instruction lists, printed or as JSON; one file, or one a stage",
       readDeepSpeed, nullptr, /*takesSeveral=*/true},
      {"json", "a whole schedule with its costs; also orders as \"F3@1\", \"BW3@1\"", readJson, writeJson,
       /*takesSeveral=*/false, ".json"},
      {"megatron", "Megatron-LM's interleaved order tables", readMegatron, writeMegatron},
      {"pytorch", "the CSV of torch.distributed.pipelining: compute_only, or compute_comms with --comms",
       nullptr, writePytorch},
  };
  return table;
}

llvm::ArrayRef<Format> allFormats() { return formats(); }

const Format *findFormat(llvm::StringRef name) {
  auto found = llvm::find_if(formats(), [&](const Format &format) { return format.name == name; });
  return found == formats().end() ? nullptr : &*found;
}

const Format *formatOfFile(llvm::StringRef path) {
  auto found = llvm::find_if(formats(), [&](const Format &format) {
    return format.read && !format.suffix.empty() && path.ends_with(format.suffix);
  });
  return found == formats().end() ? nullptr : &*found;
}

} // namespace sluice
