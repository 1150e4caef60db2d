// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep {

/// An MPI communicator that lockstep owns, so that its messages cannot meet those of anybody else. It knows the host
/// and the node of each rank.
///
/// Every collective step of a group waits for its ranks no longer than the group's deadline. Then it throws an
/// Error{timeout} that names the missing ranks and the step, and the group can only be closed.
///
/// Move-only. The destructor does not communicate: a group destroyed without `close()` keeps its handle until MPI ends.
/// Back ends access the `MPI_Comm` through `src/platform/mpi/mpi.hpp`.
class MpiGroup {
 public:
  struct Handle;   ///< holds the MPI_Comm; defined in src/platform/mpi/mpi.hpp
  struct Members;  ///< says where the ranks run; defined in src/platform/mpi/mpi.hpp

  /// Takes over the communicator in `handle`. @throws Error{transport}
  MpiGroup(std::unique_ptr<Handle> handle, std::shared_ptr<const Members> members);

  /// Makes a group of the ranks of a program's own communicator. The communicator stays the program's and may be freed
  /// afterwards; its error handler, its attributes and the thread level of MPI do not change. Collective over that
  /// communicator. `lockstep/mpi.hpp` calls it with an `MPI_Comm`.
  /// @param fortran_handle  the communicator, converted by `MPI_Comm_c2f`
  /// @param family          the MPI library whose headers the caller was compiled with (`platform/mpi_family.hpp`)
  /// @param deadline        how long this call and each later step of the group waits for all ranks
  /// @throws Error{timeout} that names the missing ranks; Error{unsupported} if lockstep was built with another MPI
  ///         library; Error{invalid_argument} for a null communicator or an intercommunicator, and if MPI is not
  ///         initialized; Error{transport}
  static MpiGroup adopt(std::int64_t fortran_handle, std::string_view family,
                        std::chrono::duration<double> deadline = usual_deadline);

  MpiGroup(MpiGroup&&) noexcept;
  MpiGroup& operator=(MpiGroup&&) noexcept;
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;
  ~MpiGroup();

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool closed() const { return handle_ == nullptr; }

  /// Names of the hosts, one per rank. They and the shape are known without communicating, also after close().
  [[nodiscard]] const std::vector<std::string>& hosts() const;
  /// Name of the host of a rank. @pre 0 ≤ rank < size()
  [[nodiscard]] const std::string& host_of(Rank rank) const { return hosts()[static_cast<std::size_t>(rank.value)]; }
  /// Name of this rank's host.
  [[nodiscard]] const std::string& host() const { return host_of(rank_); }
  /// Says which ranks share a node.
  [[nodiscard]] const ClusterShape& shape() const;

  /// Sets how long each collective step of this group, and of groups made from it later, waits for its ranks. It does
  /// not communicate; ranks may have different deadlines, and the first one that passes counts.
  /// @throws Error{invalid_argument} unless it is positive and at most 10⁹ s
  void set_deadline(std::chrono::duration<double> deadline);

  /// Makes a new communicator of the same ranks. Collective. @throws Error{timeout}, Error{transport}
  [[nodiscard]] MpiGroup dup() const;

  /// Makes a group of the ranks that name the same color, ordered by (key, rank). Collective over this group.
  /// @param color  ≥ 0; none where this rank joins no new group
  /// @return nothing on ranks without a color
  /// @throws Error{timeout}, Error{transport}; Error{invalid_argument} on a negative color
  [[nodiscard]] std::optional<MpiGroup> split(std::optional<int> color, int key) const;

  /// Frees the communicator. Collective; no operation may be under way. Calling it again does nothing.
  /// @throws Error{transport}
  void close();

  /// @throws Error{invalid_argument} after close()
  [[nodiscard]] const Handle& handle() const;

 private:
  std::unique_ptr<Handle> handle_;
  std::shared_ptr<const Members> members_;
  Rank rank_;
  int size_ = 0;
};

}  // namespace lockstep
