// SPDX-License-Identifier: Apache-2.0
#include "comm/wait_for_graph.hpp"

#include <algorithm>

#include "base/nearest.hpp"

namespace lockstep {
namespace {

/// Returns text such as "rank 1 on host2 does not" or "ranks 1 on host2, 2 on host2 do not".
std::string those(const std::vector<int>& ranks, const ControlChannel& control, const char* one, const char* several) {
  return rank_names(ranks, [&control](int rank) { return control.host_of(rank); }) +
         (ranks.size() == 1 ? one : several);
}

}  // namespace

std::string WaitForGraph::Verdict::text(const ControlChannel& control) const {
  if (culprits().empty()) return {};
  if (!silent.empty()) {
    return those(silent, control,
                 " does not answer: has its process been killed or stopped, or is it busy with something else?",
                 " do not answer: have their processes been killed or stopped, or are they busy with something else?");
  }
  if (!absent.empty()) {
    return those(absent, control, " answers, but has not submitted this operation",
                 " answer, but have not submitted this operation");
  }
  return those(busy, control, " answers, but is still busy with another operation",
               " answer, but are still busy with other operations");
}

/// Returns the inquiry to a rank, and asks again if the last answer is too old.
const WaitForGraph::Inquiry& WaitForGraph::inquire(ControlChannel& control, int rank, Clock::duration passed) {
  const auto [found, is_new] = inquiries_.try_emplace(rank);
  Inquiry& inquiry = found->second;
  inquiry.waited += passed;
  if (is_new || (inquiry.is_answered && inquiry.waited >= patience_)) {
    inquiry = {};
    control.inquire(rank);
  }
  if (inquiry.is_answered) return inquiry;
  if (auto standing = control.answer_of(rank)) {
    inquiry.is_answered = true;
    inquiry.standing = std::move(*standing);
  }
  return inquiry;
}

WaitForGraph::Verdict WaitForGraph::follow(ControlChannel& control, const std::vector<int>& awaited,
                                           Clock::time_point now) {
  Verdict verdict;
  // If this rank was held up itself, only a moment of that time counts, because others may have been held up, too.
  constexpr int fewest_looks = 10;
  const Clock::duration passed = std::min(now - std::exchange(last_look_, now), patience_ / fewest_looks);
  std::vector<int> trail = awaited;
  const auto add = [&](int rank) {
    if (std::find(trail.begin(), trail.end(), rank) == trail.end()) trail.push_back(rank);
  };
  for (std::size_t next = 0; next < trail.size();) {  // the loop body appends to trail
    const int rank = trail[next++];
    if (rank == control.rank().value) continue;
    const Inquiry& inquiry = inquire(control, rank, passed);
    if (!inquiry.is_answered) {
      if (inquiry.waited < patience_) {
        verdict.is_open = true;
      } else {
        verdict.silent.push_back(rank);
      }
    } else if (!inquiry.standing.awaited.empty()) {
      for (const int further : inquiry.standing.awaited) add(further);
    } else {
      (inquiry.standing.is_busy ? verdict.busy : verdict.absent).push_back(rank);
    }
  }
  return verdict;
}

}  // namespace lockstep
