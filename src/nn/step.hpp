// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/leaves.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/ops/ops.hpp"

/// A training step as a value: a list of items whose operands are addresses. What an item does depends on memory alone,
/// never on a number that the host computes in between, so a list can be captured once and run often.
namespace lockstep::nn {

/// Numbers that items exchange with each other and with the host. The struct does not move.
struct StepNumbers {
  StepScalars scalars;                ///< set by the host before the list runs
  std::vector<ops::RngKey> rng_keys;  ///< one for each leaf
  Share own_shards{0, 1};             ///< this rank's shards
  std::vector<ops::LossSums> own;     ///< for each leaf and loss term
  std::vector<ops::LossSums> rank;    ///< for each loss term, summed over this rank's leaves
  std::vector<ops::LossSums> shards;  ///< for each shard and loss term, over all ranks
  std::vector<double> shard_weights;  ///< for each shard and loss term that is normalized by weight
  std::vector<ops::LossSums> total;   ///< for each loss term, summed over shards in the canonical order
  std::vector<double> weights;        ///< for each loss term: its weight, summed over shards in the canonical order
  std::vector<double> factors;        ///< for each loss term: the factor of its gradients
  bool finite = true;
  double squares = 0;    ///< sum of the squares of the gradients, for clipping
  double clip_norm = 0;  ///< 0: no clipping
  ops::UpdateScalars update;
  double momentum = 0;              ///< of the optimizer, for its corrections
  double beta2 = 0;                 ///< of the optimizer
  std::vector<double> trust_norms;  ///< `ops::UpdateStep::squares` of each parameter
  StepResult result;                ///< read by the host after the list has run
};

/// Marks work that runs on its own after lanes have joined.
inline constexpr int no_lane = -1;

/// One pass of an operator. The runs of a lane keep their order; lanes are independent up to the next `Join`.
struct Run {
  ops::Kernel* kernel;
  ops::Pass pass;
  const ops::Arguments* call;
  const std::string* label;
  int lane = 0;
};
/// Zeros memory that a kernel will add to.
struct Zero {
  void* data;
  Bytes bytes;
  int lane = 0;
};
/// Waits until all lanes have run what precedes it.
struct Join {};
/// Announces that this rank's gradient of a parameter is complete.
struct Ready {
  int parameter;
};
/// Polls the communication that is under way.
struct Poll {};
/// Sums the weights of loss terms that are normalized by weight, over ranks.
struct SumWeights {};
/// Sets `factors` and `rng_keys`.
struct SetFactors {
  const std::vector<std::int64_t>* first_samples = nullptr;  ///< of each leaf, counted from the rank's first
};
/// Waits until gradients and loss_sums are summed over ranks, and adds up the squares of gradients for clipping.
struct Finish {
  const std::vector<ConstBuffer>* clipped = nullptr;
};
/// All-gathers the numbers of the ranks.
struct Gather {
  std::span<const double> own;
  std::span<double> all;
};
/// Decides whether the update is made, and the factor that clips the gradients.
struct Gate {};
/// Adds up what the trust ratio of the same update needs.
struct MeasureUpdate {
  ops::UpdateStep step;
};
/// Sums numbers over ranks.
struct Sum {
  std::span<double> values;
};
/// Updates a range of adjacent parameters.
struct Update {
  ops::UpdateStep step;
  const std::string* label;
};
/// Updates the EMA weights, after the weights.
struct Average {
  ops::AverageStep step;
};

/// All-gathers the weights that each rank has updated.
struct GatherParameters {};

using Item = std::variant<Run, Zero, Join, Ready, Poll, SumWeights, SetFactors, Gather, Finish, Gate, MeasureUpdate,
                          Sum, Update, Average, GatherParameters>;

/// Takes the items of a list in order. The items live until the list has run.
class ItemQueue {
 public:
  virtual ~ItemQueue() = default;
  virtual void submit(const Item& item) = 0;
};

}  // namespace lockstep::nn
