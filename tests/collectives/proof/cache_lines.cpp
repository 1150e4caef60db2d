// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/cache_lines.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

namespace lockstep::collectives {
namespace {

constexpr std::int64_t line_bytes = 64;
constexpr std::int64_t bytes_beside_a_flag = 32;

std::int64_t lines_of(std::int64_t bytes) { return (bytes + line_bytes - 1) / line_bytes; }

/// Something that serves one request after the other.
class Turns {
 public:
  /// @return when a request that comes at `time` and takes `seconds` is done
  double take(double time, double seconds) {
    free_ = std::max(free_, time) + seconds;
    return free_;
  }

 private:
  double free_ = 0;
};

class NodeRun {
 public:
  NodeRun(std::span<const Plan> plans, std::int64_t element_bytes, std::int64_t buffer_bytes, const NodeModel& model)
      : plans_(plans), element_bytes_(element_bytes), model_(model), ranks_(plans.size()) {
    const auto caches = static_cast<std::size_t>(cache_of(static_cast<int>(plans.size()) - 1)) + 1;
    is_in_memory_ = buffer_bytes > static_cast<std::int64_t>(caches) * model.cache_bytes;
    into_.resize(caches);
    out_of_.resize(caches);
    sockets_.resize(static_cast<std::size_t>(socket_of(static_cast<int>(plans.size()) - 1)) + 1);
    memories_.resize(sockets_.size());
  }

  double run() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) events_.emplace(0, rank);
    while (!events_.empty()) {
      const auto [time, rank] = events_.top();
      events_.pop();
      advance(rank, time);
    }
    return end_;
  }

 private:
  /// What a core of the same or another rank is to be asked for.
  struct Request {
    int owner;
    std::int64_t bytes;
    bool is_flag;
  };
  struct RankRun {
    std::size_t step = 0;
    std::vector<Request> requests;  // of the step, that are left, the next one last
    bool has_begun = false;
    double arrived = 0;           // when the last one of the step has come
    std::vector<double> seen_at;  // when each phase can be seen
    double farthest_reader = 0;   // of the flag since it was written
    Turns flag;                   // the line with the flag
    std::vector<int> awaiting;    // ranks that wait for this one
  };

  RankRun& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int cache_of(int rank) const { return rank / model_.cores_per_cache; }
  [[nodiscard]] int socket_of(int rank) const { return rank / model_.cores_per_socket; }
  [[nodiscard]] double latency(int a, int b) const {
    if (cache_of(a) == cache_of(b)) return model_.near_seconds;
    return socket_of(a) == socket_of(b) ? model_.far_seconds : model_.remote_seconds;
  }

  /// Goes on until the rank's next request, at whose time other ranks may have asked for something, too.
  void advance(int rank, double time) {
    RankRun& own = at(rank);
    const std::vector<Step>& steps = plans_[static_cast<std::size_t>(rank)].steps;
    while (own.step < steps.size()) {
      const Step& step = steps[own.step];
      if (std::holds_alternative<Publish>(step)) {
        time += model_.step_seconds;
        own.seen_at.push_back(time + own.farthest_reader);
        own.farthest_reader = 0;
        for (const int waiter : own.awaiting) events_.emplace(std::max(time, own.seen_at.back()), waiter);
        own.awaiting.clear();
        ++own.step;
        continue;
      }
      if (!own.has_begun) {
        begin(rank, step);
        own.arrived = time + model_.step_seconds;
      }
      if (own.requests.empty()) {
        time = std::max(time, own.arrived) + seconds_of_additions(step);
        own.has_begun = false;
        ++own.step;
        continue;
      }
      const Request request = own.requests.back();
      if (request.is_flag) {
        const auto phase = static_cast<std::size_t>(std::get<Await>(step).phase);
        if (at(request.owner).seen_at.size() <= phase) {
          at(request.owner).awaiting.push_back(rank);
          return;
        }
        if (const double seen = at(request.owner).seen_at[phase]; seen > time)
          return events_.emplace(seen, rank), void();
      }
      own.requests.pop_back();
      const auto lines = static_cast<double>(lines_of(request.bytes));
      const double delay = latency(rank, request.owner);
      own.arrived = std::max(own.arrived, arrival(rank, request, time));
      time += model_.peer_seconds + lines * std::max(delay / model_.lines_in_flight, pace(rank, request.owner));
      return events_.emplace(time, rank), void();
    }
    end_ = std::max(end_, time);
  }

