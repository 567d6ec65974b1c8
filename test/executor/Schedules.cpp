#include "Schedules.h"

#include <algorithm>
#include <fmt/format.h>
#include <random>

namespace sluice::test {

namespace {

using Write = std::function<void(DeviceProgram &, Device)>;

Program linear(std::string name, uint32_t P, uint32_t M, const Write &write) {
  ScheduleBuilder builder(std::move(name), {P, M, P});
  builder.place([](Stage s, Microbatch) { return Device(s); });
  builder.program([&](DeviceProgram &p, Device d) {
    write(p, d);
    p.reduce();
    p.update();
  });
  return builder.build();
}

void writeOneFOneB(DeviceProgram &p, Device d, uint32_t P, uint32_t M) {
  const uint32_t warmup = std::min(P - 1 - d, M);
  for (uint32_t m = 0; m < warmup; ++m)
    p.forward(d, m);
  for (uint32_t m = 0; m < M - warmup; ++m) {
    p.forward(d, m + warmup);
    p.backward(d, m);
  }
  for (uint32_t m = M - warmup; m < M; ++m)
    p.backward(d, m);
}

} // namespace

Program gpipe(uint32_t P, uint32_t M) {
  return linear("gpipe", P, M, [=](DeviceProgram &p, Device d) {
    for (uint32_t m = 0; m < M; ++m)
      p.forward(d, m);
    for (uint32_t m = 0; m < M; ++m)
      p.backward(d, m);
  });
}

Program gpipeReversed(uint32_t P, uint32_t M) {
  return linear("gpipe_reversed", P, M, [=](DeviceProgram &p, Device d) {
    for (uint32_t m = 0; m < M; ++m)
      p.forward(d, m);
    for (uint32_t m = M; m-- > 0;)
      p.backward(d, m);
  });
}

Program oneFOneB(uint32_t P, uint32_t M) {
  return linear("one_f_one_b", P, M, [=](DeviceProgram &p, Device d) { writeOneFOneB(p, d, P, M); });
}

Program zeroing(uint32_t P, uint32_t M) {
  return linear("zeroing", P, M, [=](DeviceProgram &p, Device d) {
    p.zero();
    writeOneFOneB(p, d, P, M);
  });
}

Program zbH1(uint32_t P, uint32_t M) {
  return linear("zb_h1", P, M, [=](DeviceProgram &p, Device d) {
    uint32_t forwards = 0, weights = 0;
    for (; forwards < std::min(P - 1 - d, M); ++forwards)
      p.forward(d, forwards);
    for (uint32_t m = 0; m < M; ++m) {
      if (forwards < M)
        p.forward(d, forwards++);
      p.backwardInput(d, m);
      if (m >= d)
        p.backwardWeight(d, weights++);
    }
    while (weights < M)
      p.backwardWeight(d, weights++);
  });
}

Program interleaved(uint32_t P, uint32_t M, uint32_t v) {
  ScheduleBuilder builder("interleaved", {P * v, M, P});
  builder.place([=](Stage s, Microbatch) { return s % P; });
  // The k-th forward of a device: groups of P microbatches, each through all its stages.
  auto microbatch = [=](uint32_t k) { return k / (P * v) * P + k % P; };
  auto chunk = [=](uint32_t k) { return k / P % v; };
  builder.program([&](DeviceProgram &p, Device d) {
    const uint32_t total = M * v, warmup = std::min(total, 2 * (P - 1 - d) + (v - 1) * P);
    for (uint32_t k = 0; k < warmup; ++k)
      p.forward(chunk(k) * P + d, microbatch(k));
    for (uint32_t k = 0; k < total; ++k) {
      if (k + warmup < total)
        p.forward(chunk(k + warmup) * P + d, microbatch(k + warmup));
      p.backward((v - 1 - chunk(k)) * P + d, microbatch(k));
    }
    p.reduce();
    p.update();
  });
  return builder.build();
}

Program recomputing(uint32_t P, uint32_t M) {
  return linear("recomputing", P, M, [=](DeviceProgram &p, Device d) {
    for (uint32_t m = 0; m < M; ++m)
      p.forward(d, m, Keep::Input);
    for (uint32_t m = 0; m < M; ++m) {
      p.recompute(d, m, /*replay=*/true);
      p.backward(d, m);
    }
  });
}

Program dropping(uint32_t P, uint32_t M) {
  return linear("dropping", P, M, [=](DeviceProgram &p, Device d) {
    for (uint32_t m = 0; m < M; ++m)
      p.forward(d, m);
    for (uint32_t m = 0; m < M; ++m)
      p.drop(d, m, /*keepInput=*/true);
    for (uint32_t m = 0; m < M; ++m) {
      p.recompute(d, m, /*replay=*/true);
      p.backward(d, m);
    }
  });
}

Program overlapped(uint32_t P, uint32_t M) {
  return linear("overlapped", P, M, [=](DeviceProgram &p, Device d) {
    const uint32_t warmup = std::min(2 * (P - 1 - d) + 1, M);
    for (uint32_t m = 0; m < warmup; ++m)
      p.forward(d, m);
    for (uint32_t m = 0; m < M; ++m) {
      if (m + warmup >= M)
        p.backward(d, m);
      else
        p.overlap([&] {
          p.forward(d, m + warmup);
          p.backward(d, m);
        });
    }
  });
}

Program evaluation(uint32_t P, uint32_t M) {
  ScheduleBuilder builder("evaluation", {P, M, P});
  builder.place([](Stage s, Microbatch) { return Device(s); });
  builder.program([&](DeviceProgram &p, Device d) {
    for (uint32_t m = 0; m < M; ++m)
      p.forward(d, m, Keep::Nothing);
  });
  return builder.build();
}

namespace {

/// Runs all forwards and backwards in unit time, each device a random one of those that are ready.
class ListScheduler {
public:
  ListScheduler(uint32_t stages, uint32_t M, uint32_t P, bool split, uint32_t seed,
                const std::function<Device(Stage, Microbatch)> &deviceOf)
      : stages(stages), M(M), split(split), random(seed), deviceOf(deviceOf), order(P) {
    doneAt.assign(3, std::vector<uint32_t>(size_t{stages} * M, never));
  }

