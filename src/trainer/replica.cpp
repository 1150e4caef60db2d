// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/replica.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "platform/machine/launch.hpp"
#include "trainer/resume.hpp"

namespace lockstep::trainer {
namespace {

/// Adds the time from its construction to its end.
class Waiting {
 public:
  explicit Waiting(double& seconds) : seconds_(seconds) {}
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  double& seconds_;
  Clock::time_point begin_ = Clock::now();
};

/// Runs `make`, whose errors occur on every rank if they occur on one.
template <typename Make>
auto on_every_rank(const ProcessGroup& group, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw error.reported_by(group.rank().value, group.host()).on_every_rank();
  }
}

LeafShares checked_shards(const ProcessGroup& group, const TrainerOptions& options) {
  if (options.step.shards == 0) return {};
  if (options.step.shards < group.size() || options.step.lanes < 1) {
    throw Error(ErrorCode::invalid_argument,
                std::to_string(options.step.shards) + " shards on " + std::to_string(group.size()) + " ranks of " +
                    std::to_string(options.step.lanes) +
                    " lanes: each rank needs a shard and a lane, so use no more ranks than shards");
  }
  return options.step.shards;
}

/// Returns this rank's shards, or without shards its samples as one.
Share own_shards(const ProcessGroup& group, const LeafShares& shards) {
  return shards.total() == 0 ? Share{0, 1} : shards.of(group.rank().value, group.size());
}

/// Checks that all ranks use the same kernel choices. Shards give the same bits only on the same kind of processor,
/// too.
void require_equal_arithmetic(ProcessGroup& group, const ops::Ops& ops, bool shards) {
  const std::string arithmetic = shards                  ? ops.arithmetic()
                                 : ops.choices().empty() ? "no kernel choices"
                                                         : "kernel choices " + ops.choices().hash();
  const std::string why = shards ? "shards are to make the same bits on any ranks" : "ranks are to choose alike";
  const std::string remedy = shards ? "Use nodes of one kind, or leave shards out" : "Hand rank 0's choices to all";
  Fnv1a hash;
  hash.add(arithmetic);
  std::vector<int> others = ranks_unlike_zero(group.control(), hash.value(), "arithmetic");
  if (others.empty()) return;
  throw Error(
      ErrorCode::mismatch,
      why + ", but the ranks named here compute otherwise than rank 0: here it is " + arithmetic + ". " + remedy,
      {.operation = "arithmetic", .rank = group.rank().value, .host = group.host(), .peers = std::move(others)})
      .on_every_rank();
}

void check_loss_scale(const ops::LossScaleOptions& options) {
  if (!(options.initial >= 0) || !std::isfinite(options.initial)) {
    throw Error(ErrorCode::invalid_argument,
                "a loss cannot be scaled by " + std::to_string(options.initial) + "; use 0 for no scale");
  }
  if (options.interval < 1) {
    throw Error(ErrorCode::invalid_argument,
                "a loss scale cannot grow every " + std::to_string(options.interval) + " steps; at least 1 is needed");
  }
}

nn::ModelOptions model_options(const ProcessGroup& group, const nn::Graph& graph, const TrainerOptions& options,
                               Observer* observer) {
  const nn::Optimizer checked(graph.parameters(), options.optimizer);
  return {.dtype = options.precision,
          .optimizer = checked.options(),
          .step = options.step,
          .own_shards = own_shards(group, options.step.shards),
          .synchronized_parts = !options.sync_batch_norm  ? 0
                                : options.step.shards > 0 ? options.step.shards
                                                          : group.size(),
          .passes = options.passes,
          .observer = observer};
}

/// Returns, for each input of the graph, the index of its tensor in a batch.
std::vector<std::size_t> match(const nn::Graph& graph, const std::vector<TensorSpec>& tensors) {
  const auto text = [](const TensorSpec& spec) {
    const auto& [channels, height, width] = spec.extent;
    return std::to_string(channels) + "×" + std::to_string(height) + "×" + std::to_string(width) +
           (spec.content == Content::real ? " real numbers" : " integers");
  };
  std::vector<std::size_t> matched;
  for (TensorSpec input : graph.inputs()) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const TensorSpec& tensor) { return tensor.name == input.name; });
    const std::string given = found == tensors.end() ? "none" : text(*found);
    if (found != tensors.end()) input.bytes = found->bytes;
    if (found == tensors.end() || *found != input) {
      throw Error(ErrorCode::invalid_argument, "model '" + graph.name() + "' takes '" + input.name + "' of " +
                                                   text(input) + ", and the data set has " + given);
    }
    matched.push_back(static_cast<std::size_t>(found - tensors.begin()));
  }
  return matched;
}

