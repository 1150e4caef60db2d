// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/plan_operation.hpp"

namespace lockstep::backends {

PlanOperation::PlanOperation(Rank me, Medium& medium, NodeLink* link, int max_blocks_in_flight, int& patience)
    : rank_(me.value), helped_(link != nullptr && medium.is_shared() ? &medium : nullptr), patience_(&patience) {
  runs_.reserve(static_cast<std::size_t>(max_blocks_in_flight));
  for (int run = 0; run < max_blocks_in_flight; ++run) runs_.emplace_back(medium, link);
  next_block_.resize(runs_.size());
}

void PlanOperation::prepare(const Collective& collective, const std::shared_ptr<const CompiledSchedule>& schedule,
                            const Announcement& announcement, kernels::Residence residence) {
  set_call(announcement.signature);
  if (schedule_ != schedule) schedule_ = schedule;  // comparing is cheaper than counting references
  runs_in_use_ = static_cast<std::size_t>(schedule_->blocks_in_flight());
  // The members are set one by one: copying a whole temporary object would wait until it has reached the cache.
  operands_.input = static_cast<const std::byte*>(collective.in.data);
  operands_.output = static_cast<std::byte*>(collective.out.data);
  operands_.dtype = collective.out.dtype;
  operands_.op = combining(collective.op);
  operands_.stride = collective.leaves.stride.value;
  operands_.rank = rank_;
  operands_.announcement = announcement;
  operands_.residence = residence;
}

void PlanOperation::begin(const Slot& slot) {
  mark_begun();
  mark_advance();
  operands_.number = slot.number;
  operands_.announcement.signature = signature();
  first_channel_ = slot.position * static_cast<int>(runs_.size());
  blocks_left_ = schedule_->size();
  for (std::size_t run = 0; run < runs_in_use_; ++run) {
    next_block_[run] = static_cast<std::int64_t>(run);
    feed(run);
  }
  if (blocks_left_ == 0) complete();
}

bool PlanOperation::advance() {
  bool moved = false;
  for (std::size_t run = 0; run < runs_in_use_; ++run) {
    if (runs_[run].done() || !runs_[run].advance()) continue;
    moved = true;
    if (!runs_[run].done()) continue;
    --blocks_left_;
    feed(run);
  }
  if (moved) {
    mark_advance();
    *patience_ = polls_before_help;
  } else if (helped_ != nullptr && --*patience_ < 0) {
    *patience_ = helped_->help_others() ? help_again : polls_between_helps;
  }
  if (blocks_left_ == 0) complete();
  return moved;
}

bool PlanOperation::is_woken() const {
  return std::all_of(runs_.begin(), runs_.end(),
                     [](const BlockRun& run) { return run.done() || run.awaits_no_message(); });
}

void PlanOperation::add_awaited(std::vector<int>& ranks) const {
  for (const BlockRun& run : runs_)
    if (!run.done()) run.add_awaited(ranks);
  std::sort(ranks.begin(), ranks.end());
}

/// Starts the next block of a run, and further blocks as long as a block completes at once.
void PlanOperation::feed(std::size_t run) {
  while (next_block_[run] < schedule_->size()) {
    const std::int64_t block = next_block_[run];
    next_block_[run] += static_cast<std::int64_t>(runs_in_use_);
    runs_[run].start(schedule_->plan(block), schedule_->view(block), operands_, first_channel_ + static_cast<int>(run));
    if (!runs_[run].done()) return;
    --blocks_left_;
  }
}

void PlanOperation::add_pending(ErrorContext& context) const {
  for (const BlockRun& run : runs_) {
    if (run.done()) continue;
    const auto [step, peer] = run.pending();
    if (step >= 0) context.action = step;
    if (peer >= 0) context.peers = {peer};
    break;
  }
  for (const int rank : awaited())
    if (context.peers.empty() || rank != context.peers.front()) context.peers.push_back(rank);
}

}  // namespace lockstep::backends
