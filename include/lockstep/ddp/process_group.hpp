// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/backends/compressed.hpp"
#include "lockstep/base/collective_kind.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"

namespace lockstep {

/// The kind of processor whose memory a group's buffers are in.
enum class Device {
  cpu,
  cuda  ///< buffers in memory of a GPU are reduced by NCCL, all others as on `cpu`
};
std::string_view name(Device device);  ///< "cpu", "cuda"

/// How a group communicates. Options are the same on all ranks, except for the observer and the notice.
struct GroupOptions {
  Device device = Device::cpu;
  /// With `cuda`, the GPU of each rank of a host in the order of the ranks, by CUDA's index. Empty: one near the rank's
  /// processors.
  std::vector<int> gpus = {};
  /// The algorithm of the operations, one of `algorithm_names()`: "auto" takes the fastest one at each size, "mpi"
  /// leaves the choice to the MPI library, also of what becomes of a NaN in a maximum or minimum and of integers that
  /// overflow in a sum, and any other name is used at every size. In memory of a GPU, "auto" is
  /// NCCL's own choice, "ring", "tree" and "tree-order" can be asked for, and other names are refused.
  std::string algorithm = "auto";
  /// The file of a selection table for "auto". Rank 0 reads it. Empty: a cost model chooses.
  std::string tuning;
  WaitPolicy wait;
  /// Whether a thread advances operations while the program computes. The program must then make no MPI calls of its
  /// own while operations are under way, unless MPI was initialized with MPI_THREAD_MULTIPLE.
  bool progress_thread = false;
  /// How long an operation may go without any progress before it fails.
  std::chrono::duration<double> deadline = usual_deadline;
  /// Whether all ranks compare what they call before each operation of the MPI library or of NCCL. lockstep's own
  /// algorithms need no such check, as their messages carry signatures.
  bool check = false;
  Observer* observer = nullptr;  ///< is told of each operation of `communicator()` that ends; outlives the group
  /// Receives notices, which are no errors; the library itself does not print. When the group is made, a notice says
  /// that ranks of a node cannot share memory. Later, on the group's thread, a notice says that a Work or a
  /// communicator was destroyed too early. It must outlive the group. Null: the notices of a group of a World go to
  /// `WorldOptions::notice`, and so are printed in a program that uses `run`; those of other groups are dropped.
  std::function<void(std::string_view)> notice = nullptr;
  /// The format to which float32 is rounded while it travels, in reductions of `communicator()`. Empty: not rounded.
  std::optional<backends::WireFormat> compress = std::nullopt;
  /// Whether lockstep's own algorithms carry messages between hosts over TCP connections of their own, which take less
  /// time than those of MPI libraries: "auto" (if no host has a network adapter with RDMA, and the hosts can reach each
  /// other; a notice says if they cannot), "no", or "yes" (with RDMA, too; it is an error if they cannot). Ranks that
  /// MPI does not connect have such connections in any case. Among more than 32 ranks, connections are made when two
  /// ranks first need them, except for those between the usual partners.
  std::string sockets = "auto";
  /// Whether messages between hosts have checksums, for networks that may change bits: a message that was changed fails
  /// its operation, with an error that names the rank that sent it. All messages between hosts then go over
  /// connections, and each is read twice more. Not for the algorithm "mpi", `sockets` "no", and `cuda`.
  bool checksum = false;
  /// How many TCP connections carry the blocks of large messages between two ranks of different hosts, from 1 to 16:
  /// more than 1 for networks on which one connection does not reach the rate of the link, as in many clouds.
  int connections = 1;
};

/// The names that `GroupOptions::algorithm` takes: "auto", lockstep's own algorithms ("ring", "tree",
/// "shared-memory", …, see docs/algorithms.md), and "mpi". For command lines.
std::span<const std::string_view> algorithm_names();

/// The types of values that a group sums or compares: numbers, and the 16-bit elements.
template <typename T>
concept Number = (std::is_arithmetic_v<T> && !std::same_as<T, bool> && !std::same_as<T, long double>) || is_half<T>;

class OpenGroups;
class ProcessGroup;
class World;
namespace ddp {
class Members;
ProcessGroup group_of(std::unique_ptr<Members> members, GroupOptions options, std::shared_ptr<OpenGroups> open_groups);
}  // namespace ddp

/// Ranks that work together, and the communicators they use. A group does not change: to go on with other ranks, close
/// it at a step boundary and make another one.
///
/// One thread uses a group, with all its communicators and all groups that were split from it; they share one
/// `Progress`. It is the first thread that submits an operation; operations of another one are refused, unless it has
/// the turn (`take_turn`), as a thread has in the calls of a `DataParallel`. Only `abort` may be called from any
/// thread. Threads that use groups at the same time have a group each, made on one thread in the same order on all
/// ranks, and MPI is initialized with MPI_THREAD_MULTIPLE, as `World` does.
///
/// A group, its communicators and the `World` work in the process that made them. In a child of fork() their calls
/// throw an Error{invalid_argument}, and their destructors do nothing.
///
/// Move-only. The destructor closes the group at the normal end of a scope, if no operation is under way. Otherwise,
/// and during stack unwinding, it does not wait for other ranks, and their operations fail.
class ProcessGroup {
 public:
  /// Makes a group of all ranks of the job, for programs that link `lockstep::mpi`. Collective. The world closes it, if
  /// it is still open when the world is closed.
  /// @throws Error{mismatch} that names the ranks with other options; Error{invalid_argument} for an unknown algorithm,
  ///         with the nearest name and all others, for one that these ranks cannot run, for compression with an
  ///         algorithm that promises the same bits on any number of ranks, for a number of connections that is not from
  ///         1 to 16, for a checksum where messages do not go over connections, for more ranks on a host than it shows
  ///         GPUs to them, for two ranks on one GPU, and for an unknown choice of sockets; Error{unsupported} for
  ///         `cuda` where a rank has no GPU or no NCCL (docs/gpus.md), for an algorithm or compression that has no
  ///         meaning there, and for a progress thread where MPI was initialized with less than MPI_THREAD_SERIALIZED;
  ///         Error{io | corrupt} for the table; Error{transport}
  explicit ProcessGroup(const World& world, GroupOptions options = {});
  /// Makes a group of the ranks of a set, which it takes over: one that `from_mpi` (`lockstep/mpi.hpp`) has made of a
  /// program's own communicator, or `from_store` of processes that MPI has not started. Collective. @throws as above
  explicit ProcessGroup(RankSet ranks, GroupOptions options = {});
  /// Makes groups of the sets of `from_threads`: each thread of this process takes one of them, by rank. It is for
  /// tests and for trying things out.
  /// @throws as above; Error{invalid_argument} unless there is a rank; Error{unsupported} for the algorithm "mpi"
  ///         and for `cuda`
  static std::vector<ProcessGroup> of_threads(int ranks, const GroupOptions& options = {});

  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;
  ProcessGroup(const ProcessGroup&) = delete;  // Pass it by reference, or move it.
  explicit ProcessGroup(World&& /*Keep the World in a variable: it outlives the group.*/,
                        const GroupOptions& = {}) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup();

