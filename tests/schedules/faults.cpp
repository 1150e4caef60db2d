// SPDX-License-Identifier: Apache-2.0
#include "schedules/faults.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"
#include "schedules/left_behind.hpp"
#include "schedules/ranks.hpp"

namespace lockstep::schedules {
namespace {

/// The way in which a rank ended.
struct End {
  bool is_over = false;              ///< false: it stopped in the middle
  std::optional<Error> error;        ///< error from lockstep
  std::size_t group = 0;             ///< group of its communicator
  std::optional<std::string> wrong;  ///< description of anything that must not happen
};

class ProgramError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

bool has_part_in(const comm_check::Scenario& scenario, const comm_check::Request& request, int rank) {
  const comm_check::Members& members = scenario.groups[request.group].members;
  const auto member = std::find(members.begin(), members.end(), rank);
  return members.size() > 1 && member != members.end() &&
         comm_check::takes_part(request, static_cast<int>(member - members.begin()));
}

/// Returns whether the fault of the rank is in its calls.
bool calls_otherwise(FaultKind kind) {
  return kind == FaultKind::calls_something_else || kind == FaultKind::names_another_root;
}

DType other_dtype(DType dtype) { return dtype == DType::int32 ? DType::float32 : DType::int32; }

/// Returns shares in which the ranks have other leaves: as many in all, unless each has the same number.
LeafShares other_shares(const LeafShares& shares, int ranks) {
  std::vector<int> counts = shares.counts(ranks);
  std::rotate(counts.begin(), counts.begin() + 1, counts.end());
  if (LeafShares(counts) == shares) ++counts.front();
  return LeafShares(counts);
}

void call_something_else(comm_check::Request& request, unsigned how, int size) {
  if (request.leaves.total() > 0 && how / 8 % 2 == 0) {
    request.leaves = other_shares(request.leaves, size);
    return;
  }
  // In an all_to_all_v a longer part shifts the next one, whose values differ but may be valid for its receiver.
  const std::size_t first = request.kind == CollectiveKind::all_to_all_v ? 1 : 0;
  switch (first + how % ((is_message(request.kind) ? 2 : 3) - first)) {
    case 0: ++request.count; break;
    case 1: request.dtype = other_dtype(request.dtype); break;
    default:
      request.leaves = {};
      request.kind =
          request.kind == CollectiveKind::all_reduce ? CollectiveKind::broadcast : CollectiveKind::all_reduce;
  }
}

/// Returns the request that the rank at fault takes differently. It always has elements, because a call that moves
/// nothing is equivalent to a call that is left out, and cannot be told from another one with the same signature.
const comm_check::Request* request_at_fault(const comm_check::Scenario& scenario, const Fault& fault) {
  std::vector<const comm_check::Request*> candidates;
  const bool by_root = fault.kind == FaultKind::names_another_root;
  for (const auto& round : scenario.rounds)
    for (const comm_check::Request& request : round) {
      const bool can_be = request.count > 0 && (!by_root || (has_root(request.kind) && !is_message(request.kind)));
      if (can_be && has_part_in(scenario, request, fault.rank)) candidates.push_back(&request);
    }
  if (!calls_otherwise(fault.kind) || candidates.empty()) return nullptr;
  return candidates[fault.when % candidates.size()];
}

/// Returns whether the ranks of a group cannot distinguish the two; parts may have the same lengths although counts
/// differ.
bool call_the_same(const comm_check::Request& a, const comm_check::Request& b, int size) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.root != b.root || !has_part_counts(a.kind)) return false;
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to)
      if (comm_check::part_length(a, from, to) != comm_check::part_length(b, from, to)) return false;
  return true;
}

/// Returns the scenario as the rank at fault takes it.
comm_check::Scenario altered(const comm_check::Scenario& scenario, const Fault& fault, const comm_check::Request* odd) {
  comm_check::Scenario result = scenario;
  for (std::size_t round = 0; odd != nullptr && round < result.rounds.size(); ++round)
    for (std::size_t k = 0; k < result.rounds[round].size(); ++k) {
      comm_check::Request& request = result.rounds[round][k];
      if (&scenario.rounds[round][k] != odd) continue;
      const auto size = static_cast<int>(scenario.groups[request.group].members.size());
      if (fault.kind == FaultKind::names_another_root) {
        request.root = (request.root + 1 + static_cast<int>(fault.when) % (size - 1)) % size;
      } else {
        call_something_else(request, fault.when, size);
        if (call_the_same(request, *odd, size)) request.dtype = other_dtype(request.dtype);
      }
    }
  return result;
}

