// SPDX-License-Identifier: Apache-2.0
// Checks that all ranks end with the same bits, also where operands are zeros of both signs, or NaNs of several
// payloads and signs.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <random>
#include <vector>

#include "backends/contract/checks.hpp"
#include "kernels/awkward_elements.hpp"

namespace lockstep::contract {
namespace {

void check_bits(Communicator& c, const Memory& memory, DType dtype, ReduceOp op) {
  constexpr std::int64_t count = 131;
  const Bytes bytes = bytes_of({count}, dtype);
  std::mt19937_64 random(static_cast<unsigned>(17 * c.rank().value + static_cast<int>(dtype)));
  std::vector<char> own(static_cast<std::size_t>(bytes.value));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = kernels::awkward(dtype, random());
    std::memcpy(own.data() + i * size_of(dtype), &bits, static_cast<std::size_t>(size_of(dtype)));
  }
  const Allocation values = memory.allocate(bytes);
  const Allocation gathered = memory.allocate(c.size() * bytes);
  memory.copy(values.data(), own.data(), bytes);
  c.all_reduce(values.as(dtype), values.as(dtype), op).wait();
  c.all_gather(values.as(DType::uint8), gathered.as(DType::uint8)).wait();
  std::vector<char> all(static_cast<std::size_t>(gathered.bytes().value));
  memory.copy(all.data(), gathered.data(), gathered.bytes());
  for (int rank = 1; rank < c.size(); ++rank)
    ASSERT_EQ(std::memcmp(all.data(), all.data() + rank * bytes.value, static_cast<std::size_t>(bytes.value)), 0)
        << "rank " << rank << " has other bits than rank 0: " << label_of(c, dtype, count) << ", " << name(op);
}

}  // namespace

void check_equal_bits(Communicator& c, const Memory& memory) {
  const Capabilities& can = c.capabilities();
  // A compressed communicator may be over the MPI library's collectives.
  const bool is_not_ours = can.device_memory || can.backend == "mpi_native" || can.backend == "compressed";
  if (is_not_ours) {
    std::cout << "left out: equal bits of zeros and NaNs on all ranks, which " << can.backend << " does not promise\n";
    return;
  }
  for (const DType dtype : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    for (const ReduceOp op : arithmetic_ops) check_bits(c, memory, dtype, op);
    if (can.no_average.empty()) check_bits(c, memory, dtype, ReduceOp::average);
  }
}

}  // namespace lockstep::contract
