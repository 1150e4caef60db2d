// SPDX-License-Identifier: Apache-2.0
#include "ddp/data_parallel_state.hpp"

#include <algorithm>

#include "comm/back_end.hpp"
#include "ddp/rank_zero.hpp"

namespace lockstep {
namespace {

/// Returns the size of the first bucket: a quarter of a bucket, so that communication starts early, and at most 1 MiB.
/// An even earlier start gains nothing.
Bytes first_bucket(Bytes bucket) {
  if (bucket == DataParallelOptions::one_bucket) return bucket;
  const std::int64_t quarter = bucket.value / 4 + (bucket.value % 4 == 0 ? 0 : 1);  // rounded up, without overflow
  return {std::min<std::int64_t>(quarter, 1 << 20)};
}

}  // namespace

DataParallel::State::State(ProcessGroup& group_in, ddp::Tensors tensors_in, const DataParallelOptions& options_in)
    : options(options_in),
      shards(options.shards),
      tensors(std::move(tensors_in)),
      tally(tensors.layout().tensors().size()),
      finite(tensors.layout().tensors().size()),
      values(options.compare_every, tensors.layout().tensors().size()),
      is_ready(tensors.layout().tensors().size(), 0) {
  join(group_in);
}

void DataParallel::State::join(ProcessGroup& other) {
  group = &other;
  if (options.compare_every < 0) {
    throw refusal("values compared every " + std::to_string(options.compare_every) +
                  " steps: give a positive number, or 0 for never");
  }
  if (options.shard_optimizer) check_sharing();
  if (shards.total() != 0) check_sharding();
  (void)group->control();  // created here, because creating it is collective
  const Bytes first = first_bucket(options.bucket);
  reducer.emplace(group->communicator(), tensors.layout(), tensors.flat_gradients(),
                  ddp::BucketOptions{.size = options.bucket,
                                     .first = first,
                                     .least = {std::max<std::int64_t>(first.value / 4, 1)},
                                     .parts = options.shard_optimizer ? group->size() : 0},
                  Leaves{shards, tensors.layout().count()}, options.observer,
                  std::vector<std::int64_t>{options.compare_every, options.allow_unused ? 1 : 0});
  values.begin_anew();
  finite = new_check();
}

ddp::FiniteCheck DataParallel::State::new_check() const {
  const bool is_on_gpu =
      options.check_finite && tensors.flat_gradients().kind == MemoryKind::device && !is_ready.empty();
  return ddp::FiniteCheck(is_ready.size(), is_on_gpu ? group->gpu() : std::nullopt);
}

Error DataParallel::State::refusal(const std::string& why, const std::string& label) const {
  return {ErrorCode::invalid_argument, why, {.label = label, .rank = group->rank().value, .host = group->host()}};
}

Error DataParallel::State::unsupported(const std::string& why) const {
  return {ErrorCode::unsupported, why, {.rank = group->rank().value, .host = group->host()}};
}

void DataParallel::State::check_sharing() const {
  if (tensors.are_the_programs())
    throw unsupported(
        "shard_optimizer is not supported with the program's own tensors: leave it false, or let DataParallel allocate "
        "the memory");
}

int DataParallel::State::sums() const {
  return shards.total() == 0 ? 1 : count_tree_nodes(shards.total(), shards.of(group->rank().value, group->size()));
}

void DataParallel::State::check_sharding() const {
  if (shards.total() < group->size()) {
    throw refusal(std::to_string(shards.total()) + " shards for " + std::to_string(group->size()) +
                  " ranks: each needs one at least, so use no more ranks than shards");
  }
  if (options.places < sums()) {
    throw refusal("too few gradient buffers: this rank needs " + std::to_string(sums()) + ", and places is " +
                  std::to_string(options.places));
  }
  if (tensors.are_the_programs())
    throw unsupported("shards are not supported with the program's own tensors: let DataParallel allocate the memory");
  const std::string_view why = back_end_of(group->communicator()).why_no_leaves(tensors.flat_gradients().kind);
  if (!why.empty()) throw unsupported("shards are not supported here: " + std::string(why));
}

void DataParallel::State::check_synchronized() const {
  if (synchronized) return;
  throw refusal("the ranks' values may differ: call synchronize() once after they have been written");
}

bool DataParallel::State::within_a_step() const {
  return std::find(is_ready.begin(), is_ready.end(), char{1}) != is_ready.end();
}

void DataParallel::State::check_complete() const {
  if (scopes > 0) throw refusal("finish_on() sends gradients, which no_sync() is to keep back: call finish()");
  if (options.check_finite)
    throw refusal("finish_on() checks no gradients: call finish(), or leave check_finite false");
  const auto missing = std::find(is_ready.begin(), is_ready.end(), char{0});
  if (missing == is_ready.end()) return;
  const std::string& name = tensors.layout().at(static_cast<int>(missing - is_ready.begin())).name;
  throw refusal("the gradient of '" + name + "' is not ready: finish_on() adds no zeros, finish() does", name);
}

void DataParallel::State::end_step() {
  std::fill(is_ready.begin(), is_ready.end(), char{0});
  queue = Queue::host();
  ++step;
}

void DataParallel::State::forget_step() {
  tensors.keep_gradients_forever();
  tally.begin_anew();
  finite = new_check();
  std::fill(is_ready.begin(), is_ready.end(), char{0});
  queue = Queue::host();
  has_failed = false;
}

DataParallel::State::~State() {
  if (has_failed) tensors.keep_gradients_forever();
}

void DataParallel::State::check_parameter(int parameter) const {
  if (parameter < 0 || static_cast<std::size_t>(parameter) >= is_ready.size()) {
    throw refusal("there is no parameter " + std::to_string(parameter) + ": there are " +
                  std::to_string(is_ready.size()) + ", numbered from 0 in the order of layout()");
  }
  if (is_ready[static_cast<std::size_t>(parameter)] == 0) return;
  const std::string& name = tensors.layout().at(parameter).name;
  throw refusal("the gradient of '" + name + "' became ready twice in one step: call finish() after each backward",
                name);
}

void DataParallel::State::move_gradient(int parameter, const Buffer& gradient) {
  check_parameter(parameter);
  if ((shards.total() != 0 || options.shard_optimizer) && !tensors.is_in_flat_memory(parameter, gradient)) {
    const std::string& name = tensors.layout().at(parameter).name;
    throw refusal("the gradient of '" + name +
                      "' is given in other memory than gradient() says: with shards or shard_optimizer it stays there",
                  name);
  }
  reported_by_rank(*group, [&] { tensors.move_gradient(parameter, gradient); });
}

void DataParallel::State::make_ready(int parameter, Queue its_queue) {
  check_parameter(parameter);
  queue = its_queue;
  is_ready[static_cast<std::size_t>(parameter)] = 1;
  tally.use(parameter);
  if (scopes == 0) send(parameter);
}

void DataParallel::State::send(int parameter) {
  if (options.check_finite && !queue.is_host() && tensors.flat_gradients().kind != MemoryKind::device) {
    throw refusal(
        "gradients in host memory that are still being written by a stream are not checked: leave "
        "check_finite false");
  }
  tensors.collect(parameter, queue);
  for (int sum = 0; options.check_finite && sum < sums(); ++sum)
    finite.look(parameter, tensors.own_gradient(parameter, sum), queue);
  reducer->ready(parameter, queue);
}

/// Sends the gradients of all parameters that were not made ready in this backward pass: the accumulated gradient if an
/// earlier pass under no_sync() made it ready, else zeros. It goes from the last parameter to the first, so that
/// buckets leave one by one.
void DataParallel::State::send_the_rest() {
  for (int parameter = static_cast<int>(is_ready.size()) - 1; parameter >= 0; --parameter) {
    if (is_ready[static_cast<std::size_t>(parameter)] != 0) continue;
    if (tally.is_used(parameter)) {
      send(parameter);
    } else {
      tensors.collect_zeros(parameter, sums(), queue);
      reducer->ready(parameter, queue);
    }
  }
}

/// Hashes the values, or in most steps a few elements of each tensor, if values are compared. The program writes no
/// values between backward and finish(), so on all ranks they are the result of the last update.
void DataParallel::State::look_at_values() {
  if (is_ready.empty() || tensors.value(0).kind == MemoryKind::device) return;
  values.look(tensors, [this] { group->progress().poll(); });
}

DataParallel::Step DataParallel::State::take(std::span<double> sums) {
  DataParallel::Step result = tally.take(sums);
  result.not_finite = finite.gather(*group, tally.not_finite());
  if (options.check_finite && result.not_finite.empty())
    result.not_finite = finite.look_at_sums(tensors.layout(), tensors.flat_gradients(), reducer->summed(),
                                            reducer->scatters() ? &group->control() : nullptr);
  values.require_equal(*group, tensors.layout(), tally.digest(),
                       step - 1);  // the checks come last, so that their errors leave no partial state
  require_gradients(result);
  return result;
}

void DataParallel::State::require_gradients(const Step& result) const {
  if (options.allow_unused || result.weight == 0) return;
  if (!result.unused.empty()) {
    throw_on_every_rank(
        *group,
        refusal("no rank made the gradient of " + ddp::names_text(tensors.layout(), result.unused) + " ready in step " +
                    std::to_string(step - 1) +
                    ": call ready() for each parameter before finish() (with libtorch, let the loss depend on it, or "
                    "freeze it first), or set allow_unused in the options if the model leaves parameters unused",
                tensors.layout().at(result.unused.front()).name));
  }
  if (tally.is_uneven()) throw_uneven_gradients();
}

void DataParallel::State::throw_uneven_gradients() const {
  const std::vector<ddp::MarkedParameters> marked =
      ddp::gather_marked(*group, tally.missing(), "gradients that ranks left out");
  std::vector<int> peers;
  for (const ddp::MarkedParameters& of_rank : marked) peers.push_back(of_rank.rank);
  const ddp::MarkedParameters& first = marked.front();
  std::string who = "rank " + std::to_string(first.rank) + " on " + first.host;
  if (peers.size() > 1) who += " (and " + std::to_string(peers.size() - 1) + " more, named here)";
  throw_on_every_rank(
      *group,
      refusal(who + " left out the gradient of " + ddp::names_text(tensors.layout(), first.parameters) + " in step " +
                  std::to_string(step - 1) +
                  ", which other ranks have made ready: call ready() for each parameter on each rank whose weight is "
                  "above 0 (with libtorch, let the loss depend on it), or set allow_unused in the options if the "
                  "model leaves parameters unused on some ranks",
              tensors.layout().at(first.parameters.front()).name)
          .naming_also(peers));
}

}  // namespace lockstep