/// A run with a fault, and its outcome.
class Trial {
 public:
  Trial(const comm_check::Scenario& scenario, const Fault& fault, std::uint64_t seed)
      : scenario_(scenario),
        fault_(fault),
        odd_(request_at_fault(scenario, fault)),
        altered_(altered(scenario, fault, odd_)),
        // A slow rank has not stopped, so the deadline passes only when no rank has anything to do.
        scheduler_(seed, {.yield = std::chrono::microseconds(1), .idle = std::chrono::milliseconds(1)}),
        ends_(static_cast<std::size_t>(scenario.ranks)),
        ranks_(std::make_unique<Ranks>(
            scenario_, Cluster::Setting{.deadline = std::chrono::milliseconds(300), .short_tags = false}, scheduler_,
            [this](int rank) -> const comm_check::Scenario& { return rank == fault_.rank ? altered_ : scenario_; },
            [this](int rank) { misbehave(rank); })) {}

  std::optional<std::string> run() {
    for (int rank = 0; rank < scenario_.ranks; ++rank) scheduler_.add([this, rank] { run_rank(rank); });
    try {
      scheduler_.run();
    } catch (const Stuck& stuck) {
      (void)ranks_.release();  // fibers that have not ended hold their resources
      return stuck.what();
    }
    std::optional<std::string> verdict = complaint();
    has_failed = std::any_of(ends_.begin(), ends_.end(), [](const End& end) { return end.error.has_value(); });
    is_traced = has_failed;
    is_noticed_late = is_late();
    if (has_stopped_) (void)ranks_.release();
    return verdict;
  }

  bool has_failed = false;  ///< whether any rank has failed
  bool is_traced = false;   ///< whether the rank at fault had to be found
  bool is_noticed_late = false;

 private:
  void misbehave(int rank) {
    if (rank != fault_.rank || pauses_++ != fault_.when) return;
    comm_check::Member& member = *ranks_->members[static_cast<std::size_t>(rank)];
    switch (fault_.kind) {
      case FaultKind::calls_something_else:
      case FaultKind::names_another_root: return;
      case FaultKind::aborts: return member.abort("the loss is not a number");
      case FaultKind::throws: throw ProgramError("of the program");
      case FaultKind::dies: ranks_->cluster.kill(rank); break;
      case FaultKind::stops: break;
    }
    has_stopped_ = true;
    scheduler_.stop();
  }

  void run_rank(int rank) {
    End& end = ends_[static_cast<std::size_t>(rank)];
    comm_check::Member& member = *ranks_->members[static_cast<std::size_t>(rank)];
    try {
      member.run();
    } catch (const Error& error) {
      end.error = error;
      if (!first_ && !error.is_consequence()) first_ = rank;
    } catch (const ProgramError&) {
      has_thrown_ = true;
    } catch (const std::exception& error) {
      end.wrong = error.what();
    }
    end.group = member.last_group();
    if (end.error) end.group = Cluster::group_of(*end.error).value_or(end.group);
    end.is_over = true;
    if (!end.error && !has_thrown_) return;
    member.abandon();
    constexpr int polls_of_a_program_that_goes_on = 60;
    for (int n = 0; n < polls_of_a_program_that_goes_on; ++n) {
      scheduler_.yield();
      ranks_->progress[static_cast<std::size_t>(rank)]->poll();
    }
  }

  [[nodiscard]] std::optional<std::string> complaint() const {
    for (int rank = 0; rank < scenario_.ranks; ++rank) {
      const End& end = ends_[static_cast<std::size_t>(rank)];
      if (end.wrong) return "rank " + std::to_string(rank) + ": " + *end.wrong;
      if (!end.error || rank == fault_.rank) continue;
      std::vector<char> seen(ends_.size());
      if (!leads_to_fault(rank, seen))
        return "what rank " + std::to_string(rank) + " knows does not lead to the rank at fault:" + all_ends();
    }
    if (fault_.kind == FaultKind::stops && first_ && !is_right_about_who_stopped(*first_))
      return "the first error accuses another rank than the one that stopped:" + all_ends();
    // An exchange between two ranks is compared only by these two, when the message arrives.
    if (odd_ != nullptr && !is_message(odd_->kind) && !is_noticed()) return "nobody notices:" + all_ends();
    return std::nullopt;
  }

