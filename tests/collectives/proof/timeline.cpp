// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>

#include "collectives/plan/plan.hpp"

namespace lockstep::collectives {
namespace {

/// The state of one step.
struct Waiting {
  int open = 0;      ///< number of unfulfilled dependencies
  double ready = 0;  ///< time when the last dependency was fulfilled
  bool posted = false;
  bool done = false;
  int other_half = -1;  ///< the other half of its message
  std::vector<int> after_done;
  std::vector<int> after_posted;
  std::vector<int> awaiting;  ///< for a Publish: steps of other ranks that await it
};

struct Ports {
  double send_free = 0;
  double receive_free = 0;
  double adder_free = 0;
};

/// A node's link to the other nodes.
struct NodePort {
  double send_free = 0;
  double receive_free = 0;
};

class Runner {
 public:
  Runner(std::span<const Plan> plans, std::int64_t element_bytes, const CostModel& model, const ClusterShape& shape)
      : plans_(plans),
        element_bytes_(element_bytes),
        model_(model),
        shape_(shape),
        ports_(plans.size()),
        links_(shape.node_of_rank.empty() ? 1 : shape.nodes()) {
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      first_.push_back(static_cast<int>(steps_.size()));
      add_steps(static_cast<int>(rank));
    }
    for (const Match& pair : match(plans).matches) {
      at(number(pair.send)).other_half = number(pair.receive);
      at(number(pair.receive)).other_half = number(pair.send);
    }
    for (const Wait& wait : match_phases(plans)) {
      ++at(number(wait.await)).open;
      if (wait.publish) at(number(*wait.publish)).awaiting.push_back(number(wait.await));
    }
  }

  Timeline run() {
    for (int i = 0; i < static_cast<int>(steps_.size()); ++i)
      if (at(i).open == 0 && !at(i).posted) post(i, 0);
    while (!candidates_.empty()) {
      const auto [time, step] = candidates_.top();
      candidates_.pop();
      const double start = std::max(time, ports_free(step));
      if (start > time) {
        candidates_.emplace(start, step);
      } else {
        execute(step, start);
      }
    }
    for (int i = 0; i < static_cast<int>(steps_.size()); ++i)
      if (!at(i).done) timeline_.blocked.push_back(id(i));
    return std::move(timeline_);
  }

 private:
  Waiting& at(int step) { return steps_[static_cast<std::size_t>(step)]; }
  Ports& ports(int rank) { return ports_[static_cast<std::size_t>(rank)]; }
  int number(StepId s) { return first_[static_cast<std::size_t>(s.rank)] + s.step; }
  StepId id(int step) {
    const auto next = std::upper_bound(first_.begin(), first_.end(), step);
    // Ranks without steps share their first number with the next rank; upper_bound finds the last of them.
    const int rank = static_cast<int>(next - first_.begin()) - 1;
    return {rank, step - first_[static_cast<std::size_t>(rank)]};
  }
  const Step& step_of(StepId s) {
    return plans_[static_cast<std::size_t>(s.rank)].steps[static_cast<std::size_t>(s.step)];
  }

  void add_steps(int rank) {
    const int first = static_cast<int>(steps_.size());
    const auto waits_for = dependencies(plans_[static_cast<std::size_t>(rank)]);
    steps_.resize(steps_.size() + waits_for.size());
    for (int i = 0; i < static_cast<int>(waits_for.size()); ++i) {
      const Dependencies& own = waits_for[static_cast<std::size_t>(i)];
      at(first + i).open = static_cast<int>(own.done.size() + own.started.size());
      for (const int earlier : own.done) at(first + earlier).after_done.push_back(first + i);
      for (const int earlier : own.started) at(first + earlier).after_posted.push_back(first + i);
    }
  }

  void fulfill(int step, double time) {
    Waiting& waiting = at(step);
    waiting.ready = std::max(waiting.ready, time);
    if (--waiting.open == 0) post(step, waiting.ready);
  }

  void post(int step, double time) {
    Waiting& waiting = at(step);
    if (const auto* await = std::get_if<Await>(&step_of(id(step))))
      time += static_cast<double>(await->peers.size() - 1) * model_.local.peer_seconds;
    waiting.posted = true;
    waiting.ready = time;
    const auto half = message(step_of(id(step)));
    if (!half) {
      candidates_.emplace(time, step);
    } else if (waiting.other_half >= 0 && at(waiting.other_half).posted) {
      const int send = half->direction == Direction::send ? step : waiting.other_half;
      candidates_.emplace(std::max(time, at(waiting.other_half).ready), send);
    }
    for (const int later : at(step).after_posted) fulfill(later, time);
  }

  void finish(int step, double time) {
    at(step).done = true;
    for (const int later : at(step).after_done) fulfill(later, time);
    for (const int await : at(step).awaiting) fulfill(await, time + model_.local.alpha_seconds);
  }

