// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/replica.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/hash.hpp"

namespace lockstep::trainer {
namespace {

void copy_out(const Buffer& from, std::vector<std::byte>& to) {
  const auto* begin = static_cast<const std::byte*>(from.data);
  to.assign(begin, begin + from.bytes().value);
}

void copy_in(const std::vector<std::byte>& from, const Buffer& to, const char* what) {
  if (static_cast<std::int64_t>(from.size()) != to.bytes().value) {
    throw Error(ErrorCode::mismatch, std::string("the snapshot's ") + what + " take " + std::to_string(from.size()) +
                                         " bytes, this model's " + std::to_string(to.bytes().value));
  }
  if (!from.empty()) std::memcpy(to.data, from.data(), from.size());
}

/// A quarter of a bucket, so that communication starts early; beyond 1 MiB that gains nothing.
Bytes first_bucket(Bytes bucket) { return {std::clamp<std::int64_t>(bucket.value / 4, 1, 1 << 20)}; }

}  // namespace

Replica::Replica(const backends::Membership& membership, ops::Ops& ops, const nn::Network& network,
                 const TrainerOptions& options, Observer* observer)
    : membership_(&membership),
      model_(network, ops, options.precision, observer),
      arena_(model_.parameters(), options.precision, membership.gradients()),
      state_(allocate_host({model_.state().count().value * size_of(options.precision)})),
      reducer_(membership.gradients(), membership.progress(), arena_.layout(), arena_.gradients(),
               {.size = options.bucket, .first = first_bucket(options.bucket)}, observer),
      optimizer_(ops, options.sgd),
      statistics_(membership.statistics()) {
  model_.bind(arena_.parameters(), arena_.gradients(), state());
  model_.initialize(options.seed);
  share_initial_values(options.initial);
}

/// Every rank makes them from the same seed; processors that round differently could still make others.
void Replica::share_initial_values(InitialValues how) {
  if (how == InitialValues::broadcast) return follow_rank_zero();
  Fnv1a hash;
  for (const ConstBuffer values : {ConstBuffer(arena_.parameters()), ConstBuffer(state())})
    hash.add({static_cast<const char*>(values.data), static_cast<std::size_t>(values.bytes().value)});
  auto mine = static_cast<std::int64_t>(hash.value());
  std::vector<std::int64_t> all(static_cast<std::size_t>(membership_->size()));
  membership_->statistics()
      .all_gather(Buffer{&mine, {1}, DType::int64}, Buffer{all.data(), {membership_->size()}, DType::int64},
                  Queue::host(), "initial parameters")
      .wait();
  std::vector<int> others;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all[0]) others.push_back(static_cast<int>(rank));
  if (others.empty()) return;
  throw Error(ErrorCode::mismatch,
              "the initial parameters of the ranks named here are not rank 0's, although the seed is the same: do all "
              "ranks run the same build on the same kind of processor? Broadcasting them makes them equal",
              {.operation = "initial parameters",
               .rank = membership_->rank().value,
               .host = membership_->host(),
               .peers = others})
      .on_every_rank();
}

Replica::StepResult Replica::step(const data::Batch& batch, double learning_rate) {
  const ops::Loss::Result own = model_.forward(batch.images.data, batch.labels.data(), batch.samples.value, true);
  sums_[0] = own.loss_sum;
  sums_[1] = static_cast<double>(own.correct);
  const Buffer sums{sums_, {2}, DType::float64};
  Work summing = membership_->statistics().all_reduce(sums, sums, ReduceOp::sum, Queue::host(), "loss");
  model_.backward(*this);
  reducer_.finish();
  summing.wait();
  if (!std::isfinite(sums_[0])) check_finite(own.loss_sum);
  optimizer_.step(arena_.parameters(), arena_.gradients(), arena_.optimizer_state(), batch.step_samples.value,
                  learning_rate);
  samples_seen_ += batch.samples.value;
  return {sums_[0] / static_cast<double>(batch.step_samples.value), static_cast<std::int64_t>(sums_[1])};
}

/// Called on every rank where the sum of losses is not finite: the sum is the same everywhere.
void Replica::check_finite(double own_loss_sum) const {
  std::vector<double> all(static_cast<std::size_t>(membership_->size()));
  membership_->statistics()
      .all_gather(Buffer{&own_loss_sum, {1}, DType::float64}, Buffer{all.data(), {membership_->size()}, DType::float64},
                  Queue::host(), "losses")
      .wait();
  std::vector<int> culprits;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!std::isfinite(all[rank])) culprits.push_back(static_cast<int>(rank));
  }
  std::string list;
  for (const int rank : culprits) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  const std::string whose = culprits.empty() ? "each rank's own still is, their sum is not"
                                             : "on rank " + list + " the rank's own loss is not";
  throw Error(ErrorCode::invalid_argument,
              "the loss is not finite (" + std::to_string(sums_[0]) + "); " + whose +
                  ". The weights were not changed by this step. A lower --lr may help",
              {.operation = "training step",
               .rank = membership_->rank().value,
               .host = membership_->host(),
               .peers = std::move(culprits)})
      .on_every_rank();
}

ops::Loss::Result Replica::evaluate(const data::Batch& batch) {
  return model_.forward(batch.images.data, batch.labels.data(), batch.samples.value, false);
}

void Replica::average_state() {
  model_.average_state(statistics_, samples_seen_);
  samples_seen_ = 0;
}

void Replica::save(Snapshot& snapshot) const {
  copy_out(arena_.parameters(), snapshot.weights);
  copy_out(arena_.optimizer_state(), snapshot.velocity);
  copy_out(state(), snapshot.state);
}

void Replica::restore(const Snapshot& snapshot) {
  copy_in(snapshot.weights, arena_.parameters(), "weights");
  copy_in(snapshot.velocity, arena_.optimizer_state(), "velocities");
  copy_in(snapshot.state, state(), "running statistics");
}

void Replica::follow_rank_zero() {
  for (const Buffer& buffer : {arena_.parameters(), arena_.optimizer_state(), state()}) {
    membership_->gradients().broadcast(buffer, {0}, Queue::host(), "replica").wait();
  }
}

}  // namespace lockstep::trainer