  [[nodiscard]] Rank rank() const { return communicator().rank(); }
  [[nodiscard]] int size() const { return communicator().size(); }
  /// Whether this is rank 0, which saves and prints for all.
  [[nodiscard]] bool is_root() const { return rank() == 0; }
  /// The name of this rank's host.
  [[nodiscard]] const std::string& host() const;
  /// The GPU of this rank, by CUDA's index; nothing on `cpu`. The thread that makes the group has it selected
  /// afterwards (cudaSetDevice); streams and memory for the group's operations belong to it. The ranks of a node that
  /// see the same GPUs take one each, near their processors if there is one, as `topo` shows. Groups that are split
  /// from this one keep it; a group that is made beside it chooses anew, among its own ranks.
  [[nodiscard]] std::optional<int> gpu() const;
  /// How long an operation may go without any progress before it fails: `GroupOptions::deadline`.
  [[nodiscard]] std::chrono::duration<double> deadline() const;

  template <std::same_as<bool> T>
  T sum(T) = delete;  // Ask agree(), or count by sum(value ? 1 : 0).
  /// Returns the sum of all ranks' values, the same bits on all: a loss, a count of hits. Collective and blocking, as
  /// all functions up to `broadcast` are. They use `control()`, and so may be called at any time, also between
  /// `DataParallel::ready` and `finish`. Integers are added in 64 bits, and all else in double; the sum is converted to
  /// T, an integer that does not fit by wrapping.
  /// @throws Error{transport | timeout | mismatch}
  /// @cost   one all_reduce of 8 bytes
  template <Number T>
  T sum(T value) {
    return reduce(value, ReduceOp::sum);
  }
  /// Overwrites the elements, in memory of the host, on all ranks with their sums over the ranks. @throws as above
  void sum(Buffer elements) { reduce(elements, ReduceOp::sum); }
  /// Returns the largest of all ranks' values.
  template <Number T>
  T max(T value) {
    return reduce(value, ReduceOp::max);
  }
  /// Overwrites each element on all ranks with the largest of the ranks'.
  void max(Buffer elements) { reduce(elements, ReduceOp::max); }
  /// Returns the smallest of all ranks' values.
  template <Number T>
  T min(T value) {
    return reduce(value, ReduceOp::min);
  }
  /// Overwrites each element on all ranks with the smallest of the ranks'.
  void min(Buffer elements) { reduce(elements, ReduceOp::min); }
  /// Returns the root's value: a number, a bool or an enumerator.
  template <typename T>
  requires Number<T> || std::same_as<T, bool> || std::is_enum_v<T> T broadcast(T value, Rank root = {0}) {
    broadcast(Buffer(&value, {static_cast<std::int64_t>(sizeof value)}, DType::uint8), root);
    return value;
  }
  /// Overwrites the elements on all ranks with the root's.
  void broadcast(Buffer elements, Rank root = {0});

