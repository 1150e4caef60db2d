// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "lockstep/base/types.hpp"

namespace lockstep {

/// An MPI communicator of one's own: ranks that exchange messages which nobody else's can meet.
///
/// Move-only. The destructor does not communicate: a group destroyed without `close()` leaks its handle and says so on
/// standard error, unless an exception is on its way, which tells more. Back ends get at the `MPI_Comm` through
/// `platform/mpi.hpp`.
class MpiGroup {
 public:
  struct Handle;  ///< holds the MPI_Comm; defined in src/platform/mpi.hpp

  /// Takes over the communicator in `handle`. @throws Error{transport}
  explicit MpiGroup(std::unique_ptr<Handle> handle);
  MpiGroup(MpiGroup&&) noexcept;
  MpiGroup& operator=(MpiGroup&&) noexcept;
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;
  ~MpiGroup();

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool closed() const { return handle_ == nullptr; }

  /// The same ranks in a new communicator. Collective. @throws Error{transport}
  [[nodiscard]] MpiGroup dup() const;

  /// The ranks that name the same colour, ordered by (key, rank). Collective over this group.
  /// @param color  ≥ 0; none where this rank joins no new group
  /// @return nothing on ranks without a colour
  /// @throws Error{transport}; Error{invalid_argument} on a negative colour
  [[nodiscard]] std::optional<MpiGroup> split(std::optional<int> color, int key) const;

  /// Frees the communicator. Collective; no operation may be under way. Calling it again does nothing.
  /// @throws Error{transport}
  void close();

  /// @throws Error{invalid_argument} after close()
  [[nodiscard]] const Handle& handle() const;

 private:
  std::unique_ptr<Handle> handle_;
  Rank rank_;
  int size_ = 0;
};

}  // namespace lockstep
