// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "ddp/finite_check.hpp"
#include "ddp/rank_zero.hpp"
#include "trainer/replica/replica.hpp"

namespace lockstep::trainer {
namespace {

/// The ranks that are at fault, and the text that says so.
struct Culprits {
  std::vector<int> ranks;
  std::string text;

  void add(const std::string& more, const char* separator) { text += (text.empty() ? "" : separator) + more; }
};

Error error_of_step(const ProcessGroup& group, ErrorCode code, const std::string& what, Culprits culprits) {
  return Error(code, what,
               {.operation = "training step",
                .rank = group.rank().value,
                .host = group.host(),
                .peers = std::move(culprits.ranks)})
      .on_every_rank();
}

Error not_finite(const ProcessGroup& group, const std::string& what, Culprits culprits) {
  return error_of_step(group, ErrorCode::diverged,
                       what + ". The weights were not changed by this step. A lower learning rate may help",
                       std::move(culprits));
}

[[noreturn]] void refuse_data(ProcessGroup& group, const nn::Model& model, const std::vector<std::int64_t>& samples) {
  /// What a rank tells the others.
  struct FaultReport {
    ops::Fault fault;
    std::int64_t id = -1;  // the sample's index in the data set
    std::array<char, 64> host{};
  };
  FaultReport own{.fault = model.fault()};
  const auto sample = static_cast<std::size_t>(own.fault.sample);
  if (own.fault.code != ops::FaultCode::none && sample < samples.size()) own.id = samples[sample];
  group.host().copy(own.host.data(), own.host.size() - 1);
  const std::vector<FaultReport> all = gather_values(group, own, "bad values");
  Culprits culprits;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const FaultReport& of = all[rank];
    if (of.fault.code == ops::FaultCode::none) continue;
    culprits.ranks.push_back(static_cast<int>(rank));
    const std::string number = of.id < 0 ? "" : " (number " + std::to_string(of.id) + " of the data set)";
    culprits.add("rank " + std::to_string(rank) + " (" + of.host.data() +
                     "): " + model.text_of(of.fault, "sample " + std::to_string(of.fault.sample) + number),
                 "; ");
  }
  throw error_of_step(group, ErrorCode::invalid_argument,
                      "the data have values that an operator cannot take: " + culprits.text +
                          ". The weights were not changed by this step",
                      culprits);
}

/// Finds out which ranks' gradients were not finite or, if there are none, which sums are not.
std::vector<DataParallel::NotFinite> not_finite_gradients(ProcessGroup& group, const nn::Model& model) {
  const std::span<const double> marks = model.not_finite_gradients();
  ddp::FiniteCheck check(marks.size());
  for (std::size_t parameter = 0; parameter < marks.size(); ++parameter)
    if (marks[parameter] != 0) check.mark(parameter);
  std::vector<DataParallel::NotFinite> found = check.gather(group, 1);
  if (!found.empty()) return found;
  DataParallel::NotFinite sums;
  for (std::size_t parameter = 0; parameter < marks.size(); ++parameter)
    if (model.not_finite_sums()[parameter] != 0) sums.parameters.push_back(static_cast<int>(parameter));
  return {sums};
}

[[noreturn]] void refuse_gradients(ProcessGroup& group, const nn::Model& model) {
  Culprits culprits;
  for (const DataParallel::NotFinite& flawed : not_finite_gradients(group, model)) {
    if (flawed.rank) culprits.ranks.push_back(*flawed.rank);
    // Backward reaches the last parameters first, so the last one is where non-finite values began.
    culprits.add(
        "'" + model.parameters().at(flawed.parameters.back()).name + "'" +
            (flawed.parameters.size() > 1 ? " and " + std::to_string(flawed.parameters.size() - 1) + " more" : "") +
            (flawed.rank ? " on rank " + std::to_string(*flawed.rank) + " (" + flawed.host + ")"
                         : " as the sum over ranks, of which each rank's own is finite"),
        ", ");
  }
  throw not_finite(group, "gradients are not finite: " + culprits.text, culprits);
}

/// The loss may be infinite although gradients are finite: the logarithm of a probability that has become 0.
[[noreturn]] void refuse_loss(ProcessGroup& group, const nn::Model& model, double loss) {
  const std::span<const ops::LossSums> sums = model.own_loss_sums();
  const auto is_sound = [](const ops::LossSums& term) { return std::isfinite(term.loss); };
  const std::uint8_t own = std::ranges::all_of(sums, is_sound) ? 0 : 1;
  const std::vector<std::uint8_t> all = gather_values(group, own, "losses");
  Culprits culprits;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == 0) continue;
    culprits.ranks.push_back(static_cast<int>(rank));
    culprits.add(std::to_string(rank), ", ");
  }
  const std::string whose = culprits.ranks.empty() ? "each rank's own still is, their sum is not"
                                                   : "on rank " + culprits.text + " the rank's own loss is not";
  throw not_finite(group, "the loss is not finite (" + std::to_string(loss) + "); " + whose, culprits);
}

}  // namespace

void refuse_step(ProcessGroup& group, const nn::Model& model, const nn::StepResult& result,
                 const std::vector<std::int64_t>& samples) {
  if (result.faults > 0) refuse_data(group, model, samples);
  if (!result.finite_gradients) refuse_gradients(group, model);
  refuse_loss(group, model, result.loss);
}

}  // namespace lockstep::trainer
