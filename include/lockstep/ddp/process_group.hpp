// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/backends/compressed.hpp"
#include "lockstep/backends/method.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/collectives/choice/selection.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"
#include "lockstep/platform/mpi/world.hpp"

namespace lockstep {

/// Where the buffers lie that a group is for.
enum class Device {
  cpu,
  cuda  ///< buffers in device memory go to NCCL, the others to the host's back end, as on `cpu`
};
std::string_view name(Device device);  ///< "cpu", "cuda"

/// The same on all ranks.
struct GroupOptions {
  Device device = Device::cpu;
  /// What runs the operations, as `parse_method`; as it is made, what is fastest. On device memory that is NCCL's own
  /// choice, unless ring, tree or tree-order is asked for; other methods have no meaning there.
  backends::Method method;
  std::string tuning;  ///< file of a selection table, read by rank 0 where nothing is forced; empty: the cost model
  WaitPolicy wait;
  /// A thread moves operations while the program computes. The program then makes no MPI calls of its own while
  /// operations are under way, unless MPI was initialized with MPI_THREAD_MULTIPLE.
  bool progress_thread = false;
  std::chrono::duration<double> deadline = std::chrono::seconds(300);  ///< of each operation that does not advance
  /// All ranks compare what they call before each operation of the MPI library or of NCCL. lockstep's own carry
  /// signatures with what they exchange, and do without.
  bool check = false;
  Observer* observer = nullptr;  ///< told of each operation of `communicator()` that ends; outlives the group
  /// Hears what the library has to say and is no error, since it prints nothing itself: as the group is made, that
  /// ranks of a node cannot share memory; later, on the group's thread, that a Work or a communicator was destroyed too
  /// early. Outlives the group.
  std::function<void(std::string_view)> notice = nullptr;
  /// What float32 is rounded to for the way, in reductions of `communicator()`; nothing: it travels as it is.
  std::optional<backends::WireFormat> compress = std::nullopt;
};

class ProcessGroup;
namespace ddp {
class Members;
ProcessGroup group_of(std::unique_ptr<Members> members, GroupOptions options);
}  // namespace ddp

/// Ranks that work together, and what they communicate by: the way into lockstep. It lives as long as nothing changes:
/// at a step boundary it can be closed and another made, of other ranks.
///
/// One thread uses a group, with all its communicators, and all groups that were split from it; they share one
/// `Progress`. It is the first that submits an operation, and operations that another one submits are refused. Only
/// `abort` may be called from any thread. Move-only. The destructor waits for nobody: a group that
/// is destroyed without `close()` lets the operations of the other ranks fail, unless it was moved from.
class ProcessGroup {
 public:
  /// All ranks of the job. Collective.
  /// @throws Error{mismatch} that names the ranks with other options; Error{invalid_argument} for an algorithm that
  ///         these ranks cannot run, or for compression with one that promises the same bits on any number of ranks;
  ///         Error{unsupported} for `cuda` where a rank has no GPU or no NCCL (docs/gpus.md), and for a method or
  ///         compression that has no meaning there; Error{invalid_argument} for more ranks on a host than it shows GPUs
  ///         to them, and for two ranks on one GPU; Error{unsupported} for a progress thread where MPI was initialized
  ///         with less than MPI_THREAD_SERIALIZED; Error{io | corrupt} for the table; Error{transport}
  explicit ProcessGroup(const World& world, GroupOptions options = {});
  /// The ranks of a group, which it takes over. `lockstep/mpi.hpp` makes one of an `MPI_Comm`. Collective.
  /// @throws as above
  explicit ProcessGroup(MpiGroup group, GroupOptions options = {});
  /// Threads of this process as ranks: each takes one of the groups, by rank. For tests, and for trying things out.
  /// @throws also Error{invalid_argument} unless there is a rank; Error{unsupported} for "mpi" and for `cuda`
  static std::vector<ProcessGroup> of_threads(int ranks, const GroupOptions& options = {});

  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup();

  [[nodiscard]] Rank rank() const { return communicator().rank(); }
  [[nodiscard]] int size() const { return communicator().size(); }
  /// Name of this rank's host.
  [[nodiscard]] const std::string& host() const;
  /// The GPU of this rank, by CUDA's index; nothing on `cpu`. The thread that makes the group has it selected
  /// afterwards (cudaSetDevice); streams and memory for the group's operations belong to it. The ranks of a node that
  /// see the same GPUs take one each, near their processors if there is one, as `topo` shows. Groups that are split
  /// from this one keep it; a group that is made beside it chooses anew, among its own ranks.
  [[nodiscard]] std::optional<int> gpu() const;

  [[nodiscard]] Communicator& communicator() const;
  /// A second one of the group's, with an order of its own, always of host memory: for the few numbers that go beside
  /// large operations. Collective when first called.
  Communicator& statistics();
  /// One more, with an order of its own and neither compressed nor observed. It is closed before the group is. Where it
  /// is for device memory, ranks submit operations of all communicators of a GPU in the same order, each where the one
  /// before has ended or a stream puts it behind: NCCL's kernels keep the GPU while they wait for each other.
  /// Collective.
  std::unique_ptr<Communicator> another();
  /// The ranks that name the same color, ordered by (key, rank), with the same options. It is closed by its ranks, in
  /// any order with this one. Collective.
  /// @param color  ≥ 0; none where this rank joins no new group
  /// @return nothing on ranks without a color
  std::optional<ProcessGroup> split(std::optional<int> color, int key);
  /// The same with other options. What moves its operations stays the group's: `wait` and `progress_thread` are not
  /// looked at. Ranks without a color may bring any. Collective. @throws also as the constructors
  std::optional<ProcessGroup> split(std::optional<int> color, int key, const GroupOptions& options);

  /// Memory where the group's operations are fastest, of its device; zeroed. @throws std::bad_alloc; Error{device}
  [[nodiscard]] Allocation allocate(Bytes bytes) const { return communicator().allocate(bytes); }

  /// Lets the operations of all ranks fail with this reason and this rank's name: on `communicator()`, `statistics()`
  /// and what `another()` has made, and on those of the groups that were split from this one. The group that this one
  /// was split from goes on. From any thread, but not beside close() or the destructor of any of them.
  void abort(std::string_view why) noexcept;

  /// Ends the group. Collective; no operation may be under way. Calling it again does nothing. @throws Error{transport}
  void close();

  /// Moves this rank's operations.
  [[nodiscard]] Progress& progress() const;
  /// What the communicators choose by; nothing where the MPI library does.
  [[nodiscard]] const std::optional<collectives::Selection>& selection() const;

 private:
  friend ProcessGroup ddp::group_of(std::unique_ptr<ddp::Members> members, GroupOptions options);
  struct State;
  explicit ProcessGroup(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace lockstep
