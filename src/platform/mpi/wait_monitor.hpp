// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "platform/ranks/tasks.hpp"
#include "platform/ranks/wait_for_ranks.hpp"
#include "platform/watchdog/watchdog.hpp"

namespace lockstep {

/// Lets ranks wait for each other with a deadline. One object serves a group and all groups that are made from it,
/// because a rank that one group waits for may itself be waiting in another.
class WaitMonitor final : public Tasks {
 public:
  /// @param communicator  carries questions and answers
  /// @param tag           tag of these messages
  WaitMonitor(MPI_Comm communicator, int tag, std::shared_ptr<Watchdog> watchdog);

  /// @param group  its members are ranks of the communicator
  /// @throws as WaitForRanks::advance
  void wait(MPI_Request& request, const WaitForRanks::Group& group);

  /// Sets the names of the hosts by rank, once they are known.
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }

  /// Keeps account of the communicators of all groups that it serves. Any thread may call these.
  void add(MPI_Comm group);
  void remove(MPI_Comm group);
  /// Revokes all these communicators, and its own, so that the ranks that wait for this one give up, too.
  void revoke_all();

  /// Frees the communicator, unless this rank has sent a message, because answers may still be under way then.
  void close() { link_->close(); }

 private:
  MPI_Comm communicator_;
  std::unique_ptr<ControlLink> link_;
  int rank_ = 0;
  std::uint64_t waits_ = 0;
  std::vector<std::string> hosts_;
  std::mutex mutex_;  // guards the groups
  std::vector<MPI_Comm> groups_;
};

}  // namespace lockstep
