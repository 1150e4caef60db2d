// SPDX-License-Identifier: Apache-2.0
// Checks operations that are prepared once and started often.
#include <gtest/gtest.h>

#include <vector>

#include "backends/contract/checks.hpp"
#include "backends/contract/values.hpp"
#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep::contract {
namespace {

/// Some ranks start a prepared operation while others submit the same one, each time with new data.
void check_prepared_all_reduces(Communicator& c, const Memory& memory) {
  constexpr std::int64_t counts[] = {1, 40, 3001};
  for (const std::int64_t count : counts) {
    Values in(memory, DType::float32, count);
    Values out(memory, DType::float32, count);
    Prepared prepared = c.prepare_all_reduce(in.buffer(), out.buffer(), ReduceOp::sum, std::string("pre") + "pared");
    EXPECT_TRUE(prepared.test()) << "nothing has been started";
    for (int repetition = 0; repetition < 12; ++repetition) {
      in.fill(inputs_of(c.rank().value, repetition, ReduceOp::sum));
      const Buffer source = in.buffer();
      const Buffer target = out.buffer();
      if (repetition % 3 == 2 && c.rank().value % 2 == 1) {
        c.all_reduce(source, target, ReduceOp::sum, Queue::host(), "prepared").wait();
      } else {
        prepared.start();
        prepared.wait();
        EXPECT_TRUE(prepared.test());
      }
      ASSERT_TRUE(out.holds(reduced(c.size(), repetition, ReduceOp::sum))) << label_of(c, DType::float32, count);
      ASSERT_TRUE(in.guard_intact() && out.guard_intact());
    }
  }
}

/// More operations are prepared than may be in flight. Each starts again as soon as it has ended, even if earlier ones
/// have not.
void check_many_prepared(Communicator& c, const Memory& memory) {
  constexpr int operations = 9;
  std::vector<Values> buffers;
  std::vector<Prepared> prepared;
  for (int k = 0; k < operations; ++k) buffers.emplace_back(memory, DType::int32, k % 3 == 0 ? 1201 : 1 + k);
  for (Values& values : buffers)
    prepared.push_back(c.prepare_all_reduce(values.buffer(), values.buffer(), ReduceOp::sum));
  for (int repetition = 0; repetition < 4; ++repetition) {
    for (int k = 0; k < operations; ++k) {
      Values& values = buffers[static_cast<std::size_t>(k)];
      values.fill(values_of(c.rank().value, repetition + k));
      (void)values.buffer();
      prepared[static_cast<std::size_t>(k)].start();
    }
    for (int k = 0; k < operations; ++k) {
      const int other = (k * 5 + repetition) % operations;
      prepared[static_cast<std::size_t>(other)].wait();
      Values& values = buffers[static_cast<std::size_t>(other)];
      ASSERT_TRUE(values.holds(reduced(c.size(), repetition + other, ReduceOp::sum))) << "operation " << other;
    }
  }
}

/// Checks the result of every operation.
void check_prepared_operations(Communicator& c, const Memory& memory) {
  const std::int64_t p = c.size();
  constexpr std::int64_t part = 5;
  Values small(memory, DType::int64, part);
  Values large(memory, DType::int64, part * p);
  Values other(memory, DType::int64, part * p);
  const Rank root{c.size() - 1};
  const Buffer none{nullptr, {0}, DType::int64, large.buffer().kind};
  const auto twice = [&](const Collective& collective, Values& in, const auto& check) {
    Prepared prepared = c.prepare(collective);
    for (int repetition = 0; repetition < 2; ++repetition) {
      in.fill(values_of(c.rank().value, repetition));
      for (Values* const values : {&small, &large, &other}) (void)values->buffer();
      prepared.start();
      prepared.wait();
      check(repetition);
    }
  };
  using Kind = CollectiveKind;
  twice({.kind = Kind::broadcast, .out = large.buffer(), .root = root}, large,
        [&](int repetition) { ASSERT_TRUE(large.holds(values_of(root.value, repetition))); });
  twice({.kind = Kind::all_gather, .in = small.buffer(), .out = large.buffer()}, small, [&](int repetition) {
    for (int rank = 0; rank < c.size(); ++rank)
      ASSERT_TRUE(large.holds(part * rank, part, values_of(rank, repetition)));
  });
  twice({.kind = Kind::reduce_scatter, .in = large.buffer(), .out = small.buffer()}, large, [&](int repetition) {
    ASSERT_TRUE(small.holds(reduced(c.size(), repetition, ReduceOp::sum).from(c.rank().value * part)));
  });
  const bool is_root = c.rank() == root;
  twice({.kind = Kind::reduce, .in = large.buffer(), .out = is_root ? other.buffer() : none, .root = root}, large,
        [&](int repetition) {
          if (is_root) {
            ASSERT_TRUE(other.holds(reduced(c.size(), repetition, ReduceOp::sum)));
          }
        });
  twice({.kind = Kind::all_to_all, .in = large.buffer(), .out = other.buffer()}, large, [&](int repetition) {
    for (int rank = 0; rank < c.size(); ++rank)
      ASSERT_TRUE(other.holds(part * rank, part, values_of(rank, repetition).from(c.rank().value * part)));
  });
  twice({.kind = Kind::barrier}, small, [](int) {});
}

/// Invalid arguments are refused when an operation is prepared. A second start before the end is refused and has no
/// effect.
void check_refusals_of_prepared(Communicator& c, const Memory& memory) {
  Values values(memory, DType::float32, 20'000);
  const Buffer whole = values.buffer();
  EXPECT_EQ(code_of([&] { (void)c.prepare_all_reduce(slice(whole, {0}, {4}), slice(whole, {5}, {3}), ReduceOp::sum); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)c.prepare({.kind = CollectiveKind::broadcast, .out = whole, .root = {c.size()}}); }),
            ErrorCode::invalid_argument);
  Prepared prepared = c.prepare_all_reduce(whole, whole, ReduceOp::max);
  if (!c.capabilities().device_memory) {
    float stream = 0;
    EXPECT_EQ(code_of([&] { prepared.start(Queue::stream(&stream)); }), ErrorCode::unsupported);
  }
  values.fill(values_of(c.rank().value, 9));
  (void)values.buffer();
  const int last = c.size() - 1;
  if (last > 0 && c.rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  prepared.start();
  if (!prepared.test() && c.rank() < last) {
    EXPECT_EQ(code_of([&] { prepared.start(); }), ErrorCode::invalid_argument);
  }
  prepared.wait();
  ASSERT_TRUE(values.holds(reduced(c.size(), 9, ReduceOp::max)));
}

}  // namespace

void check_prepared(Communicator& c, const Memory& memory) {
  check_prepared_all_reduces(c, memory);
  check_many_prepared(c, memory);
  check_prepared_operations(c, memory);
  check_refusals_of_prepared(c, memory);
}

}  // namespace lockstep::contract
