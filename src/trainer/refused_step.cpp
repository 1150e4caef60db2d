// SPDX-License-Identifier: Apache-2.0
// Why a replica refuses a step: which rank, which tensor or which sample is at fault.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddp/finite_check.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/trainer/replica.hpp"

namespace lockstep::trainer {
namespace {

std::string quoted(const std::string& name) { return "'" + name + "'"; }

}  // namespace

/// Explains why a step has halted the run. Steps after it have changed no weights.
void Replica::refuse(const nn::StepResult& result) {
  try {
    if (result.faults > 0) refuse_data();
    if (!result.finite_gradients) refuse_gradients();
    refuse_loss(result);
  } catch (...) {
    waiting_since_ = Clock::now();
    while (model_.in_flight() > 0) model_.finish(*this);
    model_.set_state({.loss_scale = result.state.loss_scale,
                      .scaled_steps = result.state.scaled_steps,
                      .updates = result.state.updates});
    throw;
  }
}

/// Gathers a value of every rank, which may have padding.
template <typename T>
std::vector<T> Replica::gather_control(const T& own, const char* label) const {
  std::vector<T> all(static_cast<std::size_t>(group_->size()));
  const auto bytes = [](T* first, std::size_t count) {
    return std::span(reinterpret_cast<std::uint8_t*>(first), count * sizeof(T));
  };
  T copy = own;
  group_->control().all_gather(bytes(&copy, 1), bytes(all.data(), all.size()), Queue::host(), label).wait();
  return all;
}

void Replica::refuse_data() const {
  /// What a rank tells the others.
  struct Report {
    ops::Fault fault;
    std::int64_t id = -1;  // the sample's index in the data set
    std::array<char, 64> host{};
  };
  Report own{.fault = model_.fault()};
  const std::vector<std::int64_t>& ids = submitted_[finishing_].ids;
  const auto sample = static_cast<std::size_t>(own.fault.sample);
  if (own.fault.code != ops::FaultCode::none && sample < ids.size()) own.id = ids[sample];
  group_->host().copy(own.host.data(), own.host.size() - 1);
  const std::vector<Report> all = gather_control(own, "bad values");
  std::vector<int> culprits;
  std::string list;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Report& of = all[rank];
    if (of.fault.code == ops::FaultCode::none) continue;
    culprits.push_back(static_cast<int>(rank));
    const std::string number = of.id < 0 ? "" : " (number " + std::to_string(of.id) + " of the data set)";
    list += (list.empty() ? "" : "; ") + ("rank " + std::to_string(rank)) + " (" + of.host.data() +
            "): " + model_.text_of(of.fault, "sample " + std::to_string(of.fault.sample) + number);
  }
  throw Error(
      ErrorCode::invalid_argument,
      "the data have values that an operator cannot take: " + list + ". The weights were not changed by this step",
      {.operation = "training step",
       .rank = group_->rank().value,
       .host = group_->host(),
       .peers = std::move(culprits)})
      .on_every_rank();
}

/// Finds out which ranks' gradients were not finite or, if there are none, which sums are not.
std::vector<DataParallel::NotFinite> Replica::not_finite_gradients() const {
  const std::span<const double> marks = model_.not_finite_gradients();
  ddp::FiniteCheck check(marks.size());
  for (std::size_t parameter = 0; parameter < marks.size(); ++parameter)
    if (marks[parameter] != 0) check.mark(parameter);
  std::vector<DataParallel::NotFinite> found = check.gather(*group_, group_->control(), 1);
  if (!found.empty()) return found;
  DataParallel::NotFinite sums;
  for (std::size_t parameter = 0; parameter < marks.size(); ++parameter)
    if (model_.not_finite_sums()[parameter] != 0) sums.parameters.push_back(static_cast<int>(parameter));
  return {sums};
}

void Replica::refuse_gradients() const {
  std::vector<int> culprits;
  std::string list;
  for (const DataParallel::NotFinite& flawed : not_finite_gradients()) {
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
void Replica::refuse_loss(const nn::StepResult& result) const {
  const std::span<const ops::LossSums> figures = model_.own_loss_sums();
  const auto sound = [](const ops::LossSums& term) { return std::isfinite(term.loss); };
  const std::uint8_t own = std::all_of(figures.begin(), figures.end(), sound) ? 0 : 1;
  const std::vector<std::uint8_t> all = gather_control(own, "losses");
  std::vector<int> culprits;
  std::string list;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == 0) continue;
    culprits.push_back(static_cast<int>(rank));
    list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  const std::string whose = culprits.empty() ? "each rank's own still is, their sum is not"
                                             : "on rank " + list + " the rank's own loss is not";
  throw not_finite("the loss is not finite (" + std::to_string(result.loss) + "); " + whose, std::move(culprits));
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

}  // namespace lockstep::trainer
