// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/group_ranks.hpp"

#include "backends/mpi_native/blocking.hpp"

namespace lockstep::comm_bench {
namespace {

void all_reduce(const MpiGroup& group, std::span<std::int64_t> numbers, ReduceOp op) {
  const Buffer buffer{numbers.data(), {static_cast<std::int64_t>(numbers.size())}, DType::int64};
  backends::mpi_blocking(group, {.kind = CollectiveKind::all_reduce, .in = buffer, .out = buffer, .op = op});
}

}  // namespace

void GroupRanks::barrier() {
  measurement_.touch();
  backends::mpi_blocking(*group_, {.kind = CollectiveKind::barrier});
}
void GroupRanks::max(std::span<std::int64_t> numbers) { all_reduce(*group_, numbers, ReduceOp::max); }
void GroupRanks::sum(std::span<std::int64_t> numbers) { all_reduce(*group_, numbers, ReduceOp::sum); }

}  // namespace lockstep::comm_bench