  /// The communicator for large operations, such as those of DataParallel.
  [[nodiscard]] Communicator& communicator() const;
  /// A second communicator of the group with its own order of operations, always for host memory. It carries the few
  /// numbers that accompany large operations. Its first call is collective.
  Communicator& control();
  /// Makes one more communicator with its own order of operations, neither compressed nor observed. It is closed, or
  /// destroyed, before the group is. For device memory, all ranks must submit the operations of all communicators of a
  /// GPU in the same order, each after the previous one has ended or behind it on a stream, because NCCL's kernels
  /// occupy the GPU while they wait for each other. Collective.
  std::unique_ptr<Communicator> new_communicator();
  /// Makes a group of the ranks that name the same color, ordered by (key, rank), with the same options. It is closed
  /// by its ranks, in any order with this one. Collective.
  /// @param color  ≥ 0; none where this rank joins no new group
  /// @return nothing on ranks without a color
  std::optional<ProcessGroup> split(std::optional<int> color, int key);
  /// Splits with other options. `wait` and `progress_thread` are ignored, because the new group shares the Progress of
  /// this one. Ranks without a color may pass any options. Collective. @throws as the constructors
  std::optional<ProcessGroup> split(std::optional<int> color, int key, const GroupOptions& options);

  /// Allocates zeroed memory where the group's operations are fastest, on its device.
  /// @throws std::bad_alloc; Error{invalid_argument} for a negative size; Error{unsupported} if the memory that the
  ///         ranks of a node share has no room; Error{device | out_of_memory}
  [[nodiscard]] Allocation allocate(Bytes bytes) const { return communicator().allocate(bytes); }

  /// The right of a thread to use the group.
  class [[nodiscard]] Turn {
   public:
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() = default;

   private:
    friend class ProcessGroup;
    Turn(std::recursive_mutex& mutex, Progress& progress) : lock_(mutex), turn_(progress) {}
    std::scoped_lock<std::recursive_mutex> lock_;
    Progress::Turn turn_;
  };
  /// Explains what the ranks do, as `RankSet::explain_ranks` of the group's set.
  /// @return empty unless the set is watched, and for a group whose ranks are threads
  /// @throws Error{invalid_argument} after close()
  [[nodiscard]] std::string explain_ranks() const;

  /// `const auto turn = group.take_turn();` gives this group, and the groups split from it, to the calling thread while
  /// the result exists. Other threads wait in take_turn(), and in the calls of a `DataParallel`, which take the turn,
  /// too. A thread may take it several times. For programs whose threads submit in turn, such as those of autograd; all
  /// ranks still submit the same operations in the same order.
  /// @throws Error{unsupported} on another thread than the group's if MPI was initialized with less than
  ///         MPI_THREAD_SERIALIZED
  Turn take_turn() const;

  /// Makes the operations of all ranks fail with this reason and this rank's name: on `communicator()`, `control()` and
  /// communicators of `new_communicator()`, and on those of groups that were split from this one. The group from which
  /// this one was split continues. Any thread may call it, but not concurrently with close() or the destructor of any
  /// of these groups.
  void abort(std::string_view why) noexcept;

  /// Ends the group. Collective; no operation may be under way. Calling it again does nothing.
  /// @throws Error{invalid_argument} if an operation is under way, or MPI is finalized already; Error{transport}
  void close();

  /// The object that advances this rank's operations.
  [[nodiscard]] Progress& progress() const;
  /// Returns which algorithm runs an operation on memory of the host, and why: a line for each size, below two lines of
  /// headings. It is the same on all ranks. Local.
  /// @param sizes    bytes of the buffer, or of each rank's part if ranks have parts
  /// @param columns  the length at which lines are broken; at least 80
  [[nodiscard]] std::string explain(CollectiveKind kind, std::span<const Bytes> sizes, std::size_t columns = 100) const;

 private:
  friend ProcessGroup ddp::group_of(std::unique_ptr<ddp::Members> members, GroupOptions options,
                                    std::shared_ptr<OpenGroups> open_groups);
  struct State;
  explicit ProcessGroup(std::unique_ptr<State> state);

  void reduce(Buffer elements, ReduceOp op);
  template <Number T>
  T reduce(T value, ReduceOp op) {
    if constexpr (std::unsigned_integral<T> && sizeof(T) == 8) {
      // Unsigned values travel as signed ones. Flipping the highest bits keeps their order, which `max` and `min` need.
      const std::uint64_t shift = op != ReduceOp::sum ? std::uint64_t{1} << 63 : 0;
      auto carried = static_cast<std::int64_t>(value ^ shift);
      reduce(Buffer(carried), op);
      return static_cast<T>(carried) ^ shift;
    } else {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): std::int8_t is a number here
      auto carried = static_cast<std::conditional_t<std::integral<T>, std::int64_t, double>>(value);
      reduce(Buffer(carried), op);
      if constexpr (is_half<T>) {
        return static_cast<T>(static_cast<float>(carried));
      } else {
        return static_cast<T>(carried);
      }
    }
  }

  std::unique_ptr<State> state_;
};

/// Whether all ranks of the group say yes. Collective. @throws as ProcessGroup::sum
inline bool agree(ProcessGroup& group, bool mine) { return group.max(mine ? 0 : 1) == 0; }

}  // namespace lockstep
