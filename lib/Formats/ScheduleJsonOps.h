// The ops of schedule JSON: `["forward", 0, 3, "keep input"]`, alone or as members of an overlap or a group.
#pragma once

#include "Formats/JsonFields.h"
#include "Formats/Rows.h"

namespace sluice {

/// Rows of ops, and what some of them name; ops are numbered over all rows.
struct JsonOps {
  std::vector<Row> rows;
  std::vector<NamedVersion> versions;
  std::vector<OpFactor> factors;
  std::vector<OpPeer> peers;
  std::vector<OpPayload> payloads;
};

/// The `programs` of `root`. Stages and microbatches are not compared with the sizes of the schedule, but for
/// the other ends of messages, which are any 16 bits.
JsonOps readOps(const JsonValue &root, llvm::ArrayRef<TiedWeight> ties, JsonFields &fields);

/// Gives `program`, made of the rows, what its ops name.
void takeOps(const JsonOps &ops, Program &program);

/// A fraction in lowest terms or not, of either sign but not 0: `-3/4`, `2`.
std::optional<Rational> fractionOf(llvm::StringRef text);

} // namespace sluice
