// SPDX-License-Identifier: Apache-2.0
// What the tests of operators are given where they run on a GPU, real or emulated.
#include <gtest/gtest.h>

#include "lockstep/ops/cuda.hpp"
#include "ops/hosted_ops.hpp"
#include "ops/libraries.hpp"
#include "platform/gpu/gpu.hpp"
#include "support/verdict.hpp"

namespace lockstep::ops::test {
namespace {

std::vector<std::unique_ptr<Ops>> hosted_library(const CudaArithmetic& arithmetic) {
  std::vector<std::unique_ptr<Ops>> all;
  all.push_back(make_hosted_ops(make_cuda_ops(0, arithmetic)));
  return all;
}

/// Skips each test of the program where there is no GPU.
class NeedsGpu : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*test*/) override {
    if (gpu_count() == 0) LOCKSTEP_SKIP(gpu) << why_no_gpu();
  }
};
const bool listens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NeedsGpu);  // GoogleTest deletes it
  return true;
}();

}  // namespace

std::vector<std::unique_ptr<Ops>> libraries() { return hosted_library({}); }
std::vector<std::unique_ptr<Ops>> bfloat16_libraries() { return hosted_library({.values = DType::bfloat16}); }

}  // namespace lockstep::ops::test
