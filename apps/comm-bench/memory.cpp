// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/memory.hpp"

#include <string>

#include "lockstep/base/error.hpp"
#include "platform/machine/available_memory.hpp"
#include "platform/mpi/bootstrap.hpp"

namespace lockstep::comm_bench {
namespace {

std::string in_mebibytes(double bytes) { return std::to_string(static_cast<std::int64_t>(bytes / (1 << 20))) + " MiB"; }

}  // namespace

void require_memory(const World& world, Bytes per_rank) {
  agree(world.group(), [&] {
    const auto available = static_cast<double>(available_memory().value);
    const double needed = 2.0 * static_cast<double>(per_rank.value) * world.place().local_size;
    if (needed <= available) return;
    throw Error(ErrorCode::unsupported, "the largest size needs about " + in_mebibytes(needed) + " for the node's " +
                                            std::to_string(world.place().local_size) + " ranks, and " +
                                            in_mebibytes(available) + " are available; choose a smaller --max");
  });
}

}  // namespace lockstep::comm_bench
