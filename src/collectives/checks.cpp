#include "collectives/checks.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "collectives/matching.hpp"
#include "collectives/step.hpp"
#include "collectives/symbolic_memory.hpp"

namespace lockstep::collectives {
namespace {

std::string text(const Range& r) {
  constexpr std::array names{"input", "output", "scratch"};
  return std::string(names[static_cast<std::size_t>(r.memory)]) + "[" + std::to_string(r.offset) + ", " +
         std::to_string(r.offset + r.count) + ")";
}

bool lies_inside(const Range& r, const Plan& plan, int ranks, int rank, const Trial& trial) {
  std::int64_t size = plan.scratch.value;
  if (r.memory == Memory::input) size = input_count(trial, ranks);
  if (r.memory == Memory::output) size = output_count(trial, ranks);
  const int leaves = r.memory == Memory::input ? inputs_of(trial, rank) : 1;
  return r.offset >= 0 && r.count >= 0 && r.offset + r.count <= size && r.leaf >= 0 && r.leaf < leaves;
}

bool overlap_partly(const Place& a, const Place& b) {
  return a.memory == b.memory && a.begin != b.begin && a.begin < b.end && b.begin < a.end;
}

/// What is wrong with a step by itself; empty if nothing.
std::string complaint(const Step& step, const Plan& plan, int ranks, int rank, const Trial& trial) {
  const Accesses touched(step);
  std::vector<Range> ranges(touched.reads().begin(), touched.reads().end());
  if (touched.write()) ranges.push_back(*touched.write());
  for (const Range& r : ranges) {
    if (!lies_inside(r, plan, ranks, rank, trial)) return text(r) + " lies outside of its memory";
    if (r.count != ranges.front().count) return "the operands have different lengths";
  }
  if (touched.write() && touched.write()->memory == Memory::input) return "writes " + text(*touched.write());
  for (const Range& read : touched.reads())
    if (touched.write() && overlap_partly(place(trial, rank, *touched.write()), place(trial, rank, read)))
      return text(read) + " overlaps " + text(*touched.write()) + " in part";
  if (const auto half = message(step); half && (half->peer < 0 || half->peer >= ranks || half->peer == rank))
    return "the peer is rank " + std::to_string(half->peer);
  return {};
}

struct Touch {
  Place at;
  int step;
  bool writes;
};

std::vector<Touch> touches(const Plan& plan, int rank, const Trial& trial) {
  std::vector<Touch> result;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Accesses touched(plan.steps[s]);
    const int step = static_cast<int>(s);
    for (const Range& r : touched.reads()) result.push_back({place(trial, rank, r), step, false});
    if (touched.write()) result.push_back({place(trial, rank, *touched.write()), step, true});
  }
  std::erase_if(result, [](const Touch& t) { return t.at.begin == t.at.end; });
  return result;
}

/// For each step the set of steps that are done before it begins.
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

}  // namespace

std::optional<Fault> find_malformed(std::span<const Plan> plans, int rank, const Trial& trial) {
  const Plan& plan = plans[static_cast<std::size_t>(rank)];
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const std::string what = complaint(plan.steps[s], plan, static_cast<int>(plans.size()), rank, trial);
    if (!what.empty()) return Fault{FaultKind::malformed, rank, static_cast<int>(s), what};
  }
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
