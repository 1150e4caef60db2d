// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/plan/block_run.hpp"
#include "backends/plan/schedule_cache.hpp"
#include "comm/host_operation.hpp"

namespace lockstep::backends {

/// One collective as plans over a medium: its blocks, a few of them at a time.
class PlanOperation : public HostOperation {
 public:
  /// @param link                  to the ranks of the node; null where there is none
  /// @param max_blocks_in_flight  the same on all ranks; no schedule may have more
  /// @param patience              of the communicator
  PlanOperation(Rank me, Medium& medium, NodeLink* link, int max_blocks_in_flight, int& patience);

  /// How many polls in vain, each of which is a few loads from shared memory, there are to one look at the medium for
  /// others, and before the first one: an operation of a few bytes ends before.
  static constexpr int polls_between_helps = 64;
  static constexpr int polls_before_help = 512;
  /// In place of a number of polls: the last look moved something, and the next poll looks again.
  static constexpr int help_again = -1;

  /// @param announcement  to the node's ranks, where the schedule shares memory; its signature in any case
  /// @param residence     of the buffers
  void prepare(const Collective& collective, const std::shared_ptr<const CompiledSchedule>& schedule,
               const Announcement& announcement, kernels::Residence residence);
  void begin(const Turn& turn) override;
  bool advance() override;
  [[nodiscard]] bool is_woken() const override;
  void add_awaited(std::vector<int>& ranks) const override;

 private:
  void add_pending(ErrorContext& context) const override;
  [[nodiscard]] std::string_view algorithm() const override { return schedule_->algorithm(); }
  void feed(std::size_t run);

  int rank_;
  Medium* helped_;              // while this only polls memory; null where nobody else needs it
  int* patience_;               // polls in vain until the medium is helped
  std::vector<BlockRun> runs_;  // of those in use, block b is of run b mod runs: the same on every rank
  std::size_t runs_in_use_ = 0;
  std::vector<std::int64_t> next_block_;  // per run
  std::shared_ptr<const CompiledSchedule> schedule_;
  Operands operands_;
  int first_channel_ = 0;
  std::int64_t blocks_left_ = 0;
};

}  // namespace lockstep::backends