/// Lets the model read bytes of the tensors that have them, if the compute library converts them.
nn::Graph with_bytes(nn::Graph graph, const ops::Ops& ops, const std::vector<TensorSpec>& tensors) {
  const std::vector<std::size_t> matched = match(graph, tensors);
  for (std::size_t i = 0; i < matched.size() && ops.converts_bytes(); ++i)
    if (const auto& numbers = tensors[matched[i]].bytes) graph.take_bytes(i, *numbers);
  return graph;
}

}  // namespace

Replica::Replica(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, const std::vector<TensorSpec>& tensors,
                 const TrainerOptions& options, Observer* observer)
    : group_(&group),
      shards_(on_every_rank(group, [&] { return checked_shards(group, options); })),
      model_(on_every_rank(group, [&] { return with_bytes(graph, ops, tensors); }), ops,
             on_every_rank(group, [&] { return model_options(group, graph, options, observer); })),
      data_parallel_(group, model_.parameters(), options.precision,
                     {.bucket = options.bucket,
                      .initial = options.initial,
                      .shard_optimizer = options.zero,
                      .shards = options.step.shards,
                      .places = model_.gradient_places(),
                      .compare_every = options.compare_every,
                      .observer = observer}),
      store_(group, model_, data_parallel_, options),
      tensors_(match(graph, tensors)),
      inputs_(tensors_.size()),
      counts_(static_cast<std::size_t>(group.size())),
      seed_(options.seed),
      submitted_(static_cast<std::size_t>(model_.max_in_flight())) {
  on_every_rank(group, [&] { check_loss_scale(options.step.loss_scale); });
  require_equal_arithmetic(group, ops, shards_.total() > 0);
  model_.bind(store_.memory());
  model_.initialize(options.seed);
  // Every rank makes the initial values from the same seed, but processors that round differently could make different
  // ones.
  data_parallel_.synchronize();
  store_.start_averages();
  const Buffer number(&nothing_, {1}, DType::float64);
  if (!model_.device().queue().is_host())
    everybody_waits_.emplace(group.control().prepare_all_reduce(number, number, ReduceOp::sum, "a step on the device"));
}

void Replica::prepare(Count samples, bool training) {
  try {
    model_.prepare(samples.value, training);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    const std::int64_t most = model_.most_samples(samples.value, training);
    const std::string remedy = most == 0 ? "not one fits: use a smaller model"
                                         : std::to_string(most) + " fit, a batch of " +
                                               std::to_string(most * group_->size()) +
                                               ": use no larger one, more micro-batches (accumulate), or more GPUs";
    throw Error(ErrorCode::out_of_memory,
                error.message() + ". Of the " + std::to_string(samples.value) +
                    " samples that this rank has in a step, " + remedy,
                {.rank = group_->rank().value, .host = group_->host(), .bytes = error.context().bytes});
  }
}

