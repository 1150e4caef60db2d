// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

/// Options of SGD, with PyTorch's names; dampening is 0.
struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  /// Whether weight decay also applies to parameters of one dimension: biases and the parameters of normalization.
  bool decay_vectors = true;
  /// Parameters that are not updated: names, or prefixes of names that end before a dot ("layer1" includes
  /// "layer1.0.conv1").
  std::vector<std::string> frozen;
  friend bool operator==(const SgdOptions&, const SgdOptions&) = default;
};

/// Stochastic gradient descent with momentum over flat slices. The momentum buffer belongs to the caller and starts at
/// 0.
/// @source Sutskever, Martens, Dahl, Hinton, ICML 2013, in PyTorch's form (the momentum buffer does not contain the
/// learning rate)
class Sgd {
 public:
  /// @throws Error{invalid_argument} if an option is negative, Nesterov is used without momentum, or a frozen name
  /// matches no parameter
  Sgd(const Layout& parameters, SgdOptions options);

  [[nodiscard]] const SgdOptions& options() const { return options_; }

  /// The updates that `ops::Ops::sgd` makes in each step, of `parameters` and `velocity` (the momentum buffer) in
  /// place.
  /// @param scalars  are read when the update runs
  /// @throws Error{invalid_argument} if counts or dtypes differ
  [[nodiscard]] std::vector<ops::SgdStep> steps(Buffer parameters, ConstBuffer gradients, Buffer velocity,
                                                const ops::UpdateScalars& scalars) const;
  /// The same for some parts of the parameters, ascending. @param velocity  the momentum buffers of these parts,
  /// concatenated
  [[nodiscard]] std::vector<ops::SgdStep> steps(Buffer parameters, ConstBuffer gradients, Buffer velocity,
                                                const ops::UpdateScalars& scalars,
                                                std::span<const LayoutPart> parts) const;

  /// The ranges of these parts that are updated, without frozen parameters.
  [[nodiscard]] std::vector<LayoutPart> updated(std::span<const LayoutPart> parts) const;

 private:
  /// Consecutive parameters with the same update rule.
  struct Range {
    LayoutPart part;
    double weight_decay;
  };
  void add(const TensorSlot& slot, double weight_decay);

  SgdOptions options_;
  Count count_;  // number of elements of the layout
  std::vector<Range> ranges_;
};

}  // namespace lockstep::nn
