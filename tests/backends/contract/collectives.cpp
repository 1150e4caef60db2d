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
  for (std::int64_t i = 0; i < count; ++i) in.set(i, input_of(c.rank().value, i, repetition, op));
  c.all_reduce(in.buffer(), target.buffer(), op, Queue::host(), "contract").wait();
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(target.get(i), reduced(c.size(), i, repetition, op))
        << label_of(c, dtype, count) << " " << name(op) << " element " << i;
    ASSERT_TRUE(in_place || in.get(i) == input_of(c.rank().value, i, repetition, op)) << "the input was changed";
  }
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

void check_broadcast(Communicator& c, const Memory& memory, DType dtype, std::int64_t count, Rank root) {
  Values data(memory, dtype, count);
  for (std::int64_t i = 0; i < count; ++i) data.set(i, value_of(c.rank().value, i, 1));
  c.broadcast(data.buffer(), root).wait();
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(data.get(i), value_of(root.value, i, 1)) << label_of(c, dtype, count);
  ASSERT_TRUE(data.guard_intact());
}

void check_all_gather(Communicator& c, const Memory& memory, DType dtype, std::int64_t part, bool in_place) {
  Values in(memory, dtype, part);
  Values out(memory, dtype, part * c.size());
  const std::int64_t mine = part * c.rank().value;
  for (std::int64_t i = 0; i < part; ++i)
    (in_place ? out : in).set(in_place ? mine + i : i, value_of(c.rank().value, i, 2));
  const Buffer source = in_place ? slice(out.buffer(), {mine}, {part}) : in.buffer();
  c.all_gather(source, out.buffer()).wait();
  for (int rank = 0; rank < c.size(); ++rank) {
    for (std::int64_t i = 0; i < part; ++i)
      ASSERT_EQ(out.get(part * rank + i), value_of(rank, i, 2)) << label_of(c, dtype, part);
  }
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

void check_reduce_scatter(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t part,
                          bool in_place) {
  const std::int64_t count = part * c.size();
  const std::int64_t mine = part * c.rank().value;
  Values in(memory, dtype, count);
  Values out(memory, dtype, part);
  for (std::int64_t i = 0; i < count; ++i) in.set(i, input_of(c.rank().value, i, 3, op));
  const Buffer target = in_place ? slice(in.buffer(), {mine}, {part}) : out.buffer();
  c.reduce_scatter(in.buffer(), target, op).wait();
  for (std::int64_t i = 0; i < part; ++i) {
    ASSERT_EQ(in_place ? in.get(mine + i) : out.get(i), reduced(c.size(), mine + i, 3, op)) << label_of(c, dtype, part);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    if (in_place && i >= mine && i < mine + part) continue;
    ASSERT_EQ(in.get(i), input_of(c.rank().value, i, 3, op)) << "the input was changed";
  }
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

/// On ranks other than the root there is no output, or one that must not change.
void check_reduce(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count, Rank root,
                  bool in_place) {
  const bool is_root = c.rank() == root;
  Values in(memory, dtype, count);
  Values out(memory, dtype, count);
  for (std::int64_t i = 0; i < count; ++i) {
    in.set(i, input_of(c.rank().value, i, 4, op));
    out.set(i, 100);
  }
  Values& target = in_place ? in : out;
  const bool without_output = !is_root && in_place;
  c.reduce(in.buffer(), without_output ? Buffer{} : target.buffer(), op, root).wait();
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_root) {
      ASSERT_EQ(target.get(i), reduced(c.size(), i, 4, op))
          << label_of(c, dtype, count) << " " << name(op) << " root " << root.value;
    } else {
      ASSERT_EQ(out.get(i), 100) << "an output was changed away from root " << root.value;
    }
    ASSERT_TRUE((is_root && in_place) || in.get(i) == input_of(c.rank().value, i, 4, op)) << "the input was changed";
  }
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
  for (std::int64_t i = 0; i < count; ++i) in.set(i, value_of(c.rank().value, i, 5));
  c.all_to_all(in.buffer(), out.buffer()).wait();
  for (int rank = 0; rank < c.size(); ++rank)
    for (std::int64_t i = 0; i < part; ++i)
      ASSERT_EQ(out.get(part * rank + i), value_of(rank, mine + i, 5)) << label_of(c, dtype, part) << " from " << rank;
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(in.get(i), value_of(c.rank().value, i, 5)) << "the input was changed";
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

}  // namespace lockstep::contract
