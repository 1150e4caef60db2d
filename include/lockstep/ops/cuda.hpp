// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops {

/// The arithmetic of a GPU. Parameters, their gradients and all state are float32, and sums are at least float32.
struct CudaArithmetic {
  DType values = DType::float32;  ///< of activations: float32, bfloat16 or float16
  bool tf32 = false;              ///< whether convolutions of float32 may round their operands to TF32
};

/// Makes the library for GPUs: cuDNN's convolutions and kernels of its own, in NHWC. Every sum has a fixed order, so
/// that equal inputs give equal bits on GPUs of one kind. It has no kernels for `Custom`.
/// @param gpu  CUDA device index, which this thread then has selected
/// @param deadline  how long the host waits at most for the GPU where it needs all its work to be done
/// @throws Error{unsupported} saying what this build or machine lacks, and the remedy; Error{invalid_argument} for
///         another dtype; Error{device}
std::unique_ptr<Ops> make_cuda_ops(int gpu, const CudaArithmetic& arithmetic = {},
                                   std::chrono::duration<double> deadline = usual_deadline);

/// Returns why this build or machine has no such library, beside GPUs; empty if it has one. It does not throw.
std::string why_no_cuda_ops();
/// Whether the library has a kernel for the operator.
bool has_cuda_kernel(const Operator& op);

}  // namespace lockstep::ops
