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

/// A reduction to `to`. `own` is this rank's input; the inputs of the others arrive from them.
struct Sum {
  const void* own;
  void* to;
  std::size_t count;
  ncclDataType_t type;
  Reduction reduction;
  SumOrder order;
};

/// The factor by which this rank multiplies its values before it sends or reduces them.
struct Scaling {
  ncclDataType_t type;
  Reduction reduction;
};

/// One collective, or all messages of a group. Transfers to itself are copies.
struct Exchange {
  std::string name;             ///< such as "ncclAllReduce"
  std::uint64_t signature = 0;  ///< signature of the call; data of a peer whose call differs never arrive
  std::vector<Outgoing> out;    ///< to each peer, in order
  std::vector<Incoming> in;     ///< from each peer, in order
  std::optional<Scaling> scaling;
  std::optional<Sum> sum;  ///< its frames come before those of `in`
  [[nodiscard]] std::vector<int> peers(int ranks) const;
};

/// Makes a kernel of NCCL's, which runs the exchanges one after the other.
std::unique_ptr<Task> run_exchanges(std::shared_ptr<Communicator> communicator, std::vector<Exchange> exchanges);

}  // namespace emulated_gpu
