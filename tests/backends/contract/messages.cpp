// SPDX-License-Identifier: Apache-2.0
// Checks messages between two ranks, alone and in groups.
#include <gtest/gtest.h>

#include <vector>

#include "backends/contract/checks.hpp"
#include "backends/contract/values.hpp"
#include "lockstep/base/error.hpp"
#include "support/errors.hpp"

namespace lockstep::contract {

/// Sends several messages from every rank to every rank, itself included, between collectives, in a different order on
/// each rank.
void check_messages(Communicator& c, const Memory& memory) {
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
      outgoing.back().fill(values_of(c.rank().value + 2 * peer, k));
    }
  Values sums(memory, DType::int32, 300);
  sums.fill(values_of(c.rank().value, 7));
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
      ASSERT_TRUE(values.holds(values_of(peer + 2 * c.rank().value, k))) << "message " << k << " from " << peer;
      ASSERT_TRUE(values.guard_intact() && outgoing[number(peer, k)].guard_intact());
    }
  ASSERT_TRUE(sums.holds(reduced(c.size(), 7, ReduceOp::sum)));
}

/// Each rank sends every dtype to the next rank, with prepared operations, more often than a short tag can count.
void check_messages_in_a_ring(Communicator& c, const Memory& memory) {
  const Rank next{(c.rank().value + 1) % c.size()};
  const Rank previous{(c.rank().value + c.size() - 1) % c.size()};
  for (const DType dtype : common_dtypes) {
    Values out(memory, dtype, 33);
    Values in(memory, dtype, 33);
    Prepared send = c.prepare({.kind = CollectiveKind::send, .in = out.buffer(), .root = next, .label = "ring"});
    Prepared receive = c.prepare({.kind = CollectiveKind::recv, .out = in.buffer(), .root = previous, .label = "ring"});
    for (int repetition = 0; repetition < 300; ++repetition) {
      out.fill(values_of(c.rank().value, repetition));
      for (Values* const values : {&in, &out}) (void)values->buffer();
      receive.start();
      send.start();
      send.wait();
      receive.wait();
      ASSERT_TRUE(in.holds(values_of(previous.value, repetition)));
    }
  }
}

void check_refusals_of_messages(Communicator& c, const Memory& memory) {
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
    EXPECT_EQ(code_of([&] { (void)c.recv(values.buffer(), {peer}); }), ErrorCode::invalid_argument);
    const Buffer own = values.buffer();
    EXPECT_EQ(code_of([&] { c.send_recv(own, Rank{peer}, own, std::nullopt); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code_of([&] { c.send_recv(own, std::nullopt, own, Rank{peer}); }), ErrorCode::invalid_argument);
  }
  const Buffer null{nullptr, {4}, DType::float32, values.buffer().kind};
  EXPECT_EQ(code_of([&] { (void)c.recv(null, {0}); }), ErrorCode::invalid_argument);
}

/// Submits a message to each neighbor, one from each, and a sum as one group; with few ranks only the sum.
void check_groups(Communicator& c, const Memory& memory) {
  const Rank next{(c.rank().value + 1) % c.size()};
  const Rank previous{(c.rank().value + c.size() - 1) % c.size()};
  for (int repetition = 0; repetition < 5; ++repetition) {
    Values to_next(memory, DType::float32, 900);
    Values from_previous(memory, DType::float32, 900);
    Values sums(memory, DType::float32, 50);
    to_next.fill(values_of(c.rank().value, repetition));
    sums.fill(values_of(c.rank().value, repetition + 1));
    const Buffer out = to_next.buffer();
    const Buffer in = from_previous.buffer();
    const Buffer sum = sums.buffer();
    std::vector<Work> works = c.group({{.kind = CollectiveKind::send, .in = out, .root = next},
                                       {.kind = CollectiveKind::all_reduce, .in = sum, .out = sum},
                                       {.kind = CollectiveKind::recv, .out = in, .root = previous, .label = ""}});
    ASSERT_EQ(works.size(), 3U);
    for (Work& work : works) work.wait();
    ASSERT_TRUE(from_previous.holds(values_of(previous.value, repetition)));
    ASSERT_TRUE(sums.holds(reduced(c.size(), repetition + 1, ReduceOp::sum))) << label_of(c, DType::float32, 50);
    // If any member had been submitted, the next repetition's messages would match it.
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

}  // namespace lockstep::contract
