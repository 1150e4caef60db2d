// SPDX-License-Identifier: Apache-2.0
// Checks each operation once, on all operands.
#include <gtest/gtest.h>

#include "backends/contract/checks.hpp"
#include "backends/contract/values.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::contract {

void check_all_reduce(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count,
                      bool in_place, int repetition) {
  Values in(memory, dtype, count);
  Values out(memory, dtype, count);
  Values& target = in_place ? in : out;
  const Pattern input = inputs_of(c.rank().value, repetition, op);
  in.fill(input);
  c.all_reduce(in.buffer(), target.buffer(), op, Queue::host(), "contract").wait();
  ASSERT_TRUE(target.holds(reduced(c.size(), repetition, op))) << label_of(c, dtype, count) << " " << name(op);
  ASSERT_TRUE(in_place || in.holds(input)) << "the input was changed";
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

void check_broadcast(Communicator& c, const Memory& memory, DType dtype, std::int64_t count, Rank root) {
  Values data(memory, dtype, count);
  data.fill(values_of(c.rank().value, 1));
  c.broadcast(data.buffer(), root).wait();
  ASSERT_TRUE(data.holds(values_of(root.value, 1))) << label_of(c, dtype, count);
  ASSERT_TRUE(data.guard_intact());
}

void check_all_gather(Communicator& c, const Memory& memory, DType dtype, std::int64_t part, bool in_place) {
  Values in(memory, dtype, part);
  Values out(memory, dtype, part * c.size());
  const std::int64_t mine = part * c.rank().value;
  (in_place ? out : in).fill(in_place ? mine : 0, part, values_of(c.rank().value, 2));
  const Buffer source = in_place ? slice(out.buffer(), {mine}, {part}) : in.buffer();
  c.all_gather(source, out.buffer()).wait();
  for (int rank = 0; rank < c.size(); ++rank)
    ASSERT_TRUE(out.holds(part * rank, part, values_of(rank, 2))) << label_of(c, dtype, part);
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

void check_reduce_scatter(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t part,
                          bool in_place) {
  const std::int64_t count = part * c.size();
  const std::int64_t mine = part * c.rank().value;
  Values in(memory, dtype, count);
  Values out(memory, dtype, part);
  const Pattern input = inputs_of(c.rank().value, 3, op);
  in.fill(input);
  const Buffer target = in_place ? slice(in.buffer(), {mine}, {part}) : out.buffer();
  c.reduce_scatter(in.buffer(), target, op).wait();
  const Pattern sum = reduced(c.size(), 3, op).from(mine);
  ASSERT_TRUE(in_place ? in.holds(mine, part, sum) : out.holds(sum)) << label_of(c, dtype, part);
  if (!in_place) {
    ASSERT_TRUE(in.holds(input)) << "the input was changed";
  } else {
    ASSERT_TRUE(in.holds(0, mine, input)) << "the input was changed";
    ASSERT_TRUE(in.holds(mine + part, count - mine - part, input.from(mine + part))) << "the input was changed";
  }
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

/// On ranks other than the root there is no output, or one that must not change.
void check_reduce(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count, Rank root,
                  bool in_place) {
  const bool is_root = c.rank() == root;
  Values in(memory, dtype, count);
  Values out(memory, dtype, count);
  const Pattern input = inputs_of(c.rank().value, 4, op);
  in.fill(input);
  out.fill(constant(100));
  Values& target = in_place ? in : out;
  const bool without_output = !is_root && in_place;
  c.reduce(in.buffer(), without_output ? Buffer{} : target.buffer(), op, root).wait();
  if (is_root) {
    ASSERT_TRUE(target.holds(reduced(c.size(), 4, op)))
        << label_of(c, dtype, count) << " " << name(op) << " root " << root.value;
  } else {
    ASSERT_TRUE(out.holds(constant(100))) << "an output was changed away from root " << root.value;
  }
  ASSERT_TRUE((is_root && in_place) || in.holds(input)) << "the input was changed";
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

/// Checks every root with each placement, and every operator with each placement.
void check_reduces(Communicator& c, const Memory& memory, DType dtype, std::int64_t count) {
  int root = 0;
  for (const bool in_place : {true, false}) {
    for (const ReduceOp op : ops_for(c, memory, dtype))
      check_reduce(c, memory, dtype, op, count, {root++ % c.size()}, in_place);
    for (int every = 0; every < c.size(); ++every)
      check_reduce(c, memory, dtype, ReduceOp::sum, count, {every}, in_place);
  }
}

void check_all_to_all(Communicator& c, const Memory& memory, DType dtype, std::int64_t part) {
  const std::int64_t count = part * c.size();
  const std::int64_t mine = part * c.rank().value;
  Values in(memory, dtype, count);
  Values out(memory, dtype, count);
  in.fill(values_of(c.rank().value, 5));
  c.all_to_all(in.buffer(), out.buffer()).wait();
  for (int rank = 0; rank < c.size(); ++rank)
    ASSERT_TRUE(out.holds(part * rank, part, values_of(rank, 5).from(mine)))
        << label_of(c, dtype, part) << " from " << rank;
  ASSERT_TRUE(in.holds(values_of(c.rank().value, 5))) << "the input was changed";
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

void check_scans(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count, bool in_place) {
  const int rank = c.rank().value;
  const Pattern input = inputs_of(rank, 6, op);
  for (const bool is_exclusive : {false, true}) {
    Values in(memory, dtype, count);
    Values out(memory, dtype, count);
    Values& target = in_place ? in : out;
    in.fill(input);
    (is_exclusive ? c.exclusive_scan(in.buffer(), target.buffer(), op) : c.scan(in.buffer(), target.buffer(), op))
        .wait();
    const int summed = rank + (is_exclusive ? 0 : 1);
    if (summed > 0) {
      ASSERT_TRUE(target.holds(reduced(summed, 6, op))) << label_of(c, dtype, count) << " " << name(op);
    } else if (op == ReduceOp::sum || op == ReduceOp::product) {  // others have neutral elements beyond a pattern's
      ASSERT_TRUE(target.holds(constant(op == ReduceOp::sum ? -0.0 : 1.0))) << label_of(c, dtype, count);
    }
    ASSERT_TRUE(in_place || in.holds(input)) << "the input was changed";
    ASSERT_TRUE(in.guard_intact() && out.guard_intact());
  }
}

}  // namespace lockstep::contract
