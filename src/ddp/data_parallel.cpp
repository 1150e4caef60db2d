// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/data_parallel.hpp"

#include <algorithm>

#include "base/origin_process.hpp"
#include "ddp/data_parallel_state.hpp"
#include "ddp/rank_zero.hpp"

namespace lockstep {

DataParallel::DataParallel(ProcessGroup& group, Layout layout, DType dtype, const DataParallelOptions& options)
    : state_(std::make_unique<State>(group, ddp::Tensors(std::move(layout), dtype, group, std::max(1, options.places)),
                                     options)) {}

DataParallel::DataParallel(ProcessGroup& group, std::vector<Parameter> parameters, const DataParallelOptions& options)
    : state_(std::make_unique<State>(group, ddp::Tensors(std::move(parameters), group), options)) {
  synchronize();
}

DataParallel::DataParallel(DataParallel&&) noexcept = default;
DataParallel& DataParallel::operator=(DataParallel&& other) noexcept {
  const DataParallel before(std::move(*this));
  state_ = std::move(other.state_);
  return *this;
}
DataParallel::~DataParallel() {
  if (state_ && !state_->origin.is_here()) keep_in_child(std::move(state_));
}

const Layout& DataParallel::layout() const { return state_->tensors.layout(); }
Buffer DataParallel::value(int parameter) const { return state_->tensors.value(parameter); }
Buffer DataParallel::gradient(int parameter) const { return state_->tensors.gradient(parameter); }
Buffer DataParallel::values() const { return state_->tensors.values(); }
Buffer DataParallel::gradients() const {
  (void)values();  // throws for the program's tensors
  return state_->tensors.flat_gradients();
}

Buffer DataParallel::gradient_places() const {
  (void)values();  // throws for the program's tensors
  return state_->tensors.gradient_places();
}

void DataParallel::synchronize() {
  const auto turn = state_->group->take_turn();
  ddp::synchronize(*state_->group, state_->tensors.value_buffers(), state_->options.initial);
  state_->synchronized = true;
}

void DataParallel::ready(int parameter, Queue queue) {
  const auto turn = state_->group->take_turn();
  state_->check_synchronized();
  state_->attempt([&] { state_->make_ready(parameter, queue); });
}

void DataParallel::ready(int parameter, const Buffer& gradient, Queue queue) {
  const auto turn = state_->group->take_turn();
  state_->check_synchronized();
  state_->move_gradient(parameter, gradient);
  state_->attempt([&] { state_->make_ready(parameter, queue); });
}

void DataParallel::progress() {
  const auto turn = state_->group->take_turn();
  // A round may enable the next round to take a message that has already arrived.
  while (state_->group->progress().poll()) {
  }
}

DataParallel::Step DataParallel::finish(double weight, std::span<double> sums) {
  State& state = *state_;
  const auto turn = state.group->take_turn();
  state.check_synchronized();
  if (!(weight >= 0)) {
    throw state.refusal("the weight " + std::to_string(weight) + ": it must be a number that is not negative");
  }
  state.tally.add(weight, sums);
  if (state.scopes > 0) {
    std::fill(state.is_ready.begin(), state.is_ready.end(), char{0});
    return {.weight = state.tally.weight()};
  }
  return state.attempt([&] {
    state.send_the_rest();
    state.look_at_values();
    Work tallying = state.tally.send(state.group->control(), state.finite.found(), state.values.digest());
    state.reducer->finish(state.queue);
    tallying.wait();
    state.tensors.distribute();
    state.end_step();
    return state.take(sums);
  });
}

void DataParallel::finish_on(Queue queue) {
  State& state = *state_;
  const auto turn = state.group->take_turn();
  state.check_synchronized();
  state.check_complete();
  state.attempt([&] {
    state.reducer->order_before(queue);
    state.tensors.distribute(queue);
    state.tally.begin_anew();
    state.end_step();
  });
}

const std::vector<LayoutPart>& DataParallel::owned() const { return state_->reducer->owned(); }
const std::vector<LayoutPart>& DataParallel::summed() const { return state_->reducer->summed(); }

void DataParallel::gather(const Buffer& flat, Queue queue) {
  State& state = *state_;
  const auto turn = state.group->take_turn();
  if (state.within_a_step()) throw state.refusal("parts are gathered between steps: call finish() first");
  if (flat.count != layout().count()) {
    throw state.refusal("a buffer of " + std::to_string(flat.count.value) + " elements, where the layout has " +
                        std::to_string(layout().count().value));
  }
  if (state.options.shard_optimizer) state.reducer->gather(flat, queue);
}

DataParallel::NoSync DataParallel::no_sync(bool on) { return {state_->scopes, on}; }
bool DataParallel::is_in_no_sync() const { return state_->scopes > 0; }
void DataParallel::number_steps_from(std::int64_t next) { state_->step = next; }

void DataParallel::move_shards(const LeafShares& shards, int places) {
  const auto turn = state_->group->take_turn();
  if (state_->within_a_step()) throw state_->refusal("shards are moved between steps: call finish() first");
  reported_by_rank(*state_->group, [&] { state_->shards.require_replaceable_by(shards, state_->group->size()); });
  state_->shards = shards;
  state_->options.places = places;
  state_->exposed_before = exposed_seconds();
  state_->reducer->forget_memory();
  state_->tensors.set_places(places, *state_->group);
  state_->join(*state_->group);
}

void DataParallel::rebind(ProcessGroup& group) {
  if (state_->within_a_step() && !state_->has_failed)
    throw state_->refusal("a group is changed between steps: call finish() first");
  state_->reducer->settle();
  if (state_->has_failed) state_->forget_step();
  state_->exposed_before = exposed_seconds();
  state_->reducer->forget_memory();
  state_->tensors.move_to(group);
  state_->shards = state_->options.shards;
  state_->join(group);
}

std::vector<LayoutPart> DataParallel::buckets() const {
  std::vector<LayoutPart> parts;
  for (const ddp::Bucket& bucket : state_->reducer->buckets()) parts.push_back({bucket.offset, bucket.count});
  return parts;
}

std::vector<Bytes> DataParallel::bucket_sizes() const {
  std::vector<Bytes> sizes;
  const std::int64_t element = size_of(state_->tensors.flat_gradients().dtype);
  for (const ddp::Bucket& bucket : state_->reducer->buckets()) sizes.push_back({bucket.count.value * element});
  return sizes;
}

double DataParallel::exposed_seconds() const { return state_->exposed_before + state_->reducer->exposed_seconds(); }

}  // namespace lockstep
