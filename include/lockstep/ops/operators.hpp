// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/tensor_spec.hpp"
#include "lockstep/ops/format.hpp"

namespace lockstep::ops {

/// What an operator does to its result before handing it on; fused so that a back end can save a pass over memory.
enum class Activation { none, relu };

/// A parameter, which is learned, or state, which steps change otherwise. Before training its values are uniform in
/// [value − spread, value + spread).
struct OwnedTensor {
  std::string name;  ///< within its operator: "weight"
  std::vector<std::int64_t> shape;
  double value = 0;
  double spread = 0;

  [[nodiscard]] std::int64_t count() const;
};

/// What has to be done at least, whoever does it: operations on numbers, and elements that are read or written once,
/// each tensor's own.
struct Cost {
  std::int64_t flops = 0;
  std::int64_t elements = 0;

  friend Cost operator+(const Cost& a, const Cost& b) { return {a.flops + b.flops, a.elements + b.elements}; }
};

/// What follows from an operator and the extents of its inputs.
struct Signature {
  Shape output;
  std::vector<OwnedTensor> parameters;
  std::vector<OwnedTensor> state;
  Cost forward;
  Cost backward;                ///< without the gradients of inputs where those are separate work
  Cost backward_inputs;         ///< that work
  std::vector<Content> inputs;  ///< what the inputs have to be; empty: all real
  /// Whether the result is `Figures`, in float64, whatever the precision of the inputs.
  bool is_loss = false;
};

/// What a loss gives for a batch, all sums over its samples. Its gradient is taken of `loss` alone, and is 1 ÷ the
/// step's weight times the loss's coefficient.
struct Figures {
  double weight = 0;   ///< what `loss` is to be divided by for a mean, of targets alone
  double loss = 0;     ///< natural logarithms where there are any
  double correct = 0;  ///< predictions that are right, where that can be said

  Figures& operator+=(const Figures& other);
};
/// All of them as numbers.
std::span<double> numbers(std::span<Figures> figures);

// Each operator: its options, then `signature`, which throws Error{invalid_argument} naming an option or extent that
// cannot be, and `text`, what it is called in lists.

/// Weights: out_channels × in_channels × kernel × kernel, square, alike in both directions; bias: out_channels.
/// Cross-correlation, as everywhere in the field.
struct Convolution {
  std::int64_t out_channels = 1;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  ///< zeros on each side
  bool bias = true;
  Activation activation = Activation::none;

  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Normalisation of each channel by the batch's mean and variance in training, by the running ones else.
/// Parameters gamma ("weight") and beta ("bias"), state "running_mean" and "running_var": channels each.
/// @source Ioffe & Szegedy, "Batch Normalization", ICML 2015
struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running = (1 − momentum)·running + momentum·batch (variance unbiased), as PyTorch
  Activation activation = Activation::none;
  bool synchronised = false;  ///< by mean and variance of all ranks' parts of the batch, not of each part by itself

  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// max(x, 0), element by element.
struct Relu {
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The largest element of each square window; one that does not fit is left out. Ties: the first in row-major order
/// takes the gradient.
struct MaxPool {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;

  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The mean of each square window; one that does not fit is left out.
struct AveragePool {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;

  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Weights, out_features × (channels·height·width) of the input in NCHW order, times the flattened input, plus a bias:
/// `out_features` elements of each sample.
struct Linear {
  std::int64_t out_features = 1;
  Activation activation = Activation::none;

  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Sum of two results of equal shape: the end of a residual block.
struct Add {
  Activation activation = Activation::none;

  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// In training each element is 0 with this probability, and otherwise divided by what is left of 1; else the input.
/// Which ones depends on the run's seed, the step, the operator's key, the sample's place in the step's batch and the
/// element's place in the sample, and so not on ranks.
/// @source Srivastava et al.: Dropout, JMLR 2014
struct Dropout {
  double probability = 0.5;
  std::uint64_t key = 0;  ///< a graph gives each of its nodes one of its own, by its name

  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: softmax over the channels of the first input, then cross-entropy against the second, an int32 label for each
/// position. `Figures::weight` counts the labels that are not ignored; `correct` those with the largest logit (the
/// first of equals).
struct CrossEntropy {
  std::int32_t ignore_index = -100;  ///< a label that counts for nothing, as in PyTorch

  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

class Kernel;

/// An operator of somebody else's: what it gives, and a kernel over plain formats that computes it.
class CustomOperator {
 public:
  virtual ~CustomOperator() = default;
  /// @throws Error{invalid_argument} for inputs that it cannot take
  [[nodiscard]] virtual Signature signature(std::span<const Shape> inputs) const = 0;
  [[nodiscard]] virtual std::string text() const = 0;
  /// @param inputs  plain, as many as `signature` has accepted; the batch may be 0
  [[nodiscard]] virtual std::unique_ptr<Kernel> make(std::span<const Format> inputs) const = 0;
};

/// Lets a network hold it.
struct Custom {
  std::shared_ptr<const CustomOperator> of;

  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// What a node of a network computes.
using Operator =
    std::variant<Convolution, BatchNorm, Relu, MaxPool, AveragePool, Linear, Add, Dropout, CrossEntropy, Custom>;

/// As the operator's own. @throws Error{invalid_argument} as that
Signature signature_of(const Operator& op, std::span<const Shape> inputs);
/// "convolution 3×3, stride 2, ReLU".
std::string text_of(const Operator& op);

}  // namespace lockstep::ops
