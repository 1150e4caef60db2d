// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/collective_kind.hpp"

namespace lockstep {

std::string_view name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::reduce: return "reduce";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::barrier: return "barrier";
    case CollectiveKind::send: return "send";
    case CollectiveKind::recv: return "recv";
    case CollectiveKind::gather: return "gather";
    case CollectiveKind::scatter: return "scatter";
    case CollectiveKind::all_gather_v: return "all_gather_v";
    case CollectiveKind::reduce_scatter_v: return "reduce_scatter_v";
    case CollectiveKind::all_to_all_v: return "all_to_all_v";
  }
  return "unknown";
}

}  // namespace lockstep
