// SPDX-License-Identifier: Apache-2.0
// This file replaces the nccl back end in builds without CUDA.
#include "backends/nccl.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::backends {

std::unique_ptr<Communicator> make_nccl(const NcclGroup& group, Progress& /*progress*/, const NcclOptions& options) {
  throw Error(ErrorCode::unsupported, "no nccl back end: " + why_no_gpu(),
              {.operation = "make_nccl", .rank = group.rank.value, .host = options.hostname});
}

std::string nccl_version() { return {}; }

}  // namespace lockstep::backends