void Replica::move_shards(const LeafShares& shards) {
  if (shards_.total() == 0 || shards.total() != shards_.total() ||
      (shards.ranks() != 0 && shards.ranks() != group_->size())) {
    throw Error(ErrorCode::invalid_argument,
                std::to_string(shards.total()) + " shards of " +
                    std::to_string(shards.ranks() == 0 ? group_->size() : shards.ranks()) + " ranks cannot replace " +
                    std::to_string(shards_.total()) + " shards of " + std::to_string(group_->size()) +
                    " ranks: moving shards does not change their number",
                {.rank = group_->rank().value, .host = group_->host()})
        .on_every_rank();
  }
  store_.move_shards(shards);
  shards_ = shards;
  model_.take_shards(own_shards(*group_, shards));
  data_parallel_.move_shards(shards, model_.gradient_places());
  model_.bind(store_.memory());
}

nn::Feed Replica::feed(const data::Batch& batch) {
  bool stays = true;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffer& tensor = batch.tensors[tensors_[i]];
    inputs_[i] = tensor.data;
    stays = stays && tensor.kind == MemoryKind::pinned;
  }
  return {.samples = batch.samples.value, .inputs = inputs_, .stays = stays};
}

/// Returns the communicator for numbers on the queue's device.
Communicator& Replica::communicator(Queue queue) {
  return queue.is_host() ? group_->control() : group_->communicator();
}

/// Drops the operations that have ended. The program has waited for the queue, but the host need not have polled since.
Replica::~Replica() {
  try {
    while (!behind_.empty() && behind_.front().wait(std::chrono::seconds(0))) behind_.pop_front();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the operation has failed, and the communicator says so
  }
}

/// Orders the queue after an operation. On the host it has then ended.
void Replica::order(Work work, Queue queue) {
  work.order_before(queue);
  while (!behind_.empty() && behind_.front().test()) {
    behind_.front().wait();  // throws if it has failed
    behind_.pop_front();
  }
  if (!work.test()) behind_.push_back(std::move(work));  // one that was captured has ended
}

/// Uses the device. If that fails, collective operations on it end, too: memory that they use could not be freed
/// otherwise.
template <typename Use>
auto Replica::or_abort(const Use& use) {
  try {
    return use();
  } catch (const Error& error) {
    const bool is_misuse = error.code() == ErrorCode::invalid_argument;  // nothing was submitted
    if (!is_misuse && !model_.device().queue().is_host()) abort(error);
    throw;
  }
}

void Replica::abort(const Error& why) const {
  constexpr std::chrono::seconds most{5};  // a device that has failed may never end its work
  group_->abort(why.message());
  const ops::ComputeDevice& device = model_.device();
  try {
    for (const Clock::time_point end = Clock::now() + most; Clock::now() < end && !device.is_idle(device.queue());)
      group_->progress().poll();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the error under way says more
  }
}

void Replica::progress() {
  data_parallel_.progress();
  if (!everybody_waits_) return;
  // As long as a rank has not come here, the deadline of that operation counts, whose error names the rank.
  if (!everybody_waits_->test()) {
    waiting_since_ = Clock::now();
    return;
  }
  everybody_waits_->wait();  // throws if it has failed
  const double seconds = std::chrono::duration<double>(Clock::now() - waiting_since_).count();
  if (seconds < group_->deadline().count()) return;
  // A stopped process may have come here before it was stopped.
  const std::string stopped = stopped_neighbors();
  throw Error(
      ErrorCode::timeout,
      "the device has not finished the step after " + std::to_string(seconds) + " s: " +
          (stopped.empty() ? "all ranks wait for theirs, so a kernel or a collective operation hangs" : stopped),
      {.operation = "training step",
       .step = step_ + 1 - model_.in_flight(),
       .rank = group_->rank().value,
       .host = group_->host()});
}

void Replica::sum(const Buffer& numbers, Queue queue) {
  const Waiting waiting(waited_seconds_);
  order(communicator(queue).all_reduce(numbers, numbers, ReduceOp::sum, queue, "numbers of the step"), queue);
}