  /// Returns whether the first error is that of the rank at fault, or names it as far as that is possible.
  [[nodiscard]] bool is_noticed() const {
    if (!first_) return false;
    const End& end = ends_[static_cast<std::size_t>(*first_)];
    return *first_ == fault_.rank || names_fault(end) || !can_be_asked(end);
  }
  /// Returns whether it is a timeout, which happens if a rank has effectively stopped.
  [[nodiscard]] bool is_late() const {
    return odd_ != nullptr && first_ && ends_[static_cast<std::size_t>(*first_)].error->code() != ErrorCode::mismatch;
  }
  [[nodiscard]] bool names_fault(const End& end) const {
    const std::vector<int>& peers = end.error->context().peers;
    return std::any_of(peers.begin(), peers.end(),
                       [&](int peer) { return ranks_->cluster.world_rank(end.group, peer) == fault_.rank; });
  }
  [[nodiscard]] bool is_right_about_who_stopped(int rank) const {
    const End& end = ends_[static_cast<std::size_t>(rank)];
    return !can_be_asked(end) || (end.error->context().peers.size() == 1 && names_fault(end));
  }
  /// A rank that has not made its communicator of a group yet cannot be asked there.
  [[nodiscard]] bool can_be_asked(const End& end) const {
    const std::vector<int>& peers = end.error->context().peers;
    return std::all_of(peers.begin(), peers.end(), [&](int peer) {
      return ranks_->cluster.has_joined(end.group, ranks_->cluster.world_rank(end.group, peer));
    });
  }

  [[nodiscard]] std::string all_ends() const {
    std::string text;
    for (std::size_t rank = 0; rank < ends_.size(); ++rank) {
      const End& end = ends_[rank];
      text += "\nrank " + std::to_string(rank) + (end.is_over ? " ended" : " did not end");
      if (end.error) text += ", on communicator " + std::to_string(end.group) + ": " + end.error->what();
    }
    return text;
  }

  /// Follows the ranks that a rank's error names to those that their errors name.
  bool leads_to_fault(int rank, std::vector<char>& seen) const {
    const End& end = ends_[static_cast<std::size_t>(rank)];
    if (std::exchange(seen[static_cast<std::size_t>(rank)], char{1}) != 0 || !end.error) return false;
    const auto leads = [&](int named) { return named == fault_.rank || leads_to_fault(named, seen); };
    for (const int peer : end.error->context().peers)
      if (peer >= 0 && leads(ranks_->cluster.world_rank(end.group, peer))) return true;
    // A rank that fails before it has made its communicator of a group cannot notify any rank there.
    const comm_check::Members& members = scenario_.groups[end.group].members;
    return std::any_of(members.begin(), members.end(),
                       [&](int member) { return !ranks_->cluster.has_joined(end.group, member) && leads(member); });
  }

  const comm_check::Scenario& scenario_;
  const Fault& fault_;
  const comm_check::Request* odd_;
  comm_check::Scenario altered_;
  Scheduler scheduler_;
  std::vector<End> ends_;
  unsigned pauses_ = 0;
  bool has_stopped_ = false;
  bool has_thrown_ = false;
  std::optional<int> first_;  // the first rank that ended by an Error that is not a consequence
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace

Fault draw_fault(const comm_check::Scenario& scenario, std::uint64_t seed) {
  std::mt19937_64 random(seed + 2);
  return {static_cast<FaultKind>(random() % 6), static_cast<int>(random() % static_cast<unsigned>(scenario.ranks)),
          static_cast<unsigned>(random() % 40)};
}

std::string describe(const Fault& fault) {
  constexpr const char* kinds[] = {"stops", "throws", "dies", "aborts", "calls something else", "names another root"};
  return "rank " + std::to_string(fault.rank) + " " + kinds[static_cast<int>(fault.kind)] + " at " +
         std::to_string(fault.when);
}

std::optional<std::string> explore_faults(std::uint64_t first_seed, std::uint64_t count,
                                          const comm_check::Limits& limits, FaultTally& tally) {
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const comm_check::Scenario scenario = comm_check::draw_scenario(seed, limits);
    const Fault fault = draw_fault(scenario, seed);
    std::optional<LeftBehind> left_behind;
    if (fault.kind == FaultKind::dies || fault.kind == FaultKind::stops) left_behind.emplace();
    Trial trial(scenario, fault, seed);
    const auto complaint = trial.run();
    tally.failed += trial.has_failed ? 1 : 0;
    tally.traced += trial.is_traced ? 1 : 0;
    tally.late += trial.is_noticed_late ? 1 : 0;
    if (complaint) return *complaint + "\n" + describe(fault) + "\n" + describe(scenario);
  }
  return std::nullopt;
}

}  // namespace lockstep::schedules
