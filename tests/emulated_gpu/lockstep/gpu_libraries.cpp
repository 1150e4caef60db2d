// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cuda.hpp"
#include "ops/hosted_ops.hpp"
#include "ops/libraries.hpp"

namespace lockstep::ops::test {
namespace {

std::vector<std::unique_ptr<Ops>> hosted_library(const CudaArithmetic& arithmetic) {
  std::vector<std::unique_ptr<Ops>> all;
  all.push_back(make_hosted_ops(make_cuda_ops(0, arithmetic)));
  return all;
}

}  // namespace

std::vector<std::unique_ptr<Ops>> libraries() { return hosted_library({}); }
std::vector<std::unique_ptr<Ops>> bfloat16_libraries() { return hosted_library({.values = DType::bfloat16}); }

}  // namespace lockstep::ops::test
