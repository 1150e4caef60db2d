// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/replica.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "lockstep/base/error.hpp"
#include "ops/kernel_choices.hpp"
#include "trainer/loss_scale.hpp"
#include "trainer/resume.hpp"
#include "trainer/shard_statistics.hpp"

namespace lockstep::trainer {
namespace {

std::string quoted(const std::string& name) { return "'" + name + "'"; }

/// Returns the size of the momentum buffer, or of the EMA weights, of the parts that a rank updates.
Bytes bytes_of(std::span<const LayoutPart> owned, DType dtype) { return {total(owned).value * size_of(dtype)}; }

void copy_out(const Buffer& from, std::vector<std::byte>& to) {
  const auto* begin = static_cast<const std::byte*>(from.data);
  to.assign(begin, begin + from.bytes().value);
}

void copy_in(const std::vector<std::byte>& from, const Buffer& to) {
  if (!from.empty()) std::memcpy(to.data, from.data(), from.size());
}

std::vector<Snapshot::Setting> lengths_of(std::int64_t weights, std::int64_t optimizer_state, std::int64_t averages,
                                          std::int64_t state) {
  return {{"bytes of weights", std::to_string(weights)},
          {"bytes of optimizer state", std::to_string(optimizer_state)},
          {"bytes of averages", std::to_string(averages)},
          {"bytes of running statistics", std::to_string(state)}};
}

std::int64_t total_of(std::span<const Count> counts) {
  std::int64_t total = 0;
  for (const Count count : counts) total += count.value;
  return total;
}

std::string hexadecimal(std::uint64_t number) {
  std::ostringstream text;
  text << std::hex << number;
  return text.str();
}

/// Runs `make`, whose errors occur on every rank if they occur on one.
template <typename Make>
auto on_every_rank(const ProcessGroup& group, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw error.reported_by(group.rank().value, group.host()).on_every_rank();
  }
}

Share own_shards(const ProcessGroup& group, const TrainerOptions& options) {
  if (options.shards == 0) return {0, 1};
  if (options.shards < group.size() || options.lanes < 1) {
    throw Error(ErrorCode::invalid_argument,
                std::to_string(options.shards) + " shards on " + std::to_string(group.size()) + " ranks of " +
                    std::to_string(options.lanes) +
                    " lanes: each rank needs a shard and a lane, so use no more ranks than shards");
  }
  return share_of(options.shards, group.rank().value, group.size());
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

nn::ModelOptions model_options(const ProcessGroup& group, const nn::Graph& graph, const TrainerOptions& options,
                               Observer* observer) {
  const nn::Optimizer checked(graph.parameters(), options.optimizer);
  return {.dtype = options.precision,
          .optimizer = checked.options(),
          .accumulate = options.accumulate,
          .shards = options.shards,
          .own_shards = own_shards(group, options),
          .lanes = options.lanes,
          .synchronized_parts = !options.sync_batch_norm ? 0
                                : options.shards > 0     ? options.shards
                                                         : group.size(),
          .clip_norm = options.clip_norm,
          .ema = options.ema,
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
  for (const TensorSpec& input : graph.inputs()) {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const TensorSpec& tensor) { return tensor.name == input.name; });
    const std::string given = found == tensors.end() ? "none" : text(*found);
    if (found == tensors.end() || *found != input) {
      throw Error(ErrorCode::invalid_argument, "model '" + graph.name() + "' takes '" + input.name + "' of " +
                                                   text(input) + ", and the data set has " + given);
    }
    matched.push_back(static_cast<std::size_t>(found - tensors.begin()));
  }
  return matched;
}

}  // namespace

