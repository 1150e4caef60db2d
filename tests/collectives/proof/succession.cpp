// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>

#include "collectives/plan/plan.hpp"
#include "collectives/proof/simulator.hpp"
#include "collectives/proof/symbolic_memory.hpp"
#include "collectives/proof/timeline.hpp"

namespace lockstep::collectives {
namespace {

/// A point in time: a step of a turn, its opening (before the first step), or its end (after the last).
struct Moment {
  int turn;
  int rank;
  int step;
};

/// A set of moments, by their numbers.
class MomentSet {
 public:
  explicit MomentSet(std::size_t size) : words_((size + 63) / 64) {}
  void insert(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  [[nodiscard]] bool contains(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void insert(const MomentSet& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }

 private:
  std::vector<std::uint64_t> words_;
};

bool is_first_publish(const Step& step) {
  const auto* publish = std::get_if<Publish>(&step);
  return publish != nullptr && publish->phase == 0;
}

std::vector<int> others_on_node(int rank, const Turn& turn, const ClusterShape& shape) {
  const auto node_of = [&](int r) { return shape.ranks() == 0 ? 0 : shape.node_of_rank[static_cast<std::size_t>(r)]; };
  std::vector<int> all;
  for (int other = 0; other < static_cast<int>(turn.plans.size()); ++other)
    if (other != rank && node_of(other) == node_of(rank)) all.push_back(other);
  return all;
}

/// All moments of a succession and the moments that each of them waits for.
class Course {
 public:
  Course(std::span<const Turn* const> turns, const ClusterShape& shape, const SlotRule& rule)
      : turns_(turns), shape_(shape), rule_(rule), ranks_(static_cast<int>(turns.front()->plans.size())) {
    for (int turn = 0; turn < static_cast<int>(turns.size()); ++turn)
      for (int rank = 0; rank < ranks_; ++rank) {
        first_.push_back(moments_.size());
        for (int step = -1; step <= steps(turn, rank); ++step) moments_.push_back({turn, rank, step});
      }
    waits_for_.resize(moments_.size());
    for (int turn = 0; turn < static_cast<int>(turns.size()); ++turn) link(turn);
    for (int rank = 0; rank < ranks_; ++rank) link_openings(rank);
  }

  [[nodiscard]] std::size_t size() const { return moments_.size(); }
  [[nodiscard]] const Moment& operator[](std::size_t number) const { return moments_[number]; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int steps(int turn, int rank) const { return static_cast<int>(plan(turn, rank).steps.size()); }
  [[nodiscard]] const Plan& plan(int turn, int rank) const {
    return turns_[static_cast<std::size_t>(turn)]->plans[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::size_t number(const Moment& m) const {
    return first_[static_cast<std::size_t>(m.turn) * static_cast<std::size_t>(ranks_) +
                  static_cast<std::size_t>(m.rank)] +
           static_cast<std::size_t>(m.step + 1);
  }
  [[nodiscard]] std::size_t opening(int turn, int rank) const { return number({turn, rank, -1}); }
  [[nodiscard]] std::size_t end(int turn, int rank) const { return number({turn, rank, steps(turn, rank)}); }
  [[nodiscard]] std::optional<std::size_t> first_publish(int turn, int rank) const {
    const auto& all = plan(turn, rank).steps;
    const auto found = std::find_if(all.begin(), all.end(), is_first_publish);
    if (found == all.end()) return std::nullopt;
    return number({turn, rank, static_cast<int>(found - all.begin())});
  }

  /// Returns for each moment those that are over before it begins; nothing if there is a cycle.
  [[nodiscard]] std::optional<std::vector<MomentSet>> happens_before() const {
    std::vector<std::vector<std::size_t>> followers(size());
    std::vector<std::size_t> waits(size());
    for (std::size_t m = 0; m < size(); ++m) {
      waits[m] = waits_for_[m].size();
      for (const std::size_t earlier : waits_for_[m]) followers[earlier].push_back(m);
    }
    std::vector<std::size_t> ready;
    for (std::size_t m = 0; m < size(); ++m)
      if (waits[m] == 0) ready.push_back(m);
    std::vector<MomentSet> before(size(), MomentSet(size()));
    for (std::size_t i = 0; i < ready.size(); ++i) {
      for (const std::size_t earlier : waits_for_[ready[i]]) {
        before[ready[i]].insert(before[earlier]);
        before[ready[i]].insert(earlier);
      }
      for (const std::size_t follower : followers[ready[i]])
        if (--waits[follower] == 0) ready.push_back(follower);
    }
    if (ready.size() < size()) return std::nullopt;
    return before;
  }

 private:
  void wait(std::size_t later, std::size_t earlier) { waits_for_[later].push_back(earlier); }

  /// Links the moments of a turn.
  void link(int turn) {
    const auto at = [&](StepId s) { return number({turn, s.rank, s.step}); };
    const std::span<const Plan> plans = turns_[static_cast<std::size_t>(turn)]->plans;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (turn > 0) wait(opening(turn, rank), end(turn - 1, rank));
      const auto waiting = dependencies(plan(turn, rank));
      for (int step = 0; step < steps(turn, rank); ++step) {
        wait(at({rank, step}), opening(turn, rank));
        for (const int earlier : waiting[static_cast<std::size_t>(step)].done)
          wait(at({rank, step}), at({rank, earlier}));
        wait(end(turn, rank), at({rank, step}));
      }
      wait(end(turn, rank), opening(turn, rank));
    }
    for (const Wait& w : match_phases(plans))
      if (w.publish) wait(at(w.await), at(*w.publish));
    for (const auto& [send, receive] : match(plans).matches) wait(at(receive), at(send));
  }

  /// Applies the slot rule to the openings of one rank.
  void link_openings(int rank) {
    const std::vector<int> node = others_on_node(rank, *turns_.front(), shape_);
    int entered = -1;  // the last turn that all ranks are known to have entered
    for (int turn = 0; turn < static_cast<int>(turns_.size()); ++turn) {
      const int needed = turn - rule_.slots + 1 - rule_.slack;
      if (needed > entered && rule_.looks) {
        for (const int peer : node) wait(opening(turn, rank), *first_publish(needed, peer));
        entered = needed;
      }
      for (const Step& step : plan(turn, rank).steps)
        if (const auto* await = std::get_if<Await>(&step); await != nullptr && shows_all_entered(*await, node))
          entered = turn;
    }
  }
  [[nodiscard]] bool shows_all_entered(const Await& await, const std::vector<int>& node) const {
    if (!rule_.awaits_all) return !await.peers.empty();
    return await.hears_of_all || await.peers.size() == node.size();
  }

  std::span<const Turn* const> turns_;
  const ClusterShape& shape_;
  const SlotRule& rule_;
  int ranks_;
  std::vector<Moment> moments_;
  std::vector<std::size_t> first_;  ///< number of the opening, by turn and rank
  std::vector<std::vector<std::size_t>> waits_for_;
};

/// A kind of memory of a rank: the buffers of a turn, or the announcement or staging area of a slot.
enum class Area : std::uint8_t { buffers, announcement, staging };

struct SlotTouch {
  int owner;
  Area area;
  int which;  ///< index of the turn or slot
  Extent at;
  std::size_t moment;
  bool writes;

  [[nodiscard]] auto location() const { return std::tuple(owner, area, which, at.memory); }
};

class Touches {
 public:
  Touches(std::span<const Turn* const> turns, const Course& course, const SlotRule& rule)
      : turns_(turns), course_(course), rule_(rule) {
    for (int turn = 0; turn < static_cast<int>(turns.size()); ++turn)
      for (int rank = 0; rank < course.ranks(); ++rank) {
        announce(turn, rank, course.opening(turn, rank), true);
        for (int step = 0; step < course.steps(turn, rank); ++step) add_step(turn, rank, step);
      }
    std::erase_if(all_, [](const SlotTouch& t) { return t.at.begin == t.at.end; });
    std::sort(all_.begin(), all_.end(), [](const SlotTouch& a, const SlotTouch& b) {
      return std::tuple(a.location(), a.at.begin) < std::tuple(b.location(), b.at.begin);
    });
  }

  [[nodiscard]] const std::vector<SlotTouch>& all() const { return all_; }

 private:
  void announce(int turn, int owner, std::size_t moment, bool writes) {
    all_.push_back({owner, Area::announcement, turn % rule_.slots, {0, 0, 1}, moment, writes});
  }
  void add_step(int turn, int rank, int step) {
    const Turn& of = *turns_[static_cast<std::size_t>(turn)];
    const std::size_t moment = course_.number({turn, rank, step});
    const auto add = [&](const NodeRange& what, bool writes) {
      const auto [owner, range] = seen(of.plans, rank, what, of.trial);
      if (owner != rank) announce(turn, owner, moment, false);
      const bool staged = range.memory == Memory::staging;
      all_.push_back({owner, staged ? Area::staging : Area::buffers, staged ? turn % rule_.slots : turn,
                      extent_of(of.trial, owner, range), moment, writes});
    };
    const Accesses touched(course_.plan(turn, rank).steps[static_cast<std::size_t>(step)]);
    for (const NodeRange& at : touched.reads()) add(at, false);
    for (const NodeRange& at : touched.writes()) add(at, true);
  }

  std::span<const Turn* const> turns_;
  const Course& course_;
  const SlotRule& rule_;
  std::vector<SlotTouch> all_;
};

Fault race_at(const Moment& m, const std::string& what) {
  return {FaultKind::race, m.rank, m.step, "in turn " + std::to_string(m.turn) + " " + what};
}

std::optional<Fault> find_race(std::span<const Turn* const> turns, const Course& course, const SlotRule& rule,
                               std::span<const MomentSet> before) {
  const Touches touches(turns, course, rule);
  const std::vector<SlotTouch>& all = touches.all();
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      const SlotTouch& a = all[i];
      const SlotTouch& b = all[j];
      if (a.location() != b.location() || b.at.begin >= a.at.end) break;
      if (a.moment == b.moment || (!a.writes && !b.writes)) continue;
      if (before[a.moment].contains(b.moment) || before[b.moment].contains(a.moment)) continue;
      return race_at(course[b.moment], "touches memory of rank " + std::to_string(a.owner) + " that turn " +
                                           std::to_string(course[a.moment].turn) + " uses");
    }
  return std::nullopt;
}

/// Finds a flag that could be overwritten before a rank that awaits it has seen it.
std::optional<Fault> find_lost_flag(const Course& course, const SlotRule& rule, std::span<const MomentSet> before,
                                    int turns) {
  for (std::size_t m = 0; m < course.size(); ++m) {
    const auto [turn, rank, step] = course[m];
    if (step < 0 || step == course.steps(turn, rank) || turn + rule.slots >= turns) continue;
    const auto* await = std::get_if<Await>(&course.plan(turn, rank).steps[static_cast<std::size_t>(step)]);
    if (await == nullptr) continue;
    for (const int peer : await->peers)
      if (!before[*course.first_publish(turn + rule.slots, peer)].contains(m))
        return race_at(course[m], "awaits a flag of rank " + std::to_string(peer) + " that a later turn may overwrite");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Fault> prove_succession(std::span<const Turn* const> turns, const ClusterShape& shape,
                                      const SlotRule& rule) {
  for (const Turn* const turn : turns)
    for (int rank = 0; rank < static_cast<int>(turn->plans.size()); ++rank) {
      const auto& steps = turn->plans[static_cast<std::size_t>(rank)].steps;
      if (std::none_of(steps.begin(), steps.end(), is_first_publish) && !others_on_node(rank, *turn, shape).empty())
        return Fault{FaultKind::malformed, rank, -1, "never publishes phase 0"};
    }
  const Course course(turns, shape, rule);
  const auto before = course.happens_before();
  if (!before) return Fault{FaultKind::deadlock, 0, -1, "some turns wait for each other"};
  if (auto fault = find_race(turns, course, rule, *before)) return fault;
  return find_lost_flag(course, rule, *before, static_cast<int>(turns.size()));
}

}  // namespace lockstep::collectives
