// SPDX-License-Identifier: Apache-2.0
// The GPU's kernel gives the same bits as the CPU's kernels. One GPU suffices for any number of contributions; without
// a GPU the test is skipped.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/awkward_elements.hpp"
#include "kernels/contributions.hpp"
#include "kernels/cuda/launch.hpp"
#include "platform/gpu/cuda.hpp"
#include "platform/gpu/gpu.hpp"
#include "support/verdict.hpp"

namespace lockstep::kernels {
namespace {

class Device {
 public:
  Allocation copy_of(const std::vector<char>& host) {
    const Bytes bytes{static_cast<std::int64_t>(host.size())};
    Allocation memory = allocate_device(bytes);
    if (bytes.value > 0) copy_bytes(memory.data(), host.data(), bytes, stream_.queue());
    stream_.synchronize();
    return memory;
  }
  std::vector<char> bytes_of(const Allocation& memory) {
    std::vector<char> host(static_cast<std::size_t>(memory.bytes().value));
    copy_bytes(host.data(), memory.data(), memory.bytes(), stream_.queue());
    stream_.synchronize();
    return host;
  }
  void fold(const cuda::Contributions& in, void* out, DType dtype, ReduceOp op) {
    LOCKSTEP_CUDA_CHECK(cuda::launch_canonical_fold(in, out, dtype, op, cuda_stream(stream_.queue())));
    stream_.synchronize();
  }

 private:
  Stream stream_;
};

void expect_the_cpus_bits(int ranks, Count count, DType dtype, ReduceOp op, std::mt19937_64& random) {
  SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(count.value) + " elements");
  Device device;
  const RankedInputs inputs(ranks, count, dtype, random);
  const int me = static_cast<int>(random() % static_cast<unsigned>(ranks));
  const std::vector<char>& own_input = inputs.of_rank[static_cast<std::size_t>(me)];
  const std::vector<char> expected = inputs.canonical_sum(op);
  const Allocation own = device.copy_of(own_input);
  const Allocation others = device.copy_of(inputs.without(me));
  const Allocation apart = device.copy_of(std::vector<char>(expected.size()));
  const cuda::Contributions in{own.data(), others.data(), me, ranks, count.value};
  device.fold(in, apart.data(), dtype, op);
  EXPECT_TRUE(device.bytes_of(apart) == expected);
  EXPECT_TRUE(device.bytes_of(own) == own_input) << "the input was changed";
  device.fold(in, own.data(), dtype, op);
  EXPECT_TRUE(device.bytes_of(own) == expected) << "in place";
}

class CanonicalFoldOnGpu : public testing::TestWithParam<std::tuple<DType, ReduceOp>> {
 protected:
  void SetUp() override {
    if (gpu_count() == 0) LOCKSTEP_SKIP(gpu) << why_no_gpu();
    if (!cuda::why_no_kernels().empty()) LOCKSTEP_SKIP(cuda) << cuda::why_no_kernels();
  }
};

TEST_P(CanonicalFoldOnGpu, GivesTheBitsOfTheCpusKernelsAlsoInPlace) {
  const auto [dtype, op] = GetParam();
  std::mt19937_64 random(13);
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 64}) {
    for (const std::int64_t count : {1, 255, 10'007}) expect_the_cpus_bits(ranks, {count}, dtype, op, random);
  }
}

TEST_P(CanonicalFoldOnGpu, TakesMoreElementsThanItHasThreads) {
  const auto [dtype, op] = GetParam();
  std::mt19937_64 random(17);
  expect_the_cpus_bits(3, {1'500'001}, dtype, op, random);
}

INSTANTIATE_TEST_SUITE_P(Each, CanonicalFoldOnGpu,
                         testing::Combine(testing::ValuesIn(common_dtypes), testing::ValuesIn(arithmetic_ops)),
                         name_of_case);

}  // namespace
}  // namespace lockstep::kernels
