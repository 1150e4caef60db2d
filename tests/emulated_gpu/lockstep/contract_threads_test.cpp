// SPDX-License-Identifier: Apache-2.0
// Tests that NCCL's communicator keeps the contract between threads of one process, each with its own GPU.
#include <gtest/gtest.h>

#include "backends/contract/contract.hpp"
#include "backends/contract/device_memory.hpp"
#include "emulated_gpu/lockstep/ranks.hpp"
#include "support/verdict.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using backends::NcclAlgorithm;

class EmulatedMemoryOfThreads : public contract::DeviceMemory {
 public:
  [[nodiscard]] bool is_slow() const override { return true; }
};

class ContractOfThreads : public testing::TestWithParam<int> {
 protected:
  static void check(NcclAlgorithm algorithm, Checked checked) {
    on_threads(GetParam(), [&](Ranks& ranks) {
      Progress progress({.spins_before_yield = 0});
      const auto c = ranks.make(progress, {.algorithm = algorithm}, checked);
      contract::check_all(*c, EmulatedMemoryOfThreads());
      ranks.meet();
    });
  }
};

TEST_P(ContractOfThreads, IsKeptByNcclsOwnSums) { check(algorithm_of_process(), Checked::no); }
TEST_P(ContractOfThreads, IsKeptInTreeOrder) { check(NcclAlgorithm::tree_order, Checked::no); }
TEST_P(ContractOfThreads, IsKeptWhereRanksCompareWhatTheyCall) { check(algorithm_of_process(), Checked::yes); }

INSTANTIATE_TEST_SUITE_P(, ContractOfThreads, testing::Values(1, 2, 3, 4, 5, 8), testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep::on_emulated_gpus
