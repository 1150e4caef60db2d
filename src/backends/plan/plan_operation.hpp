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

/// One collective as plans over a medium, with a few of its blocks in flight at a time.
class PlanOperation : public HostOperation {
 public:
  /// @param link                  link to the ranks of the node; null if there is none
  /// @param max_blocks_in_flight  the same on all ranks; no schedule may have more
  /// @param patience              counter of the communicator, see `patience_`
  PlanOperation(Rank me, Medium& medium, NodeLink* link, int max_blocks_in_flight, int& patience);

  /// Number of fruitless polls, each of which is a few loads from shared memory, between two calls of
  /// `Medium::help_others`, and before the first one: an operation of a few bytes ends before that.
  static constexpr int polls_between_helps = 64;
  static constexpr int polls_before_help = 512;
  /// Value of `patience_` after a call that advanced something: the next poll calls `help_others` again.
  static constexpr int help_again = -1;

  /// @param announcement  shown to the node's ranks if the schedule shares memory; its signature is always used
  /// @param residence     residence of the buffers
  void prepare(const Collective& collective, const std::shared_ptr<const CompiledSchedule>& schedule,
               const Announcement& announcement, kernels::Residence residence);
  void begin(const Slot& slot) override;
  bool advance() override;
  [[nodiscard]] bool is_woken() const override;
  void add_awaited(std::vector<int>& ranks) const override;

 private:
  void add_pending(ErrorContext& context) const override;
  [[nodiscard]] std::string_view algorithm() const override { return schedule_->algorithm(); }
  void feed(std::size_t run);

  int rank_;
  Medium* helped_;              // medium whose help_others is called; null if nobody else needs it
  int* patience_;               // fruitless polls left until the medium is helped
  std::vector<BlockRun> runs_;  // block b uses run b mod runs_in_use_, the same on every rank
  std::size_t runs_in_use_ = 0;
  std::vector<std::int64_t> next_block_;  // by run
  std::shared_ptr<const CompiledSchedule> schedule_;
  Operands operands_;
  int first_channel_ = 0;
  std::int64_t blocks_left_ = 0;
};

}  // namespace lockstep::backends
