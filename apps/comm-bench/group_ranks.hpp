// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/comm-bench/ranks.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"
#include "platform/mpi/watchdog.hpp"

namespace lockstep::comm_bench {

/// The ranks of an MPI group, with MPI's blocking calls, whose timing is part of comm-bench's measurement. The World's
/// watchdog checks that barriers keep completing. Every function @throws Error{transport}.
class GroupRanks : public Ranks {
 public:
  /// @pre the group outlives this
  explicit GroupRanks(const MpiGroup& group) : group_(&group), measurement_(group, "a measured operation") {}

  [[nodiscard]] int size() const override { return group_->size(); }
  void barrier() override;
  void max(std::span<std::int64_t> numbers) override;
  void sum(std::span<std::int64_t> numbers) override;

 private:
  const MpiGroup* group_;
  BlockingCall measurement_;
};

}  // namespace lockstep::comm_bench
