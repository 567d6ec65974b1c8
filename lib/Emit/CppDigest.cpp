#include "Emit/CppDigest.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#include <sluice/Expand.h>

namespace sluice {

namespace {

/// Whole numbers, lowest byte first, and texts behind their length, so that no two lists give one stream.
class Digest {
public:
  void add(uint64_t value) {
    for (unsigned i = 0; i < 8; ++i)
      bytes.push_back(static_cast<uint8_t>(value >> 8 * i));
    if (bytes.size() >= 1 << 16)
      flush();
  }
  void add(std::initializer_list<uint64_t> values) {
    for (uint64_t value : values)
      add(value);
  }
  void add(llvm::StringRef text) {
    add(text.size());
    bytes.insert(bytes.end(), text.bytes_begin(), text.bytes_end());
  }
  void add(llvm::ArrayRef<Fraction> fractions) {
    add(fractions.size());
    for (const Fraction &fraction : fractions)
      add({static_cast<uint64_t>(fraction.numerator), static_cast<uint64_t>(fraction.denominator)});
  }
  std::string text() {
    flush();
    return llvm::toHex(hash.final(), /*LowerCase=*/true).substr(0, 16);
  }

private:
  void flush() {
    hash.update(bytes);
    bytes.clear();
  }
  llvm::SHA256 hash;
  std::vector<uint8_t> bytes;
};

bool isSlot(std::optional<runtime::Pool> pool) {
  return pool && *pool != runtime::Pool::Version && *pool != runtime::Pool::Channel;
}

void addRow(const runtime::Instruction &row, Digest &digest) {
  digest.add(static_cast<uint64_t>(row.op) << 56 | uint64_t{row.flags} << 48 | uint64_t{row.stage} << 32 |
             row.microbatch);
  const std::array<std::optional<runtime::Pool>, 4> pools = runtime::poolsOf(row);
  const uint32_t operands[] = {row.a, row.b, row.c, row.d};
  for (unsigned i = 0; i < 4; ++i)
    if (!isSlot(pools[i]) && operands[i] != runtime::noSlot)
      digest.add(uint64_t{i} << 32 | operands[i]);
}

} // namespace

std::string digestOf(const ExecutorTables &tables) {
  Digest digest;
  digest.add({runtime::tableFormat, tables.stages, tables.microbatches, tables.splits, tables.replicas});
  const runtime::ChannelModels &verified = tables.verified;
  digest.add({verified.unbounded, verified.eager, verified.rendezvous, verified.rendezvousPair,
              verified.rendezvousDevice});
  digest.add({tables.reduction.mean, tables.reduction.sharded, tables.reduction.copied});
  digest.add(tables.channels.size());
  for (const runtime::Channel &channel : tables.channels)
    digest.add({channel.from, channel.to});
  digest.add(tables.copies.size());
  for (const runtime::Copy &copy : tables.copies)
    digest.add({copy.stage, copy.device, copy.versions, copy.newest});
  digest.add(tables.skips.size());
  for (const runtime::Skip &skip : tables.skips)
    digest.add({skip.from, skip.to, skip.hasGradient});
  digest.add(tables.ties.size());
  for (const TieTable &tie : tables.ties) {
    digest.add(tie.name);
    digest.add({tie.isLocal, tie.stages.size()});
    for (uint32_t stage : tie.stages)
      digest.add(stage);
  }
  digest.add(tables.lossFactors);
  digest.add(tables.factors);
  digest.add(tables.devices.size());
  for (const DeviceTable &device : tables.devices) {
    digest.add(device.rows.size());
    for (const runtime::Instruction &row : device.rows)
      addRow(row, digest);
  }
  return digest.text();
}

} // namespace sluice