  double ports_free(int step) {
    const StepId here = id(step);
    if (const int other = at(step).other_half; other >= 0) {
      const int to = id(other).rank;
      const double ranks_free = std::max(ports(here.rank).send_free, ports(to).receive_free);
      if (is_local(here.rank, to)) return ranks_free;
      const double links_free = std::max(links(here.rank).send_free, links(to).receive_free);
      return std::max(ranks_free, links_free - own_seconds(model_.remote));
    }
    const Step& step_here = step_of(here);
    const bool adds = std::holds_alternative<Reduce>(step_here) || std::holds_alternative<Combine>(step_here);
    return adds ? ports(here.rank).adder_free : 0;
  }

  void execute(int step, double start) {
    if (at(step).other_half >= 0) {
      transfer(step, at(step).other_half, start);
    } else {
      const StepId here = id(step);
      double end = start;
      if (const auto* sum = std::get_if<Reduce>(&step_of(here))) end = add(here.rank, sum->to.count, start);
      if (const auto* sum = std::get_if<Combine>(&step_of(here))) end = combine(here.rank, *sum, start);
      record({here.rank, here.step, -1, -1, start, end});
      finish(step, end);
    }
  }

  void transfer(int send, int receive, double start) {
    const StepId from = id(send);
    const StepId to = id(receive);
    const std::int64_t count = message(step_of(from))->count;
    const LinkCost& link = is_local(from.rank, to.rank) ? model_.local : model_.remote;
    const double sent = start + own_seconds(link) + bytes(count) * link.beta_seconds_per_byte;
    ports(from.rank).send_free = sent;
    ports(to.rank).receive_free = sent;
    if (!is_local(from.rank, to.rank)) {
      links(from.rank).send_free = sent;
      links(to.rank).receive_free = sent;
    }
    const double arrived = sent + link.wire_seconds;
    const double end = std::holds_alternative<ReceiveReduce>(step_of(to)) ? add(to.rank, count, arrived) : arrived;
    record({from.rank, from.step, to.rank, to.step, start, end});
    finish(send, sent);
    finish(receive, end);
  }

  /// Uses the rank's adder from `earliest` on; returns when it is done.
  double add(int rank, std::int64_t count, double earliest) {
    double& free = ports(rank).adder_free;
    free = std::max(free, earliest) + bytes(count) * model_.gamma_seconds_per_byte;
    return free;
  }

  /// Uses the adder as `add` does. Bytes read from or written to another rank's memory cost the link's β, without α.
  double combine(int rank, const Combine& step, double earliest) {
    const double n = bytes(step.to.front().range.count);
    const auto is_far = [](const NodeRange& at) { return at.rank != self; };
    const auto far = std::count_if(step.from.begin(), step.from.end(), is_far) +
                     std::count_if(step.to.begin(), step.to.end(), is_far);
    double& free = ports(rank).adder_free;
    free = std::max(free, earliest) + n * static_cast<double>(far) * model_.local.beta_seconds_per_byte +
           n * static_cast<double>(step.from.size() - 1) * model_.gamma_seconds_per_byte;
    return free;
  }

  void record(const TimelineEvent& event) {
    timeline_.events.push_back(event);
    timeline_.seconds = std::max(timeline_.seconds, event.end_seconds);
  }

  [[nodiscard]] double bytes(std::int64_t count) const { return static_cast<double>(count * element_bytes_); }
  /// Returns how long a message keeps its two ranks busy, apart from the time for its bytes.
  static double own_seconds(const LinkCost& link) { return link.alpha_seconds - link.wire_seconds; }
  /// @pre there are several nodes
  NodePort& links(int rank) {
    return links_[static_cast<std::size_t>(shape_.node_of_rank[static_cast<std::size_t>(rank)])];
  }
  [[nodiscard]] bool is_local(int a, int b) const {
    const auto node = [this](int rank) { return shape_.node_of_rank[static_cast<std::size_t>(rank)]; };
    return shape_.node_of_rank.empty() || node(a) == node(b);
  }

  /// The earliest start of a step, and the step: a local one or the sending half of a message.
  using Candidate = std::pair<double, int>;

  std::span<const Plan> plans_;
  std::int64_t element_bytes_;
  const CostModel& model_;
  const ClusterShape& shape_;
  std::vector<int> first_;  ///< number of each rank's first step
  std::vector<Waiting> steps_;
  std::vector<Ports> ports_;
  std::vector<NodePort> links_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
  Timeline timeline_;
};

}  // namespace

Timeline run(std::span<const Plan> plans, std::int64_t element_bytes, const CostModel& model,
             const ClusterShape& shape) {
  return Runner(plans, element_bytes, model, shape).run();
}

int rounds(std::span<const Plan> plans) {
  const LinkCost one{1, 0};
  return static_cast<int>(std::lround(run(plans, 1, {one, one, 0}).seconds));
}

Traffic traffic(const Plan& plan, std::int64_t element_bytes) {
  Traffic sum;
  for (const Step& step : plan.steps) {
    const auto* send = std::get_if<Send>(&step);
    if (send == nullptr) continue;
    ++sum.messages;
    sum.bytes.value += send->from.count * element_bytes;
  }
  return sum;
}

}  // namespace lockstep::collectives
