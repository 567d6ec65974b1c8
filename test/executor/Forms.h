// Hand-written schedules that together have every construct an executor lowers.
#pragma once

namespace sluice::test {

struct Form {
  const char *name, *text;
};

inline constexpr Form forms[] = {
    {"skips", R"(
model { stages = 4; forward = 1; backward = 2; edge 0 -> 2; edge 0 -> 3 { no_gradient; } edge 1 -> 3; }
training { microbatches = 3; }
schedule skips(D = 4) {
  place s in 0..4 on mod(s, D);
  device d {
    for m in 0..3 { for s in 0..4 { if mod(s, D) == d { forward(s, m); } } }
    for m in 0..3 { for s in reversed(0..4) { if mod(s, D) == d { backward(s, m); } } }
    reduce; update;
  }
}
schedule one = skips(D = 1);
schedule two = skips(D = 2);
schedule four = skips(D = 4);
)"},
    {"skips_just_in_time", R"(
model { stages = 4; forward = 1; backward = 2; edge 0 -> 2; edge 0 -> 3 { no_gradient; } edge 1 -> 3; }
training { microbatches = 5; }
schedule skips_late {
  communication = inferred(just_in_time);
  place s in 0..4 on s;
  device d {
    let warmup = min(3 - d, 5);
    for m in 0..warmup     { forward(m); }
    for m in 0..5 - warmup { forward(m + warmup); backward(m); }
    for m in 5 - warmup..5 { backward(m); }
    reduce; update;
  }
}
)"},
    {"skips_recomputed", R"(
model { stages = 3; forward = 1; backward_input = 1; backward_weight = 1; edge 0 -> 2; }
training { microbatches = 3; }
schedule recomputed {
  place s in 0..3 on s;
  device d {
    for m in 0..3 { if m == 1 { forward(m); drop(m) keep input; } else { forward(m) keep input; } }
    for m in 0..3 { recompute(m); backward_input(m); }
    for m in 0..3 { backward_weight(m); }
    reduce; update;
  }
}
)"},
    {"skips_written", R"(
model { stages = 3; forward = 1; backward = 2; edge 0 -> 2; }
training { microbatches = 2; }
cluster { channel = rendezvous; channel_key = edge; }
schedule written {
  communication = explicit;
  place s in 0..3 on s;
  device 0 {
    for m in 0..2 { forward(m); start send_activation(m); start send_activation(m) to 2; }
    for m in 0..2 { wait send_activation(m); wait send_activation(m) to 2; }
    for m in 0..2 { group { recv_gradient(m); recv_gradient(m) from 2; } backward(m); }
    reduce; update;
  }
  device 1 {
    for m in 0..2 { recv_activation(m); forward(m); start send_activation(m); }
    for m in 0..2 { wait send_activation(m); }
    for m in 0..2 { recv_gradient(m); backward(m); start send_gradient(m); wait send_gradient(m); }
    reduce; update;
  }
  device 2 {
    for m in 0..2 { group { recv_activation(m); recv_activation(m) from 0; } forward(m); }
    for m in 0..2 { backward(m); start send_gradient(m); start send_gradient(m) to 0; wait send_gradient(m); wait send_gradient(m) to 0; }
    reduce; update;
  }
}
)"},
    {"groups", R"(
cluster { channel = rendezvous; }
schedule exchange(M = 2) {
  communication = explicit;
  place s in 0..2 on s for m in 0..M;
  device 0 {
    forward(0); send_activation(0);
    forward(1);
    group { send_activation(1); recv_gradient(0); }
    backward(0);
    recv_gradient(1); backward(1);
  }
  device 1 {
    recv_activation(0); forward(0); backward(0);
    group { recv_activation(1); send_gradient(0); }
    forward(1); backward(1); send_gradient(1);
  }
}
)"},
    {"cells", R"(
cluster { transport = nccl; }
training { microbatches = 2; }
schedule cells {
  place s in 0..2 on s;
  table {
    0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 ;
    1: 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 ;
  }
}
)"},
    {"late", R"(
training { microbatches = 8; }
schedule late(P = 4, M = 8) {
  communication = inferred(just_in_time);
  place s in 0..P on s for m in 0..M;
  device d {
    let warmup = min(P - 1 - d, M);
    for m in 0..warmup     { forward(m); }
    for m in 0..M - warmup { forward(m + warmup); backward(m); }
    for m in M - warmup..M { backward(m); }
    reduce; update;
  }
}
)"},
    {"host", R"(
model { stages = 2; forward = 1; backward = 2; }
training { microbatches = 4; }
schedule host {
  place s in 0..2 on s;
  device d {
    for m in 0..4 { forward(m); if m < 3 { start offload(d, m); } if m > 0 { wait offload(d, m - 1); } }
    start reload(d, 0);
    for m in 0..4 { if m < 3 { wait reload(d, m); } if m < 2 { start reload(d, m + 1); } backward(m); }
    reduce; update;
  }
}
schedule stopped {
  place s in 0..2 on s;
  device d {
    for m in 0..4 { forward(m); offload(d, m); }
    for m in 0..4 { reload(d, m); backward(m); }
    reduce; update;
  }
}
)"},
    {"splits", R"(
training { microbatches = 3; }
schedule two_splits {
  place s in 0..2 on s;
  sequence_splits = 2;
  device d {
    for u in 0..6 { forward(u); }
    for m in 0..3 { backward(2 * m + 1); backward(2 * m); }
    reduce; update;
  }
}
schedule split_evaluation {
  place s in 0..2 on s;
  sequence_splits = 2;
  phase = evaluation;
  device d { for u in 0..6 { forward(u) keep nothing; } }
}
schedule split_recomputed {
  place s in 0..2 on s;
  sequence_splits = 3;
  device d {
    for u in 0..9 { forward(u) keep input; }
    for m in 0..3 { for u in reversed(0..3) { recompute(3 * m + u); backward(3 * m + u); } }
    reduce; update;
  }
}
)"},
    {"ties", R"(
model { stages = 4; forward = 1; backward = 2; tied emb on 0, 3; tied inner on 1, 2; }
training { microbatches = 2; replicas = 2; }
schedule ties {
  place s in 0..4 on (s == 0 ? 0 : s == 3 ? 2 : 1);
  device d {
    for m in 0..2 { for s in 0..4 { if d == (s == 0 ? 0 : s == 3 ? 2 : 1) { forward(s, m); } } }
    for m in 0..2 { for s in reversed(0..4) { if d == (s == 0 ? 0 : s == 3 ? 2 : 1) { backward(s, m); } } }
    if d != 1 { start reduce_tied(emb); }
    if d != 1 { wait reduce_tied(emb); }
    reduce;
    norm;
    update;
  }
}
)"},
    {"gathered", R"(
model { stages = 2; forward = 1; backward_input = 1; backward_weight = 1; }
training { microbatches = 2; replicas = 8; reduced = sharded; after_reduce = resharded; }
schedule gathered {
  place s in 0..2 on 0;
  device 0 {
    unshard(0); start unshard(1);
    for m in 0..2 { forward(0, m); }
    reshard(0); wait unshard(1);
    for m in 0..2 { forward(1, m); backward(1, m); }
    unshard(0);
    for m in 0..2 { backward_input(0, m); }
    for m in 0..2 { backward_weight(0, m); }
    start reduce(0); start reduce(1); wait reduce(1); wait reduce(0);
    norm;
    update;
  }
}
)"},
    {"scaled", R"(
training { microbatches = 4; batch = 32; replicas = 2; loss = mean over samples; scale = program; }
schedule scaled {
  place s in 0..2 on s;
  device d {
    for m in 0..4 { forward(m); }
    for m in 0..4 { if d == 1 { backward(m) scale 1 / 4; } else { backward(m); } }
    reduce;
    scale(1 / 2);
    update;
  }
}
)"},
    {"halves_scaled", R"(
model { stages = 2; forward = 1; backward_input = 1; backward_weight = 1; }
training { microbatches = 4; batch = 32; replicas = 2; scale = program; reduction = mean; }
schedule halves {
  place s in 0..2 on s;
  device d {
    for m in 0..4 { forward(m); }
    for m in 0..4 {
      if d == 1 { backward_input(m) scale 1 / 4; } else { backward_input(m); }
      if d == 1 { backward_weight(m) scale 1 / 4; } else { backward_weight(m); }
    }
    reduce; update;
  }
}
)"},
    {"accumulator", R"(
training { microbatches = 4; batch = 32; replicas = 2; scale = accumulator; }
schedule accumulator {
  place s in 0..2 on s;
  device d { for m in 0..4 { forward(m); } for m in 0..4 { backward(m); } start reduce; wait reduce; update; }
}
)"},
    {"reduced", R"(
training { microbatches = 4; samples(m) = 2 + m; replicas = 2; scale = reduced; microbatch_loss = sum; }
schedule reduced {
  place s in 0..2 on s;
  device d { for m in 0..4 { forward(m); } for m in 0..4 { backward(m); } start reduce; wait reduce; update; }
}
)"},
    {"copied", R"(
training { microbatches = 4; batch = 8; replicas = 2; scale = reduced; reduced = full copied; loss = mean over microbatches; }
schedule copied {
  place s in 0..2 on s;
  device d { for m in 0..4 { forward(m); } for m in 0..4 { backward(m); } reduce; update; }
}
)"},
    {"alone", R"(
training { microbatches = 2; }
schedule alone {
  place s in 0..2 on 0;
  device 0 { for m in 0..2 { forward(0, m); forward(1, m); backward(1, m); backward(0, m); } reduce; norm local; update; }
}
)"},
    {"tokens", R"(
training { microbatches = 3; tokens(m) = 3 + 2 * m; loss = mean over tokens; contributions = separate; }
schedule tokens {
  place s in 0..2 on s;
  device d { for m in 0..3 { forward(m); } for m in 0..3 { backward(m); } reduce; update; }
}
)"},
    {"overwriting", R"(
training { microbatches = 3; }
schedule overwriting {
  place s in 0..2 on s;
  device d {
    for m in 0..3 { forward(m); }
    for m in 0..3 { if m == 0 { backward(m) overwrite; } else { backward(m); } }
    reduce; update;
  }
}
schedule zeroing {
  place s in 0..2 on s;
  device d { zero; for m in 0..3 { forward(m); } for m in 0..3 { backward(m); } reduce; update; }
}
)"},
    {"buffers", R"(
training { microbatches = 4; }
schedule buffers {
  place s in 0..2 on s;
  buffer(s, m) = m;
  device d { for m in 0..4 { forward(m); } for m in 0..4 { backward(m); } reduce; update; }
}
)"},
    {"newest", R"(
training { microbatches = 6; semantics = asynchronous; }
schedule newest {
  place s in 0..2 on s;
  versions = newest;
  device d {
    let warmup = 1 - d;
    for m in 0..warmup     { forward(m); }
    for m in 0..6 - warmup { forward(m + warmup); backward(m); update; }
    for m in 6 - warmup..6 { backward(m); update; }
  }
}
schedule queued {
  place s in 0..2 on s;
  versions = queued;
  device d {
    let warmup = 1 - d;
    for m in 0..warmup     { forward(m); }
    for m in 0..6 - warmup { forward(m + warmup); backward(m); update; }
    for m in 6 - warmup..6 { backward(m); update; }
  }
}
schedule stages_apart {
  place s in 0..2 on s;
  device d {
    for m in 0..6 { forward(m); }
    for m in 0..6 { backward(m); if d == 0 || mod(m, 2) == 1 { update; } }
  }
}
)"},
};

} // namespace sluice::test