void Replica::gather(const Buffer& own, const Buffer& all, Queue queue) {
  const Waiting waiting(waited_seconds_);
  if (shards_.total() == 0) {
    return order(communicator(queue).all_gather(own, all, queue, "batch norm"), queue);
  }
  const std::int64_t each = own.count.value / own_shards(*group_, shards_).count;
  for (std::size_t rank = 0; rank < counts_.size(); ++rank)
    counts_[rank].value = each * shards_.of(static_cast<int>(rank), group_->size()).count;
  order(communicator(queue).all_gather_v(own, all, counts_, queue, "batch norm"), queue);
}

void Replica::gather_parameters(Queue /*queue*/) {
  const Waiting waiting(waited_seconds_);
  data_parallel_.gather(data_parallel_.values());
}

void Replica::finish(const Buffer& numbers, Queue queue) {
  if (queue.is_host()) {
    const Waiting waiting(waited_seconds_);
    store_.gather_in_step({static_cast<std::int64_t>(step_samples_)});  // before the update, which may follow at once
    data_parallel_.finish(step_samples_,
                          {static_cast<double*>(numbers.data), static_cast<std::size_t>(numbers.count.value)});
  } else {
    data_parallel_.finish_on(queue);
    sum(numbers, queue);
  }
}

void Replica::start_from(const RunState& run) {
  model_.set_state({.loss_scale = run.loss_scale == 0 ? 1 : run.loss_scale,
                    .scaled_steps = run.scaled_steps,
                    .updates = run.global_step - run.skipped});
}

void Replica::submit(const data::Batch& batch, double learning_rate, std::int64_t global_step, bool has_request) {
  step_samples_ = static_cast<double>(batch.samples.value);
  step_ = global_step + 1;
  waiting_since_ = Clock::now();
  data_parallel_.number_steps_from(global_step + 1);  // the same number as in the trainer's errors
  or_abort([&] {
    model_.submit(feed(batch),
                  {.learning_rate = learning_rate,
                   .samples = static_cast<double>(batch.step_samples.value),
                   .rng_key = {seed_, global_step, batch.first},
                   .request = has_request ? 1.0 : 0.0},
                  *this);
  });
  Submitted& entry = submitted_[static_cast<std::size_t>(submissions_++) % submitted_.size()];
  entry.samples = batch.samples;
  entry.step_samples = batch.step_samples;
  entry.ids.assign(batch.ids.begin(), batch.ids.end());
}

Replica::Finished Replica::finish(RunState& run) {
  finishing_ = static_cast<std::size_t>(submissions_ - model_.in_flight()) % submitted_.size();
  waiting_since_ = Clock::now();
  const nn::StepResult& result = *or_abort([&] {
    if (everybody_waits_) everybody_waits_->start();
    const nn::StepResult* of_step = &model_.finish(*this);
    if (everybody_waits_) everybody_waits_->wait();
    return of_step;
  });
  if (result.state.halted != 0) refuse(result);
  if (run.loss_scale != 0) {
    run.loss_scale = result.state.loss_scale;
    run.scaled_steps = result.state.scaled_steps;
  }
  run.last_loss = result.loss;
  run.skipped += result.finite ? 0 : 1;
  const Submitted& of = submitted_[finishing_];
  store_.count_samples(of.samples);
  return {.samples = of.step_samples.value, .has_request = result.requests > 0};
}

std::size_t Replica::compute_as(const std::string& kernel_choices) {
  const ops::KernelChoices before = model_.choices();
  std::size_t of_others = 0;
  std::string obstacle;
  try {
    const auto all = ops::KernelChoices::parse(kernel_choices, "the checkpoint's kernel choices");
    const ops::KernelChoices own = all.of(model_.library());
    of_others = all.size() - own.size();
    // Choices of another library say nothing about this one's kernels, so this run's own stay.
    if (of_others == 0 || !own.empty()) model_.use(own);
  } catch (const Error& error) {
    obstacle = "was computed by algorithms that cannot be had there: " + error.message();
  }
  try {
    require_no_obstacle(*group_, obstacle);
  } catch (...) {
    model_.use(before);
    throw;
  }
  return of_others;
}

}  // namespace lockstep::trainer
