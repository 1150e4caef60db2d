// SPDX-License-Identifier: Apache-2.0
#include "apps/comm-check/member.hpp"

#include <algorithm>
#include <deque>

namespace lockstep::comm_check {

Member::Member(const Scenario& scenario, int rank, Progress& progress, Together together, Make make,
               std::function<void(unsigned)> between)
    : scenario_(scenario),
      rank_(rank),
      progress_(progress),
      together_(together),
      make_(std::move(make)),
      between_(std::move(between)),
      random_(scenario.seed * 64 + static_cast<unsigned>(rank)),
      communicators_(scenario.groups.size()) {}

void Member::run() {
  for (std::size_t round = 0; round < scenario_.rounds.size(); ++round) {
    make_communicators(round);
    submit(scenario_.rounds[round]);
    while (!under_way_.empty() && random_() % 4 != 0) wait_for_any();
    close_communicators(round);
  }
}

bool Member::is_in(std::size_t group) const {
  const Members& members = scenario_.groups[group].members;
  return std::ranges::find(members, rank_) != members.end();
}

bool Member::has_part_in(const Request& request) const {
  const Members& members = scenario_.groups[request.group].members;
  const auto me = std::ranges::find(members, rank_);
  return me != members.end() && takes_part(request, static_cast<int>(me - members.begin()));
}

void Member::make_communicators(std::size_t round) {
  for (std::size_t g = 0; g < communicators_.size(); ++g) {
    if (scenario_.groups[g].first_round != round) continue;
    if (together_ == Together::all_ranks) wait_for_all();
    if (together_ == Together::all_ranks || is_in(g)) communicators_[g] = make_(g);
  }
}

void Member::close_communicators(std::size_t round) {
  for (std::size_t g = 0; g < communicators_.size(); ++g) {
    if (scenario_.groups[g].last_round != round) continue;
    if (together_ == Together::all_ranks) wait_for_all();
    if (!communicators_[g]) continue;
    wait_for_all_of(g);
    last_group_ = g;
    std::erase_if(kept_, [&](const auto& kept) { return kept.second->group() == g; });
    communicators_[g]->close();
    communicators_[g].reset();
    pause();
  }
}

/// Submits the requests. Those of a communicator, or of a pair of ranks for messages, keep their order; the orders are
/// interleaved at random.
void Member::submit(const std::vector<Request>& requests) {
  wait_for_those_that_start_again(requests);
  std::map<Order, std::deque<Unit>> queues;
  std::vector<Order> turns;
  std::size_t count = 0;
  for (const Request& request : requests) {
    if (!has_part_in(request)) continue;
    ++count;
    auto& queue = queues[order_of(request, requests)];
    const bool joins = request.bundle && !queue.empty() && queue.back().front()->bundle == request.bundle;
    if (!joins) turns.push_back(order_of(request, requests));
    if (!joins) queue.emplace_back();
    queue.back().push_back(&request);
  }
  // If fewer may be in flight than a round has, a rank waits between its submissions, which requires the same order on
  // all ranks.
  const auto most = static_cast<std::size_t>(scenario_.in_flight);
  if (most >= requests.size()) {
    while (under_way_.size() + count > most) wait_for_any();
    std::shuffle(turns.begin(), turns.end(), random_);
  }
  for (const Order& order : turns) {
    const Unit unit = std::move(queues[order].front());
    queues[order].pop_front();
    while (!under_way_.empty() && under_way_.size() + unit.size() > most) wait_for_any();
    last_group_ = unit.front()->group;
    start(unit);
    pause();
  }
}

/// Returns the order to which a request belongs. Messages have their own, unless one may be submitted in a group with a
/// collective.
Member::Order Member::order_of(const Request& request, const std::vector<Request>& requests) {
  const auto group = static_cast<int>(request.group);
  const auto is_joined = [&](const Request& other) { return other.group == request.group && other.bundle; };
  if (!is_message(request.kind) || std::ranges::any_of(requests, is_joined)) return {group, -1, -1};
  return {group, request.root, request.to};
}

void Member::start(const Unit& unit) {
  if (!unit.front()->bundle) return start(*unit.front());
  Communicator& communicator = *communicators_[unit.front()->group];
  const std::size_t first = under_way_.size();
  std::vector<Collective> members;
  for (const Request* const request : unit) {
    under_way_.push_back(std::make_unique<Pending>(communicator, *request));
    members.push_back(under_way_.back()->collective());
  }
  std::vector<Work> works;
  try {
    works = communicator.group(members);
  } catch (...) {
    under_way_.resize(first);
    throw;
  }
  for (std::size_t k = 0; k < works.size(); ++k) under_way_[first + k]->adopt(std::move(works[k]));
}

void Member::start(const Request& request) {
  const auto kept = request.preparation ? kept_.find(*request.preparation) : kept_.end();
  if (kept == kept_.end() || !is_same_operation(kept->second->request(), request)) {
    auto pending = std::make_unique<Pending>(*communicators_[request.group], request);
    pending->start(*communicators_[request.group]);
    under_way_.push_back(std::move(pending));
    return;
  }
  under_way_.push_back(std::move(kept->second));
  kept_.erase(kept);
  under_way_.back()->start_again(request);
}

/// Waits for the prepared operations that this round starts again. This happens before the round submits anything;
/// everything that it waits for was submitted in earlier rounds.
void Member::wait_for_those_that_start_again(const std::vector<Request>& requests) {
  const auto is_needed = [&](const auto& pending) {
    const auto& number = pending->request().preparation;
    return number && std::ranges::any_of(requests, [&](const Request& r) { return r.preparation == number; });
  };
  const auto needed = std::stable_partition(under_way_.begin(), under_way_.end(), std::not_fn(is_needed));
  for (auto pending = needed; pending != under_way_.end(); ++pending) wait_for(**pending);
  for (auto pending = needed; pending != under_way_.end(); ++pending) keep(std::move(*pending));
  under_way_.erase(needed, under_way_.end());
}

void Member::keep(std::unique_ptr<Pending> pending) {
  const auto number = pending->request().preparation;
  if (number) kept_[*number] = std::move(pending);
}

void Member::wait_for_any() {
  std::swap(under_way_[random_() % under_way_.size()], under_way_.back());
  wait_for(*under_way_.back());
  keep(std::move(under_way_.back()));
  under_way_.pop_back();
  pause();
}

/// Waits for an operation. If it fails, it stays among those under way, because its buffers must remain.
void Member::wait_for(Pending& pending) {
  last_group_ = pending.group();
  pending.wait_and_check();
}

void Member::wait_for_all() {
  while (!under_way_.empty()) wait_for_any();
}

void Member::wait_for_all_of(std::size_t group) {
  const auto others =
      std::partition(under_way_.begin(), under_way_.end(), [&](const auto& p) { return p->group() != group; });
  for (auto pending = others; pending != under_way_.end(); ++pending) wait_for(**pending);
  under_way_.erase(others, under_way_.end());
}

void Member::abandon() { communicators_.clear(); }  // keeps prepared operations and their buffers

void Member::abort(std::string_view why) {
  for (const auto& communicator : communicators_)
    if (communicator) communicator->abort(why);
}

/// Does what a program may do between its calls: polls, tests an operation, or calls `between_`.
void Member::pause() {
  const auto drawn = static_cast<unsigned>(random_());
  switch (drawn % 4) {
    case 0: progress_.poll(); break;
    case 1:
      if (!under_way_.empty()) (void)under_way_[random_() % under_way_.size()]->test();
      break;
    default: between_(drawn / 4);
  }
}

}  // namespace lockstep::comm_check
