// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ddp/reducer.hpp"
#include "lockstep/nn/gradient_reducer.hpp"
#include "trainer/replica/store.hpp"

namespace lockstep::trainer {

/// The deadline of a step on a device, whose collective operations have none once they are part of a captured graph.
/// Each rank starts an operation on the host when it begins to wait for the step. It ends when all ranks have begun to,
/// so that its own deadline names a rank that has died or stopped before. From then on the device has as long again.
class DeviceDeadline {
 public:
  /// @param model  outlives this, as does `group`; on the host there is no deadline
  DeviceDeadline(ProcessGroup& group, const nn::Model& model);
  DeviceDeadline(const DeviceDeadline&) = delete;
  DeviceDeadline& operator=(const DeviceDeadline&) = delete;
  ~DeviceDeadline() = default;

  /// Begins the deadline of step `number` of the run, from 1, which has been submitted, or of the oldest one in flight.
  void restart(std::int64_t newest_step);
  void restart() { begin_ = Clock::now(); }
  /// Starts the operation of this rank, which begins to wait for the oldest step in flight. @throws as Prepared::start
  void arrive();
  /// Waits until all ranks have arrived. @throws as Prepared::wait
  void wait_for_arrivals();
  /// @throws Error{timeout} if the device takes too long; as Prepared::wait if a rank does not arrive
  void check();

 private:
  ProcessGroup* group_;
  const nn::Model* model_;
  std::optional<Prepared> arrivals_;  // none on the host
  double operand_ = 0;
  Clock::time_point begin_;
  std::int64_t newest_step_ = 0;  // that was submitted
};

/// What a step exchanges with the other ranks: gradients through the `DataParallel`, and numbers and statistics through
/// the communicators of the group.
class StepExchange final : public nn::GradientReducer {
 public:
  /// All arguments outlive this.
  StepExchange(ProcessGroup& group, const nn::Model& model, DataParallel& data_parallel, Store& store)
      : group_(&group), data_parallel_(&data_parallel), store_(&store), deadline_(group, model) {}

  /// Begins a step. @param number  of the step in the run, from 1 @param samples  of this rank
  void begin(std::int64_t number, Count samples);
  [[nodiscard]] DeviceDeadline& deadline() { return deadline_; }
  /// Seconds in which this rank has waited for others on the host.
  [[nodiscard]] double waited_seconds() const { return waited_seconds_; }

  [[nodiscard]] int size() const override { return group_->size(); }
  void reduce(int parameter, Queue queue) override { data_parallel_->ready(parameter, queue); }
  void progress() override;
  void sum(const Buffer& numbers, Queue queue) override;
  void gather(const Buffer& own, const Buffer& all, Queue queue) override;
  void finish(const Buffer& numbers, Queue queue) override;
  void gather_parameters(Queue queue) override;

 private:
  [[nodiscard]] Communicator& communicator(Queue queue);
  void order(Work work, Queue queue);

  ProcessGroup* group_;
  DataParallel* data_parallel_;
  Store* store_;
  DeviceDeadline deadline_;
  Count samples_;  // of this rank in the step that is being submitted
  double waited_seconds_ = 0;
  ddp::StreamOrderedWork stream_work_;
};

}  // namespace lockstep::trainer
