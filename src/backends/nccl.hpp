// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "platform/mpi/exchange.hpp"
#include "platform/node_memory/control_channel.hpp"

namespace lockstep::backends {

/// What adds up an all-reduce. `automatic` is NCCL's own choice, for each size and cluster; `ring` and `tree` force one
/// of its algorithms. All three add in an order that NCCL does not document. `tree_order` adds in the canonical order
/// (`collectives/canonical_order.hpp`), whatever the number of ranks and wherever they are: the bits are those of
/// `mpi_plan` with that algorithm, and of a sum in one process. NCCL moves the contributions, a kernel adds them up.
///
/// NCCL is forced by a variable of the process, NCCL_ALGO, which is set while a communicator is made and then put back;
/// whoever reads or changes the environment on another thread meanwhile may meet it. NCCL's source looks at it for each
/// communicator, but no GPU has shown yet that two that differ work side by side: a process has one of the first three.
/// @cost  tree_order: 2(p−1)/p·nβ each way, as many as 2(p−1) messages for each 32·p/(p−1) MiB of the buffer; 32 MiB of
///        scratch for each communicator of more than one rank, allocated with it
/// @source tree_order: Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004 (reduce-scatter and
///         all-gather), with direct messages in both
enum class NcclAlgorithm { automatic, ring, tree, tree_order };
std::string_view name(NcclAlgorithm algorithm);  ///< "auto", "ring", "tree", "tree-order"

/// This process's place among those that communicate, and the exchanges that are needed before it can.
struct NcclGroup {
  Rank rank;
  int size = 1;
  int gpu = 0;  ///< index among those visible to this process; another one for each rank of a node
  /// Throws on every rank the error that any of them brings, so that none waits for one that was refused. Collective;
  /// of a single rank it throws that one's own.
  std::function<void(const std::optional<Error>&)> agree;
  /// Returns on every rank what rank 0 passes; the others' argument is empty. Collective.
  std::function<std::vector<std::byte>(std::vector<std::byte>)> broadcast_from_zero;
};

struct NcclOptions {
  /// Of all_reduce; the same on all ranks. In tree order `Work::then` waits until the stream has the last part of the
  /// operation, hence longer for a long buffer.
  NcclAlgorithm algorithm = NcclAlgorithm::automatic;
  /// An operation that could run and does not advance for so long fails with Error{timeout}; so does the start.
  std::chrono::duration<double> deadline = std::chrono::seconds(300);
  /// By what all ranks compare what they call before each operation, to fail with Error{mismatch} before data are
  /// touched; null: they do not. As many ranks, in the same order. An operation then reaches its stream when all ranks
  /// have submitted it, and `Work::then` waits for that on the host.
  std::shared_ptr<Exchange> check = nullptr;
  /// Through which ranks tell each other of failures, so that none waits for the deadline; null: they do not. Of this
  /// communicator alone: it is closed with it.
  std::shared_ptr<ControlChannel> control = nullptr;
  std::string hostname;          ///< this rank's, for error messages
  Observer* observer = nullptr;  ///< told of each operation that ends; outlives the communicator
};

/// A communicator over GPU memory. Operations run on a stream of its own, each after what its caller's queue holds at
/// submission; a host queue holds nothing. `Work::then` orders a stream after the result without the host waiting.
///
/// An operation whose queue is captured goes into the graph, whole, before its submission returns; that waits for the
/// other ranks' where NCCL has yet to make connections, or ranks compare. Its Work is for `then` alone, which is called
/// before the capture ends. Refused, as Error{invalid_argument}, are an operation for a graph while another one is
/// under way, and one whose queue is not captured while the communicator's stream is. A failure on the way is thrown by
/// the submission, and the capture is to be given up. docs/gpus.md says what holds for the graph.
///
/// Collective. Selects the GPU for the calling thread, which is the one that uses the communicator (and for a progress
/// thread, where there is one).
/// @throws on every rank, Error{unsupported} in a build without NCCL, without a GPU, for a second algorithm of
///         NCCL's in one process, or for tree order in a build without a CUDA compiler; Error{invalid_argument} for two
///         ranks on one GPU; Error{transport | device | timeout}
std::unique_ptr<Communicator> make_nccl(const NcclGroup& group, Progress& progress, const NcclOptions& options = {});

/// The library's version, "2.28.9"; empty in a build without it.
std::string nccl_version();

}  // namespace lockstep::backends
