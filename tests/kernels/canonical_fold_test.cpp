// SPDX-License-Identifier: Apache-2.0
// Runs the GPU's code on the CPU: it adds in the canonical order, and gives the same bits as the CPU's kernels.
#include "kernels/cuda/canonical_fold.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/awkward_elements.hpp"
#include "kernels/contributions.hpp"
#include "kernels/convert.hpp"

namespace lockstep::kernels {
namespace {

struct Printed {
  using Stored = std::string;
  static std::string widen(std::string text) { return text; }
  static std::string narrow(std::string text) { return text; }
};
struct InBrackets {
  static std::string apply(const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; }
};

TEST(CanonicalFold, AddsInTheCanonicalOrder) {
  for (int leaves = 1; leaves <= 300; ++leaves) {
    cuda::CanonicalSum<Printed, InBrackets> sum;
    for (int leaf = 0; leaf < leaves; ++leaf) sum.add(std::to_string(leaf));
    EXPECT_EQ(sum.total(), collectives::canonical_tree_fold(
                               leaves, [](int leaf) { return std::to_string(leaf); }, InBrackets::apply));
  }
}

TEST(CanonicalFold, AddsSumsOfLeavesInTheCanonicalOrder) {
  std::mt19937_64 random(7);
  const auto name_of = [](int leaf) { return std::to_string(leaf); };
  for (int leaves = 1; leaves <= 100; ++leaves) {
    std::vector<LeafNode> operands;
    for (int begin = 0, end = 0; begin < leaves; begin = end) {
      end = begin + 1 + static_cast<int>(random() % static_cast<unsigned>(leaves - begin));
      const std::vector<LeafNode> nodes = tree_nodes(leaves, Share{begin, end - begin});
      operands.insert(operands.end(), nodes.begin(), nodes.end());
    }
    cuda::CanonicalSum<Printed, InBrackets> sum;
    std::optional<std::string> rest;
    for (const LeafNode& node : operands) {
      ASSERT_FALSE(rest) << "only the last subtree is not full";
      const std::string below = canonical_tree_fold(node.leaves, name_of, InBrackets::apply, node.first);
      const auto width = static_cast<unsigned>(node.leaves);
      if (std::has_single_bit(width)) {
        sum.add(below, std::countr_zero(width));
      } else {
        rest = below;
      }
    }
    EXPECT_EQ(rest ? sum.total_with(*rest) : sum.total(), canonical_tree_fold(leaves, name_of, InBrackets::apply));
  }
}

void fold_here(const cuda::Contributions& in, void* out, DType dtype, ReduceOp op) {
  cuda::with_arithmetic(dtype, op, [&](auto format, auto combine) {
    using Format = decltype(format);
    auto* const results = static_cast<typename Format::Stored*>(out);
    for (std::int64_t i = 0; i < in.count; ++i) results[i] = cuda::fold_element<Format, decltype(combine)>(in, i);
  });
}

class CanonicalFoldOf : public testing::TestWithParam<std::tuple<DType, ReduceOp>> {};

TEST_P(CanonicalFoldOf, AnyNumberOfContributionsGivesTheBitsOfTheCpusKernelsAlsoInPlace) {
  const auto [dtype, op] = GetParam();
  std::mt19937_64 random(11);
  for (int ranks = 1; ranks <= 64; ++ranks) {
    RankedInputs inputs(ranks, {1009}, dtype, random);
    const int me = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const std::vector<char> expected = inputs.canonical_sum(op);
    const std::vector<char> others = inputs.without(me);
    std::vector<char>& own = inputs.of_rank[static_cast<std::size_t>(me)];
    const cuda::Contributions in{own.data(), others.data(), me, ranks, inputs.count.value};
    std::vector<char> apart(own.size());
    fold_here(in, apart.data(), dtype, op);
    EXPECT_EQ(apart, expected) << ranks << " ranks, as rank " << me;
    fold_here(in, own.data(), dtype, op);
    EXPECT_EQ(own, expected) << ranks << " ranks, as rank " << me << ", in place";
  }
}

INSTANTIATE_TEST_SUITE_P(Each, CanonicalFoldOf,
                         testing::Combine(testing::ValuesIn(common_dtypes), testing::ValuesIn(arithmetic_ops)),
                         name_of_case);

/// @tparam Half  type of the CPU's kernels @tparam Format  format of the GPU's kernels
template <class Half, class Format>
void expect_the_cpus_conversions() {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half = Half::from_bits(static_cast<std::uint16_t>(bits));
    float expected = 0;
    convert(std::span<const Half>(&half, 1), std::span<float>(&expected, 1));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(Format::widen(half.bits)), std::bit_cast<std::uint32_t>(expected)) << bits;
  }
  // The loop covers every exponent and sign, and every pattern of the bits that decide the rounding.
  for (std::uint64_t bits = 0; bits <= 0xffffffffU; bits += 0x3fd) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    Half expected{};
    convert(std::span<const float>(&value, 1), std::span<Half>(&expected, 1));
    ASSERT_EQ(Format::narrow(value), expected.bits) << bits;
  }
}

TEST(CanonicalFold, ConvertsFloat16AsTheCpusKernels) { expect_the_cpus_conversions<float16, cuda::Float16>(); }
TEST(CanonicalFold, ConvertsBFloat16AsTheCpusKernels) { expect_the_cpus_conversions<bfloat16, cuda::BFloat16>(); }

}  // namespace
}  // namespace lockstep::kernels
