// SPDX-License-Identifier: Apache-2.0
// Checks the types and operators that not every back end has, and that those which do not fit each other are refused.
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "backends/contract/checks.hpp"
#include "support/errors.hpp"

namespace lockstep::contract {
namespace {

constexpr DType more_dtypes[] = {DType::int8,    DType::int16,     DType::uint16,
                                 DType::boolean, DType::complex64, DType::complex128};
constexpr ReduceOp more_ops[] = {ReduceOp::logical_and, ReduceOp::logical_or, ReduceOp::logical_xor,
                                 ReduceOp::bit_and,     ReduceOp::bit_or,     ReduceOp::bit_xor};

/// Checks every count and placement on up to 2 ranks. With more ranks, on which plans do not depend on types and
/// operators, it checks one of each.
void check_reductions(Communicator& c, const Memory& memory, DType dtype, ReduceOp op) {
  const bool takes_all = contract::takes_all(c, memory, dtype);
  const bool first = (static_cast<int>(dtype) + static_cast<int>(op)) % 2 == 0;
  for (const bool in_place : {true, false}) {
    if (!takes_all && in_place != first) continue;
    for (const std::int64_t count : {static_cast<std::int64_t>(c.size() + 1), std::int64_t{1009}}) {
      if (!takes_all && count != 1009) continue;
      check_all_reduce(c, memory, dtype, op, count, in_place);
      check_reduce_scatter(c, memory, dtype, op, count, in_place);
      check_reduce(c, memory, dtype, op, count, {c.size() - 1}, in_place);
      check_scans(c, memory, dtype, op, count, in_place);
    }
  }
}

/// Returns all operators on up to 2 ranks, and otherwise one of them, which depends on the type.
std::span<const ReduceOp> some_of(std::span<const ReduceOp> ops, const Communicator& c, const Memory& memory,
                                  DType dtype) {
  return takes_all(c, memory, dtype) ? ops : ops.subspan(static_cast<std::size_t>(dtype) % ops.size(), 1);
}

std::string refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.message();
  }
  return "nothing was thrown";
}

void check_refusals_of_operators(Communicator& c) {
  float real[2] = {};
  bool yes[2] = {};
  std::complex<float> pair[2] = {};
  const auto reduce = [&](const Buffer& values, ReduceOp op) {
    return refused([&] { (void)c.all_reduce(values, values, op); });
  };
  EXPECT_EQ(reduce(real, ReduceOp::bit_and), "bit_and is for integers and bool, not for float32");
  EXPECT_EQ(reduce(real, ReduceOp::logical_or), "logical_or is for integers and bool, not for float32");
  EXPECT_EQ(reduce(yes, ReduceOp::average), "there is no average of bool");
  EXPECT_EQ(reduce(pair, ReduceOp::max), "complex numbers have sums and averages only, and no max");
  EXPECT_EQ(reduce(pair, ReduceOp::bit_xor), "complex numbers have sums and averages only, and no bit_xor");
  EXPECT_EQ(refused([&] { (void)c.scan(real, real, ReduceOp::average); }),
            "a scan has no average: divide each rank's sum by its number of operands");
}

/// A back end that has not all types and operators says so before it sends anything.
void check_what_is_missing(Communicator& c, const Memory& memory) {
  Values values(memory, DType::int32, 4);
  const Buffer buffer = values.buffer();
  const auto expect = [&](const Buffer& elements, ReduceOp op, const std::string& why) {
    expect_error([&] { (void)c.all_reduce(elements, elements, op); }, ErrorCode::unsupported, {why});
  };
  for (const DType dtype : more_dtypes)
    expect({buffer.data, {1}, dtype, buffer.kind}, ReduceOp::sum,
           "does not take elements of " + std::string(name(dtype)));
  for (const ReduceOp op : more_ops) expect(buffer, op, "has no operator " + std::string(name(op)));
  expect_error([&] { (void)c.scan(buffer, buffer, ReduceOp::sum); }, ErrorCode::unsupported, {"does no scans"});
}

}  // namespace

void check_types_and_operators(Communicator& c, const Memory& memory) {
  if (!c.capabilities().dtypes.empty()) return check_what_is_missing(c, memory);
  for (const DType dtype : more_dtypes) {
    for (const ReduceOp op : is_complex(dtype) ? std::span(arithmetic_ops).first(1) : ops_for(c, memory, dtype))
      check_reductions(c, memory, dtype, op);
    check_all_gather(c, memory, dtype, 13, true);
    check_broadcast(c, memory, dtype, 13, {0});
    check_all_to_all(c, memory, dtype, 13);
  }
  for (const DType dtype : {DType::int32, DType::int64, DType::uint8, DType::int8, DType::int16, DType::uint16})
    for (const ReduceOp op : some_of(more_ops, c, memory, dtype)) check_reductions(c, memory, dtype, op);
  // Bitwise operators of booleans are logical ones, which differ from those of the integers that a Pattern has.
  for (const ReduceOp op : some_of(std::span(more_ops).first(3), c, memory, DType::boolean))
    check_reductions(c, memory, DType::boolean, op);
  check_refusals_of_operators(c);
}

}  // namespace lockstep::contract
