// SPDX-License-Identifier: Apache-2.0
#include "ddp/on_gpus.hpp"

#include <algorithm>
#include <cstddef>

namespace lockstep::ddp {

using backends::NcclAlgorithm;
using collectives::Algorithm;

NcclAlgorithm nccl_algorithm(const GroupOptions& options) {
  if (options.compress) {
    throw Error(ErrorCode::unsupported, "the compression " + std::string(name(*options.compress)) +
                                            " is for sums in host memory: leave it out on cuda");
  }
  const collectives::Selection* selection = backends::selection_of(options.method);
  if (selection != nullptr && !selection->forced) return NcclAlgorithm::automatic;
  if (selection != nullptr) {
    switch (selection->forced->algorithm) {
      case Algorithm::ring: return NcclAlgorithm::ring;
      case Algorithm::double_tree: return NcclAlgorithm::tree;
      case Algorithm::tree_order: return NcclAlgorithm::tree_order;
      default: break;
    }
  }
  throw Error(ErrorCode::unsupported,
              "the algorithm " + std::string(name(options.method)) +
                  " has no meaning on cuda: choose auto, which is NCCL's own choice, ring, tree or tree-order");
}

int gpu_of(Rank rank, const ClusterShape& shape, int gpus) {
  const auto mine = shape.ranks_on(shape.node_of_rank[static_cast<std::size_t>(rank.value)]);
  const auto local = std::find(mine.begin(), mine.end(), rank.value) - mine.begin();
  return static_cast<int>(local) % gpus;
}

std::optional<Error> shared_gpu(Rank rank, const std::vector<std::string>& uuids,
                                const std::vector<std::string>& hosts) {
  const auto me = static_cast<std::size_t>(rank.value);
  std::vector<int> others;
  for (std::size_t other = 0; other < uuids.size(); ++other)
    if (other != me && uuids[other] == uuids[me]) others.push_back(static_cast<int>(other));
  if (others.empty()) return std::nullopt;
  return Error(ErrorCode::invalid_argument,
               "rank " + std::to_string(others.front()) + " has the same GPU (" + uuids[me] +
                   "): start no more ranks on a host than it shows GPUs to them",
               {.rank = rank.value, .host = hosts[me], .peers = others});
}

}  // namespace lockstep::ddp
