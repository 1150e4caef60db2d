// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/comm-bench/options.hpp"
#include "backends/make_communicator.hpp"
#include "lockstep/ddp/process_group.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/platform/ranks/rank_set.hpp"
#include "platform/mpi/blocking_call.hpp"

/// The ways to run an operation that comm-bench measures, and the ranks that run it.
namespace lockstep::comm_bench {

/// Returns the names of the contenders for an operation: lockstep's own, "auto" first, then the MPI library's blocking
/// call and its nonblocking one. On a GPU they are NCCL's, and "auto" is its own choice.
std::vector<std::string_view> contender_names(CollectiveKind op, Device device);

/// Makes a group of all ranks with this method; everything else is taken from `options`. Collective.
/// @throws as ProcessGroup
ProcessGroup make_group(const World& world, const backends::Method& method, const Options& options);

/// Makes a contender from such a group's communicator. Collective.
/// @param prepares  whether it prepares operations and starts them
/// @throws as ProcessGroup
std::unique_ptr<Contender> make_contender(std::string name, const World& world, const backends::Method& method,
                                          const Options& options, bool prepares = false);

/// Makes the contenders that the options name, in that order. Each has its own progress, so that it does not pay for
/// polling the others. Collective. @throws as make_contender
Contenders make_contenders(const World& world, const Options& options);

/// Returns the sizes to measure, the largest last, as elements of the buffer or of each of its parts.
std::vector<Count> counts_of(const Options& options, int ranks);

/// Returns the contenders that the options name, or all that are useful on this cluster if they name none.
std::vector<std::string> names_on(const World& world, const Options& options);

/// Returns the method of one of lockstep's contenders. "auto" selects the fastest algorithm, "mpi-native" is the MPI
/// library, and any other name is an algorithm with the segment, blocks in flight and radix of the options.
/// @pre it is from contender_names(op), but not "mpi"
backends::Method method_of(std::string_view contender, const Options& options);

/// Returns the choice for each size, the reason, and the predicted time: for "auto" if it is among the algorithms,
/// otherwise for each of lockstep's own. Collective. @throws as ProcessGroup; UsageError if there are only the MPI
/// library's
std::string explanation(const World& world, const Options& options);

/// The ranks of an MPI group, with MPI's blocking calls, whose timing is part of comm-bench's measurement. The World's
/// watchdog checks that barriers keep completing. Every function @throws Error{transport}.
class GroupRanks : public Ranks {
 public:
  /// @pre the group outlives this
  explicit GroupRanks(const RankSet& group) : group_(&group), measurement_(group, "a measured operation") {}

  [[nodiscard]] int size() const override { return group_->size(); }
  void barrier() override;
  void max(std::span<std::int64_t> numbers) override;
  void sum(std::span<std::int64_t> numbers) override;

 private:
  const RankSet* group_;
  BlockingCall measurement_;
};

}  // namespace lockstep::comm_bench
