// SPDX-License-Identifier: Apache-2.0
// Checks operations in which one rank has a part for each of the others.
#include <gtest/gtest.h>

#include "backends/contract/checks.hpp"
#include "backends/contract/values.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::contract {
namespace {

/// On ranks other than the root there is no output, or one that must not change.
void check_gather(Communicator& c, const Memory& memory, DType dtype, std::int64_t part, Rank root, bool in_place) {
  const bool is_root = c.rank() == root;
  const std::int64_t mine = part * c.rank().value;
  Values in(memory, dtype, part);
  Values out(memory, dtype, part * c.size());
  const Pattern own = values_of(c.rank().value, 7);
  in.fill(own);
  out.fill(constant(100));
  if (is_root && in_place) out.fill(mine, part, own);
  const bool without_output = !is_root && in_place;
  const Buffer source = is_root && in_place ? slice(out.buffer(), {mine}, {part}) : in.buffer();
  c.gather(source, without_output ? Buffer{} : out.buffer(), root).wait();
  for (int rank = 0; rank < c.size(); ++rank)
    ASSERT_TRUE(out.holds(part * rank, part, is_root ? values_of(rank, 7) : constant(100)))
        << label_of(c, dtype, part) << ", root " << root.value << ", part of rank " << rank;
  ASSERT_TRUE(in.holds(own)) << "the input was changed";
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

void check_scatter(Communicator& c, const Memory& memory, DType dtype, std::int64_t part, Rank root, bool in_place) {
  const bool is_root = c.rank() == root;
  const std::int64_t mine = part * c.rank().value;
  Values in(memory, dtype, part * c.size());
  Values out(memory, dtype, part);
  in.fill(values_of(c.rank().value, 8));
  out.fill(constant(100));
  const bool without_input = !is_root && in_place;
  const Buffer target = is_root && in_place ? slice(in.buffer(), {mine}, {part}) : out.buffer();
  c.scatter(without_input ? Buffer{} : in.buffer(), target, root).wait();
  const Pattern received = values_of(root.value, 8).from(mine);
  ASSERT_TRUE(is_root && in_place ? in.holds(mine, part, received) : out.holds(received))
      << label_of(c, dtype, part) << ", root " << root.value;
  ASSERT_TRUE(in.holds(values_of(c.rank().value, 8))) << "the input was changed";
  ASSERT_TRUE(in.guard_intact() && out.guard_intact());
}

}  // namespace

/// Checks every dtype and count with the roots in turn, and every root.
void check_gathers_and_scatters(Communicator& c, const Memory& memory) {
  int turn = 0;
  for (const bool in_place : {true, false}) {
    for (const DType dtype : common_dtypes)
      for (const std::int64_t count : memory.is_slow() ? counts_for(c, memory, dtype) : interesting_counts(c.size())) {
        check_gather(c, memory, dtype, count, {turn++ % c.size()}, in_place);
        check_scatter(c, memory, dtype, count, {turn++ % c.size()}, in_place);
      }
    for (int root = 0; root < c.size(); ++root) {
      check_gather(c, memory, DType::float32, 31, {root}, in_place);
      check_scatter(c, memory, DType::float32, 31, {root}, in_place);
    }
  }
}

/// The parts are longer than every segment and not a multiple of any.
void check_long_parts(Communicator& c, const Memory& memory) {
  check_gather(c, memory, DType::float32, 70'001, {c.size() - 1}, true);
  check_gather(c, memory, DType::uint8, 100'003, {0}, false);
  check_scatter(c, memory, DType::float32, 70'001, {c.size() / 2}, false);
  check_scatter(c, memory, DType::uint8, 100'003, {0}, true);
}

/// Expects the call to be refused. @return the message
template <typename Call>
std::string refused(const Call& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.what();
  }
  return {};
}

/// Each rank uses itself as the root, because the larger buffer is checked only there.
void check_refusals_of_gather_and_scatter(Communicator& c, const Memory& memory) {
  const int p = c.size();
  Values values(memory, DType::float32, 6 * p + 2);
  const Buffer all = values.buffer();
  const Buffer whole = slice(all, {0}, {2 * p});
  const Buffer part = slice(all, {2 * p + 1}, {2});
  const Buffer odd = slice(all, {0}, {2 * p + 1});
  const Buffer inside = slice(whole, {1}, {2});
  refused([&] { (void)c.gather(part, odd, c.rank()); });
  refused([&] { (void)c.gather(inside, whole, c.rank()); });
  refused([&] { (void)c.gather(part, whole, {p}); });
  refused([&] { (void)c.gather(part, {whole.data, whole.count, DType::int32, whole.kind}, c.rank()); });
  refused([&] { (void)c.gather(part, {nullptr, whole.count, DType::float32, whole.kind}, c.rank()); });
  refused([&] { (void)c.scatter(odd, part, c.rank()); });
  refused([&] { (void)c.scatter(whole, inside, c.rank()); });
  refused([&] { (void)c.scatter(whole, part, {-1}); });
  const std::string text = refused([&] { (void)c.scatter(odd, part, c.rank()); });
  for (const std::string& named :
       {std::string("scatter"), std::to_string(2 * p + 1), std::string("rank"), std::string("on ")})
    EXPECT_NE(text.find(named), std::string::npos) << text;
}

}  // namespace lockstep::contract
