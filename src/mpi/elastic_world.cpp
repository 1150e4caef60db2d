// SPDX-License-Identifier: Apache-2.0
// This file implements how the living ranks of a World go on without those that have died.
#include <algorithm>
#include <map>

#include "lockstep/mpi/world.hpp"
#include "mpi/mpi_messages.hpp"
#include "platform/mpi/blocking_call.hpp"
#include "platform/mpi/mpi.hpp"
#include "platform/mpi/ulfm.hpp"
#include "platform/mpi/wait_monitor.hpp"
#include "platform/ranks/open_groups.hpp"

namespace lockstep {

std::string World::why_not_elastic() const { return why_no_ulfm(); }

/// The living ranks of a world in `run_elastic`.
class World::Survivors {
 public:
  explicit Survivors(World& world)
      : world_(world), ranks_(communicator(world.group_)), deadline_(world.group_.link().deadline) {
    const std::vector<int> numbers = numbers_of(ranks_);
    for (std::size_t i = 0; i < numbers.size(); ++i) hosts_[numbers[i]] = world.hosts()[i];
  }

  void run(const std::function<void(const std::vector<LostRank>&)>& body) {
    bool is_done = false;
    for (;;) {
      const std::optional<Error> failure = failure_of([&] {
        if (!is_whole_) rejoin();
        if (!is_done) body(std::exchange(lost_, {}));
      });
      if (failure) make_others_give_up(failure->message());
      const LivingVerdict agreement = agree(!failure);
      if (agreement.all && !agreement.has_anyone_died) return;
      is_done = is_done || agreement.all;
      if (leave_out_the_dead() || is_done) continue;
      if (failure) throw Error(*failure);
      throw Error(ErrorCode::transport, "another rank has given up, and none has died").as_consequence();
    }
  }

 private:
  template <typename Attempt>
  static std::optional<Error> failure_of(const Attempt& attempt) {
    try {
      attempt();
      return std::nullopt;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::transport) throw;
      return error;
    }
  }

  /// The numbers of ranks at the start of the job.
  static std::vector<int> numbers_of(MPI_Comm ranks) { return ranks_in(MPI_COMM_WORLD, ranks); }

  /// Ranks that wait for this one hear of the failure through their groups, or in any call of MPI.
  void make_others_give_up(const std::string& why) {
    world_.open_groups_->abandon_all(why);
    mpi_link(world_.group_).monitor->revoke_all();
    revoke(ranks_);
  }

  LivingVerdict agree(bool mine) {
    const BlockingCall call(world_.watchdog_, "MPIX_Comm_agree");
    return agree_among_living(ranks_, mine);
  }

  /// @return whether there are any
  bool leave_out_the_dead() {
    const BlockingCall call(world_.watchdog_, "MPIX_Comm_shrink");
    const MPI_Comm left = shrink(ranks_);
    const std::vector<int> living = numbers_of(left);
    const std::size_t before = lost_.size();
    for (const int number : numbers_of(ranks_))
      if (std::find(living.begin(), living.end(), number) == living.end()) lost_.push_back({number, hosts_.at(number)});
    ranks_ = left;
    world_.has_lost_ranks_ = world_.has_lost_ranks_ || !lost_.empty();
    is_whole_ = false;
    return lost_.size() > before;
  }

  /// Makes the world of the living ranks. The handles of the one before stay in use until MPI ends.
  void rejoin() {
    world_.become(group_of(ranks_, deadline_, mpi_messages(), world_.watchdog_));
    is_whole_ = true;
  }

  World& world_;
  MPI_Comm ranks_;
  std::chrono::duration<double> deadline_;
  std::map<int, std::string> hosts_;  // by the numbers at the start
  std::vector<LostRank> lost_;        // since the last call of the body
  bool is_whole_ = true;              // whether the world is that of `ranks_`
};

void World::run_elastic(const std::function<void(const std::vector<LostRank>&)>& body) {
  if (const std::string why = why_not_elastic(); !why.empty()) {
    throw Error(ErrorCode::unsupported, "the ranks cannot go on without one that dies: " + why,
                {.rank = rank().value, .host = host()})
        .on_every_rank();
  }
  Survivors(*this).run(body);
  outlives_deaths_ = true;
}

}  // namespace lockstep
