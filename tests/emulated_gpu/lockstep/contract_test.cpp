// SPDX-License-Identifier: Apache-2.0
// Tests that NCCL's communicator keeps the contract between processes.
#include "backends/contract/contract.hpp"

#include <gtest/gtest.h>

#include "backends/contract/device_memory.hpp"
#include "emulated_gpu/lockstep/ranks.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using backends::NcclAlgorithm;

class EmulatedMemory : public contract::DeviceMemory {
 public:
  [[nodiscard]] bool is_slow() const override { return true; }
};

void check_contract(NcclAlgorithm algorithm, Checked checked) {
  Processes processes;
  Progress progress({.spins_before_yield = 0});
  const auto c = processes.make(progress, {.algorithm = algorithm}, checked);
  contract::check_all(*c, EmulatedMemory());
  processes.meet();
  processes.close();
}

TEST(ContractOfProcesses, IsKeptByNcclsOwnSums) { check_contract(algorithm_of_process(), Checked::no); }

TEST(ContractOfProcesses, IsKeptInTreeOrder) { check_contract(NcclAlgorithm::tree_order, Checked::no); }

TEST(ContractOfProcesses, IsKeptWhereRanksCompareWhatTheyCall) { check_contract(algorithm_of_process(), Checked::yes); }

}  // namespace
}  // namespace lockstep::on_emulated_gpus
