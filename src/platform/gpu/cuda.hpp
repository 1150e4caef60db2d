// SPDX-License-Identifier: Apache-2.0
#pragma once

// For rooms that know CUDA: the checked call. Never included by a public header. CUDA's functions are called in this
// room and in kernels/cuda only, because the runtime's names are hidden in what is linked of them (cmake/Cuda.cmake).

#include <cuda_runtime_api.h>

#include <string_view>

#include "lockstep/base/error.hpp"
#include "lockstep/base/queue.hpp"

namespace lockstep {

/// @throws Error{device} with CUDA's text for `code` and the call that returned it
[[noreturn]] void throw_cuda_error(cudaError_t code, std::string_view call,
                                   SourceLocation location = SourceLocation::current());

/// While a stream is captured, some calls that have nothing to do with it end the capture: those of the capturing
/// thread, or of any thread, depending on the mode that the program has asked for. A thread's calls do not, as long as
/// it has one of these.
class BesideCaptures {
 public:
  BesideCaptures();
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures();

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

inline cudaStream_t cuda_stream(Queue queue) { return static_cast<cudaStream_t>(queue.native()); }

}  // namespace lockstep

/// Makes a call of the CUDA runtime and throws Error{device} unless it succeeds.
#define LOCKSTEP_CUDA_CHECK(call)                                                         \
  do {                                                                                    \
    if (const cudaError_t lockstep_cuda_code = (call); lockstep_cuda_code != cudaSuccess) \
      ::lockstep::throw_cuda_error(lockstep_cuda_code, #call);                            \
  } while (false)
