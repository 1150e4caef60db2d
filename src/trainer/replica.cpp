// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer/replica.hpp"

#include <cmath>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.hpp"

namespace lockstep::trainer {
namespace {

std::string quoted(const std::string& name) { return "'" + name + "'"; }

void copy_out(const Buffer& from, std::vector<std::byte>& to) {
  const auto* begin = static_cast<const std::byte*>(from.data);
  to.assign(begin, begin + from.bytes().value);
}

void copy_in(const std::vector<std::byte>& from, const Buffer& to) {
  if (!from.empty()) std::memcpy(to.data, from.data(), from.size());
}

std::vector<Snapshot::Setting> lengths_of(std::int64_t weights, std::int64_t velocity, std::int64_t state) {
  return {{"bytes of weights", std::to_string(weights)},
          {"bytes of velocities", std::to_string(velocity)},
          {"bytes of running statistics", std::to_string(state)}};
}

std::string hexadecimal(std::uint64_t number) {
  std::ostringstream text;
  text << std::hex << number;
  return text.str();
}

/// What is wrong with the options is so on every rank.
nn::Sgd make_optimizer(const ProcessGroup& group, ops::Ops& ops, const Layout& parameters,
                       const nn::SgdOptions& options) {
  try {
    return {ops, parameters, options};
  } catch (const Error& error) {
    throw error.reported_by(group.rank().value, group.host()).on_every_rank();
  }
}

}  // namespace

Replica::Replica(ProcessGroup& group, ops::Ops& ops, const nn::Network& network, const TrainerOptions& options,
                 Observer* observer)
    : group_(&group),
      model_(network, ops, options.precision, observer),
      data_parallel_(
          group, model_.parameters(), options.precision,
          {.bucket = options.bucket, .initial = options.initial, .check_finite = true, .observer = observer}),
      velocity_(group.allocate(data_parallel_.values().bytes())),
      state_(allocate_host({model_.state().count().value * size_of(options.precision)})),
      optimizer_(make_optimizer(group, ops, model_.parameters(), options.sgd)),
      statistics_(group.statistics()) {
  model_.bind(data_parallel_.values(), data_parallel_.gradients(), state());
  model_.initialize(options.seed);
  // Every rank makes them from the same seed; processors that round differently could still make others.
  data_parallel_.synchronize();
}

Buffer Replica::velocity() const {
  const Buffer values = data_parallel_.values();
  return {velocity_.data(), values.count, values.dtype, velocity_.kind()};
}

Replica::StepResult Replica::step(const data::Batch& batch, double learning_rate) {
  const ops::Loss::Result own = model_.forward(batch.images.data, batch.labels.data(), batch.samples.value, true);
  sums_[0] = own.loss_sum;
  sums_[1] = static_cast<double>(own.correct);
  model_.backward(*this);
  const DataParallel::Step step = data_parallel_.finish(static_cast<double>(batch.samples.value), sums_);
  if (!step.not_finite.empty()) refuse_not_finite(step.not_finite);
  if (!std::isfinite(sums_[0])) refuse_loss(own.loss_sum);
  const double samples = step.weight;
  optimizer_.step(data_parallel_.values(), data_parallel_.gradients(), velocity(), std::llround(samples),
                  learning_rate);
  samples_seen_ += batch.samples.value;
  return {sums_[0] / samples, static_cast<std::int64_t>(sums_[1])};
}

void Replica::refuse_not_finite(const std::vector<DataParallel::NotFinite>& gradients) const {
  std::vector<int> culprits;
  std::string list;
  for (const DataParallel::NotFinite& flawed : gradients) {
    if (flawed.rank) culprits.push_back(*flawed.rank);
    // Backward comes to the last ones first: where things went wrong.
    list += (list.empty() ? "" : ", ") + quoted(model_.parameters().at(flawed.parameters.back()).name) +
            (flawed.parameters.size() > 1 ? " and " + std::to_string(flawed.parameters.size() - 1) + " more" : "") +
            (flawed.rank ? " on rank " + std::to_string(*flawed.rank) + " (" + flawed.host + ")"
                         : " as the sum over ranks, of which each rank's own is finite");
  }
  throw not_finite("gradients are not finite: " + list, std::move(culprits));
}

/// Where gradients are finite the loss may be infinite all the same: the logarithm of a probability that has become 0.
void Replica::refuse_loss(double own_loss_sum) const {
  std::vector<double> all(static_cast<std::size_t>(group_->size()));
  group_->statistics().all_gather(std::span(&own_loss_sum, 1), std::span(all), Queue::host(), "losses").wait();
  std::vector<int> culprits;
  std::string list;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (std::isfinite(all[rank])) continue;
    culprits.push_back(static_cast<int>(rank));
    list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  const std::string whose = culprits.empty() ? "each rank's own still is, their sum is not"
                                             : "on rank " + list + " the rank's own loss is not";
  throw not_finite("the loss is not finite (" + std::to_string(sums_[0]) + "); " + whose, std::move(culprits));
}

Error Replica::not_finite(const std::string& what, std::vector<int> culprits) const {
  return Error(ErrorCode::invalid_argument,
               what + ". The weights were not changed by this step. A lower learning rate may help",
               {.operation = "training step",
                .rank = group_->rank().value,
                .host = group_->host(),
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

void Replica::save(Snapshot& snapshot) {
  copy_out(data_parallel_.values(), snapshot.weights);
  copy_out(velocity(), snapshot.velocity);
  copy_out(state(), snapshot.state);
  nn::average_statistics({snapshot.state.data(), state().count, state().dtype}, statistics_, samples_seen_);
}

std::vector<Snapshot::Setting> Replica::settings() const {
  std::vector<Snapshot::Setting> settings = {{"model", model_.network().name()},
                                             {"precision", std::string(name(model_.dtype()))},
                                             {"parameters", hexadecimal(model_.parameters().hash())},
                                             {"statistics", hexadecimal(model_.state().hash())}};
  const std::vector<Snapshot::Setting> long_parts =
      lengths_of(data_parallel_.values().bytes().value, velocity().bytes().value, state().bytes().value);
  settings.insert(settings.end(), long_parts.begin(), long_parts.end());
  return settings;
}

std::vector<Snapshot::Setting> Replica::lengths(const Snapshot& snapshot) {
  const auto length = [](const std::vector<std::byte>& part) { return static_cast<std::int64_t>(part.size()); };
  return lengths_of(length(snapshot.weights), length(snapshot.velocity), length(snapshot.state));
}

void Replica::restore(const Snapshot& snapshot) {
  if (group_->rank() == Rank{0}) {
    copy_in(snapshot.weights, data_parallel_.values());
    copy_in(snapshot.velocity, velocity());
    copy_in(snapshot.state, state());
  }
  for (const Buffer& buffer : {data_parallel_.values(), velocity(), state()}) {
    group_->communicator().broadcast(buffer, {0}, Queue::host(), "replica").wait();
  }
  samples_seen_ = 0;
}

}  // namespace lockstep::trainer
