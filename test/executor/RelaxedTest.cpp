// Numbers handed from device to device and read there: built under ThreadSanitizer as it is, which must be
// silent, and with SLUICE_TEST_RELAXED, which publishes messages by a relaxed store and must be reported.
#include "IdleStage.h"

#include "one_f_one_b_p4_m8.h"

#include <cstdio>

using namespace sluice::test;
using sluice::runtime::Context;
using sluice::runtime::Copy;

struct Reads : IdleStage<long> {
  template <class... More> void forward(const Context &, const long &in, long &out, int &, More &...) {
    out = in + 1;
  }
  template <class... More> void backward(const Context &, const long &in, int &, long &out, More &...) {
    out = in - 1;
  }
};

int main() {
  using namespace generated::one_f_one_b_p4_m8;
  sluice::runtime::Executor<Reads, Schedule> executor(schedule,
                                                      [](const Copy &) { return std::make_unique<Reads>(); });
  executor.run(300);
  std::printf("ran to its end\n");
}
