// SPDX-License-Identifier: Apache-2.0
#include "trainer/replica/step_exchange.hpp"

#include "base/seconds_since.hpp"
#include "platform/machine/launch.hpp"

namespace lockstep::trainer {
namespace {

/// Adds the time from its construction to its end.
class Waiting {
 public:
  explicit Waiting(double& seconds) : seconds_(seconds) {}
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { seconds_ += seconds_since(begin_); }

 private:
  double& seconds_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace

DeviceDeadline::DeviceDeadline(ProcessGroup& group, const nn::Model& model) : group_(&group), model_(&model) {
  if (model.device().queue().is_host()) return;
  const Buffer number(operand_);
  arrivals_.emplace(group.control().prepare_all_reduce(number, number, ReduceOp::sum, "a step on the device"));
}

void DeviceDeadline::restart(std::int64_t newest_step) {
  newest_step_ = newest_step;
  restart();
}

void DeviceDeadline::arrive() {
  restart();
  if (arrivals_) arrivals_->start();
}

void DeviceDeadline::wait_for_arrivals() {
  if (arrivals_) arrivals_->wait();
}

void DeviceDeadline::check() {
  if (!arrivals_) return;
  if (!arrivals_->test()) return restart();
  arrivals_->wait();  // throws if it has failed
  const double seconds = seconds_since(begin_);
  if (seconds < group_->deadline().count()) return;
  const std::string stopped = stopped_neighbors();  // a stopped process may have arrived before it was stopped
  throw Error(
      ErrorCode::timeout,
      "the device has not finished the step after " + std::to_string(seconds) + " s: " +
          (stopped.empty() ? "all ranks wait for theirs, so a kernel or a collective operation hangs" : stopped),
      {.operation = "training step",
       .step = newest_step_ - model_->in_flight() + 1,
       .rank = group_->rank().value,
       .host = group_->host()});
}

void StepExchange::begin(std::int64_t number, Count samples) {
  samples_ = samples;
  deadline_.restart(number);
  data_parallel_->number_steps_from(number);  // the same number as in the trainer's errors
}

void StepExchange::progress() {
  data_parallel_->progress();
  deadline_.check();
}

/// Returns the communicator for numbers on the queue's device.
Communicator& StepExchange::communicator(Queue queue) {
  return queue.is_host() ? group_->control() : group_->communicator();
}

/// Orders the queue after an operation. On the host it has then ended, as it has if a graph has captured it.
void StepExchange::order(Work work, Queue queue) {
  work.order_before(queue);
  stream_work_.drop_ended();
  if (!work.test()) stream_work_.add(std::move(work));
}

void StepExchange::sum(const Buffer& numbers, Queue queue) {
  const Waiting waiting(waited_seconds_);
  order(communicator(queue).all_reduce(numbers, numbers, ReduceOp::sum, queue, "numbers of the step"), queue);
}

void StepExchange::gather(const Buffer& own, const Buffer& all, Queue queue) {
  const Waiting waiting(waited_seconds_);
  RunningStatistics& statistics = store_->statistics();
  if (!statistics.has_shards()) return order(communicator(queue).all_gather(own, all, queue, "batch norm"), queue);
  const std::int64_t own_parts = statistics.times_parts(1)[static_cast<std::size_t>(group_->rank().value)].value;
  const std::span<const Count> counts = statistics.times_parts(own.count.value / own_parts);
  order(communicator(queue).all_gather_v(own, all, counts, queue, "batch norm"), queue);
}

void StepExchange::gather_parameters(Queue queue) {
  const Waiting waiting(waited_seconds_);
  data_parallel_->gather(data_parallel_->values(), queue);
}

void StepExchange::finish(const Buffer& numbers, Queue queue) {
  if (queue.is_host()) {
    const Waiting waiting(waited_seconds_);
    store_->statistics().gather_in_step(samples_);  // before the update, which may follow at once
    data_parallel_->finish(static_cast<double>(samples_.value),
                           {static_cast<double*>(numbers.data), static_cast<std::size_t>(numbers.count.value)});
  } else {
    data_parallel_->finish_on(queue);
    sum(numbers, queue);
  }
}

}  // namespace lockstep::trainer