Replica::Replica(ProcessGroup& group, ops::Ops& ops, const nn::Graph& graph, const std::vector<TensorSpec>& tensors,
                 const TrainerOptions& options, Observer* observer)
    : group_(&group),
      shards_(options.shards),
      own_shards_(on_every_rank(group, [&] { return own_shards(group, options); })),
      model_(graph, ops, on_every_rank(group, [&] { return model_options(group, graph, options, observer); })),
      data_parallel_(group, model_.parameters(), options.precision,
                     {.bucket = options.bucket,
                      .initial = options.initial,
                      .check_finite = true,
                      .share_update = options.zero,
                      .shards = options.shards,
                      .places = model_.gradient_places(),
                      .compare_every = options.compare_every,
                      .observer = observer}),
      averages_(allocate_host(options.ema > 0 ? bytes_of(data_parallel_.owned(), options.precision) : Bytes{})),
      state_(allocate_host({own_shards_.count * model_.state().count().value * size_of(options.precision)})),
      loss_scale_(options.loss_scale),
      tensors_(on_every_rank(group, [&] { return match(graph, tensors); })),
      inputs_(tensors_.size()),
      counts_(static_cast<std::size_t>(group.size())),
      statistics_are_equal_(options.sync_batch_norm),
      seed_(options.seed),
      zero_(options.zero),
      averages_wanted_(options.ema > 0),
      samples_seen_(static_cast<std::size_t>(own_shards_.count)) {
  on_every_rank(group, [&] { check(options.loss_scale); });
  require_equal_arithmetic(group, ops, shards_ > 0);
  for (std::size_t i = 0; i < nn::Optimizer::state_names(options.optimizer.rule).size(); ++i)
    optimizer_state_.push_back(group.allocate(bytes_of(data_parallel_.owned(), options.precision)));
  model_.bind({.parameters = data_parallel_.values(),
               .gradients = data_parallel_.gradient_places(),
               .state = states(),
               .optimizer_state = optimizer_state(),
               .averages = averages(),
               .owned = options.zero ? std::optional(data_parallel_.owned()) : std::nullopt,
               .summed = data_parallel_.summed(),
               .gathered_averages = data_parallel_.gradients()});
  model_.initialize(options.seed);
  // Every rank makes the initial values from the same seed, but processors that round differently could make different
  // ones.
  data_parallel_.synchronize();
  if (options.ema > 0) take_own(data_parallel_.values(), averages());
}

std::vector<Buffer> Replica::optimizer_state() const {
  std::vector<Buffer> buffers;
  for (const Allocation& state : optimizer_state_) buffers.push_back(state.as(model_.dtype()));
  return buffers;
}

Bytes Replica::optimizer_bytes() const {
  Bytes sum = averages_.bytes();
  for (const Allocation& state : optimizer_state_) sum.value += state.bytes().value;
  return sum;
}

/// Overwrites the whole buffer with the parts of all ranks.
void Replica::assemble(const Buffer& own, const Buffer& whole) {
  Count before;
  for (const LayoutPart& part : data_parallel_.owned()) {
    const Buffer here = slice(whole, part.offset, part.count);
    std::memcpy(here.data, slice(own, before, part.count).data, static_cast<std::size_t>(here.bytes().value));
    before.value += part.count.value;
  }
  data_parallel_.gather(whole);
}

void Replica::assemble(const Buffer& own, std::vector<std::byte>& whole) {
  const Buffer values = data_parallel_.values();
  whole.resize(static_cast<std::size_t>(values.bytes().value));
  assemble(own, Buffer{whole.data(), values.count, values.dtype});
}

/// Overwrites this rank's parts with their elements in the whole buffer.
void Replica::take_own(const Buffer& whole, const Buffer& own) const {
  Count before;
  for (const LayoutPart& part : data_parallel_.owned()) {
    const Buffer here = slice(own, before, part.count);
    std::memcpy(here.data, slice(whole, part.offset, part.count).data, static_cast<std::size_t>(here.bytes().value));
    before.value += part.count.value;
  }
}

nn::Feed Replica::feed(const data::Batch& batch) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i] = batch.tensors[tensors_[i]].data;
  return {.samples = batch.samples.value, .inputs = inputs_};
}

void Replica::sum(std::span<double> values) {
  group_->control().all_reduce(values, values, ReduceOp::sum, Queue::host(), "weights").wait();
}

void Replica::gather(std::span<const double> own, std::span<double> all) {
  if (shards_ == 0) {
    group_->control().all_gather(own, all, Queue::host(), "batch norm").wait();
    return;
  }
  const std::span<const Count> counts = times_shards(static_cast<std::int64_t>(own.size()) / own_shards_.count);
  group_->control().all_gather_v(own, all, counts, Queue::host(), "batch norm").wait();
}

std::span<const Count> Replica::times_shards(std::int64_t each) {
  for (std::size_t rank = 0; rank < counts_.size(); ++rank)
    counts_[rank].value =
        shards_ == 0 ? each : each * share_of(shards_, static_cast<std::int64_t>(rank), group_->size()).count;
  return counts_;
}

bool Replica::finish(std::span<double> values, std::span<double> found, const std::function<void()>& find) {
  sums_.assign(values.begin(), values.end());
  sums_.push_back(stops_);
  not_finite_ = data_parallel_.finish(step_samples_, sums_, {found, find}).not_finite;
  std::copy_n(sums_.begin(), values.size(), values.begin());
  stops_ = sums_.back();
  return not_finite_.empty();
}

