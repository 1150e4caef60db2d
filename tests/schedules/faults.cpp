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

/// How a rank ended.
struct End {
  bool is_over = false;              ///< it did not stop in the middle
  std::optional<Error> error;        ///< of lockstep's
  std::size_t group = 0;             ///< on which communicator
  std::optional<std::string> wrong;  ///< whatever must not happen
};

class ProgramError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

bool has_part_in(const check::Scenario& scenario, const check::Request& request, int rank) {
  const check::Members& members = scenario.groups[request.group].members;
  const auto member = std::find(members.begin(), members.end(), rank);
  return members.size() > 1 && member != members.end() &&
         check::takes_part(request, static_cast<int>(member - members.begin()));
}

/// The scenario as the rank takes it that calls something else. Never fewer elements than one: a call that moves
/// nothing is a call that is left out, and one of equal signature in its place cannot be told from it.
check::Scenario altered(const check::Scenario& scenario, const Fault& fault) {
  check::Scenario result = scenario;
  std::vector<check::Request*> candidates;
  for (auto& round : result.rounds)
    for (check::Request& request : round)
      if (request.count > 0 && has_part_in(scenario, request, fault.rank)) candidates.push_back(&request);
  if (candidates.empty()) return result;
  check::Request& request = *candidates[fault.when % candidates.size()];
  // In an all_to_all_v with a longer part the next one moves: it has other values, which its receiver may well take.
  const std::size_t first = request.kind == CollectiveKind::all_to_all_v ? 1 : 0;
  switch (first + fault.when % ((is_message(request.kind) ? 2 : 3) - first)) {
    case 0: ++request.count; break;
    case 1: request.dtype = request.dtype == DType::int32 ? DType::float32 : DType::int32; break;
    default:
      request.leaves = 0;
      request.kind =
          request.kind == CollectiveKind::all_reduce ? CollectiveKind::broadcast : CollectiveKind::all_reduce;
  }
  return result;
}

/// A run with a fault, and what came of it.
class Trial {
 public:
  Trial(const check::Scenario& scenario, const Fault& fault, std::uint64_t seed)
      : scenario_(scenario),
        fault_(fault),
        altered_(altered(scenario, fault)),
        // A rank that is slow has not stopped: the deadline comes when nobody has anything to do.
        scheduler_(seed, {.yield = std::chrono::microseconds(1), .idle = std::chrono::milliseconds(1)}),
        ends_(static_cast<std::size_t>(scenario.ranks)),
        ranks_(std::make_unique<Ranks>(
            scenario_, Cluster::Setting{.deadline = std::chrono::milliseconds(300), .short_tags = false}, scheduler_,
            [this](int rank) -> const check::Scenario& {
              return rank == fault_.rank && fault_.kind == FaultKind::calls_something_else ? altered_ : scenario_;
            },
            [this](int rank) { misbehave(rank); })) {}

  std::optional<std::string> run() {
    for (int rank = 0; rank < scenario_.ranks; ++rank) scheduler_.add([this, rank] { run_rank(rank); });
    try {
      scheduler_.run();
    } catch (const Stuck& stuck) {
      (void)ranks_.release();  // fibers that have not ended hold what they use
      return stuck.what();
    }
    std::optional<std::string> verdict = complaint();
    has_failed = std::any_of(ends_.begin(), ends_.end(), [](const End& end) { return end.error.has_value(); });
    is_traced = has_failed && can_be_known();
    if (has_stopped_) (void)ranks_.release();
    return verdict;
  }

  bool has_failed = false;  ///< some rank has
  bool is_traced = false;   ///< and who is at fault had to be found

 private:
  void misbehave(int rank) {
    if (rank != fault_.rank || pauses_++ != fault_.when) return;
    check::Member& member = *ranks_->members[static_cast<std::size_t>(rank)];
    switch (fault_.kind) {
      case FaultKind::calls_something_else: return;
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
    check::Member& member = *ranks_->members[static_cast<std::size_t>(rank)];
    try {
      member.run();
    } catch (const Error& error) {
      end.error = error;
    } catch (const ProgramError&) {
      has_thrown_ = true;
    } catch (const std::exception& error) {
      end.wrong = error.what();
    }
    end.group = member.last_group();
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
      if (!end.error || rank == fault_.rank || !can_be_known()) continue;
      std::vector<char> seen(ends_.size());
      if (!leads_to_fault(rank, seen))
        return "what rank " + std::to_string(rank) + " knows does not lead to the rank at fault:" + all_ends();
    }
    return std::nullopt;
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

  /// From the ranks that a rank's error names to those that theirs name.
  bool leads_to_fault(int rank, std::vector<char>& seen) const {
    const End& end = ends_[static_cast<std::size_t>(rank)];
    if (std::exchange(seen[static_cast<std::size_t>(rank)], char{1}) != 0 || !end.error) return false;
    const auto leads = [&](int named) { return named == fault_.rank || leads_to_fault(named, seen); };
    for (const int peer : end.error->context().peers)
      if (peer >= 0 && leads(ranks_->cluster.world_rank(end.group, peer))) return true;
    // Who fails before it has made its communicator of a group can tell nobody there.
    const check::Members& members = scenario_.groups[end.group].members;
    return std::any_of(members.begin(), members.end(),
                       [&](int member) { return !ranks_->cluster.has_joined(end.group, member) && leads(member); });
  }

  /// Some calls that differ are not noticed before the deadline (docs/architecture.md, "Failure"). Then the others only
  /// know whom they themselves have waited for, and nobody waits for the rank at fault where it is ahead.
  [[nodiscard]] bool can_be_known() const { return fault_.kind != FaultKind::calls_something_else || !has_timed_out(); }
  [[nodiscard]] bool has_timed_out() const {
    return std::any_of(ends_.begin(), ends_.end(),
                       [](const End& end) { return end.error && end.error->code() == ErrorCode::timeout; });
  }

  const check::Scenario& scenario_;
  const Fault& fault_;
  check::Scenario altered_;
  Scheduler scheduler_;
  std::vector<End> ends_;
  unsigned pauses_ = 0;
  bool has_stopped_ = false;
  bool has_thrown_ = false;
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace

Fault draw_fault(const check::Scenario& scenario, std::uint64_t seed) {
  std::mt19937_64 random(seed + 2);
  return {static_cast<FaultKind>(random() % 5), static_cast<int>(random() % static_cast<unsigned>(scenario.ranks)),
          static_cast<unsigned>(random() % 40)};
}

std::string describe(const Fault& fault) {
  constexpr const char* kinds[] = {"stops", "throws", "dies", "aborts", "calls something else"};
  return "rank " + std::to_string(fault.rank) + " " + kinds[static_cast<int>(fault.kind)] + " at " +
         std::to_string(fault.when);
}

std::optional<std::string> explore_faults(std::uint64_t first_seed, std::uint64_t count, const check::Limits& limits,
                                          FaultTally& tally) {
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const check::Scenario scenario = check::draw_scenario(seed, limits);
    const Fault fault = draw_fault(scenario, seed);
    std::optional<LeftBehind> left_behind;
    if (fault.kind == FaultKind::dies || fault.kind == FaultKind::stops) left_behind.emplace();
    Trial trial(scenario, fault, seed);
    const auto complaint = trial.run();
    tally.failed += trial.has_failed ? 1 : 0;
    tally.traced += trial.is_traced ? 1 : 0;
    if (complaint) return *complaint + "\n" + describe(fault) + "\n" + describe(scenario);
  }
  return std::nullopt;
}

}  // namespace lockstep::schedules
