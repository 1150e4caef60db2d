// SPDX-License-Identifier: Apache-2.0
// Counts what two hosts of several ranks each send to each other. It runs on hosts whose interfaces carry nothing else.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "backends/contract/device_memory.hpp"
#include "emulated_gpu/lockstep/ranks.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

/// Returns the bytes that all processes of this host have sent to others.
std::int64_t bytes_sent() {
  std::ifstream interfaces("/proc/net/dev");
  std::int64_t all = 0;
  for (std::string line; std::getline(interfaces, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.substr(0, colon).ends_with(" lo")) continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::int64_t number = 0;
    for (int column = 0; column <= 8; ++column) numbers >> number;  // the ninth is what has been sent
    all += number;
  }
  return all;
}

/// Each node adds up its own leaves first. So a host sends half of its sums, from which the other one makes half of the
/// result, and half of the result. If each rank exchanged with all others, it would send as much for each of its ranks.
TEST(TreeOrderBetweenTwoHosts, SendsTheSumOfEachHostOnce) {
  constexpr Count count{1 << 20};
  constexpr std::int64_t bytes = count.value * 4;
  Processes processes;
  const ClusterShape& shape = processes.world().shape();
  ASSERT_EQ(shape.nodes(), 2);
  ASSERT_GT(shape.ranks(), 2);
  Progress progress({.spins_before_yield = 0});
  const auto gpus = processes.make(progress, {.algorithm = backends::NcclAlgorithm::tree_order});
  contract::DeviceMemory memory;
  const Allocation values = memory.allocate({bytes});
  const auto add_up = [&] {
    gpus->all_reduce(values.as(DType::float32), values.as(DType::float32), ReduceOp::sum).wait();
  };
  add_up();  // makes the connections
  processes.meet();
  const std::int64_t before = bytes_sent();
  processes.meet();
  add_up();
  processes.meet();
  const std::int64_t sent = bytes_sent() - before;
  EXPECT_GE(sent, bytes);
  EXPECT_LE(sent, bytes * 3 / 2);
  processes.meet();
  gpus->close();
  processes.close();
}

}  // namespace
}  // namespace lockstep::on_emulated_gpus
