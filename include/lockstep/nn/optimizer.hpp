// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// Options of an optimizer, with PyTorch's names; dampening is 0. `ops::UpdateRule` has the formulas.
struct OptimizerOptions {
  ops::UpdateRule rule = ops::UpdateRule::sgd;
  double momentum = 0;  ///< of sgd and lars; β₁ of adamw and lamb
  bool nesterov = false;
  double beta2 = 0.999;              ///< of adamw and lamb
  double epsilon = 1e-8;             ///< of adamw and lamb
  double trust_coefficient = 0.001;  ///< of lars
  double weight_decay = 0;
  /// Whether weight decay, and the trust ratio of lars and lamb, also apply to parameters of one dimension: biases and
  /// the parameters of normalization.
  bool decay_vectors = true;
  /// Whether biases, the parameters named "bias", have a learning rate of their own, `StepScalars::bias_learning_rate`.
  bool bias_rate = false;
  /// Parameters that are not updated: names, or prefixes of names that end before a dot ("layer1" includes
  /// "layer1.0.conv1").
  std::vector<std::string> frozen;
  friend bool operator==(const OptimizerOptions&, const OptimizerOptions&) = default;
};

/// The name of a rule: "SGD", "AdamW", "LARS" or "LAMB".
std::string_view name(ops::UpdateRule rule);

/// An optimizer over flat slices. Its state buffers belong to the caller and start at 0.
class Optimizer {
 public:
  /// @throws Error{invalid_argument} if an option is out of its range, Nesterov is used without momentum or with
  /// another rule than sgd, or a frozen name matches no parameter
  Optimizer(const Layout& parameters, OptimizerOptions options);

  [[nodiscard]] const OptimizerOptions& options() const { return options_; }
  /// The state buffers, with PyTorch's names: "momentum_buffer", or "exp_avg" and "exp_avg_sq".
  static std::vector<std::string_view> state_names(ops::UpdateRule rule);

  /// The updates that `ops::Ops::update` makes in each step, in place.
  /// @param state    the state buffers; of each the parts, concatenated
  /// @param scalars  are read when the update runs
  /// @param squares  two numbers for each parameter, as `ops::UpdateStep::squares`, zero at the start of each step
  /// @param parts    the parts of the parameters to update, ascending
  /// @param sums     if it is not empty: of each part the gradient that is read instead, concatenated
  /// @throws Error{invalid_argument} if counts or dtypes differ
  [[nodiscard]] std::vector<ops::UpdateStep> steps(Buffer parameters, ConstBuffer gradients,
                                                   std::span<const Buffer> state, const ops::UpdateScalars& scalars,
                                                   std::span<double> squares, std::span<const LayoutPart> parts,
                                                   const ConstBuffer& sums = {}) const;

  /// The ranges of these parts that are updated, without frozen parameters.
  [[nodiscard]] std::vector<LayoutPart> updated(std::span<const LayoutPart> parts) const;

 private:
  /// Consecutive parameters that are updated alike.
  struct Range {
    LayoutPart part;
    double weight_decay;
    int adapted;  // the only parameter of the range, if it has a trust ratio; −1: none has
    bool is_bias;
    [[nodiscard]] bool is_like(const Range& other) const {
      return adapted < 0 && other.adapted < 0 && weight_decay == other.weight_decay && is_bias == other.is_bias;
    }
  };
  void add(const Range& range);
  void check_buffers(const Buffer& parameters, const ConstBuffer& gradients, std::span<const Buffer> state,
                     Count owned) const;

  OptimizerOptions options_;
  Count count_;  // number of elements of the layout
  std::vector<Range> ranges_;
};

}  // namespace lockstep::nn
