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

/// A training step as a value: a list of items, whose operands are addresses. What an item does follows from memory
/// alone, never from a number that the host has computed in between, so that a list can be taken once and run often.
namespace lockstep::nn {

/// Numbers that items exchange with each other and with the host. It does not move.
struct StepNumbers {
  StepScalars scalars;                ///< set by the host before the list runs
  std::vector<ops::RngKey> rng_keys;  ///< of each leaf
  Share own_shards{0, 1};             ///< this rank's
  std::vector<ops::LossSums> own;     ///< of each leaf's loss terms
  std::vector<ops::LossSums> rank;    ///< of each loss term, of all leaves
  std::vector<ops::LossSums> shards;  ///< of each loss term of each shard, over all ranks
  std::vector<double> shard_weights;  ///< the same of terms that are normalized by weight
  std::vector<ops::LossSums> total;   ///< of each loss term, summed over shards in the canonical order
  std::vector<double> weights;        ///< the same
  std::vector<double> factors;        ///< of each loss term: what its gradients are multiplied by
  bool finite = true;
  double squares = 0;    ///< of gradients that are to be clipped
  double clip_norm = 0;  ///< 0: they are not
  ops::UpdateScalars update;
  StepResult result;  ///< read by the host when the list has run
};

/// Of what runs by itself, when lanes have joined.
inline constexpr int no_lane = -1;

/// One pass of an operator. What is in one lane runs in its order; lanes are independent up to the next `Join`.
struct Run {
  ops::Kernel* kernel;
  ops::Pass pass;
  const ops::Arguments* call;
  const std::string* label;
  int lane = 0;
};
/// Makes what a kernel will add to.
struct Zero {
  void* data;
  Bytes bytes;
  int lane = 0;
};
/// What follows comes after all that lanes have run.
struct Join {};
/// This rank's gradient of a parameter is complete.
struct Ready {
  int parameter;
};
/// Communication may progress.
struct Progress {};
/// Sums the weights of loss terms that are normalized by them, over ranks.
struct SumWeights {};
/// Sets `factors` and `rng_keys`.
struct SetFactors {
  const std::vector<std::int64_t>* first_samples = nullptr;  ///< of each leaf, among the rank's
};
/// Waits until gradients and loss_sums are sums over ranks, and adds up the squares of those that are to be clipped.
struct Finish {
  const std::vector<ConstBuffer>* clipped = nullptr;
};
/// All ranks get what each has left for the others.
struct Gather {
  std::span<const double> own;
  std::span<double> all;
};
/// Decides whether the step's update is made, and how far gradients are shortened.
struct Gate {};
/// Of parameters one behind the other.
struct Update {
  ops::SgdStep sgd;
  const std::string* label;
};
/// Of the weights, after their update.
struct Average {
  ops::AverageStep step;
};

/// All ranks get the weights that each has updated for the others.
struct GatherParameters {};

using Item = std::variant<Run, Zero, Join, Ready, Progress, SumWeights, SetFactors, Gather, Finish, Gate, Update,
                          Average, GatherParameters>;

/// Takes the items of a list in their order. They live until the list has run.
class ItemQueue {
 public:
  virtual ~ItemQueue() = default;
  virtual void submit(const Item& item) = 0;
};

}  // namespace lockstep::nn
