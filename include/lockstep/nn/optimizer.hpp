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

/// As PyTorch's SGD names them; dampening is 0.
struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  /// Whether weight decay is also on parameters of one dimension: biases, and what normalization scales and shifts by.
  bool decay_vectors = true;
  /// Parameters that stay as they are: names, or what names begin with up to a dot ("layer1" is all of
  /// "layer1.0.conv1").
  std::vector<std::string> frozen;
  friend bool operator==(const SgdOptions&, const SgdOptions&) = default;
};

/// Stochastic gradient descent with momentum over flat slices; the velocity belongs to the caller and starts at 0.
/// @source Sutskever, Martens, Dahl, Hinton, ICML 2013, in PyTorch's form (velocity without the learning rate)
class Sgd {
 public:
  /// @throws Error{invalid_argument} if an option is negative, Nesterov is asked for without momentum, or no parameter
  ///         has a name that is to be frozen
  Sgd(const Layout& parameters, SgdOptions options);

  [[nodiscard]] const SgdOptions& options() const { return options_; }

  /// What `ops::Ops::sgd` has to do in each step: updates of `parameters` and `velocity` in place.
  /// @param scalars  are read when it is done
  /// @throws Error{invalid_argument} if counts or dtypes differ
  [[nodiscard]] std::vector<ops::SgdStep> steps(Buffer parameters, ConstBuffer gradients, Buffer velocity,
                                                const ops::UpdateScalars& scalars) const;
  /// The same of some parts of the parameters, ascending. @param velocity  of these, one behind the other
  [[nodiscard]] std::vector<ops::SgdStep> steps(Buffer parameters, ConstBuffer gradients, Buffer velocity,
                                                const ops::UpdateScalars& scalars,
                                                std::span<const LayoutPart> parts) const;

  /// What of these parts is updated at all, in ranges.
  [[nodiscard]] std::vector<LayoutPart> updated(std::span<const LayoutPart> parts) const;

 private:
  /// Parameters one behind the other that are updated alike.
  struct Range {
    LayoutPart part;
    double weight_decay;
  };
  void add(const TensorSlot& slot, double weight_decay);

  SgdOptions options_;
  Count count_;  // of the layout
  std::vector<Range> ranges_;
};

}  // namespace lockstep::nn
