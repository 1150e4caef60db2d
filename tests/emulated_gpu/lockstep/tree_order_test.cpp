// SPDX-License-Identifier: Apache-2.0
// Sums in tree order on GPUs have the same bits as on the host, even for elements that are most likely to reveal errors
// of arithmetic.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/contract/device_memory.hpp"
#include "backends/make_agreed.hpp"
#include "backends/nccl.hpp"
#include "backends/stated_order.hpp"
#include "emulated_gpu/lockstep/ranks.hpp"
#include "kernels/contributions.hpp"
#include "support/verdict.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using backends::NcclAlgorithm;

class TreeOrder : public testing::Test {
 protected:
  void SetUp() override {
    gpu_ = processes_.make(progress_, {.algorithm = NcclAlgorithm::tree_order, .scratch = scratch_});
    host_ =
        backends::make_agreed(processes_.world().group(), progress_, {.method = backends::parse_method("tree-order")});
    memory_.emplace();
  }
  void TearDown() override {
    gpu_->close();
    host_->close();
    processes_.close();
  }
  [[nodiscard]] int ranks() const { return processes_.size(); }
  [[nodiscard]] int rank() const { return processes_.rank(); }
  Communicator& gpu() { return *gpu_; }
  Communicator& host() { return *host_; }
  contract::DeviceMemory& memory() { return *memory_; }

  std::vector<char> on_host(const kernels::RankedInputs& inputs, ReduceOp op) {
    std::vector<char> values = own(inputs);
    const Buffer buffer{values.data(), inputs.count, inputs.dtype};
    host_->all_reduce(buffer, buffer, op).wait();
    return values;
  }
  std::vector<char> on_gpu(const kernels::RankedInputs& inputs, ReduceOp op, bool in_place) {
    std::vector<char> values = own(inputs);
    const Bytes bytes{static_cast<std::int64_t>(values.size())};
    const Allocation in = memory_->allocate(bytes);
    const Allocation apart = memory_->allocate(bytes);
    memory_->copy(in.data(), values.data(), bytes);
    const Allocation& out = in_place ? in : apart;
    gpu_->all_reduce(in.as(inputs.dtype), out.as(inputs.dtype), op).wait();
    memory_->copy(values.data(), out.data(), bytes);
    return values;
  }
  void compare(DType dtype, ReduceOp op, std::int64_t count) {
    SCOPED_TRACE(std::string(name(dtype)) + " " + std::string(name(op)) + " of " + std::to_string(count));
    const kernels::RankedInputs inputs(ranks(), {count}, dtype, random_);
    const std::vector<char> expected = inputs.canonical_sum(op);
    // Between hosts the operands of a sum may be exchanged, which is visible if two NaNs or zeros of different signs
    // meet.
    const bool is_integer = dtype == DType::int32 || dtype == DType::int64 || dtype == DType::uint8;
    if (processes_.world().shape().nodes() == 1 || is_integer) {
      EXPECT_TRUE(on_host(inputs, op) == expected);
    }
    for (const bool in_place : {true, false})
      EXPECT_TRUE(on_gpu(inputs, op, in_place) == expected) << (in_place ? "in place" : "apart");
  }

  void compare_leaves(const LeafShares& shares) {
    constexpr std::int64_t count = 1009;
    const int leaves = shares.total();
    SCOPED_TRACE(std::to_string(leaves) + " leaves");
    const auto inputs = stated_order::inputs_of(leaves, count);
    std::vector<float> sums;
    for (const LeafNode& node : tree_nodes(leaves, shares.of(rank(), ranks()))) {
      const auto below = inputs.begin() + node.first;
      const std::vector<float> sum = stated_order::canonical_sums({below, below + node.leaves});
      sums.insert(sums.end(), sum.begin(), sum.end());
    }
    const Bytes bytes{std::ssize(sums) * 4};
    const Allocation on_gpu = memory_->allocate(bytes);
    memory_->copy(on_gpu.data(), sums.data(), bytes);
    const Buffer first = slice(on_gpu.as(DType::float32), {0}, {count});
    gpu_->all_reduce(first, first, ReduceOp::sum, Leaves{shares, {count}}).wait();
    std::vector<float> values(static_cast<std::size_t>(count));
    memory_->copy(values.data(), on_gpu.data(), {count * 4});
    EXPECT_EQ(stated_order::bits(values), stated_order::bits(stated_order::canonical_sums(inputs)));
  }

 private:
  [[nodiscard]] std::vector<char> own(const kernels::RankedInputs& inputs) const {
    return inputs.of_rank[static_cast<std::size_t>(processes_.rank())];
  }

  Processes processes_;
  Progress progress_{{.spins_before_yield = 0}};
  std::unique_ptr<Communicator> gpu_;
  std::unique_ptr<Communicator> host_;
  std::optional<contract::DeviceMemory> memory_;
  std::mt19937_64 random_{23};

 protected:
  Bytes scratch_ = backends::NcclOptions().scratch;
};

TEST_F(TreeOrder, HasTheBitsOfTheHostsSums) {
  for (const DType dtype : kernels::common_dtypes)
    for (const ReduceOp op : kernels::arithmetic_ops)
      for (const int count : {1, ranks() - 1, ranks() + 1, 997})
        if (count > 0) compare(dtype, op, count);
}

TEST_F(TreeOrder, HasThemOfOrdinaryNumbersWhereverTheRanksAre) {
  for (const std::int64_t count : {1, 5003}) {
    const auto expected = stated_order::bits(stated_order::canonical_sums(stated_order::inputs_of(ranks(), count)));
    EXPECT_EQ(stated_order::bits(stated_order::all_reduced(host(), count)), expected);
    std::vector<float> values = stated_order::input_of(rank(), count);
    const Allocation on_gpu = memory().allocate({count * 4});
    memory().copy(on_gpu.data(), values.data(), {count * 4});
    gpu().all_reduce(on_gpu.as(DType::float32), on_gpu.as(DType::float32), ReduceOp::sum).wait();
    memory().copy(values.data(), on_gpu.data(), {count * 4});
    EXPECT_EQ(stated_order::bits(values), expected);
  }
}

/// Sums of leaves on any number of ranks have the bits of the tree over all leaves.
TEST_F(TreeOrder, HasThemOfLeavesOnAnyRanks) {
  for (const int leaves : {ranks(), ranks() + 1, 2 * ranks(), 2 * ranks() + 1, 13, 64}) {
    if (leaves < ranks()) continue;
    compare_leaves(LeafShares(leaves));
    std::vector<int> counts(static_cast<std::size_t>(ranks()), 1);
    counts.front() += leaves - ranks();
    compare_leaves(LeafShares(counts));
  }
  // Each two ranks have a subtree, some by several sums.
  std::vector<int> counts(static_cast<std::size_t>(ranks()), 4);
  for (std::size_t rank = 0; rank + 3 < counts.size(); rank += 2)
    std::tie(counts[rank], counts[rank + 1]) = std::pair(1, 7);
  compare_leaves(LeafShares(counts));
}

class TreeOrderInLittleScratch : public TreeOrder {
 protected:
  TreeOrderInLittleScratch() { scratch_ = backends::NcclOptions::least_scratch; }
};

TEST_F(TreeOrderInLittleScratch, HasThemInSeveralBlocks) {
  for (const std::int64_t count : {50'000, 65'536, 65'537}) compare(DType::float16, ReduceOp::sum, count);
}

}  // namespace
}  // namespace lockstep::on_emulated_gpus
