// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/signal_stack.hpp"
#include "lockstep/ops/onednn.hpp"

namespace lockstep::ops::test {
namespace {

int threads_with_signal_stack() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    count += has_signal_stack(std::atoi(task.path().filename().c_str())) ? 1 : 0;
  return count;
}

/// Computes a product of matrices on a team of threads.
void multiply(int threads) {
  const auto ops = make_onednn_ops(threads);
  const auto kernel = ops->make(Linear{.out_features = 4}, std::array{Format::plain({2, 16, 1, 1}, DType::float32)});
  const std::vector<float> input(32, 1);
  const std::vector<float> weights(64, 1);
  const std::vector<float> bias(4, 1);
  std::vector<float> output(8);
  const std::array<const void*, 1> inputs{input.data()};
  const std::array<const void*, 2> parameters{weights.data(), bias.data()};
  kernel->run(Pass::forward, {.inputs = inputs, .parameters = parameters, .output = output.data()});
  EXPECT_EQ(output, std::vector<float>(8, 17));
}

// The watchdog asks all threads of a rank for their stacks while they compute.
TEST(Signals, HaveAStackOnEachThreadThatOneDnnUses) {
  EXPECT_EQ(threads_with_signal_stack(), 0);
  multiply(2);
  EXPECT_EQ(threads_with_signal_stack(), 2);
  multiply(3);
  EXPECT_EQ(threads_with_signal_stack(), 3);
}

}  // namespace
}  // namespace lockstep::ops::test
