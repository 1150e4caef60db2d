// SPDX-License-Identifier: Apache-2.0
// Runs the tests of this folder on two hosts, each with its own GPUs. They are skipped if hosts cannot be made.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "hosts/hosts.hpp"

namespace lockstep::testing_support {
namespace {

/// Returns this process's variables for processes on hosts, to which the launcher does not pass them.
std::string told() {
  std::string all;
  for (const char* variable : {"EMULATED_GPU_SEED", "LOCKSTEP_NCCL_ALGORITHM", "LOCKSTEP_SUCCESSIONS"})
    if (const char* value = std::getenv(variable)) all += std::string(variable) + "=" + value + " ";
  return all;
}

/// Each host has its own machine file, named after it.
ProgramResult on_two_hosts(int per_host, const std::string& command) {
  return run_program(script("run --per-host " + std::to_string(per_host) + " sh -c '" + told() +
                            "EMULATED_GPU_MACHINE=" LOCKSTEP_MACHINES "/$(hostname).json exec " + command + "' 2>&1"));
}

using TwoHosts = Hosts;

TEST_F(TwoHosts, KeepTheContract) {
  const ProgramResult result = on_two_hosts(1, LOCKSTEP_CONTRACT);
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(TwoHosts, AddUpInTreeOrder) {
  const ProgramResult result = on_two_hosts(2, LOCKSTEP_TREE_ORDER);
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(TwoHosts, SendTheSumOfEachOnceInTreeOrder) {
  const ProgramResult result = on_two_hosts(2, LOCKSTEP_TRAFFIC);
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(TwoHosts, RunDrawnPrograms) {
  const ProgramResult result = on_two_hosts(2, LOCKSTEP_SUCCESSION);
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

}  // namespace
}  // namespace lockstep::testing_support
