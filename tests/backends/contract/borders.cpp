// SPDX-License-Identifier: Apache-2.0
// Checks that numbers whose products do not fit, and numbers that were cast to enumerations, are refused before
// anything is done.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "backends/contract/checks.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::contract {

void check_refusals_at_borders(Communicator& c, const Memory& memory) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Allocation room = memory.allocate({64});
  const auto buffer = [&](std::int64_t count, DType dtype) { return Buffer(room.data(), {count}, dtype, room.kind()); };
  const auto expect_refused = [](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    }
  };
  const Buffer huge = buffer(std::int64_t{1} << 62, DType::float64);
  expect_refused([&] { (void)c.all_reduce(huge, huge, ReduceOp::sum); });
  expect_refused([&] { (void)c.broadcast(huge, {0}); });
  expect_refused([&] { (void)c.send(huge, c.rank()); });
  expect_refused([&] { (void)c.recv(huge, c.rank()); });
  if (c.size() > 2) {
    // In 64 bits the product of part and ranks wraps around to the count of the other buffer.
    const auto ranks = static_cast<std::uint64_t>(c.size());
    const std::uint64_t count = ~std::uint64_t{0} / ranks + 1;
    const Buffer part = buffer(static_cast<std::int64_t>(count), DType::uint8);
    const Buffer whole = buffer(static_cast<std::int64_t>(count * ranks), DType::uint8);
    expect_refused([&] { (void)c.all_gather(part, whole); });
    expect_refused([&] { (void)c.reduce_scatter(whole, part, ReduceOp::sum); });
    expect_refused([&] { (void)c.gather(part, whole, {0}); });
    expect_refused([&] { (void)c.scatter(whole, part, {0}); });
  }
  const Buffer some = buffer(8, DType::uint8);
  const Buffer odd = buffer(8, static_cast<DType>(42));
  Buffer elsewhere = some;
  elsewhere.kind = static_cast<MemoryKind>(42);
  expect_refused([&] { (void)c.all_reduce(odd, odd, ReduceOp::sum); });
  expect_refused([&] { (void)c.all_reduce(elsewhere, elsewhere, ReduceOp::sum); });
  expect_refused([&] { (void)c.all_reduce(some, some, static_cast<ReduceOp>(42)); });
  expect_refused([&] { (void)c.start({.kind = static_cast<CollectiveKind>(42), .in = some, .out = some}); });
  if (c.size() > 1 && c.capabilities().no_leaves.empty())
    expect_refused([&] { (void)c.all_reduce(some, some, ReduceOp::sum, Leaves{64 * c.size() + 1, {most}}); });
  // CUDA and NCCL decide how much a GPU has.
  if (!c.capabilities().device_memory) {
    EXPECT_ANY_THROW((void)c.allocate({most}));
  }
}

}  // namespace lockstep::contract
