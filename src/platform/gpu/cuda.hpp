// SPDX-License-Identifier: Apache-2.0
#pragma once

// The checked CUDA call, for rooms that use CUDA. No public header includes this one. Only this room and kernels/cuda
// call CUDA's functions, because the symbols of the runtime are hidden in these libraries (cmake/Cuda.cmake).

#include <cuda_runtime_api.h>

#include <string_view>

#include "lockstep/base/error.hpp"
#include "lockstep/base/queue.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep {

/// @throws Error{device} with CUDA's text for `code` and the call that returned it
[[noreturn]] void throw_cuda_error(cudaError_t code, std::string_view call,
                                   SourceLocation location = SourceLocation::current());

/// @throws Error{out_of_memory} for a call that could not allocate so many bytes, with the free memory
[[noreturn]] void throw_out_of_memory(Bytes bytes, std::string_view call);

/// Keeps this thread's CUDA calls from ending the capture of a stream. Otherwise some calls that have nothing to do
/// with a captured stream end its capture: calls of the capturing thread, or of any thread, depending on the capture
/// mode of the program.
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
