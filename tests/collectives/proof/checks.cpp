// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "collectives/plan/plan.hpp"
#include "collectives/proof/symbolic_memory.hpp"
#include "collectives/proof/timeline.hpp"

namespace lockstep::collectives {
namespace {

std::string text(const Range& r) {
  constexpr std::array names{"input", "output", "scratch", "staging"};
  return std::string(names[static_cast<std::size_t>(r.memory)]) + "[" + std::to_string(r.offset) + ", " +
         std::to_string(r.offset + r.count) + ")";
}

/// Checks the steps of one rank on their own.
class Inspector {
 public:
  Inspector(std::span<const Plan> plans, int rank, const Trial& trial) : plans_(plans), rank_(rank), trial_(trial) {}

  /// Returns what is wrong with the step, or an empty string.
  std::string complaint(const Step& step) {
    const Accesses touched(step);
    const auto is_rank = [&](int r) { return 0 <= r && r < static_cast<int>(plans_.size()) && r != rank_; };
    std::optional<std::int64_t> count;
    for (const auto& ranges : {touched.reads(), touched.writes()}) {
      for (const auto& [owner, range] : ranges) {
        if (owner != self && !is_rank(owner)) return "touches the memory of rank " + std::to_string(owner);
        if (owner != self && range.memory == Memory::scratch) return "touches another rank's " + text(range);
        if (owner != self && range.memory == Memory::staging && plans_[static_cast<std::size_t>(owner)].staging == 0)
          return "touches another rank's " + text(range);
        const Seen at = seen(plans_, rank_, {owner, range}, trial_);
        if (!lies_inside(at.range, at.owner)) return text(range) + " lies outside of its memory";
        if (crosses_parts(range, owner == self ? rank_ : owner))
          return text(range) + " is not within one part; an executor may keep them apart";
        if (count.value_or(range.count) != range.count) return "the operands have different lengths";
        count = range.count;
      }
    }
    for (const NodeRange& write : touched.writes()) {
      if (write.range.memory == Memory::input) return "writes " + text(write.range);
      for (const NodeRange& read : touched.reads())
        if (write.rank == read.rank && overlap_partly(extent_at(write), extent_at(read)))
          return text(read.range) + " overlaps " + text(write.range) + " in part";
    }
    if (const auto half = message(step); half && !is_rank(half->peer))
      return "the peer is rank " + std::to_string(half->peer);
    if (const auto* publish = std::get_if<Publish>(&step); publish != nullptr && publish->phase != next_phase_++)
      return "publishes phase " + std::to_string(publish->phase) + " out of turn";
    if (const auto* await = std::get_if<Await>(&step))
      for (const int peer : await->peers)
        if (!is_rank(peer)) return "awaits rank " + std::to_string(peer);
    return {};
  }

 private:
  [[nodiscard]] Extent extent_at(const NodeRange& at) const {
    const Seen where = seen(plans_, rank_, at, trial_);
    return extent_of(trial_, where.owner, where.range);
  }
  [[nodiscard]] bool lies_inside(const Range& r, int owner) const {
    const int ranks = static_cast<int>(plans_.size());
    const Plan& plan = plans_[static_cast<std::size_t>(owner)];
    const auto size = [&] {
      switch (r.memory) {
        case Memory::input: return input_count(trial_, ranks, owner);
        case Memory::output: return output_count(trial_, ranks, owner);
        case Memory::scratch: return plan.scratch.value;
        case Memory::staging: break;
      }
      return plan.staging.value;
    }();
    const int leaves = r.memory == Memory::input ? inputs_of(trial_, owner) : 1;
    return r.offset >= 0 && r.count >= 0 && r.offset + r.count <= size && r.leaf >= 0 && r.leaf < leaves;
  }
  [[nodiscard]] bool crosses_parts(const Range& r, int owner) const {
    const bool has_parts_in = trial_.kind == CollectiveKind::reduce_scatter || trial_.kind == CollectiveKind::scatter ||
                              trial_.kind == CollectiveKind::reduce_scatter_v || exchanges();
    const bool has_parts_out = trial_.kind == CollectiveKind::all_gather || trial_.kind == CollectiveKind::gather ||
                               trial_.kind == CollectiveKind::all_gather_v || exchanges();
    const bool has_parts = (has_parts_in && r.memory == Memory::input) || (has_parts_out && r.memory == Memory::output);
    const std::int64_t part = trial_.count.value;
    if (!has_parts || r.count == 0) return false;
    const auto number = static_cast<int>(r.offset / part);
    if (trial_.parts.empty()) return number != (r.offset + r.count - 1) / part;
    return r.offset % part + r.count > longest(r.memory, number, owner);
  }
  [[nodiscard]] bool exchanges() const {
    return trial_.kind == CollectiveKind::all_to_all || trial_.kind == CollectiveKind::all_to_all_v;
  }
  /// Returns the elements of a part of an owner's buffer, if the parts differ.
  [[nodiscard]] std::int64_t longest(Memory memory, int number, int owner) const {
    const int ranks = static_cast<int>(plans_.size());
    if (trial_.kind != CollectiveKind::all_to_all_v) return part_count(trial_, ranks, number, number);
    return memory == Memory::input ? part_count(trial_, ranks, owner, number)
                                   : part_count(trial_, ranks, number, owner);
  }
  static bool overlap_partly(const Extent& a, const Extent& b) {
    return a.memory == b.memory && a.begin != b.begin && a.begin < b.end && b.begin < a.end;
  }