  [[nodiscard]] double pace(int rank, int owner) const {
    const bool is_near = cache_of(rank) == cache_of(owner);
    return is_near ? static_cast<double>(line_bytes) / model_.near_bytes_per_second : 0;
  }

  /// Returns when what is asked for at `time` arrives.
  double arrival(int rank, const Request& request, double time) {
    const int owner = request.owner;
    const auto bytes = static_cast<double>(lines_of(request.bytes) * line_bytes);
    const bool is_near = cache_of(rank) == cache_of(owner);
    double done = time;
    if (request.is_flag) {
      done = at(owner).flag.take(time, is_near ? model_.near_turn_seconds : model_.far_turn_seconds);
      at(owner).farthest_reader = std::max(at(owner).farthest_reader, latency(rank, owner));
    }
    if (is_in_memory_ && !request.is_flag) {
      auto& memory = memories_[static_cast<std::size_t>(socket_of(owner))];
      done = std::max(done, memory.take(time, bytes / model_.memory_bytes_per_second) + model_.memory_seconds);
    }
    if (!is_near) {
      const double seconds = bytes / model_.cache_bytes_per_second;
      done = std::max(done, out_of_[static_cast<std::size_t>(cache_of(owner))].take(time, seconds));
      done = std::max(done, into_[static_cast<std::size_t>(cache_of(rank))].take(time, seconds));
    }
    if (socket_of(rank) != socket_of(owner)) {
      auto& socket = sockets_[static_cast<std::size_t>(socket_of(owner))];
      done = std::max(done, socket.take(time, bytes / model_.socket_bytes_per_second));
    }
    return done + latency(rank, owner);
  }

  void begin(int rank, const Step& step) {
    RankRun& own = at(rank);
    own.has_begun = true;
    std::visit(Overloaded{[&](const Await& a) {
                            for (const int peer : a.peers) own.requests.push_back({peer, line_bytes, true});
                          },
                          [&](const Combine& c) {
                            for (const auto* ranges : {&c.from, &c.to})
                              for (const NodeRange& range : *ranges) ask(own, range);
                          },
                          [](const auto&) {}},
               step);
    std::reverse(own.requests.begin(), own.requests.end());
  }
  void ask(RankRun& own, const NodeRange& range) const {
    if (range.rank == self) return;
    std::int64_t bytes = range.range.count * element_bytes_;
    // Where it is staged, the beginning of the staging area has come with the flag.
    const bool is_staged = plans_[static_cast<std::size_t>(range.rank)].staging > 0;
    if (is_staged && range.range.offset * element_bytes_ < bytes_beside_a_flag)
      bytes -= std::min(bytes, bytes_beside_a_flag - range.range.offset * element_bytes_);
    constexpr std::int64_t piece = 16 * line_bytes;
    for (; bytes > 0; bytes -= piece) own.requests.push_back({range.rank, std::min(bytes, piece), false});
  }

  [[nodiscard]] double seconds_of_additions(const Step& step) const {
    std::int64_t bytes = 0;
    if (const auto* combine = std::get_if<Combine>(&step))
      bytes = combine->to.front().range.count * static_cast<std::int64_t>(combine->from.size());
    if (const auto* copy = std::get_if<Copy>(&step)) bytes = copy->to.count;
    return static_cast<double>(bytes * element_bytes_) / model_.add_bytes_per_second;
  }

  std::span<const Plan> plans_;
  std::int64_t element_bytes_;
  const NodeModel& model_;
  bool is_in_memory_ = false;
  double end_ = 0;  // of the steps of the ranks that are done
  std::vector<RankRun> ranks_;
  std::vector<Turns> into_;
  std::vector<Turns> out_of_;
  std::vector<Turns> sockets_;
  std::vector<Turns> memories_;
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> events_;
};

}  // namespace

double node_seconds(std::span<const Plan> plans, std::int64_t element_bytes, std::int64_t buffer_bytes,
                    const NodeModel& model) {
  return NodeRun(plans, element_bytes, buffer_bytes, model).run();
}

}  // namespace lockstep::collectives