bool Replica::step(const data::Batch& batch, double learning_rate, RunState& run, bool wants_to_stop) {
  step_samples_ = static_cast<double>(batch.samples.value);
  data_parallel_.number_steps_from(run.global_step + 1);  // the same number as in the trainer's errors
  stops_ = wants_to_stop ? 1 : 0;
  const nn::StepResult& result = model_.train(feed(batch),
                                              {.learning_rate = learning_rate,
                                               .updates = run.global_step - run.skipped,
                                               .samples = static_cast<double>(batch.step_samples.value),
                                               .loss_scale = loss_factor(run),
                                               .rng_key = {seed_, run.global_step, batch.first}},
                                              *this);
  if (!result.finite) {
    if (!std::isfinite(result.loss)) refuse_loss(result.loss);
    if (loss_factor(run) <= 1) refuse_gradients();  // a smaller factor could not avoid an overflow
  }
  update_loss_scale(run, result.finite, loss_scale_);
  run.last_loss = result.loss;
  run.skipped += result.finite ? 0 : 1;
  for (std::int64_t shard = 0; shard < own_shards_.count; ++shard)
    samples_seen_[static_cast<std::size_t>(shard)] += share_of(batch.samples.value, shard, own_shards_.count).count;
  return stops_ > 0;
}

void Replica::refuse_gradients() const {
  std::vector<int> culprits;
  std::string list;
  for (const DataParallel::NotFinite& flawed : not_finite_) {
    if (flawed.rank) culprits.push_back(*flawed.rank);
    // Backward reaches the last parameters first, so the last one is where non-finite values began.
    list += (list.empty() ? "" : ", ") + quoted(model_.parameters().at(flawed.parameters.back()).name) +
            (flawed.parameters.size() > 1 ? " and " + std::to_string(flawed.parameters.size() - 1) + " more" : "") +
            (flawed.rank ? " on rank " + std::to_string(*flawed.rank) + " (" + flawed.host + ")"
                         : " as the sum over ranks, of which each rank's own is finite");
  }
  throw not_finite("gradients are not finite: " + list, std::move(culprits));
}

/// The loss may be infinite although gradients are finite: the logarithm of a probability that has become 0.
void Replica::refuse_loss(double loss) const {
  if (!not_finite_.empty()) refuse_gradients();  // its message contains more
  const std::span<const ops::LossSums> figures = model_.own_loss_sums();
  const auto sound = [](const ops::LossSums& term) { return std::isfinite(term.loss); };
  const std::uint8_t own = std::all_of(figures.begin(), figures.end(), sound) ? 0 : 1;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(group_->size()));
  group_->control().all_gather(std::span(&own, 1), std::span(all), Queue::host(), "losses").wait();
  std::vector<int> culprits;
  std::string list;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == 0) continue;
    culprits.push_back(static_cast<int>(rank));
    list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  const std::string whose = culprits.empty() ? "each rank's own still is, their sum is not"
                                             : "on rank " + list + " the rank's own loss is not";
  throw not_finite("the loss is not finite (" + std::to_string(loss) + "); " + whose, std::move(culprits));
}

Error Replica::not_finite(const std::string& what, std::vector<int> culprits) const {
  return Error(ErrorCode::diverged,
               what + ". The weights were not changed by this step. A lower learning rate may help",
               {.operation = "training step",
                .rank = group_->rank().value,
                .host = group_->host(),
                .peers = std::move(culprits)})
      .on_every_rank();
}

std::span<const ops::LossSums> Replica::evaluate(const data::Batch& batch) { return model_.evaluate(feed(batch)); }

void Replica::average_state() {
  if (statistics_are_equal_) return;
  if (shards_ > 0) {
    average_over_shards(states(), samples_seen_, shards_, own_shards_, group_->control());
  } else {
    average_over_ranks(states(), samples_seen_.front(), group_->control());
  }
  forget_samples();
}

/// The EMA weights overwrite the gradients, which are not needed any more before the next step.
void Replica::gather_averages() {
  if (zero_ && averages_wanted_) assemble(averages(), data_parallel_.gradients());
}

void Replica::save(Snapshot& snapshot) {
  snapshot.kernel_choices = model_.choices().text();
  copy_out(data_parallel_.values(), snapshot.weights);
  for (const Buffer& state : optimizer_state()) assemble(state, snapshot.optimizer_state.emplace_back());
  if (averages_wanted_) assemble(averages(), snapshot.averages);
  save_statistics(snapshot);
}

void Replica::save_statistics(Snapshot& snapshot) {
  snapshot.samples_seen.assign(1, 0);
  if (statistics_are_equal_) return copy_out(state(0), snapshot.state);
  const std::span<const Count> parts = times_shards(1);
  snapshot.samples_seen.resize(static_cast<std::size_t>(total_of(parts)));
  group_->control()
      .all_gather_v(std::span(samples_seen_), std::span(snapshot.samples_seen), parts, Queue::host(), "samples seen")
      .wait();
  const std::span<const Count> counts = times_shards(state(0).count.value);
  snapshot.state.resize(static_cast<std::size_t>(total_of(counts) * size_of(states().dtype)));
  const Buffer all{snapshot.state.data(), {total_of(counts)}, states().dtype};
  group_->control().all_gather_v(states(), all, counts, Queue::host(), "running statistics").wait();
}

