// What a test may do to the stand-in for CUDA and NCCL (StandIn.cpp).
#pragma once

#include <cuda_runtime_api.h>
#include <functional>

namespace standIn {

/// Runs `work` when the stream comes to it, as a kernel would.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Messages of and to `rank` stand still from now on.
void lose(int rank);
/// NCCL tells `rank` from now on that a peer of its is lost.
void report(int rank);
/// Undoes both, and forgets messages that never arrived.
void reset();
/// Streams, events and communicators that exist.
int alive();

} // namespace standIn
