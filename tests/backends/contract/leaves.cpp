// SPDX-License-Identifier: Apache-2.0
// Checks all-reduces with more leaves than ranks, or their refusal.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "backends/contract/checks.hpp"
#include "backends/contract/values.hpp"
#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep::contract {
namespace {

/// Returns a rank's sum of the leaves below a node.
Pattern sum_below(const LeafNode& node, ReduceOp op) { return reduced(node.leaves, 7, op, node.first); }

void check_leaves(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, const LeafShares& leaves,
                  std::int64_t count, bool in_place, bool prepared) {
  const std::int64_t stride = count + 3;
  const auto nodes = tree_nodes(leaves.total(), leaves.of(c.rank().value, c.size()));
  Values in(memory, dtype, stride * static_cast<std::int64_t>(nodes.size()));
  Values apart(memory, dtype, count);
  const auto fill = [&] {
    for (std::size_t sum = 0; sum < nodes.size(); ++sum)
      in.fill(static_cast<std::int64_t>(sum) * stride, count, sum_below(nodes[sum], op));
    (void)in.buffer();  // copies the values to the memory
  };
  fill();
  Values& out = in_place ? in : apart;
  Collective collective{.kind = CollectiveKind::all_reduce,
                        .in = slice(in.buffer(), {0}, {count}),
                        .out = slice(out.buffer(), {0}, {count}),
                        .op = op,
                        .label = "leaves",
                        .leaves = {leaves, {stride}}};
  if (prepared) {
    Prepared again = c.prepare(collective);
    again.start();
    again.wait();
    fill();
    again.start();
    again.wait();
  } else {
    c.start(collective).wait();
  }
  ASSERT_TRUE(out.holds(0, count, reduced(leaves.total(), 7, op)))
      << label_of(c, dtype, count) << " " << name(op) << " of " << leaves.total() << " leaves";
  for (std::size_t sum = in_place ? 1 : 0; sum < nodes.size(); ++sum)
    ASSERT_TRUE(in.holds(static_cast<std::int64_t>(sum) * stride, count, sum_below(nodes[sum], op))) << "was changed";
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

void check_refusals_of_leaves(Communicator& c, const Memory& memory) {
  constexpr std::int64_t count = 8;
  const int leaves = 3 * c.size();  // at least some ranks have two sums
  Values values(memory, DType::float32, 4 * count);
  const Buffer first = slice(values.buffer(), {0}, {count});
  const auto expect = [&](const Leaves& how, const Buffer& out, ReduceOp op, const char* why) {
    EXPECT_EQ(code_of([&] { (void)c.all_reduce(first, out, op, how); }), ErrorCode::invalid_argument) << why;
  };
  expect({leaves, {count}}, first, ReduceOp::average, "of what");
  std::vector<int> more(static_cast<std::size_t>(c.size()) + 1, 1);
  more.back() = 3;
  expect({LeafShares(more), {count}}, first, ReduceOp::sum, "shares of more ranks");
  if (c.size() > 1) expect({c.size() - 1, {count}}, first, ReduceOp::sum, "fewer than ranks");
  if (tree_nodes(leaves, share_of(leaves, c.rank().value, c.size())).size() < 2) return;
  expect({leaves, {count - 1}}, first, ReduceOp::sum, "sums overlap");
  expect({leaves, {count}}, slice(values.buffer(), {count}, {count}), ReduceOp::sum, "out is the second sum");
}

}  // namespace

void check_leaves(Communicator& c, const Memory& memory) {
  if (!c.capabilities().no_leaves.empty()) {
    Values values(memory, DType::float32, 4);
    const Leaves leaves{c.size(), {4}};
    expect_error([&] { (void)c.all_reduce(values.buffer(), values.buffer(), ReduceOp::sum, leaves); },
                 ErrorCode::unsupported, {std::string(c.capabilities().no_leaves)});
    return;
  }
  for (const DType dtype : common_dtypes)
    for (const bool in_place : {true, false})
      check_leaves(c, memory, dtype, ReduceOp::max, 2 * c.size() + 1, 257, in_place, false);
  for (const int leaves : {c.size(), c.size() + 1, 3 * c.size(), 64})
    for (const std::int64_t count : {0, 1, c.size() + 1, 4099})
      check_leaves(c, memory, DType::float32, ReduceOp::sum, leaves, count, leaves % 2 == 0, count == 1);
  check_leaves(c, memory, DType::float32, ReduceOp::min, 3 * c.size(), 200'003, true, true);
  std::vector<int> uneven(static_cast<std::size_t>(c.size()), 1);
  uneven.back() = 5;
  check_leaves(c, memory, DType::float32, ReduceOp::sum, LeafShares(uneven), 4099, true, false);
  uneven.front() = 12;
  check_leaves(c, memory, DType::float64, ReduceOp::sum, LeafShares(uneven), 257, false, true);
  check_refusals_of_leaves(c, memory);
}

}  // namespace lockstep::contract
