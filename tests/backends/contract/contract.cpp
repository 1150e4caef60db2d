// SPDX-License-Identifier: Apache-2.0
#include "backends/contract/contract.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/contract/checks.hpp"
#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep::contract {
namespace {

void check_every_operation(Communicator& c, const Memory& memory) {
  for (const DType dtype : common_dtypes) {
    for (const std::int64_t count : counts_for(c, memory, dtype)) {
      for (const bool in_place : {true, false}) {
        for (const ReduceOp op : ops_for(c, memory, dtype)) {
          check_all_reduce(c, memory, dtype, op, count, in_place);
          check_reduce_scatter(c, memory, dtype, op, count, in_place);
        }
        check_all_gather(c, memory, dtype, count, in_place);
      }
      for (int root = 0; root < c.size(); ++root) check_broadcast(c, memory, dtype, count, {root});
      check_reduces(c, memory, dtype, count);
      check_all_to_all(c, memory, dtype, count);
      if (c.capabilities().no_scan.empty()) check_scans(c, memory, dtype, ReduceOp::sum, count, count % 2 == 0);
    }
  }
  check_gathers_and_scatters(c, memory);
  check_parts_of_different_lengths(c, memory);
  check_types_and_operators(c, memory);
  c.barrier().wait();
}

/// Input and output have different alignments relative to the width of a vector, which also differ between ranks.
void check_unaligned(Communicator& c, const Memory& memory) {
  for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float32}) {
    for (const std::int64_t count : {31, 65, 1009, 9001}) {
      for (int shift = 1; shift <= 3; ++shift) {
        Values in(memory, dtype, count, shift + c.rank().value);
        Values out(memory, dtype, count, 2 * shift + 1);
        in.fill(inputs_of(c.rank().value, shift, ReduceOp::sum));
        c.all_reduce(in.buffer(), out.buffer(), ReduceOp::sum).wait();
        ASSERT_TRUE(out.holds(reduced(c.size(), shift, ReduceOp::sum))) << label_of(c, dtype, count);
        ASSERT_TRUE(in.guard_intact() && out.guard_intact());
      }
    }
  }
}

/// Operands without elements need no memory.
void check_nothing(Communicator& c) {
  const MemoryKind kind = c.capabilities().host_memory ? MemoryKind::host : MemoryKind::device;
  for (const DType dtype : common_dtypes) {
    const Buffer nothing{nullptr, {0}, dtype, kind};
    c.all_reduce(nothing, nothing, ReduceOp::sum).wait();
    c.broadcast(nothing, {c.size() - 1}).wait();
    c.all_gather(nothing, nothing).wait();
    c.reduce_scatter(nothing, nothing, ReduceOp::sum).wait();
    c.reduce(nothing, nothing, ReduceOp::sum, {0}).wait();
    c.all_to_all(nothing, nothing).wait();
    c.gather(nothing, nothing, {0}).wait();
    c.scatter(nothing, nothing, {c.size() - 1}).wait();
    const std::vector<Count> zeros(static_cast<std::size_t>(c.size()));
    c.all_gather_v(nothing, nothing, zeros).wait();
    c.reduce_scatter_v(nothing, nothing, zeros, ReduceOp::sum).wait();
    c.all_to_all_v(nothing, zeros, nothing, zeros).wait();
    if (!c.capabilities().no_scan.empty()) continue;
    c.scan(nothing, nothing, ReduceOp::sum).wait();
    c.exclusive_scan(nothing, nothing, ReduceOp::sum).wait();
  }
}

