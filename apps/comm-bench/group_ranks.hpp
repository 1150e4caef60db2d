// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "apps/comm-bench/ranks.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

namespace lockstep::comm_bench {

/// The ranks of an MPI group. Every function @throws Error{transport}.
class GroupRanks : public Ranks {
 public:
  /// @pre the group outlives this
  explicit GroupRanks(const MpiGroup& group) : group_(&group) {}

  [[nodiscard]] int size() const override { return group_->size(); }
  void barrier() override;
  void max(std::span<std::int64_t> numbers) override;
  void sum(std::span<std::int64_t> numbers) override;

 private:
  const MpiGroup* group_;
};

}  // namespace lockstep::comm_bench
