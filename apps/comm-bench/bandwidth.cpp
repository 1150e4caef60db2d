// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-bench/bandwidth.hpp"

namespace lockstep::comm_bench {

double bus_factor(CollectiveKind kind, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
    case CollectiveKind::all_reduce: return 2 * others;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather_v:
    case CollectiveKind::reduce_scatter_v:
    case CollectiveKind::all_to_all_v:
    case CollectiveKind::gather:
    case CollectiveKind::scatter:
    case CollectiveKind::all_to_all: return others;
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce: return 1;
    case CollectiveKind::barrier:
    case CollectiveKind::send:
    case CollectiveKind::recv: return 0;
  }
  return 0;
}

}  // namespace lockstep::comm_bench
