// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/exchange.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "platform/node_memory/control_channel.hpp"
#include "platform/ranks/make_node_memory.hpp"

namespace lockstep::backends {

/// The algorithm of all-reduces. `automatic` is NCCL's own choice, for each size and cluster; `ring` and `tree` force
/// one of its algorithms. All three add in an order that NCCL does not document. `tree_order` adds in the canonical
/// order (`collectives/plan/expression.hpp`), for any number and placement of ranks: the result is bitwise equal
/// to that of `plan` with that algorithm, and to a sum in one process. NCCL moves the contributions, and a kernel
/// adds them. Where the ranks of each node are a subtree of the canonical tree, as those of nodes with 2ᵏ ranks, only
/// sums go between nodes.
///
/// From NCCL 2.31.2 on, an algorithm is forced in each call. Older versions read an environment variable, NCCL_ALGO,
/// which is set while a communicator is made and then restored; other threads that read or change the environment at
/// that time may see it. Their source reads it for each communicator, but it has not been confirmed on GPUs that two
/// communicators with different algorithms work side by side. So with them, all communicators of a process have the
/// same one of the first three.
/// @cost  tree_order: 2(p−1)/p·nβ each way, as many as 2(p−1) messages for each 32·p/(p−1) MiB of the buffer; between N
///        nodes of g = 2ᵏ ranks 2(N−1)/N·n/g·β for each rank. 32 MiB of scratch for each communicator of more than one
///        rank, allocated with it
/// @source tree_order: Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004 (reduce-scatter and
///         all-gather), with direct messages in both
enum class NcclAlgorithm { automatic, ring, tree, tree_order };
std::string_view name(NcclAlgorithm algorithm);  ///< "auto", "ring", "tree", "tree-order"

/// The rank of this process in the group, and the exchanges that are needed before there is a communicator.
struct NcclGroup {
  Rank rank;
  int size = 1;
  int gpu = 0;  ///< index among the GPUs visible to this process; each rank of a node has a different GPU
  /// Throws on every rank the error that any of them passes, so that no rank waits for one that was refused.
  /// Collective; a single rank throws its own error.
  std::function<void(const std::optional<Error>&)> agree;
  /// Returns on every rank what rank 0 passes; the others' argument is empty. Collective.
  std::function<std::vector<std::byte>(std::vector<std::byte>)> broadcast_from_zero;
};

struct NcclOptions {
  /// The algorithm of all_reduce; the same on all ranks. In tree order `Work::order_before` waits until the stream has
  /// the last part of the operation, which takes longer for a long buffer.
  NcclAlgorithm algorithm = NcclAlgorithm::automatic;
  /// An operation that could run and makes no progress for this time fails with Error{timeout}; so does the start.
  std::chrono::duration<double> deadline = usual_deadline;
  /// The exchange by which all ranks compare their calls before each operation, to fail with Error{mismatch} before
  /// data are touched; null: they do not compare. It has the same ranks in the same order. With it an operation reaches
  /// its stream when all ranks have submitted it, and `Work::order_before` waits for that on the host.
  std::shared_ptr<Exchange> check = nullptr;
  /// The channel by which ranks report failures to each other, so that none waits for the deadline; null: they do not
  /// report them. It belongs to this communicator alone, and is closed with it.
  std::shared_ptr<ControlChannel> control = nullptr;
  ClusterShape shape{};  ///< the nodes of the ranks; empty: unknown, as if all were on one node
  /// Memory of the GPU for the operands of other ranks in tree order; the same on all ranks, at least `least_scratch`.
  /// It is large enough for bandwidth: with 8 ranks, messages have 4.6 MiB.
  Bytes scratch{std::int64_t{32} << 20};
  static constexpr Bytes least_scratch{std::int64_t{16} << 10};  // an element of each operand of its kernel
  std::string hostname;                                          ///< the host of this rank, for error messages
  Observer* observer = nullptr;  ///< notified of each operation that ends; outlives the communicator
};

/// Makes a communicator over GPU memory. Operations run on a stream of its own, each after the work that its caller's
/// queue holds at submission; a host queue holds none. `Work::order_before` orders a stream after the result without
/// the host waiting.
///
/// An operation whose queue is captured is in the graph when its submission returns. The submission waits for those of
/// the other ranks if NCCL has yet to make connections, or if ranks compare. Its Work serves `order_before` only, which
/// must be called before the capture ends. Error{invalid_argument} refuses an operation for a graph while another one
/// is under way, and one whose queue is not captured while the communicator's stream is. The submission throws any
/// other failure; the capture must then be given up. docs/gpus.md has the rules for graphs.
///
/// Collective. Selects the GPU for the calling thread, which is the one that uses the communicator, and for the
/// progress thread if there is one. NCCL is loaded at the first call in a process (docs/gpus.md says from where). @pre
/// it has the same version on all ranks
/// @throws on every rank, Error{unsupported} in a build without NCCL, without a GPU, where NCCL cannot be loaded or its
///         version cannot be used, for a second algorithm of NCCL's in one process before 2.31.2, or for tree order in
///         a build without a CUDA compiler; Error{invalid_argument} for two ranks on one GPU; Error{transport | device
///         | timeout}
std::unique_ptr<Communicator> make_nccl(const NcclGroup& group, Progress& progress, const NcclOptions& options = {});

/// Returns the version of NCCL that this process uses, such as "2.28.9"; empty in a build without it. Loads NCCL at the
/// first call.
/// @throws Error{unsupported} if it cannot be loaded or used: the error names what was tried, and what to install or
///         set
std::string nccl_version();

/// The environment variable that selects the algorithm of all-reduces; NCCL before 2.31.2 has no other way to select
/// it. Every thread that makes a communicator holds the variable for that time: the first holder sets it, and the last
/// one restores it. No lock is kept meanwhile, because making a communicator waits for other processes.
class AlgorithmVariable {
 public:
  explicit AlgorithmVariable(std::string name = "NCCL_ALGO") : name_(std::move(name)) {}

  /// While this object lives, NCCL makes communicators with this algorithm. `automatic` leaves the variable as the user
  /// has set it; tree order uses none of NCCL's algorithms.
  class Hold {
   public:
    /// @throws Error{unsupported} if another of NCCL's algorithms is held, or a communicator of this process has it
    Hold(AlgorithmVariable& variable, NcclAlgorithm algorithm);
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold();
    /// Makes the process stay with this algorithm, because there is a communicator now.
    void keep();

   private:
    AlgorithmVariable* variable_;  // null: it holds nothing
  };

 private:
  void take(NcclAlgorithm algorithm);
  void let_go();

  const std::string name_;
  std::mutex mutex_;
  std::optional<NcclAlgorithm> chosen_;  // one of NCCL's algorithms, if any is in use
  bool is_kept_ = false;                 // chosen_ stays even if there is no holder
  int holders_ = 0;
  std::optional<std::string> before_;  // value of the variable before it was set
};

}  // namespace lockstep::backends
