// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/memory.hpp"

#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "lockstep/base/error.hpp"
#include "platform/mpi/bootstrap.hpp"

namespace lockstep::comm_bench {
namespace {

/// What Linux can give out without swapping; nothing where /proc does not say.
std::optional<Bytes> available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    std::int64_t kibibytes = 0;
    if (key == "MemAvailable:" && file >> kibibytes) return Bytes{kibibytes * 1024};
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return {};
}

std::string in_mebibytes(double bytes) { return std::to_string(static_cast<std::int64_t>(bytes / (1 << 20))) + " MiB"; }

}  // namespace

void require_memory(const World& world, Bytes per_rank) {
  const std::optional<Bytes> available = available_memory();
  const double needed = 2.0 * static_cast<double>(per_rank.value) * world.place().local_size;
  std::optional<Error> lack;
  if (available && needed > static_cast<double>(available->value)) {
    lack.emplace(ErrorCode::unsupported,
                 "the largest size needs about " + in_mebibytes(needed) + " for the node's " +
                     std::to_string(world.place().local_size) + " ranks, and " +
                     in_mebibytes(static_cast<double>(available->value)) + " are available; choose a smaller --max",
                 ErrorContext{.host = world.host()});
  }
  agree(world.group(), lack);
}

}  // namespace lockstep::comm_bench
