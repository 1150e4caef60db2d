// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulated_gpu/device/task.hpp"
#include "emulated_gpu/nccl/communicator.hpp"

namespace emulated_gpu {

struct Outgoing {
  int peer;
  const void* from;
  std::size_t bytes;
};

struct Incoming {
  int peer;
  void* to;
  std::size_t bytes;
};

/// What all ranks bring to `to`, this one `own`; the others' comes from them.
struct Sum {
  const void* own;
  void* to;
  std::size_t count;
  ncclDataType_t type;
  Reduction reduction;
  SumOrder order;
};

/// What this rank does with its values before it sends or adds them.
struct Scaling {
  ncclDataType_t type;
  Reduction reduction;
};

/// One collective, or all messages of a group. Where it sends to itself it copies.
struct Exchange {
  std::string name;             ///< "ncclAllReduce"
  std::uint64_t signature = 0;  ///< of the call; what a peer calls differently never arrives
  std::vector<Outgoing> out;    ///< to each peer in order
  std::vector<Incoming> in;     ///< from each peer in order
  std::optional<Scaling> scaling;
  std::optional<Sum> sum;  ///< of frames that come before those of `in`
  [[nodiscard]] std::vector<int> peers(int ranks) const;
};

/// A kernel of NCCL's: exchanges, one after the other.
std::unique_ptr<Task> run_exchanges(std::shared_ptr<Communicator> communicator, std::vector<Exchange> exchanges);

}  // namespace emulated_gpu
