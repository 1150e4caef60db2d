// SPDX-License-Identifier: Apache-2.0
// Runs random programs on processes as ranks. LOCKSTEP_SUCCESSIONS is their number, LOCKSTEP_FIRST_SUCCESSION the
// first.
#include "emulated_gpu/lockstep/succession.hpp"

#include <gtest/gtest.h>

namespace lockstep::on_emulated_gpus {
namespace {

TEST(SuccessionOfProcesses, LeavesEveryByteRight) {
  Processes processes;
  const int first = number_of_process("LOCKSTEP_FIRST_SUCCESSION", 100 * number_of_process("EMULATED_GPU_SEED", 0));
  for (int k = 0; k < number_of_process("LOCKSTEP_SUCCESSIONS", 12) && !HasFailure(); ++k)
    run_succession(processes, static_cast<std::uint64_t>(first + k), algorithm_of_process());
  processes.close();
}

}  // namespace
}  // namespace lockstep::on_emulated_gpus
