// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/cluster_shape.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/base/types.hpp"

namespace lockstep {

/// What the thread of `RankSet::watch` calls. Null: nothing is called.
struct WatchOptions {
  /// As `WorldOptions::on_stuck`.
  std::function<void(std::string_view)> on_stuck = nullptr;
  /// Called when operations have waited for other ranks for `late_after`, once until they go on, and usually on one
  /// rank only: with a text that says for what this rank waits, and in further lines what all ranks do, which it must
  /// not ask for by `explain_ranks`. The operations go on waiting.
  std::function<void(std::string_view)> on_late = nullptr;
  std::chrono::duration<double> late_after{60};
};

/// Ranks that can reach each other, and where they run. A ProcessGroup is made of them. `from_mpi` makes a set of an
/// MPI communicator, `from_store` of processes that know nothing but a key-value store, and a `World` has one.
///
/// Every collective step of a set waits for its ranks no longer than the set's deadline. Then it throws an
/// Error{timeout} that names the missing ranks and the step, and the set can only be closed.
///
/// Move-only. The destructor does not communicate: a set that is destroyed without `close()` keeps what it holds of MPI
/// until MPI ends.
class RankSet {
 public:
  class Link;      ///< how the ranks reach each other; defined in src/platform/ranks/rank_link.hpp
  struct Members;  ///< says where the ranks run; defined there, too

  explicit RankSet(std::unique_ptr<Link> link);
  RankSet(RankSet&&) noexcept;
  RankSet& operator=(RankSet&&) noexcept;
  RankSet(const RankSet&) = delete;
  RankSet& operator=(const RankSet&) = delete;
  ~RankSet();

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool closed() const { return link_ == nullptr; }

  /// Names of the hosts, one per rank. They and the shape are known without communicating, also after close().
  [[nodiscard]] const std::vector<std::string>& hosts() const;
  /// Name of the host of a rank. @pre 0 ≤ rank < size()
  [[nodiscard]] const std::string& host_of(Rank rank) const { return hosts()[static_cast<std::size_t>(rank.value)]; }
  /// Name of this rank's host.
  [[nodiscard]] const std::string& host() const { return host_of(rank_); }
  /// Says which ranks share a node.
  [[nodiscard]] const ClusterShape& shape() const;

  /// Sets how long each collective step of this set, and of sets made from it later, waits for its ranks. It does
  /// not communicate; ranks may have different deadlines, and the first one that passes counts.
  /// @throws Error{invalid_argument} unless it is positive and at most 10⁹ s
  void set_deadline(std::chrono::duration<double> deadline);

  /// Returns the bytes of all ranks, by rank: for a program's own small data before there is a group, such as addresses
  /// or identifiers. Collective.
  /// @throws Error{timeout}, Error{transport}; Error{invalid_argument} on all ranks, if MPI carries them, from 2 GiB
  [[nodiscard]] std::vector<std::string> exchange(std::string_view mine) const;

  /// Makes a set of the same ranks, whose messages meet none of this one's. Collective.
  /// @throws Error{timeout}, Error{transport}
  [[nodiscard]] RankSet dup() const;

  /// Makes a set of the ranks that name the same color, ordered by (key, rank). Collective over this set.
  /// @param color  ≥ 0; none where this rank joins no new set
  /// @return nothing on ranks without a color
  /// @throws Error{timeout}, Error{transport}; Error{invalid_argument} on a negative color
  [[nodiscard]] std::optional<RankSet> split(std::optional<int> color, int key) const;

  /// Lets a thread of each process watch its rank, until this set is closed: what sets and groups that are made of it
  /// later do is recorded, and `explain_ranks` and the program `lockstep-stacks` say what all ranks do. The thread
  /// takes the set's present deadline. Collective. A World with `WorldOptions::on_stuck` does this by itself.
  /// @throws Error{invalid_argument} if the ranks are watched already, and unless late_after is positive;
  ///         Error{unsupported} if they are threads (`from_threads`); Error{timeout | transport} as dup
  /// @cost a thread that wakes up once a second, and some 15 stores to memory for each operation of a group
  void watch(WatchOptions options) const;

  /// Explains what all watched ranks do, as `World::explain_ranks` does. Any thread may call it, unless
  /// another one closes the set meanwhile.
  /// @return empty unless the set, or the one that it was made of, is watched
  [[nodiscard]] std::string explain_ranks() const;

  /// Releases what the set holds. Collective; no operation may be under way. Calling it again does nothing.
  /// @throws Error{transport}
  void close();

  /// @throws Error{invalid_argument} after close(), and in a child of fork()
  [[nodiscard]] Link& link() const;

 private:
  std::unique_ptr<Link> link_;
  std::shared_ptr<const Members> members_;
  Rank rank_;
  int size_ = 0;
};

}  // namespace lockstep
