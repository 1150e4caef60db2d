// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/buffer.hpp"
#include "lockstep/ops/format.hpp"

/// The arithmetic of layers: one interface, several implementations that do not include each other.
namespace lockstep::ops {

/// What a layer does to its result before handing it on; fused so that a back end can save a pass over memory.
enum class Activation { none, relu };

/// A convolution with square kernels, alike in both directions.
struct ConvolutionShape {
  std::int64_t out_channels = 1;
  std::int64_t kernel = 3;  ///< square
  std::int64_t stride = 1;
  std::int64_t padding = 0;  ///< zeros on each side
  bool bias = true;
  Activation activation = Activation::none;
};

/// Square windows, without padding.
struct PoolShape {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
};

/// Normalisation of each channel by the batch's mean and variance in training, by the running ones else.
struct BatchNormShape {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running = (1 − momentum)·running + momentum·batch (variance unbiased), as PyTorch
  Activation activation = Activation::none;
};

/// The two halves of a training step.
enum class Pass { forward, backward };

/// One layer's arithmetic for one input format. Its buffers are the caller's, so that memory can be planned and reused.
///
/// Parameters are plain row-major whatever the activations' format is. Gradients are sums over the samples of the
/// batch, never means.
class Operator {
 public:
  /// Pointers of one call. `inputs` has one entry (two for `add`), in the formats that the operator was made for.
  struct Forward {
    std::span<const void* const> inputs;
    std::span<const void* const> parameters;  ///< weights, bias | gamma, beta | none
    std::span<void* const> state;             ///< batch norm: running mean, running variance; updated when training
    void* output = nullptr;                   ///< overwritten
    void* saved = nullptr;                    ///< `saved_bytes()` that backward of the same batch reads
    bool training = true;                     ///< false: running statistics, nothing saved
  };
  /// Pointers of one call, in the formats that the operator was made for.
  struct Backward {
    std::span<const void* const> inputs;
    std::span<const void* const> parameters;
    const void* output = nullptr;                ///< of the forward pass
    void* output_gradient = nullptr;             ///< may be overwritten (a fused activation works in place)
    std::span<void* const> input_gradients;      ///< overwritten; a null entry is not computed (`relu` and `add`:
                                                 ///< may be output_gradient itself)
    std::span<void* const> parameter_gradients;  ///< overwritten
    void* saved = nullptr;
  };

  virtual ~Operator() = default;
  [[nodiscard]] virtual const Format& output() const = 0;
  /// What computes it, for people: a kernel's name.
  [[nodiscard]] virtual std::string algorithm(Pass /*pass*/) const { return "loops"; }
  [[nodiscard]] virtual Bytes saved_bytes() const { return {0}; }
  /// Overwrites the output. @throws Error{invalid_argument} for another number of pointers than it was made for
  virtual void forward(const Forward& call) = 0;
  /// Overwrites the gradients, of the batch that forward() saw last. @throws as forward()
  virtual void backward(const Backward& call) = 0;
};

/// Softmax followed by cross-entropy against integer labels.
class Loss {
 public:
  /// What a batch adds to the sums over an epoch.
  struct Result {
    double loss_sum = 0;       ///< over the batch's samples, natural logarithm
    std::int64_t correct = 0;  ///< samples whose largest logit is the label's (the first of equals)
  };
  virtual ~Loss() = default;
  /// @param logits    in the format the loss was made for
  /// @param labels    one per sample, 0 ≤ label < channels
  /// @param gradient  overwritten with softmax − one-hot, in the format of `logits`; null: not computed
  virtual Result evaluate(const void* logits, const std::int32_t* labels, void* gradient) = 0;
};

/// Numbers that an update reads when it runs: in memory, so that the same call can be made again with others.
struct UpdateScalars {
  double learning_rate = 0;
  double gradient_scale = 1;  ///< 1 / (samples of the step over all ranks)
};

/// Stochastic gradient descent over flat slices, in place.
///   g = gradient·gradient_scale + weight_decay·parameter;  v = momentum·v + g;  parameter −= learning_rate·(nesterov ?
///   g + momentum·v : v)
struct SgdStep {
  void* parameters = nullptr;
  const void* gradients = nullptr;
  void* velocity = nullptr;
  Count count;
  DType dtype = DType::float32;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  const UpdateScalars* scalars = nullptr;  ///< never null when the step is taken
};

/// How much a second all threads of a rank can do together.
struct MachineLimits {
  double bytes_per_second = 0;  ///< read and written, by a copy that is larger than caches
  double flops_per_second = 0;  ///< multiplications and additions, in registers
};

/// Makes operators. One per rank; used by one thread, which may use `threads` of its own.
class Ops {
 public:
  virtual ~Ops() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  ///< "reference", "onednn"
  /// Whether operators can be made for activations and parameters of this dtype.
  [[nodiscard]] virtual bool supports(DType dtype) const = 0;

  /// Weights: out_channels × in_channels × kernel × kernel; bias: out_channels. Cross-correlation, as everywhere in the
  /// field.
  virtual std::unique_ptr<Operator> convolution(const Format& in, const ConvolutionShape& shape) = 0;
  /// gamma, beta, running mean, running variance: channels each.
  virtual std::unique_ptr<Operator> batch_norm(const Format& in, const BatchNormShape& shape) = 0;
  /// max(x, 0).
  virtual std::unique_ptr<Operator> relu(const Format& in) = 0;
  /// No padding; a window that does not fit is left out. Ties: the first in row-major order takes the gradient.
  virtual std::unique_ptr<Operator> max_pool(const Format& in, const PoolShape& shape) = 0;
  /// As max_pool, but for the mean of each window.
  virtual std::unique_ptr<Operator> average_pool(const Format& in, const PoolShape& shape) = 0;
  /// Weights: out_channels × (channels·height·width) of the input in NCHW order; bias: out_channels.
  virtual std::unique_ptr<Operator> linear(const Format& in, std::int64_t out_channels, Activation activation) = 0;
  /// out = activation(a + b). @throws Error{invalid_argument} if the shapes differ
  virtual std::unique_ptr<Operator> add(const Format& a, const Format& b, Activation activation) = 0;
  /// Logits: a channel for each class, of one pixel.
  virtual std::unique_ptr<Loss> softmax_cross_entropy(const Format& logits) = 0;

  /// Overwrites parameters and velocity.
  virtual void sgd(const SgdStep& step) = 0;

  /// Measures what the processors that operators use can do at best, in a few hundredths of a second.
  /// @throws Error{unsupported} unless the dtype is float32 or float64
  [[nodiscard]] virtual MachineLimits measure_limits(DType dtype) = 0;
};

}  // namespace lockstep::ops