std::vector<Snapshot::Setting> Replica::settings() const {
  std::vector<Snapshot::Setting> settings = {{"model", model_.graph().name()},
                                             {"precision", std::string(name(model_.values()))},
                                             {"parameters", hexadecimal(model_.parameters().hash())},
                                             {"statistics", hexadecimal(model_.state().hash())}};
  const std::int64_t weights = data_parallel_.values().bytes().value;
  const std::vector<Snapshot::Setting> long_parts = lengths_of(weights, std::ssize(optimizer_state_) * weights,
                                                               averages_wanted_ ? weights : 0, state(0).bytes().value);
  settings.insert(settings.end(), long_parts.begin(), long_parts.end());
  return settings;
}

std::vector<Snapshot::Setting> Replica::lengths(const Snapshot& snapshot) {
  const auto length = [](const std::vector<std::byte>& part) { return static_cast<std::int64_t>(part.size()); };
  std::int64_t optimizer_state = 0;
  for (const std::vector<std::byte>& state : snapshot.optimizer_state) optimizer_state += length(state);
  return lengths_of(length(snapshot.weights), optimizer_state, length(snapshot.averages),
                    length(snapshot.state) / std::max<std::int64_t>(1, std::ssize(snapshot.samples_seen)));
}

void Replica::compute_as(const Snapshot& snapshot) {
  const ops::KernelChoices before = model_.choices();
  const std::string text = rank_zeros_text(*group_, snapshot.kernel_choices);
  std::string obstacle;
  try {
    model_.use(ops::KernelChoices::parse(text, "the snapshot's kernel choices"));
  } catch (const Error& error) {
    obstacle = "was computed by algorithms that cannot be had there: " + error.message();
  }
  try {
    require_no_obstacle(*group_, obstacle);
  } catch (...) {
    model_.use(before);
    throw;
  }
}

void Replica::restore(const Snapshot& snapshot) {
  const auto overwrite = [&](const Buffer& buffer, const std::vector<std::byte>& rank_zeros) {
    if (group_->rank() == Rank{0}) copy_in(rank_zeros, buffer);
    group_->communicator().broadcast(buffer, {0}, Queue::host(), "replica").wait();
  };
  overwrite(data_parallel_.values(), snapshot.weights);
  // The gradients serve as scratch, because they are not needed any more before the next step.
  const Buffer whole = data_parallel_.gradients();
  const std::vector<Buffer> states = optimizer_state();
  for (std::size_t i = 0; i < states.size(); ++i) {
    overwrite(whole, i < snapshot.optimizer_state.size() ? snapshot.optimizer_state[i] : std::vector<std::byte>{});
    take_own(whole, states[i]);
  }
  if (averages_wanted_) {
    overwrite(whole, snapshot.averages);
    take_own(whole, averages());
  }
  restore_statistics(snapshot);
}

void Replica::restore_statistics(const Snapshot& snapshot) {
  std::int64_t parts = std::ssize(snapshot.samples_seen);
  group_->control().broadcast(std::span(&parts, 1), {0}, Queue::host(), "running statistics").wait();
  std::vector<std::int64_t> samples = snapshot.samples_seen;
  samples.resize(static_cast<std::size_t>(parts));
  group_->control().broadcast(std::span(samples), {0}, Queue::host(), "samples seen").wait();
  const Buffer own = state(0);
  std::vector<std::byte> bytes(static_cast<std::size_t>(parts * own.bytes().value));
  const Buffer all{bytes.data(), {parts * own.count.value}, own.dtype};
  if (group_->rank() == Rank{0}) copy_in(snapshot.state, all);
  group_->control().broadcast(all, {0}, Queue::host(), "running statistics").wait();
  const bool same_parts = !statistics_are_equal_ && parts == total_of(times_shards(1));
  if (!same_parts) average_parts(all, samples);
  const std::int64_t first = shards_ > 0 ? own_shards_.first : group_->rank().value;
  for (std::int64_t shard = 0; shard < own_shards_.count; ++shard) {
    const std::int64_t part = same_parts ? first + shard : 0;
    const Buffer from = slice(all, {part * own.count.value}, own.count);
    std::memcpy(state(shard).data, from.data, static_cast<std::size_t>(from.bytes().value));
    samples_seen_[static_cast<std::size_t>(shard)] = same_parts ? samples[static_cast<std::size_t>(part)] : 0;
  }
}

}  // namespace lockstep::trainer
