// SPDX-License-Identifier: Apache-2.0
// Runs random programs on threads as ranks.
#include <gtest/gtest.h>

#include "emulated_gpu/lockstep/succession.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

class SuccessionOfThreads : public testing::TestWithParam<int> {};

TEST_P(SuccessionOfThreads, LeavesEveryByteRight) {
  const int first = number_of_process("LOCKSTEP_FIRST_SUCCESSION", 100 * number_of_process("EMULATED_GPU_SEED", 0));
  const int all = number_of_process("LOCKSTEP_SUCCESSIONS", 12);
  for (int k = 0; k < all && !HasFailure(); ++k)
    on_threads(GetParam(), [&](Ranks& ranks) {
      run_succession(ranks, static_cast<std::uint64_t>(first + k), algorithm_of_process());
    });
}

INSTANTIATE_TEST_SUITE_P(, SuccessionOfThreads, testing::Values(1, 2, 3, 4), testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep::on_emulated_gpus
