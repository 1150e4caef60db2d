// SPDX-License-Identifier: Apache-2.0
// Checks parts of different lengths.
#include <gtest/gtest.h>

#include <numeric>

#include "backends/contract/checks.hpp"
#include "backends/contract/values.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::contract {
namespace {

/// The counts of parts, and where the parts begin.
struct Lengths {
  std::vector<Count> counts;
  std::vector<std::int64_t> begin;
  std::int64_t all = 0;

  void add(std::int64_t count) {
    counts.push_back({count});
    begin.push_back(all);
    all += count;
  }
  [[nodiscard]] std::int64_t of(int rank) const { return counts[static_cast<std::size_t>(rank)].value; }
  [[nodiscard]] std::int64_t at(int rank) const { return begin[static_cast<std::size_t>(rank)]; }
};

/// Returns a length: `longest`, zero, or another one.
std::int64_t length_of(std::int64_t longest, int number, int pattern) {
  switch ((number * 3 + pattern) % 5) {
    case 0: return longest;
    case 1: return 0;
    case 2: return longest / 3;
    case 3: return longest == 0 ? 0 : 1;
    default: return longest - longest / 5;
  }
}

Lengths lengths(int ranks, std::int64_t longest, int pattern) {
  Lengths all;
  for (int rank = 0; rank < ranks; ++rank) all.add(length_of(longest, rank, pattern));
  return all;
}

void check_all_gather_v(Communicator& c, const Memory& memory, DType dtype, const Lengths& parts, bool in_place) {
  const int me = c.rank().value;
  Values in(memory, dtype, parts.of(me));
  Values out(memory, dtype, parts.all);
  (in_place ? out : in).fill(in_place ? parts.at(me) : 0, parts.of(me), values_of(me, 9));
  const Buffer source = in_place ? slice(out.buffer(), {parts.at(me)}, {parts.of(me)}) : in.buffer();
  c.all_gather_v(source, out.buffer(), parts.counts).wait();
  for (int rank = 0; rank < c.size(); ++rank)
    ASSERT_TRUE(out.holds(parts.at(rank), parts.of(rank), values_of(rank, 9)))
        << label_of(c, dtype, parts.all) << " of " << rank;
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

void check_reduce_scatter_v(Communicator& c, const Memory& memory, DType dtype, ReduceOp op, const Lengths& parts,
                            bool in_place) {
  const int me = c.rank().value;
  const std::int64_t mine = parts.at(me);
  Values in(memory, dtype, parts.all);
  Values out(memory, dtype, parts.of(me));
  const Pattern input = inputs_of(me, 10, op);
  in.fill(input);
  const Buffer target = in_place ? slice(in.buffer(), {mine}, {parts.of(me)}) : out.buffer();
  c.reduce_scatter_v(in.buffer(), target, parts.counts, op).wait();
  const Pattern sum = reduced(c.size(), 10, op).from(mine);
  ASSERT_TRUE(in_place ? in.holds(mine, parts.of(me), sum) : out.holds(sum))
      << label_of(c, dtype, parts.all) << " " << name(op);
  if (!in_place) {
    ASSERT_TRUE(in.holds(input)) << "the input was changed";
  } else {
    const std::int64_t after = mine + parts.of(me);
    ASSERT_TRUE(in.holds(0, mine, input)) << "the input was changed";
    ASSERT_TRUE(in.holds(after, parts.all - after, input.from(after))) << "the input was changed";
  }
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

/// Rank i sends rank j a part whose length depends on both.
void check_all_to_all_v(Communicator& c, const Memory& memory, DType dtype, std::int64_t longest, int pattern) {
  const int me = c.rank().value;
  const auto length = [&](int from, int to) { return length_of(longest, from * 7 + to * 2, pattern); };
  Lengths sent;
  Lengths received;
  for (int rank = 0; rank < c.size(); ++rank) {
    sent.add(length(me, rank));
    received.add(length(rank, me));
  }
  Values in(memory, dtype, sent.all);
  Values out(memory, dtype, received.all);
  for (int to = 0; to < c.size(); ++to) in.fill(sent.at(to), sent.of(to), values_of(me, to));
  c.all_to_all_v(in.buffer(), sent.counts, out.buffer(), received.counts).wait();
  for (int from = 0; from < c.size(); ++from)
    ASSERT_TRUE(out.holds(received.at(from), received.of(from), values_of(from, me)))
        << label_of(c, dtype, longest) << " from " << from;
  for (int to = 0; to < c.size(); ++to)
    ASSERT_TRUE(in.holds(sent.at(to), sent.of(to), values_of(me, to))) << "the input was changed";
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

/// The same call again may reuse its resources; a different one with the same sum of counts must not.
void check_lengths_in_turn(Communicator& c, const Memory& memory) {
  Lengths ascending;
  Lengths descending;
  for (int rank = 0; rank < c.size(); ++rank) {
    ascending.add(rank);
    descending.add(c.size() - 1 - rank);
  }
  for (const Lengths* parts : {&ascending, &descending, &ascending, &ascending, &descending}) {
    check_all_gather_v(c, memory, DType::float32, *parts, true);
    check_reduce_scatter_v(c, memory, DType::float32, ReduceOp::sum, *parts, true);
  }
}

}  // namespace

void check_parts_of_different_lengths(Communicator& c, const Memory& memory) {
  int pattern = 0;
  for (const DType dtype : common_dtypes)
    for (const std::int64_t longest : {0, 1, 17, 1009}) {
      for (const bool in_place : {true, false}) {
        const Lengths parts = lengths(c.size(), longest, pattern++);
        check_all_gather_v(c, memory, dtype, parts, in_place);
        const auto ops = ops_for(c, memory, dtype);
        check_reduce_scatter_v(c, memory, dtype, ops[static_cast<std::size_t>(pattern) % ops.size()], parts, in_place);
      }
      check_all_to_all_v(c, memory, dtype, longest, pattern);
    }
  for (int only = 0; only < c.size(); ++only) {  // only one rank has elements
    Lengths parts;
    for (int rank = 0; rank < c.size(); ++rank) parts.add(rank == only ? 41 : 0);
    check_all_gather_v(c, memory, DType::int32, parts, false);
    check_reduce_scatter_v(c, memory, DType::int32, ReduceOp::max, parts, false);
  }
  check_lengths_in_turn(c, memory);
  for (const bool in_place : {true, false}) {  // longer than every segment and not a multiple of any
    const Lengths parts = lengths(c.size(), 70'001, c.size());
    check_all_gather_v(c, memory, DType::uint8, lengths(c.size(), 200'003, 1), in_place);
    check_reduce_scatter_v(c, memory, DType::float32, ReduceOp::sum, parts, in_place);
  }
  check_all_to_all_v(c, memory, DType::float32, 70'001, 2);
}

void check_refusals_of_counts(Communicator& c, const Memory& memory) {
  const auto message_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) == std::string::npos ? testing::AssertionFailure() << "no '" << part << "' in: " << text
                                                : testing::AssertionSuccess();
  };
  const int p = c.size();
  Values values(memory, DType::float32, 6 * p + 2);
  const Buffer all = values.buffer();
  const Buffer whole = slice(all, {0}, {2 * p});
  const Buffer two = slice(all, {2 * p + 1}, {2});
  const Buffer other = slice(all, {3 * p + 2}, {2 * p});
  const std::vector<Count> right(static_cast<std::size_t>(p), Count{2});
  std::vector<Count> wrong = right;
  wrong.push_back({0});
  EXPECT_TRUE(has(message_of([&] { (void)c.all_gather_v(two, whole, wrong); }),
                  std::to_string(p + 1) + " counts for " + std::to_string(p) + " ranks"));
  EXPECT_TRUE(has(message_of([&] { (void)c.reduce_scatter_v(whole, two, {}, ReduceOp::sum); }), "0 counts for"));
  wrong = right;
  wrong.back() = {-5};
  EXPECT_TRUE(has(message_of([&] { (void)c.all_gather_v(two, whole, wrong); }),
                  "a negative count for rank " + std::to_string(p - 1) + ": -5"));
  wrong.back() = {3};
  EXPECT_TRUE(has(message_of([&] { (void)c.reduce_scatter_v(whole, two, wrong, ReduceOp::sum); }),
                  "from rank " + std::to_string(p - 1)));
  wrong.back() = {1};
  EXPECT_TRUE(has(message_of([&] { (void)c.all_to_all_v(whole, wrong, other, right); }), "what is sent"));
  EXPECT_TRUE(has(message_of([&] { (void)c.all_to_all_v(whole, right, other, wrong); }), "what is received"));
  message_of([&] { (void)c.all_gather_v(slice(two, {0}, {1}), whole, right); });
  message_of([&] { (void)c.reduce_scatter_v(whole, slice(two, {0}, {1}), right, ReduceOp::sum); });
  message_of([&] { (void)c.all_to_all_v(whole, right, whole, right); });
  if (p > 1) {
    message_of([&] { (void)c.all_gather_v(slice(whole, {c.rank() == 0 ? 1 : 0}, {2}), whole, right); });
    // The caller's part for itself must have the same length when sent and when received.
    std::vector<Count> shifted = right;
    shifted[static_cast<std::size_t>(c.rank().value)] = {1};
    shifted[static_cast<std::size_t>((c.rank().value + 1) % p)] = {3};
    EXPECT_TRUE(has(message_of([&] { (void)c.all_to_all_v(whole, right, other, shifted); }), "itself 2 elements"));
  }
  EXPECT_TRUE(has(message_of([&] { (void)c.all_to_all_v(whole, wrong, other, right); }),
                  "rank " + std::to_string(c.rank().value) + " on "));
}

}  // namespace lockstep::contract