  std::vector<std::vector<Op>> run() {
    size_t left = size_t{stages} * M * (split ? 3 : 2);
    for (uint32_t time = 1; left > 0; ++time)
      for (Device d = 0; d < order.size(); ++d)
        left -= runOne(d, time);
    return std::move(order);
  }

private:
  static constexpr uint32_t never = ~0u;
  uint32_t &at(unsigned kind, Stage s, Microbatch m) { return doneAt[kind][s * M + m]; }

  bool isReady(unsigned kind, Stage s, Microbatch m, uint32_t time) {
    if (at(kind, s, m) != never)
      return false;
    auto done = [&](unsigned k, Stage stage) { return at(k, stage, m) < time; };
    switch (kind) {
    case 0:
      return s == 0 || done(0, s - 1);
    case 1:
      return done(0, s) && (s + 1 == stages || done(1, s + 1));
    default:
      return done(1, s);
    }
  }

  unsigned runOne(Device d, uint32_t time) {
    std::vector<Op> ready;
    for (unsigned kind = 0; kind < (split ? 3u : 2u); ++kind)
      for (Stage s = 0; s < stages; ++s)
        for (Microbatch m = 0; m < M; ++m)
          if (deviceOf(s, m) == d && isReady(kind, s, m, time))
            ready.push_back({kinds[kind], 0, static_cast<uint16_t>(s), m});
    if (ready.empty())
      return 0;
    Op op = ready[random() % ready.size()];
    const unsigned kind = op.kind == OpKind::Forward ? 0 : op.kind == OpKind::BackwardInput ? 1 : 2;
    at(kind, op.stage, op.microbatch) = time;
    if (kind == 1 && !split)
      op.kind = OpKind::Backward;
    order[d].push_back(op);
    return 1;
  }

  static constexpr OpKind kinds[] = {OpKind::Forward, OpKind::BackwardInput, OpKind::BackwardWeight};
  uint32_t stages, M;
  bool split;
  std::mt19937 random;
  const std::function<Device(Stage, Microbatch)> &deviceOf;
  std::vector<std::vector<uint32_t>> doneAt;
  std::vector<std::vector<Op>> order;
};

} // namespace

Program listScheduled(Shape shape, uint32_t P, uint32_t M, bool splitBackward, uint32_t seed) {
  const uint32_t stages = shape == Shape::V ? 2 * P : P;
  const std::function<Device(Stage, Microbatch)> deviceOf = [=](Stage s, Microbatch m) -> Device {
    switch (shape) {
    case Shape::V:
      return s < P ? s : 2 * P - 1 - s;
    case Shape::Bidirectional:
      return m % 2 == 0 ? s : P - 1 - s;
    default:
      return s;
    }
  };
  const char *names[] = {"linear", "v", "bidirectional"};
  ScheduleBuilder builder(names[static_cast<int>(shape)], {stages, M, P});
  builder.place(deviceOf);
  const std::vector<std::vector<Op>> order = ListScheduler(stages, M, P, splitBackward, seed, deviceOf).run();
  builder.program([&](DeviceProgram &p, Device d) {
    for (const Op &op : order[d]) {
      if (op.kind == OpKind::Forward)
        p.forward(op.stage, op.microbatch);
      else if (op.kind == OpKind::Backward)
        p.backward(op.stage, op.microbatch);
      else if (op.kind == OpKind::BackwardInput)
        p.backwardInput(op.stage, op.microbatch);
      else
        p.backwardWeight(op.stage, op.microbatch);
    }
    // One order of collectives on all devices.
    p.reduce();
    p.update();
  });
  return builder.build();
}

std::vector<TestCase> allCases() {
  std::vector<TestCase> cases;
  auto add = [&](uint32_t P, uint32_t M, const std::string &suffix, Program program) {
    std::string name = fmt::format("{}_p{}_m{}{}", program.name, P, M, suffix);
    program.name = name;
    cases.push_back({std::move(name), std::move(program)});
  };
  for (uint32_t P : {1u, 2u, 3u, 4u, 6u})
    for (uint32_t M : {1u, 3u, 4u, 8u}) {
      add(P, M, "", gpipe(P, M));
      add(P, M, "", gpipeReversed(P, M));
      add(P, M, "", oneFOneB(P, M));
      add(P, M, "", zbH1(P, M));
      add(P, M, "", recomputing(P, M));
      add(P, M, "", dropping(P, M));
      add(P, M, "", overlapped(P, M));
      add(P, M, "", evaluation(P, M));
      add(P, M, "", zeroing(P, M));
      for (uint32_t seed : {1u, 2u}) {
        add(P, M, fmt::format("_s{}", seed), listScheduled(Shape::V, P, M, seed == 2, seed));
        if (P > 1 && M > 1)
          add(P, M, fmt::format("_s{}", seed), listScheduled(Shape::Bidirectional, P, M, seed == 2, seed));
      }
    }
  for (uint32_t v : {2u, 3u})
    for (uint32_t P : {2u, 3u, 4u})
      for (uint32_t rounds : {1u, 2u})
        add(P, P * rounds, fmt::format("_v{}", v), interleaved(P, P * rounds, v));
  return cases;
}

} // namespace sluice::test
