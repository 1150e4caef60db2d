#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/platform/exchange.hpp"

namespace lockstep::backends {

enum class NcclAlgorithm { ring, tree };

/// This process's place among those that communicate, and the one exchange that NCCL needs before it can.
struct NcclGroup {
  Rank rank;
  int size = 1;
  int gpu = 0;  ///< index among those visible to this process; another one for each rank of a node
  /// Returns on every rank what rank 0 passes; the others' argument is empty. Collective.
  std::function<std::vector<std::byte>(std::vector<std::byte>)> broadcast_from_zero;
};

struct NcclOptions {
  /// Of all_reduce. NCCL reads it once per process, so that all communicators of a process have the same.
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  /// An operation that could run and does not advance for so long fails with Error{timeout}; so does the start.
  std::chrono::duration<double> deadline = std::chrono::seconds(300);
  /// By what all ranks compare what they call before each operation, to fail with Error{mismatch} before data are
  /// touched; null: they do not. As many ranks, in the same order. An operation then reaches its stream when all ranks
  /// have submitted it, and `Work::then` waits for that on the host.
  std::shared_ptr<Exchange> check = nullptr;
  std::string host;              ///< this rank's, for error messages
  Observer* observer = nullptr;  ///< told of each operation that ends; outlives the communicator
};

/// A communicator over GPU memory. Operations run on a stream of its own, each after what its caller's queue holds at
/// submission; a host queue holds nothing. `Work::then` orders a stream after the result without the host waiting.
/// Collective. Selects the GPU for the calling thread, which is the one that uses the communicator (and for a progress
/// thread, where there is one).
/// @throws Error{unsupported} in a build without NCCL, without a GPU, or for a second algorithm in one process;
///         Error{invalid_argument} for two ranks on one GPU; Error{transport | device | timeout}
std::unique_ptr<Communicator> make_nccl(const NcclGroup& group, Progress& progress, const NcclOptions& options = {});

/// The library's version, "2.28.9"; empty in a build without it.
std::string nccl_version();

}  // namespace lockstep::backends
