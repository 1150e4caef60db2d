// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/exchange.hpp"
#include "base/origin_process.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/node_memory/control_channel.hpp"
#include "platform/ranks/tasks.hpp"
#include "platform/ranks/thread_ranks.hpp"

namespace lockstep {

class FlightRecorder;
class NodeFiles;

/// A library that carries messages between ranks, as MPI does. What communicators need of it is in
/// src/backends/message_library.hpp.
class MessageCarrier {
 public:
  MessageCarrier() = default;
  MessageCarrier(const MessageCarrier&) = delete;
  MessageCarrier& operator=(const MessageCarrier&) = delete;
  virtual ~MessageCarrier() = default;
};

struct RankSet::Members {
  std::vector<std::string> hosts;  // host of each rank
  ClusterShape shape;
};

/// How the ranks of a set reach each other before they have a communicator, and what communicators are made of. One
/// thread uses it at a time. Every exchange is collective, waits for at most the deadline, and @throws Error{timeout}
/// that names the ranks that have not taken part, Error{transport}, and the error of an earlier failed step.
class RankSet::Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  [[nodiscard]] virtual std::vector<std::int64_t> all_gather(std::int64_t mine) = 0;
  [[nodiscard]] virtual std::vector<std::string> all_gather(std::string_view mine) = 0;
  /// @return nothing on ranks other than the root
  [[nodiscard]] virtual std::vector<std::string> gather(std::string_view mine, Rank root) = 0;
  [[nodiscard]] virtual std::string broadcast(std::string_view value, Rank root) = 0;
  virtual void barrier() = 0;

  [[nodiscard]] virtual std::unique_ptr<Link> dup() = 0;
  /// @return null on ranks without a color
  [[nodiscard]] virtual std::unique_ptr<Link> split(std::optional<int> color, int key) = 0;
  /// Releases what the link holds. Collective.
  virtual void close() = 0;

  /// Makes a control channel's way to ranks that share no memory with this one. Collective.
  /// @param set  the set that has this link
  [[nodiscard]] virtual std::unique_ptr<ControlLink> make_control_link(const RankSet& set) = 0;
  /// Makes an exchange of its own. Collective.
  [[nodiscard]] virtual std::unique_ptr<Exchange> make_exchange(const RankSet& set) = 0;

  /// A function that says whether nothing can be sent or released any more, because the library that carries it has
  /// ended. It may be called when the link exists no more, and does not throw.
  using HasEnded = bool (*)();
  [[nodiscard]] virtual HasEnded has_ended() const {
    return [] { return false; };
  }
  /// Whether another thread than the one that made the set may use it, if it does so at other times.
  [[nodiscard]] virtual bool may_change_threads() const { return true; }
  /// Makes an object that all ranks of the set share, or takes the one that another rank has made, without waiting. All
  /// ranks do the same in the same order. @pre the ranks are threads (`shared_by_threads`)
  template <typename Object, typename Make>
  std::shared_ptr<Object> share(const Make& make) {
    return shared_by_threads->take<Object>(name + '#' + std::to_string(objects_shared_++), size, make);
  }
  /// The record of this rank's operations; null if there is none.
  [[nodiscard]] std::shared_ptr<FlightRecorder> recorder() const {
    return tasks == nullptr ? nullptr : tasks->recorder();
  }

  Rank rank;
  int size = 0;
  std::shared_ptr<const Members> members;
  const MessageCarrier* messages = nullptr;  // what carries messages; null: connections of lockstep's own
  std::string name;                          // of a set without MPI; the same on all its ranks, and on no others
  std::shared_ptr<SharedByThreads> shared_by_threads;  // null: the ranks are processes
  std::shared_ptr<NodeFiles> node_files;               // files that this process shares with others of its node
  std::shared_ptr<Tasks> tasks;                        // what this rank does; null: the set waits without a deadline
  std::shared_ptr<NodeMemory> records;                 // the flight recorders of the node, in the set that is watched
  std::chrono::duration<double> deadline{};            // how long each collective step waits for its ranks
  std::optional<Error> failure;                        // a step has failed: the ranks are no longer in step
  OriginProcess origin;                                // the process that made the link

 private:
  int objects_shared_ = 0;
};

/// Returns the members with these ranks, in this order.
std::shared_ptr<const RankSet::Members> chosen(const RankSet::Members& all, const std::vector<int>& ranks);

}  // namespace lockstep
