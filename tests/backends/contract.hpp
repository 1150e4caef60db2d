// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every communicator must do, whatever stands behind it. A test file per back end runs `contract::check_all` on
// its communicators.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/contract_leaves.hpp"
#include "backends/contract_parts.hpp"
#include "backends/contract_v.hpp"
#include "backends/contract_values.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/comm/communicator.hpp"

namespace lockstep::contract {

inline void check_all_reduce(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count,
                             bool in_place, int repetition = 0) {
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

inline void check_broadcast(Communicator& c, const Memory& memory, DType dtype, std::int64_t count, Rank root) {
  Values data(memory, dtype, count);
  for (std::int64_t i = 0; i < count; ++i) data.set(i, value_of(c.rank().value, i, 1));
  c.broadcast(data.buffer(), root).wait();
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(data.get(i), value_of(root.value, i, 1)) << label_of(c, dtype, count);
  ASSERT_TRUE(data.guard_intact());
}

inline void check_all_gather(Communicator& c, const Memory& memory, DType dtype, std::int64_t part, bool in_place) {
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

inline void check_reduce_scatter(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t part,
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

/// Away from the root there is no output, or one that must stay as it is.
inline void check_reduce(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count, Rank root,
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

/// Every root with each placement, and every operator with each of them.
inline void check_reduces(Communicator& c, const Memory& memory, DType dtype, std::int64_t count) {
  int root = 0;
  for (const bool in_place : {true, false}) {
    for (const ReduceOp op : ops_for(c, memory, dtype))
      check_reduce(c, memory, dtype, op, count, {root++ % c.size()}, in_place);
    for (int every = 0; every < c.size(); ++every)
      check_reduce(c, memory, dtype, ReduceOp::sum, count, {every}, in_place);
  }
}

inline void check_all_to_all(Communicator& c, const Memory& memory, DType dtype, std::int64_t part) {
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

/// What the caller has in the output of a reduce_then.
inline int held_before(Rank rank, std::int64_t i) { return static_cast<int>((rank.value + i) % 3); }

/// Adds one to each sum, and watches what it is given.
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
  std::vector<std::int32_t> calls;  // for each element
  int wrong = 0;
};

inline void check_reduce_then(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, std::int64_t count,
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

/// Several under way, among other operations: sums come in another order on every rank.
inline void check_reduce_thens_at_once(Communicator& c, const Memory& memory) {
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

/// The function is gone when the operation runs: it must have been kept.
inline void check_reduce_then_keeps_its_function(Communicator& c, const Memory& memory) {
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

inline void check_refusals_of_reduce_then(Communicator& c, const Memory& memory) {
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

inline void check_reduce_thens(Communicator& c, const Memory& memory) {
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

inline void check_every_operation(Communicator& c, const Memory& memory) {
  for (const DType dtype : all_dtypes) {
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
    }
  }
  check_gathers_and_scatters(c, memory);
  check_parts_of_different_lengths(c, memory);
  c.barrier().wait();
}

/// Input and output lie differently to the width of a vector, and on every rank otherwise.
inline void check_unaligned(Communicator& c, const Memory& memory) {
  for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float32}) {
    for (const std::int64_t count : {31, 65, 1009, 9001}) {
      for (int shift = 1; shift <= 3; ++shift) {
        Values in(memory, dtype, count, shift + c.rank().value);
        Values out(memory, dtype, count, 2 * shift + 1);
        for (std::int64_t i = 0; i < count; ++i) in.set(i, input_of(c.rank().value, i, shift, ReduceOp::sum));
        c.all_reduce(in.buffer(), out.buffer(), ReduceOp::sum).wait();
        for (std::int64_t i = 0; i < count; ++i)
          ASSERT_EQ(out.get(i), reduced(c.size(), i, shift, ReduceOp::sum)) << label_of(c, dtype, count) << " at " << i;
        ASSERT_TRUE(in.guard_intact() && out.guard_intact());
      }
    }
  }
}

/// What has no elements needs no memory.
inline void check_nothing(Communicator& c) {
  const MemoryKind kind = c.capabilities().host_memory ? MemoryKind::host : MemoryKind::device;
  for (const DType dtype : all_dtypes) {
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
  }
}

/// A rank that stalls holds the others up, before it submits and between submitting and waiting, and harms nothing.
inline void check_a_rank_that_stalls(Communicator& c, const Memory& memory) {
  const auto stall = [&](int rank) {
    if (c.rank().value == rank) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  const int last = c.size() - 1;
  stall(last);
  check_all_reduce(c, memory, DType::float32, ReduceOp::sum, 20'011, true, 5);
  Values values(memory, DType::int32, 20'011);
  for (std::int64_t i = 0; i < values.count(); ++i) values.set(i, value_of(c.rank().value, i, 6));
  Work work = c.all_reduce(values.buffer(), values.buffer(), ReduceOp::sum);
  stall(0);
  work.wait();
  for (std::int64_t i = 0; i < values.count(); ++i)
    ASSERT_EQ(values.get(i), reduced(c.size(), i, 6, ReduceOp::sum)) << label_of(c, DType::int32, values.count());
}

/// Longer than every segment and not a multiple of any.
inline void check_long_buffers(Communicator& c, const Memory& memory) {
  for (const bool in_place : {true, false}) {
    check_all_reduce(c, memory, DType::float32, ReduceOp::sum, 200'003, in_place);
    check_reduce_scatter(c, memory, DType::int64, ReduceOp::max, 70'001, in_place);
    check_all_gather(c, memory, DType::uint8, 300'007, in_place);
  }
  check_broadcast(c, memory, DType::float64, 100'003, {c.size() - 1});
  check_reduce(c, memory, DType::float64, ReduceOp::sum, 100'003, {c.size() - 1}, true);
  check_reduce(c, memory, DType::int32, ReduceOp::min, 200'003, {c.size() / 2}, false);
  check_all_to_all(c, memory, DType::float32, 70'001);
  check_long_parts(c, memory);
}

/// Many operations under way at once, waited for in another order than they were submitted in.
inline void check_many_at_once(Communicator& c, const Memory& memory) {
  constexpr int operations = 24;
  std::vector<Values> buffers;
  std::vector<Work> works;
  for (int k = 0; k < operations; ++k) buffers.emplace_back(memory, DType::float32, 501 * (k % 5) + k);
  for (int k = 0; k < operations; ++k) {
    Values& values = buffers[static_cast<std::size_t>(k)];
    for (std::int64_t i = 0; i < values.count(); ++i) values.set(i, value_of(c.rank().value, i, k));
    const Buffer buffer = values.buffer();
    works.push_back(c.all_reduce(buffer, buffer, ReduceOp::sum, Queue::host(), "operation " + std::to_string(k)));
  }
  for (int k = 0; k < operations; ++k) works[static_cast<std::size_t>((k * 7 + 3) % operations)].wait();
  for (int k = 0; k < operations; ++k) {
    Values& values = buffers[static_cast<std::size_t>(k)];
    for (std::int64_t i = 0; i < values.count(); ++i) {
      ASSERT_EQ(values.get(i), reduced(c.size(), i, k, ReduceOp::sum)) << "operation " << k;
    }
  }
}

/// Several from every rank to every other one and to itself, among operations of all, in another order on each rank.
inline void check_messages(Communicator& c, const Memory& memory) {
  constexpr int each = 3;
  std::vector<Values> outgoing;
  std::vector<Values> incoming;
  std::vector<Work> works;
  const auto number = [&](int peer, int k) { return static_cast<std::size_t>(peer * each + k); };
  const auto count_of = [](int k) { return std::int64_t{k == 0 ? 0 : k == 1 ? 7 : 2503}; };
  for (int peer = 0; peer < c.size(); ++peer)
    for (int k = 0; k < each; ++k) {
      outgoing.emplace_back(memory, DType::int32, count_of(k));
      incoming.emplace_back(memory, DType::int32, count_of(k));
      for (std::int64_t i = 0; i < count_of(k); ++i) outgoing.back().set(i, value_of(c.rank().value + 2 * peer, i, k));
    }
  Values sums(memory, DType::int32, 300);
  for (std::int64_t i = 0; i < sums.count(); ++i) sums.set(i, value_of(c.rank().value, i, 7));
  const auto submit_all = [&](const auto& message) {
    for (int step = 0; step < c.size(); ++step)
      for (int k = 0; k < each; ++k) message((c.rank().value + step) % c.size(), k);
  };
  const auto send = [&](int peer, int k) { works.push_back(c.send(outgoing[number(peer, k)].buffer(), {peer})); };
  const auto receive = [&](int peer, int k) { works.push_back(c.recv(incoming[number(peer, k)].buffer(), {peer})); };
  const auto add = [&] { works.push_back(c.all_reduce(sums.buffer(), sums.buffer(), ReduceOp::sum)); };
  if (c.rank().value % 2 == 0) {
    submit_all(send);
    add();
    submit_all(receive);
  } else {
    submit_all(receive);
    submit_all(send);
    add();
  }
  for (std::size_t k = 0; k < works.size(); ++k) works[(k * 5 + 3) % works.size()].wait();
  for (Work& work : works) work.wait();
  for (int peer = 0; peer < c.size(); ++peer)
    for (int k = 0; k < each; ++k) {
      Values& values = incoming[number(peer, k)];
      for (std::int64_t i = 0; i < values.count(); ++i)
        ASSERT_EQ(values.get(i), value_of(peer + 2 * c.rank().value, i, k)) << "message " << k << " from " << peer;
      ASSERT_TRUE(values.guard_intact() && outgoing[number(peer, k)].guard_intact());
    }
  for (std::int64_t i = 0; i < sums.count(); ++i) ASSERT_EQ(sums.get(i), reduced(c.size(), i, 7, ReduceOp::sum));
}

/// Every dtype, each rank to the next one; prepared, more often than a short tag can count.
inline void check_messages_in_a_ring(Communicator& c, const Memory& memory) {
  const Rank next{(c.rank().value + 1) % c.size()};
  const Rank previous{(c.rank().value + c.size() - 1) % c.size()};
  for (const DType dtype : all_dtypes) {
    Values out(memory, dtype, 33);
    Values in(memory, dtype, 33);
    Prepared send = c.prepare({.kind = CollectiveKind::send, .in = out.buffer(), .root = next, .label = "ring"});
    Prepared receive = c.prepare({.kind = CollectiveKind::recv, .out = in.buffer(), .root = previous, .label = "ring"});
    for (int repetition = 0; repetition < 300; ++repetition) {
      for (std::int64_t i = 0; i < out.count(); ++i) out.set(i, value_of(c.rank().value, i, repetition));
      for (Values* const values : {&in, &out}) (void)values->buffer();
      receive.start();
      send.start();
      send.wait();
      receive.wait();
      for (std::int64_t i = 0; i < in.count(); ++i) ASSERT_EQ(in.get(i), value_of(previous.value, i, repetition));
    }
  }
}

inline void check_refusals_of_messages(Communicator& c, const Memory& memory) {
  Values values(memory, DType::float32, 4);
  for (const int peer : {-1, c.size()}) {
    try {
      (void)c.send(values.buffer(), {peer});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(error.context().operation, "send");
      EXPECT_NE(error.message().find("rank " + std::to_string(peer)), std::string::npos) << error.what();
    }
    EXPECT_THROW((void)c.recv(values.buffer(), {peer}), Error);
  }
  EXPECT_THROW((void)c.recv({nullptr, {4}, DType::float32, values.buffer().kind}, {0}), Error);
}

/// A message to each neighbour, one from each, and a sum, submitted as one; on a few ranks nothing but the sum.
inline void check_groups(Communicator& c, const Memory& memory) {
  const Rank next{(c.rank().value + 1) % c.size()};
  const Rank previous{(c.rank().value + c.size() - 1) % c.size()};
  for (int repetition = 0; repetition < 5; ++repetition) {
    Values to_next(memory, DType::float32, 900);
    Values from_previous(memory, DType::float32, 900);
    Values sums(memory, DType::float32, 50);
    for (std::int64_t i = 0; i < 900; ++i) to_next.set(i, value_of(c.rank().value, i, repetition));
    for (std::int64_t i = 0; i < 50; ++i) sums.set(i, value_of(c.rank().value, i, repetition + 1));
    const Buffer out = to_next.buffer();
    const Buffer in = from_previous.buffer();
    const Buffer sum = sums.buffer();
    std::vector<Work> works = c.group({{.kind = CollectiveKind::send, .in = out, .root = next},
                                       {.kind = CollectiveKind::all_reduce, .in = sum, .out = sum},
                                       {.kind = CollectiveKind::recv, .out = in, .root = previous, .label = ""}});
    ASSERT_EQ(works.size(), 3U);
    for (Work& work : works) work.wait();
    for (std::int64_t i = 0; i < 900; ++i) ASSERT_EQ(from_previous.get(i), value_of(previous.value, i, repetition));
    for (std::int64_t i = 0; i < 50; ++i)
      ASSERT_EQ(sums.get(i), reduced(c.size(), i, repetition + 1, ReduceOp::sum)) << label_of(c, DType::float32, 50);
    // Had any member been submitted, the next repetition's messages would meet it.
    try {
      (void)c.group({{.kind = CollectiveKind::send, .in = out, .root = next},
                     {.kind = CollectiveKind::recv, .out = in, .root = previous},
                     {.kind = CollectiveKind::all_reduce, .in = sum, .out = slice(sum, {0}, {49})}});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(error.context().operation, "all_reduce");
    }
  }
  EXPECT_TRUE(c.group({}).empty());
}

/// Some ranks start a prepared operation where others submit the same one; each time on new data.
inline void check_prepared_all_reduces(Communicator& c, const Memory& memory) {
  constexpr std::int64_t counts[] = {1, 40, 3001};
  for (const std::int64_t count : counts) {
    Values in(memory, DType::float32, count);
    Values out(memory, DType::float32, count);
    Prepared prepared = c.prepare_all_reduce(in.buffer(), out.buffer(), ReduceOp::sum, std::string("pre") + "pared");
    EXPECT_TRUE(prepared.test()) << "nothing has been started";
    for (int repetition = 0; repetition < 12; ++repetition) {
      for (std::int64_t i = 0; i < count; ++i) in.set(i, input_of(c.rank().value, i, repetition, ReduceOp::sum));
      const Buffer source = in.buffer();
      const Buffer target = out.buffer();
      if (repetition % 3 == 2 && c.rank().value % 2 == 1) {
        c.all_reduce(source, target, ReduceOp::sum, Queue::host(), "prepared").wait();
      } else {
        prepared.start();
        prepared.wait();
        EXPECT_TRUE(prepared.test());
      }
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(out.get(i), reduced(c.size(), i, repetition, ReduceOp::sum)) << label_of(c, DType::float32, count);
      ASSERT_TRUE(in.guard_intact() && out.guard_intact());
    }
  }
}

/// More than may be in flight, each started again as soon as it has ended, though others before it may not have.
inline void check_many_prepared(Communicator& c, const Memory& memory) {
  constexpr int operations = 9;
  std::vector<Values> buffers;
  std::vector<Prepared> prepared;
  for (int k = 0; k < operations; ++k) buffers.emplace_back(memory, DType::int32, k % 3 == 0 ? 1201 : 1 + k);
  for (Values& values : buffers)
    prepared.push_back(c.prepare_all_reduce(values.buffer(), values.buffer(), ReduceOp::sum));
  for (int repetition = 0; repetition < 4; ++repetition) {
    for (int k = 0; k < operations; ++k) {
      Values& values = buffers[static_cast<std::size_t>(k)];
      for (std::int64_t i = 0; i < values.count(); ++i) values.set(i, value_of(c.rank().value, i, repetition + k));
      (void)values.buffer();
      prepared[static_cast<std::size_t>(k)].start();
    }
    for (int k = 0; k < operations; ++k) {
      const int other = (k * 5 + repetition) % operations;
      prepared[static_cast<std::size_t>(other)].wait();
      Values& values = buffers[static_cast<std::size_t>(other)];
      for (std::int64_t i = 0; i < values.count(); ++i)
        ASSERT_EQ(values.get(i), reduced(c.size(), i, repetition + other, ReduceOp::sum)) << "operation " << other;
    }
  }
}

/// Every operation, by its value.
inline void check_prepared_operations(Communicator& c, const Memory& memory) {
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
      for (std::int64_t i = 0; i < in.count(); ++i) in.set(i, value_of(c.rank().value, i, repetition));
      for (Values* const values : {&small, &large, &other}) (void)values->buffer();
      prepared.start();
      prepared.wait();
      check(repetition);
    }
  };
  using Kind = CollectiveKind;
  twice({.kind = Kind::broadcast, .out = large.buffer(), .root = root}, large, [&](int repetition) {
    for (std::int64_t i = 0; i < part * p; ++i) ASSERT_EQ(large.get(i), value_of(root.value, i, repetition));
  });
  twice({.kind = Kind::all_gather, .in = small.buffer(), .out = large.buffer()}, small, [&](int repetition) {
    for (std::int64_t i = 0; i < part * p; ++i)
      ASSERT_EQ(large.get(i), value_of(static_cast<int>(i / part), i % part, repetition));
  });
  twice({.kind = Kind::reduce_scatter, .in = large.buffer(), .out = small.buffer()}, large, [&](int repetition) {
    for (std::int64_t i = 0; i < part; ++i)
      ASSERT_EQ(small.get(i), reduced(c.size(), c.rank().value * part + i, repetition, ReduceOp::sum));
  });
  const bool is_root = c.rank() == root;
  twice({.kind = Kind::reduce, .in = large.buffer(), .out = is_root ? other.buffer() : none, .root = root}, large,
        [&](int repetition) {
          for (std::int64_t i = 0; is_root && i < part * p; ++i)
            ASSERT_EQ(other.get(i), reduced(c.size(), i, repetition, ReduceOp::sum));
        });
  twice({.kind = Kind::all_to_all, .in = large.buffer(), .out = other.buffer()}, large, [&](int repetition) {
    for (std::int64_t i = 0; i < part * p; ++i)
      ASSERT_EQ(other.get(i), value_of(static_cast<int>(i / part), c.rank().value * part + i % part, repetition));
  });
  twice({.kind = Kind::barrier}, small, [](int) {});
  if (!c.capabilities().no_reduce_then.empty()) return;
  std::optional<SliceFunction> add_two = [](const ConstBuffer& sum, const Buffer& out, Count) {
    for (std::int64_t i = 0; i < out.count.value; ++i) store(out.data, out.dtype, i, load(sum.data, sum.dtype, i) + 2);
  };
  Prepared prepared =
      c.prepare({.kind = Kind::reduce_then, .in = large.buffer(), .out = other.buffer(), .function = &*add_two});
  add_two.reset();  // it has been kept
  for (std::int64_t i = 0; i < part * p; ++i) large.set(i, value_of(c.rank().value, i, 0));
  (void)large.buffer();
  prepared.start();
  prepared.wait();
  for (std::int64_t i = 0; i < part * p; ++i) ASSERT_EQ(other.get(i), reduced(c.size(), i, 0, ReduceOp::sum) + 2);
}

/// What is wrong is said when it is prepared; a second start before the end is refused, and harms nothing.
inline void check_refusals_of_prepared(Communicator& c, const Memory& memory) {
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::io;
  };
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
  for (std::int64_t i = 0; i < values.count(); ++i) values.set(i, value_of(c.rank().value, i, 9));
  (void)values.buffer();
  const int last = c.size() - 1;
  if (last > 0 && c.rank().value == last) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  prepared.start();
  if (!prepared.test() && c.rank().value < last) {
    EXPECT_EQ(code_of([&] { prepared.start(); }), ErrorCode::invalid_argument);
  }
  prepared.wait();
  for (std::int64_t i = 0; i < values.count(); ++i) ASSERT_EQ(values.get(i), reduced(c.size(), i, 9, ReduceOp::max));
}

inline void check_prepared(Communicator& c, const Memory& memory) {
  check_prepared_all_reduces(c, memory);
  check_many_prepared(c, memory);
  check_prepared_operations(c, memory);
  check_refusals_of_prepared(c, memory);
}

inline void check_back_to_back(Communicator& c, const Memory& memory, int operations) {
  for (int k = 0; k < operations; ++k) check_all_reduce(c, memory, DType::int32, ReduceOp::sum, k % 40, k % 2 == 0, k);
}

/// Refused before anything is sent: the communicator goes on working.
inline void check_refusals_of_reduce_and_all_to_all(Communicator& c, const Memory& memory) {
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
  // Each rank as its own root, since elsewhere nobody looks at the output.
  expect_refused([&] { (void)c.reduce(first, slice(second, {0}, {1}), ReduceOp::sum, c.rank()); });
  expect_refused([&] { (void)c.reduce(first, slice(whole, {1}, {2 * p}), ReduceOp::sum, c.rank()); });
}

inline void check_refusals(Communicator& c, const Memory& memory) {
  float data[64] = {};
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorCode::io;
  };
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

/// What an average of whole numbers has to be in a dtype.
inline double average_of(DType dtype, int sum, int ranks) {
  const bool is_wide = dtype == DType::float64;
  const double quotient = is_wide ? double(sum) / ranks : double(float(sum) / float(ranks));
  double element = 0;
  store(&element, dtype, 0, quotient);
  return load(&element, dtype, 0);
}

inline void check_averages(Communicator& c, const Memory& memory) {
  constexpr std::int64_t count = 509;
  if (!c.capabilities().no_average.empty()) {
    Values values(memory, DType::float32, count);
    EXPECT_THROW((void)c.all_reduce(values.buffer(), values.buffer(), ReduceOp::average), Error);
    return;
  }
  const int ranks = c.size();
  for (const DType dtype : all_dtypes) {
    Values in(memory, dtype, count * ranks);
    Values out(memory, dtype, count);
    for (std::int64_t i = 0; i < in.count(); ++i) in.set(i, input_of(c.rank().value, i, 3, ReduceOp::sum));
    const auto right = [&](std::int64_t i) { return average_of(dtype, reduced(ranks, i, 3, ReduceOp::sum), ranks); };
    c.reduce_scatter(in.buffer(), out.buffer(), ReduceOp::average).wait();
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(out.get(i), right(c.rank().value * count + i)) << label_of(c, dtype, count) << " element " << i;
    c.reduce(slice(in.buffer(), {0}, {count}), out.buffer(), ReduceOp::average, {ranks - 1}).wait();
    for (std::int64_t i = 0; c.rank().value == ranks - 1 && i < count; ++i)
      ASSERT_EQ(out.get(i), right(i)) << label_of(c, dtype, count) << " element " << i;
    c.all_reduce(in.buffer(), in.buffer(), ReduceOp::average).wait();
    for (std::int64_t i = 0; i < in.count(); ++i)
      ASSERT_EQ(in.get(i), right(i)) << label_of(c, dtype, in.count()) << " element " << i;
    ASSERT_TRUE(in.guard_intact() && out.guard_intact());
  }
}

/// A program's own vectors, as they are.
inline void check_spans(Communicator& c) {
  if (!c.capabilities().host_memory) return;
  std::vector<double> values = {1, 2.5, -3};
  c.all_reduce(std::span<const double>(values), std::span(values), ReduceOp::sum).wait();
  EXPECT_EQ(values, (std::vector<double>{c.size() * 1.0, c.size() * 2.5, c.size() * -3.0}));
  std::vector<std::uint8_t> parts(static_cast<std::size_t>(c.size()));
  const std::vector<std::uint8_t> own = {static_cast<std::uint8_t>(c.rank().value)};
  c.all_gather(std::span(own), std::span(parts)).wait();
  for (int rank = 0; rank < c.size(); ++rank) EXPECT_EQ(parts[static_cast<std::size_t>(rank)], rank);
}

inline void check_close(Communicator& c) {
  const MemoryKind kind = c.capabilities().host_memory ? MemoryKind::host : MemoryKind::device;
  const Buffer nothing{nullptr, {0}, DType::float32, kind};
  Prepared prepared = c.prepare_all_reduce(nothing, nothing, ReduceOp::sum);
  c.close();
  c.close();
  EXPECT_THROW(prepared.start(), Error);
  EXPECT_THROW(prepared.start(), Error) << "a start that failed is under way";
  float data[1] = {};
  EXPECT_THROW((void)c.all_reduce(Buffer{data, {1}}, Buffer{data, {1}}, ReduceOp::sum), Error);
}

inline void check_all(Communicator& c, const Memory& memory = host_memory()) {
  check_every_operation(c, memory);
  check_reduce_thens(c, memory);
  check_long_buffers(c, memory);
  check_unaligned(c, memory);
  check_averages(c, memory);
  check_leaves(c, memory);
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
  check_close(c);
}

}  // namespace lockstep::contract
