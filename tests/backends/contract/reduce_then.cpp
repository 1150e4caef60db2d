// SPDX-License-Identifier: Apache-2.0
// Checks the arguments and the time of the calls that reduce_then makes.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backends/contract/checks.hpp"
#include "backends/contract/values.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::contract {
namespace {

/// Returns the caller's initial value in the output of a reduce_then.
int held_before(Rank rank, std::int64_t i) { return static_cast<int>((rank.value + i) % 3); }

/// Adds one to each sum, and checks its arguments.
struct AddsOne {
  AddsOne(Rank me_in, std::int64_t count, bool in_place_in)
      : me(me_in), in_place(in_place_in), calls(static_cast<std::size_t>(count)) {}

  void operator()(const ConstBuffer& sum, const Buffer& out, Count offset) {
    if (in_place != (sum.data == out.data) || sum.count != out.count || sum.dtype != out.dtype) ++wrong;
    for (std::int64_t i = 0; i < out.count.value; ++i) {
      ++calls.at(static_cast<std::size_t>(offset.value + i));
      const bool untouched = load(out.data, out.dtype, i) == held_before(me, offset.value + i);
      if (!in_place && !untouched) ++wrong;
      store(out.data, out.dtype, i, load(sum.data, sum.dtype, i) + 1);
    }
  }

  Rank me;
  bool in_place;
  std::vector<std::int32_t> calls;  // number of calls for each element
  int wrong = 0;
};

void check_reduce_then(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count,
                       bool in_place) {
  Values in(memory, dtype, count);
  Values out(memory, dtype, count);
  Values& target = in_place ? in : out;
  for (std::int64_t i = 0; i < count; ++i) in.set(i, input_of(c.rank().value, i, 6, op));
  for (std::int64_t i = 0; i < count; ++i) out.set(i, held_before(c.rank(), i));
  AddsOne adds_one(c.rank(), count, in_place);
  c.reduce_then(in.buffer(), target.buffer(), op, std::ref(adds_one)).wait();
  EXPECT_EQ(adds_one.wrong, 0) << label_of(c, dtype, count);
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(target.get(i), reduced(c.size(), i, 6, op) + 1)
        << label_of(c, dtype, count) << " " << name(op) << " element " << i << (in_place ? " in place" : "");
    ASSERT_TRUE(in_place || in.get(i) == input_of(c.rank().value, i, 6, op)) << "the input was changed";
  }
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
  const Buffer calls{adds_one.calls.data(), {count}, DType::int32};
  c.all_reduce(calls, calls, ReduceOp::sum).wait();
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(adds_one.calls[static_cast<std::size_t>(i)], 1) << label_of(c, dtype, count) << " element " << i;
}

/// Several operations are under way, among others, so sums arrive in a different order on every rank.
void check_reduce_thens_at_once(Communicator& c, const Memory& memory) {
  constexpr int operations = 12;
  std::vector<Values> buffers;
  std::vector<Work> works;
  for (int k = 0; k < 2 * operations; ++k) buffers.emplace_back(memory, DType::int32, 1 + 701 * (k % 4));
  const SliceFunction add_two = [](const ConstBuffer& sum, const Buffer& out, Count) {
    for (std::int64_t i = 0; i < out.count.value; ++i) store(out.data, out.dtype, i, load(sum.data, sum.dtype, i) + 2);
  };
  for (int k = 0; k < 2 * operations; ++k) {
    Values& values = buffers[static_cast<std::size_t>(k)];
    for (std::int64_t i = 0; i < values.count(); ++i) values.set(i, value_of(c.rank().value, i, k));
    const Buffer buffer = values.buffer();
    works.push_back(k % 2 == 0 ? c.reduce_then(buffer, buffer, ReduceOp::sum, add_two)
                               : c.all_reduce(buffer, buffer, ReduceOp::sum));
  }
  for (int k = 0; k < 2 * operations; ++k) works[static_cast<std::size_t>((k * 7 + 3) % (2 * operations))].wait();
  for (int k = 0; k < 2 * operations; ++k) {
    Values& values = buffers[static_cast<std::size_t>(k)];
    for (std::int64_t i = 0; i < values.count(); ++i)
      ASSERT_EQ(values.get(i), reduced(c.size(), i, k, ReduceOp::sum) + (k % 2 == 0 ? 2 : 0)) << "operation " << k;
  }
}

/// The function is destroyed before the operation runs, so the communicator must keep a copy.
void check_reduce_then_keeps_its_function(Communicator& c, const Memory& memory) {
  Values values(memory, DType::float64, 50);
  for (std::int64_t i = 0; i < 50; ++i) values.set(i, 1);
  const Buffer buffer = values.buffer();
  Work work = [&] {
    const std::vector<double> captured(7, 3.0);
    return c.reduce_then(buffer, buffer, ReduceOp::sum, [captured](const ConstBuffer&, const Buffer& out, Count) {
      for (std::int64_t i = 0; i < out.count.value; ++i) store(out.data, out.dtype, i, captured[6]);
    });
  }();
  work.wait();
  for (std::int64_t i = 0; i < 50; ++i) ASSERT_EQ(values.get(i), 3);
}

void check_refusals_of_reduce_then(Communicator& c, const Memory& memory) {
  const auto code_of = [&](const Buffer& in, const Buffer& out, const SliceFunction& function) {
    try {
      c.reduce_then(in, out, ReduceOp::sum, function).wait();
    } catch (const Error& error) {
      EXPECT_EQ(error.context().operation, "reduce_then");
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::io;
  };
  Values values(memory, DType::float32, 20);
  const Buffer whole = values.buffer();
  const Buffer first = slice(whole, {0}, {10});
  const SliceFunction nothing = [](const ConstBuffer&, const Buffer&, Count) {};
  EXPECT_EQ(code_of(first, first, {}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(first, slice(whole, {10}, {9}), nothing), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of(first, slice(whole, {5}, {10}), nothing), ErrorCode::invalid_argument);
  if (!c.capabilities().no_reduce_then.empty()) {
    EXPECT_EQ(code_of(first, first, nothing), ErrorCode::unsupported);
  }
}

}  // namespace

void check_reduce_thens(Communicator& c, const Memory& memory) {
  check_refusals_of_reduce_then(c, memory);
  if (!c.capabilities().no_reduce_then.empty()) return;
  for (const bool in_place : {true, false}) {
    for (const DType dtype : all_dtypes)
      for (const ReduceOp op : ops_for(c, memory, dtype))
        for (const std::int64_t count : counts_for(c, memory, dtype))
          check_reduce_then(c, memory, dtype, op, count, in_place);
    check_reduce_then(c, memory, DType::float32, ReduceOp::sum, 200'003, in_place);
  }
  check_reduce_thens_at_once(c, memory);
  check_reduce_then_keeps_its_function(c, memory);
}

}  // namespace lockstep::contract