  std::span<const Plan> plans_;
  int rank_;
  const Trial& trial_;
  int next_phase_ = 0;
};

struct Touch {
  Extent at;
  int step;
  bool writes;
};

std::vector<Touch> touches(const Plan& plan, int rank, const Trial& trial) {
  std::vector<Touch> result;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Accesses touched(plan.steps[s]);
    const int step = static_cast<int>(s);
    for (const auto& [owner, r] : touched.reads())
      if (owner == self) result.push_back({extent_of(trial, rank, r), step, false});
    for (const auto& [owner, r] : touched.writes())
      if (owner == self) result.push_back({extent_of(trial, rank, r), step, true});
  }
  std::erase_if(result, [](const Touch& t) { return t.at.begin == t.at.end; });
  return result;
}

/// Returns for each step the set of steps that are done before it begins.
std::vector<std::vector<bool>> closure(std::span<const Dependencies> waits_for) {
  std::vector<std::vector<bool>> before;
  for (const Dependencies& own : waits_for) {
    std::vector<bool> set(before.size());
    for (const int d : own.done) {
      const auto step = static_cast<std::size_t>(d);
      for (std::size_t i = 0; i < before[step].size(); ++i) set[i] = set[i] || before[step][i];
      set[step] = true;
    }
    before.push_back(std::move(set));
  }
  return before;
}

/// Returns the first step that another rank of the node could notice, or that lets this rank notice another one, before
/// phase 0 is published. Publishing phase 0 must come before it, because it tells that this rank has left the earlier
/// blocks (see `NodeLink`).
std::optional<int> first_unannounced(const Plan& plan) {
  const auto shows_others = [](const Step& step) {
    const Accesses touched(step);
    const auto is_of_another = [](const NodeRange& at) { return at.rank != self; };
    const auto* await = std::get_if<Await>(&step);
    return (await != nullptr && !await->peers.empty()) ||
           std::any_of(touched.reads().begin(), touched.reads().end(), is_of_another) ||
           std::any_of(touched.writes().begin(), touched.writes().end(), is_of_another);
  };
  if (std::none_of(plan.steps.begin(), plan.steps.end(), shows_others)) return std::nullopt;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (std::holds_alternative<Publish>(plan.steps[s])) return std::nullopt;
    if (shows_others(plan.steps[s]) || message(plan.steps[s])) return static_cast<int>(s);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Fault> find_malformed(std::span<const Plan> plans, int rank, const Trial& trial) {
  const Plan& plan = plans[static_cast<std::size_t>(rank)];
  Inspector inspector(plans, rank, trial);
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const std::string what = inspector.complaint(plan.steps[s]);
    if (!what.empty()) return Fault{FaultKind::malformed, rank, static_cast<int>(s), what};
  }
  if (const auto step = first_unannounced(plan))
    return Fault{FaultKind::malformed, rank, *step, "has to do with others before it publishes phase 0"};
  return std::nullopt;
}

std::optional<Fault> find_mismatch(std::span<const Plan> plans) {
  const auto half = [&](StepId s) {
    return *message(plans[static_cast<std::size_t>(s.rank)].steps[static_cast<std::size_t>(s.step)]);
  };
  const Matching matching = match(plans);
  if (!matching.unmatched.empty()) {
    const StepId s = matching.unmatched.front();
    return Fault{FaultKind::unmatched, s.rank, s.step, "no other half at rank " + std::to_string(half(s).peer)};
  }
  for (const auto& [send, receive] : matching.matches) {
    if (half(send).count == half(receive).count) continue;
    return Fault{FaultKind::unequal_counts, receive.rank, receive.step,
                 "expects " + std::to_string(half(receive).count) + " elements of " + std::to_string(half(send).count) +
                     " that rank " + std::to_string(send.rank) + " sends"};
  }
  return std::nullopt;
}

std::optional<Fault> find_untold(std::span<const Plan> plans, const Trial& trial) {
  const int ranks = static_cast<int>(plans.size());
  for (int from = 0; from < ranks; ++from) {
    std::vector<int> messages(plans.size());
    for (const Step& step : plans[static_cast<std::size_t>(from)].steps)
      if (const auto* send = std::get_if<Send>(&step)) ++messages[static_cast<std::size_t>(send->peer)];
    for (int to = 0; to < ranks; ++to) {
      const bool has_message =
          to != from && trial.parts[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) +
                                    static_cast<std::size_t>(to)] >= 0;
      const int sent = messages[static_cast<std::size_t>(to)];
      if (sent == (has_message ? 1 : 0)) continue;
      return Fault{sent == 0 ? FaultKind::missing : FaultKind::redundant, from, -1,
                   "has " + std::to_string(sent) + " messages for rank " + std::to_string(to)};
    }
  }
  return std::nullopt;
}

std::optional<Fault> find_race(const Plan& plan, std::span<const Dependencies> waits_for, int rank,
                               const Trial& trial) {
  const auto before = closure(waits_for);
  std::vector<Touch> all = touches(plan, rank, trial);
  std::sort(all.begin(), all.end(), [](const Touch& a, const Touch& b) {
    return std::pair(a.at.memory, a.at.begin) < std::pair(b.at.memory, b.at.begin);
  });
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Touch& a = all[i];
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      const Touch& b = all[j];
      if (b.at.memory != a.at.memory || b.at.begin >= a.at.end) break;
      if (a.step == b.step || (!a.writes && !b.writes)) continue;
      const auto [first, second] = std::minmax(a.step, b.step);
      if (!before[static_cast<std::size_t>(second)][static_cast<std::size_t>(first)])
        return Fault{FaultKind::race, rank, second, "does not wait for step " + std::to_string(first)};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::collectives
