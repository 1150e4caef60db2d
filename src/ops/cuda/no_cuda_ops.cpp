// SPDX-License-Identifier: Apache-2.0
// This file replaces the operators for GPUs in builds without CUDA or its compiler.
#include "lockstep/base/error.hpp"
#include "lockstep/ops/cuda.hpp"

namespace lockstep::ops {

std::unique_ptr<Ops> make_cuda_ops(int /*gpu*/, const CudaArithmetic& /*arithmetic*/,
                                   std::chrono::duration<double> /*deadline*/) {
  throw Error(ErrorCode::unsupported, why_no_cuda_ops());
}

std::string why_no_cuda_ops() { return "lockstep was built without operators for GPUs: " LOCKSTEP_CUDA_OPS_MISSING; }

bool has_cuda_kernel(const Operator& /*op*/) { return false; }

}  // namespace lockstep::ops
