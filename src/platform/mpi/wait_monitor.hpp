// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "platform/ranks/tasks.hpp"
#include "platform/watchdog/watchdog.hpp"

namespace lockstep {

/// The purpose of a message, which is its first byte.
enum class MessageKind : char {
  question = 'Q',  ///< the sender's deadline has passed; receivers that wait too answer
  answer = 'A',    ///< the sender waits
  gone_on = 'G',   ///< the sender's call has completed, so it takes its question back
  verdict = 'V',   ///< the members named first are missing
};

struct WaitMessage {
  MessageKind kind;
  std::uint64_t group = 0;  ///< the group in which the sender waits
  std::uint64_t wait = 0;   ///< number of the sender's wait; of an answer, that of the question
  std::string host;
  std::string text;
};

std::string to_text(const WaitMessage& message);
/// @return nothing if the text is not a message of a WaitMonitor
std::optional<WaitMessage> wait_message_from(const std::string& text);

/// Lets ranks wait for each other with a deadline. One object serves a group and all groups that are made from it,
/// because a rank that one group waits for may itself be waiting in another.
///
/// A rank whose deadline passes asks the other ranks of its group. Ranks that wait too, in any group, answer with the
/// task that they wait for. Ranks that do not answer within a grace period compute, read a file, are stopped or dead.
/// At most eight ranks of a group, its listeners, ask all of it, so that a large job sends few messages; the other
/// ranks ask the listeners. The first listener that waits gives the verdict, which the others repeat as a consequence.
/// A rank whose call completes meanwhile continues and takes its question back.
class WaitMonitor final : public Tasks {
 public:
  /// The ranks that wait, and their deadline.
  struct Group {
    std::uint64_t number;             ///< the same on all its ranks
    const std::vector<int>& members;  ///< for each rank of the waiting group, its rank in `communicator`
    Seconds deadline;
  };

  /// @param communicator  carries questions and answers
  /// @param tag           tag of these messages
  WaitMonitor(MPI_Comm communicator, int tag, std::shared_ptr<Watchdog> watchdog);

  /// @throws Error{timeout}; Error{transport}
  void wait(MPI_Request& request, const Group& group);

  /// Sets the names of the hosts by rank, once they are known.
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }
  [[nodiscard]] const std::vector<std::string>& hosts() const { return hosts_; }

  /// Keeps account of the communicators of all groups that it serves. Any thread may call these.
  void add(MPI_Comm group);
  void remove(MPI_Comm group);
  /// Revokes all these communicators, and its own, so that the ranks that wait for this one give up, too.
  void revoke_all();

  /// Frees the communicator, unless this rank has sent a message, because answers may still be under way then.
  void close();

  /// Returns the number of this rank's next wait.
  std::uint64_t next_wait() { return ++waits_; }
  [[nodiscard]] MPI_Comm communicator() const { return communicator_; }
  [[nodiscard]] int tag() const { return tag_; }
  [[nodiscard]] int rank() const { return rank_; }
  /// Sends without waiting for the message to be received.
  void tell(int rank, const std::string& text);

 private:
  MPI_Comm communicator_;
  int tag_;
  int rank_ = 0;
  std::uint64_t waits_ = 0;
  bool has_told_ = false;
  std::vector<std::string> hosts_;
  std::mutex mutex_;  // guards the groups
  std::vector<MPI_Comm> groups_;
};

}  // namespace lockstep