/// A rank that stalls before it submits, or between submitting and waiting, delays the others but causes no error.
void check_a_rank_that_stalls(Communicator& c, const Memory& memory) {
  const auto stall = [&](int rank) {
    if (c.rank() == rank) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  const int last = c.size() - 1;
  stall(last);
  check_all_reduce(c, memory, DType::float32, ReduceOp::sum, 20'011, true, 5);
  Values values(memory, DType::int32, 20'011);
  values.fill(values_of(c.rank().value, 6));
  Work work = c.all_reduce(values.buffer(), values.buffer(), ReduceOp::sum);
  stall(0);
  work.wait();
  ASSERT_TRUE(values.holds(reduced(c.size(), 6, ReduceOp::sum))) << label_of(c, DType::int32, values.count());
}

/// The buffers are longer than every segment and not a multiple of any.
void check_long_buffers(Communicator& c, const Memory& memory) {
  for (const bool in_place : {true, false}) {
    check_all_reduce(c, memory, DType::float32, ReduceOp::sum, 200'003, in_place);
    check_reduce_scatter(c, memory, DType::int64, ReduceOp::max, 70'001, in_place);
    check_all_gather(c, memory, DType::uint8, 300'007, in_place);
    if (c.capabilities().no_scan.empty()) check_scans(c, memory, DType::float32, ReduceOp::sum, 100'003, in_place);
  }
  check_broadcast(c, memory, DType::float64, 100'003, {c.size() - 1});
  check_reduce(c, memory, DType::float64, ReduceOp::sum, 100'003, {c.size() - 1}, true);
  check_reduce(c, memory, DType::int32, ReduceOp::min, 200'003, {c.size() / 2}, false);
  check_all_to_all(c, memory, DType::float32, 70'001);
  check_long_parts(c, memory);
}

/// Many operations are under way at once, and are waited for in a different order than they were submitted in.
void check_many_at_once(Communicator& c, const Memory& memory) {
  constexpr int operations = 24;
  std::vector<Values> buffers;
  std::vector<Work> works;
  for (int k = 0; k < operations; ++k) buffers.emplace_back(memory, DType::float32, 501 * (k % 5) + k);
  for (int k = 0; k < operations; ++k) {
    Values& values = buffers[static_cast<std::size_t>(k)];
    values.fill(values_of(c.rank().value, k));
    const Buffer buffer = values.buffer();
    works.push_back(c.all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "operation " + std::to_string(k)));
  }
  for (int k = 0; k < operations; ++k) works[static_cast<std::size_t>((k * 7 + 3) % operations)].wait();
  for (int k = 0; k < operations; ++k) {
    Values& values = buffers[static_cast<std::size_t>(k)];
    ASSERT_TRUE(values.holds(reduced(c.size(), k, ReduceOp::sum))) << "operation " << k;
  }
}

void check_back_to_back(Communicator& c, const Memory& memory, int operations) {
  for (int k = 0; k < operations; ++k) check_all_reduce(c, memory, DType::int32, ReduceOp::sum, k % 40, k % 2 == 0, k);
}

/// These calls are refused before anything is sent, so the communicator still works.
void check_refusals_of_reduce_and_all_to_all(Communicator& c, const Memory& memory) {
  const auto expect_refused = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    }
  };
  const int p = c.size();
  Values values(memory, DType::float32, 4 * p + 2);
  const Buffer whole = values.buffer();
  const Buffer first = slice(whole, {0}, {2 * p});
  const Buffer second = slice(whole, {2 * p}, {2 * p});
  expect_refused([&] { (void)c.all_to_all(first, first); });
  expect_refused([&] { (void)c.all_to_all(first, slice(whole, {1}, {2 * p})); });
  expect_refused([&] { (void)c.all_to_all(first, slice(second, {0}, {p})); });
  if (p > 1) expect_refused([&] { (void)c.all_to_all(slice(first, {0}, {p + 1}), slice(second, {0}, {p + 1})); });
  expect_refused([&] { (void)c.reduce(first, second, ReduceOp::sum, {p}); });
  expect_refused([&] { (void)c.reduce(first, second, ReduceOp::sum, {-1}); });
  // Each rank uses itself as the root, because the output is checked only there.
  expect_refused([&] { (void)c.reduce(first, slice(second, {0}, {1}), ReduceOp::sum, c.rank()); });
  expect_refused([&] { (void)c.reduce(first, slice(whole, {1}, {2 * p}), ReduceOp::sum, c.rank()); });
}

void check_refusals(Communicator& c, const Memory& memory) {
  float data[64] = {};
  const auto view = [&](std::int64_t offset, std::int64_t count) {
    return Buffer{data + offset, {count}, DType::float32};
  };
  EXPECT_EQ(code_of([&] { (void)c.all_reduce(view(0, -1), view(0, -1), ReduceOp::sum); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)c.all_reduce(view(0, 4), view(8, 5), ReduceOp::sum); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)c.all_reduce(view(0, 8), view(4, 8), ReduceOp::sum); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] {
              (void)c.all_reduce(Buffer{nullptr, {4}}, view(0, 4), ReduceOp::sum);
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] {
              (void)c.all_reduce(Buffer{data, {4}, DType::int32}, view(8, 4), ReduceOp::sum);
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)c.broadcast(view(0, 4), {c.size()}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)c.all_gather(view(0, 4), view(8, 4 * c.size() + 1)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(
      code_of([&] {
        (void)c.broadcast(
            Buffer{data, {4}, DType::float32, c.capabilities().device_memory ? MemoryKind::host : MemoryKind::device},
            {0});
      }),
      ErrorCode::unsupported);
  if (!c.capabilities().device_memory) {  // the copy that fills pinned memory may still be under way
    const Buffer pinned{data, {4}, DType::float32, MemoryKind::pinned};
    EXPECT_EQ(code_of([&] { (void)c.all_reduce(pinned, pinned, ReduceOp::sum, Queue::stream(data)); }),
              ErrorCode::unsupported);
  }
  check_all_reduce(c, memory, DType::float32, ReduceOp::sum, 10, true);
}

void check_averages(Communicator& c, const Memory& memory) {
  constexpr std::int64_t count = 509;
  if (!c.capabilities().no_average.empty()) {
    Values values(memory, DType::float32, count);
    expect_error([&] { (void)c.all_reduce(values.buffer(), values.buffer(), ReduceOp::average); },
                 ErrorCode::unsupported, {std::string(c.capabilities().no_average)});
    return;
  }
  const int ranks = c.size();
  std::vector<DType> dtypes(std::begin(common_dtypes), std::end(common_dtypes));
  if (c.capabilities().dtypes.empty())
    dtypes.insert(dtypes.end(), {DType::int8, DType::int16, DType::uint16, DType::complex64, DType::complex128});
  for (const DType dtype : dtypes) {
    Values in(memory, dtype, count * ranks);
    Values out(memory, dtype, count);
    in.fill(inputs_of(c.rank().value, 3, ReduceOp::sum));
    const Pattern sum = reduced(ranks, 3, ReduceOp::sum);
    const Pattern average([&](std::int64_t i) {
      return kernels::real_of(dtype) == DType::float64 ? sum.at(i) / ranks : double(float(sum.at(i)) / float(ranks));
    });
    c.reduce_scatter(in.buffer(), out.buffer(), ReduceOp::average).wait();
    ASSERT_TRUE(out.holds(average.from(c.rank().value * count))) << label_of(c, dtype, count);
    c.reduce(slice(in.buffer(), {0}, {count}), out.buffer(), ReduceOp::average, {ranks - 1}).wait();
    ASSERT_TRUE(c.rank() != ranks - 1 || out.holds(average)) << label_of(c, dtype, count);
    c.all_reduce(in.buffer(), in.buffer(), ReduceOp::average).wait();
    ASSERT_TRUE(in.holds(average)) << label_of(c, dtype, in.count());
    ASSERT_TRUE(in.guard_intact() && out.guard_intact());
  }
}

/// Checks vectors that belong to the program.
void check_spans(Communicator& c) {
  if (!c.capabilities().host_memory) return;
  std::vector<double> values = {1, 2.5, -3};
  c.all_reduce(std::span<const double>(values), std::span(values), ReduceOp::sum).wait();
  EXPECT_EQ(values, (std::vector<double>{c.size() * 1.0, c.size() * 2.5, c.size() * -3.0}));
  std::vector<std::uint8_t> parts(static_cast<std::size_t>(c.size()));
  const std::vector<std::uint8_t> own = {static_cast<std::uint8_t>(c.rank().value)};
  c.all_gather(std::span(own), std::span(parts)).wait();
  for (int rank = 0; rank < c.size(); ++rank) EXPECT_EQ(parts[static_cast<std::size_t>(rank)], rank);
}

void check_close(Communicator& c) {
  const MemoryKind kind = c.capabilities().host_memory ? MemoryKind::host : MemoryKind::device;
  const Buffer nothing{nullptr, {0}, DType::float32, kind};
  Prepared prepared = c.prepare_all_reduce(nothing, nothing, ReduceOp::sum);
  c.close();
  c.close();
  for (int twice = 0; twice < 2; ++twice)  // a start that failed is not under way
    EXPECT_EQ(code_of([&] { prepared.start(); }), ErrorCode::transport);
  float data[1] = {};
  const Buffer one{data, {1}, DType::float32, kind};
  EXPECT_EQ(code_of([&] { (void)c.all_reduce(one, one, ReduceOp::sum); }), ErrorCode::transport);
}

}  // namespace

void check_all(Communicator& c, const Memory& memory) {
  check_every_operation(c, memory);
  check_long_buffers(c, memory);
  check_unaligned(c, memory);
  check_averages(c, memory);
  check_leaves(c, memory);
  check_equal_bits(c, memory);
  check_spans(c);
  check_nothing(c);
  check_a_rank_that_stalls(c, memory);
  check_many_at_once(c, memory);
  check_prepared(c, memory);
  if (c.capabilities().messages_take_turns) {
    std::cout << "left out: messages outside of groups, as those of " << c.capabilities().backend << " take turns\n";
  } else {
    check_messages(c, memory);
    check_messages_in_a_ring(c, memory);
  }
  check_refusals_of_messages(c, memory);
  check_groups(c, memory);
  check_back_to_back(c, memory, memory.is_slow() ? 60 : c.size() <= 4 ? 1000 : 250);
  check_refusals(c, memory);
  check_refusals_of_reduce_and_all_to_all(c, memory);
  check_refusals_of_gather_and_scatter(c, memory);
  check_refusals_of_counts(c, memory);
  check_refusals_at_borders(c, memory);
  check_close(c);
}

}  // namespace lockstep::contract
