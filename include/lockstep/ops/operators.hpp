// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/tensor_spec.hpp"
#include "lockstep/ops/format.hpp"

namespace lockstep::ops {

/// A parameter, which is learned, or a state tensor, which steps update otherwise. Its initial values are uniform in
/// [value − spread, value + spread), plus a number for each element.
struct OwnedTensor {
  std::string name;  ///< within its operator: "weight"
  std::vector<std::int64_t> shape;
  double value = 0;
  double spread = 0;
  std::vector<double> added = {};  ///< by element; empty: zeros

  [[nodiscard]] std::int64_t count() const;
};

/// The minimum of work of an operator: floating-point operations, and elements of all tensors, each read or written
/// once.
struct OperatorCost {
  std::int64_t flops = 0;
  std::int64_t elements = 0;

  friend OperatorCost operator+(const OperatorCost& a, const OperatorCost& b) {
    return {a.flops + b.flops, a.elements + b.elements};
  }
};

/// Everything that follows from an operator and the extents of its inputs.
struct Signature {
  Shape output;
  std::vector<OwnedTensor> parameters;
  std::vector<OwnedTensor> state;
  OperatorCost forward;
  OperatorCost backward;         ///< without input gradients, if these are separate work
  OperatorCost backward_inputs;  ///< the work for input gradients
  std::vector<Content> inputs;   ///< required contents of the inputs; empty: all real
  /// Whether the result is `LossSums`, which is in float64 for inputs of any precision.
  bool is_loss = false;
  /// Whether the operator has a backward pass. Without one it can only compute outputs of predictions, which no loss
  /// depends on, and runs in `Pass::infer` only.
  bool has_backward = true;
};

/// The result of a loss for a batch: sums over its samples. Gradients are those of `loss`, multiplied by the
/// coefficient of the loss term divided by its normalizer.
struct LossSums {
  double weight = 0;   ///< divisor of `loss` for a mean; depends on targets only
  double loss = 0;     ///< with natural logarithms
  double correct = 0;  ///< weight of the correct predictions, if defined

  /// Adds the sums of another part of the batch.
  LossSums& operator+=(const LossSums& other);
};
/// A view of the sums as numbers.
std::span<double> numbers(std::span<LossSums> loss_sums);

class Kernel;
using KernelPtr = std::unique_ptr<Kernel>;

/// The operators and their options. Other namespaces use all of them by one directive.
inline namespace operators {

/// An activation fused into an operator, which saves a pass over memory.
enum class Activation {
  none,
  relu,
  relu6,  ///< for batch norm only
};

// Each operator consists of its options, the function `signature`, which derives everything else from the options and
// the extents of the inputs, and the function `text`, which returns its name for lists.

/// A number for each direction; a single number stands for both.
struct Pair {
  std::int64_t height;
  std::int64_t width;

  /// Uses the same number in both directions.
  constexpr Pair(std::int64_t both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  /// Uses one number for each direction.
  constexpr Pair(std::int64_t vertical, std::int64_t horizontal) : height(vertical), width(horizontal) {}
  [[nodiscard]] constexpr std::int64_t area() const { return height * width; }
  friend bool operator==(const Pair&, const Pair&) = default;
};

/// Weights: out_channels × (in_channels ÷ groups) × kernel height × kernel width; bias: out_channels.
/// It is a cross-correlation, as PyTorch's Conv2d. Input and output channels are cut into `groups` equal parts, and
/// each part of the result depends on its own part of the input only. As many groups as channels make it depthwise.
struct Convolution {
  std::int64_t out_channels = 1;
  Pair kernel = 3;
  Pair stride = 1;
  Pair padding = 0;   ///< number of zeros on each side
  Pair dilation = 1;  ///< distance between elements of a window
  std::int64_t groups = 1;
  bool bias = true;
  Activation activation = Activation::none;
  /// Whether its training pass also gives the statistics of each output channel for the batch norm behind it, whose
  /// "running_mean" is then its state, which it only reads. The pass `sum_in_convolutions` sets it.
  bool statistics = false;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The maximum of each window, as PyTorch's MaxPool2d. Windows that do not fit are left out. Padding, at most half of
/// the kernel, is never the maximum. With ties the first element in row-major order gets the gradient.
struct MaxPool {
  Pair kernel = 2;
  Pair stride = 2;
  Pair padding = 0;  ///< on each side
  Activation activation = Activation::none;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Normalizes each channel by the batch's mean and variance in training, and by the running ones otherwise. With
/// `residual` it adds a second input of the same extent: the end of a residual block in one operator. Parameters gamma
/// ("weight") and beta ("bias"), state "running_mean" and "running_var": channels each. With `normalizes_residual` it
/// has all of these for the second input as well: "residual_weight", "residual_bias", "residual_running_mean" and
/// "residual_running_var".
/// @source Ioffe & Szegedy, "Batch Normalization", ICML 2015
struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running = (1 − momentum)·running + momentum·batch (variance unbiased), as PyTorch
  Activation activation = Activation::none;
  bool synchronized = false;  ///< uses mean and variance of the global batch (SyncBN) instead of each rank's part
  bool residual = false;      ///< whether there is a second input; the activation comes after the sum
  /// Whether the second input is normalized, too, before it is added: the end of a residual block that changes the
  /// extent, with the batch norm of its shortcut. The pass `normalize_residuals` sets it.
  bool normalizes_residual = false;
  /// A max pool behind the activation, without one of its own, if there is no residual: the end of a stem. Along each
  /// axis an element is in two windows at most, and a window has at most 255 elements. The pass `pool_in_batch_norms`
  /// sets it.
  std::optional<MaxPool> pool = {};

  /// Whether a max pool can be fused as its `pool`.
  [[nodiscard]] static bool can_fuse(const MaxPool& pool);
  /// The number of batch norms that it computes.
  [[nodiscard]] std::int64_t norms() const { return normalizes_residual ? 2 : 1; }
  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// max(x, 0), element by element.
struct Relu {
  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The mean of each window, as PyTorch's AvgPool2d. Windows that do not fit are left out.
struct AveragePool {
  Pair kernel = 2;
  Pair stride = 2;
  Pair padding = 0;               ///< on each side, at most half of the kernel
  bool count_include_pad = true;  ///< whether padding counts as zeros in the mean

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A linear layer: weights, out_features × (channels·height·width) in NCHW order, times the flattened input, plus a
/// bias. Each sample gets `out_features` elements.
struct Linear {
  std::int64_t out_features = 1;
  Activation activation = Activation::none;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The sum of two values of equal shape, as at the end of a residual block.
struct Add {
  Activation activation = Activation::none;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// In training each element becomes 0 with probability p, and is divided by 1 − p otherwise. In evaluation it is the
/// identity. The mask depends on the run's seed, the step, the operator's key, the sample's position in the global
/// batch and the element's position in the sample, and therefore not on the number of ranks.
/// @source Srivastava et al.: Dropout, JMLR 2014
struct Dropout {
  double probability = 0.5;
  std::uint64_t key = 0;  ///< a graph derives a distinct one from each node's name

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// An elementwise function, as PyTorch's of the same name. Where no derivative exists, it uses PyTorch's value: 0 for
/// relu6 at 0 and 6, `slope` for leaky_relu at 0, 0 and 1 for hard_swish at −3 and 3.
struct Pointwise {
  /// The function of x.
  enum class Kind {
    relu6,       ///< min(max(x, 0), 6)
    leaky_relu,  ///< x where it is positive, else slope·x
    silu,        ///< x·sigmoid(x), also called swish
    hard_swish,  ///< x·relu6(x + 3) ÷ 6
    sigmoid,     ///< 1 ÷ (1 + exp(−x))
    tanh,
    gelu,       ///< x·Φ(x), Φ the distribution function of the normal distribution, by erf
    gelu_tanh,  ///< the same with Φ(x) ≈ ½·(1 + tanh(√(2/π)·(x + 0.044715·x³))): PyTorch's approximate='tanh'
    affine,     ///< slope·x + offset, for instance 1 − x
    hard_sigmoid,  ///< min(max(slope·x + offset, 0), 1): PyTorch's has slope 1/6 and offset ½, PaddleOCR's slope 0.2
  };
  Kind kind = Kind::silu;
  double slope = 0.01;  ///< for leaky_relu and hard_sigmoid, not negative, and for affine
  double offset = 0;    ///< for affine and hard_sigmoid

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The mean of each channel: batch × channels × 1 × 1.
struct GlobalAveragePool {
  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The means of height × width windows for an input of any extent, as PyTorch's AdaptiveAvgPool2d: window i of n
/// along an axis of e elements begins at ⌊i·e ÷ n⌋ and ends before ⌈(i + 1)·e ÷ n⌉, so windows can overlap.
struct AdaptiveAveragePool {
  std::int64_t height = 1;
  std::int64_t width = 1;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The mean or the largest of the channels at each position: batch × 1 × height × width, as PyTorch's
/// `x.mean(1, keepdim=True)` and `x.max(1, keepdim=True).values`. The gradient of the largest goes to the first channel
/// that has it; a NaN is larger than any number.
/// @source Woo et al., "CBAM: Convolutional Block Attention Module", ECCV 2018 (its spatial attention)
struct ChannelPool {
  /// What becomes of the channels of a position.
  enum class Kind { mean, max };
  Kind kind = Kind::mean;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A transposed convolution, as PyTorch's ConvTranspose2d: every element is multiplied by the window of its channel's
/// weights, and overlapping windows are added. Along each axis of n elements the result has (n − 1)·stride − 2·padding
/// + dilation·(kernel − 1) + output_padding + 1. Weights: in_channels × (out_channels ÷ groups) × kernel height ×
/// kernel width; bias: out_channels.
/// @source Dumoulin & Visin, "A guide to convolution arithmetic for deep learning", arXiv 1603.07285
struct TransposedConvolution {
  std::int64_t out_channels = 1;
  Pair kernel = 3;
  Pair stride = 1;
  Pair padding = 0;         ///< elements that are cut off on each side
  Pair output_padding = 0;  ///< elements that are added at the end; less than the stride or the dilation
  Pair dilation = 1;
  std::int64_t groups = 1;  ///< as for `Convolution`
  bool bias = true;
  Activation activation = Activation::none;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The elementwise product of two values. An extent of 1 in channels, rows or columns is broadcast, as in PyTorch, and
/// the gradient is summed over it; for instance the gate of a squeeze-and-excitation block has one row and one column.
/// The batches are equal.
struct Multiply {
  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Batch norm with constant parameters and statistics: (x − running_mean) ÷ √(running_var + epsilon) · weight +
/// bias, all four of them state, channels each. As torchvision's FrozenBatchNorm2d.
struct FrozenBatchNorm {
  double epsilon = 1e-5;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Normalizes by the mean and (biased) variance over `axes`, then multiplies by "weight" and adds "bias", parameters of
/// the normalized extent. Training and evaluation are the same.
/// @source Ba, Kiros & Hinton, "Layer Normalization", arXiv:1607.06450
struct LayerNorm {
  /// The axes of mean and variance.
  enum class Axes {
    channels,  ///< channels of each position: nn.LayerNorm(C) of a sequence, LayerNorm2d of ConvNeXt
    sample,    ///< channels, rows and columns: nn.LayerNorm((C, H, W))
  };
  Axes axes = Axes::channels;
  double epsilon = 1e-5;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Normalizes each sample's groups of neighboring channels by their mean and (biased) variance, then multiplies by
/// "weight" and adds "bias" of each channel, as PyTorch's nn.GroupNorm. Training and evaluation are the same.
/// @source Wu & He, "Group Normalization", ECCV 2018
struct GroupNorm {
  std::int64_t groups = 1;  ///< number of groups, which divides the channels
  double epsilon = 1e-5;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// An axis of a sample.
enum class Axis { channels, height, width };

/// Concatenation of two or more inputs along an axis, as torch.cat; their shapes may differ along that axis only.
struct Concat {
  Axis axis = Axis::channels;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The elements begin … end − 1 along an axis, as PyTorch's x[:, begin:end] for channels. Negative numbers and ends
/// beyond the input are refused.
struct Slice {
  Axis axis = Axis::channels;
  std::int64_t begin = 0;
  std::int64_t end = 1;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Changes the shape of each sample, with as many elements in row-major order, as PyTorch's reshape without the batch.
struct Reshape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Permutes each sample's axes: `order` names the input's axes that become channels, height and width, as PyTorch's
/// permute(0, …). {width, channels, height} is permute(0, 3, 1, 2).
struct Permute {
  std::array<Axis, 3> order{Axis::channels, Axis::height, Axis::width};

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Interpolation between pixels.
enum class Interpolation { nearest, bilinear };

/// Resizes images, as PyTorch's F.interpolate(mode = "nearest" or "bilinear"): to height × width, or, if `scale` is not
/// 0, by that factor. The nearest pixel is floor(out index · (in ÷ out)), in float32 as in PyTorch. Bilinear
/// interpolation is between the centers of pixels, without antialiasing.
struct Resize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t scale = 0;
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  ///< for bilinear: keeps the centers of the corner pixels in place

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Long short-term memory over a sequence N×C×1×T, as torch.nn.LSTM of one layer: the result is the hidden states
/// N×hidden×1×T, and for a bidirectional layer those of the other direction after them, N×2·hidden×1×T. Initial states
/// are zero; gates are in the order i, f, g, o. An optional second input, int32 lengths N×1×1×1 from 0 to T,
/// corresponds to packed sequences: results from a sample's length on are zero, the input there is not read, and the
/// other direction starts at the sample's own end. Parameters "weight_ih_l0": 4·hidden × C, "weight_hh_l0": 4·hidden ×
/// hidden, "bias_ih_l0" and "bias_hh_l0": 4·hidden, and with the suffix "_reverse" those of the other direction.
/// @source Hochreiter & Schmidhuber, "Long Short-Term Memory", Neural Computation 9(8), 1997; with the forget gate of
/// Gers et al., "Learning to Forget", 2000
struct Lstm {
  std::int64_t hidden = 1;
  bool bidirectional = false;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Looks up a row of a table for each token, as torch.nn.Embedding: int32 tokens N×1×1×T, from 0 to entries − 1, become
/// N×features×1×T. Parameter "weight": entries × features, initially uniform in [−√3, √3), which has the variance of
/// PyTorch's normal distribution.
struct Embedding {
  std::int64_t entries = 1;
  std::int64_t features = 1;
  /// A token whose row gets no gradient. (PyTorch also initializes the row with zeros; here it is initialized like the
  /// others.)
  std::optional<std::int32_t> padding_index = std::nullopt;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: softmax over the channels of the first input, then cross-entropy against the second, an int32 label for each
/// position, as PyTorch's. `LossSums::weight` is the sum of the class weights of the labels that are not ignored;
/// `correct` is that of the labels with the largest logit (the first of equals).
struct CrossEntropy {
  std::int32_t ignore_index = -100;  ///< a label without weight, as in PyTorch
  /// The fraction of a target that is spread evenly over all classes.
  /// @source Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016
  double label_smoothing = 0;
  std::vector<double> class_weights = {};  ///< factor of each class's part of the loss; empty: all 1

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: cross-entropy of hard positions only (online hard example mining), with the inputs of `CrossEntropy`. A
/// position is hard if the probability of its label, by a softmax over the channels, is below `threshold`. If fewer
/// than `least` of a sample's positions are hard, the positions of that sample with the lowest probabilities take their
/// place, so that at least as many are kept, and all of those with equal ones. The loss of a sample is the mean over
/// the positions that are kept. Which ones these are depends on the sample only, so no division of the batch changes
/// it. `LossSums::weight` is the number of samples with a label that is not ignored; `correct` is not defined.
/// @source Shrivastava, Gupta & Girshick, "Training Region-based Object Detectors with Online Hard Example Mining",
/// CVPR 2016; for pixels Wu, Shen & van den Hengel, "High-performance Semantic Segmentation Using Very Deep Fully
/// Convolutional Networks", arXiv 1604.04339
struct OhemCrossEntropy {
  double threshold = 0.7;            ///< above 0, at most 1
  double least = 1.0 / 16;           ///< fraction of the positions of a sample, 0 to 1
  std::int32_t ignore_index = -100;  ///< a label that does not count, as in PyTorch

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: softmax over the channels of the first input, then cross-entropy against the second, which has a probability
/// for each class at each position, N×C×H×W as the logits, as PyTorch's with such targets. Targets are used as they are
/// and need not sum to 1. `LossSums::weight` counts positions, independent of class weights; `correct` counts positions
/// where the largest logit is at the largest target (the first of equals).
struct SoftCrossEntropy {
  double label_smoothing = 0;              ///< as `CrossEntropy`'s
  std::vector<double> class_weights = {};  ///< as `CrossEntropy`'s

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: of each logit x of the first input, against its target t in [0, 1] in the second, which is of the same
/// shape: −p·t·log σ(x) − (1 − t)·log(1 − σ(x)), as PyTorch's `binary_cross_entropy_with_logits`. An optional third
/// input of the same shape holds a factor ≥ 0 for each element's loss. `LossSums::weight` is the sum of these factors,
/// or the number of elements; `correct` is that of elements whose logit is above 0 exactly if the target is above ½.
struct BinaryCrossEntropy {
  double positive_weight = 1;  ///< p

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss of the differences d between two inputs of the same shape: d² ÷ 2β if |d| < β, otherwise |d| − β ÷ 2, as
/// PyTorch's `smooth_l1_loss`; with β = 0 it is the absolute error. Weights are those of `BinaryCrossEntropy`.
/// @source Girshick, "Fast R-CNN", ICCV 2015
struct SmoothL1 {
  double beta = 1;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss of boxes, N×4×H×W: x1, y1, x2, y2 in the channels, of a prediction and a target. 1 − generalized intersection
/// over union, as torchvision's `generalized_box_iou_loss`. An optional third input N×1×H×W holds a factor ≥ 0 for each
/// box's loss. `LossSums::weight` is the sum of these factors, or the number of boxes. A negative area (x2 < x1) counts
/// as 0 in divisors, so that finite boxes give finite losses and gradients.
/// @source Rezatofighi et al., "Generalized Intersection over Union", CVPR 2019
struct Giou {
  double epsilon = 1e-7;  ///< added to areas in divisors

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: of each sample and channel of logits against targets in [0, 1] of the same shape, with p = σ(logit) and sums
/// over positions, 1 − (2·Σ p·t + ε) ÷ (Σ p + Σ t + ε), as is common in segmentation. `LossSums::weight` is
/// samples × channels. With `by_label` the second input is an int32 label for each position, whose target is 1 in its
/// own channel and 0 in the others; the sums leave out positions with `ignore_index`.
/// @source Milletari et al., "V-Net", 3DV 2016
struct Dice {
  double epsilon = 1;
  bool by_label = false;
  std::int32_t ignore_index = -100;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss of sequences that are not aligned: −log of the probability, by a softmax over channels at each step, of all
/// paths that become the target when repetitions and then blanks are removed. Inputs: logits N×C×1×T, then int32
/// targets N×1×1×S without blanks, the number of these for each sample N×1×1×1, and optionally the number of its steps
/// N×1×1×1; otherwise all T count. Values beyond these lengths are not read. As PyTorch's `ctc_loss` with reduction
/// "sum" of `log_softmax`: `LossSums::weight` is the number of samples, and samples are not divided by their targets'
/// lengths; `correct` counts samples whose likeliest class at each step, without repetitions and then without blanks,
/// gives the target.
/// @source Graves et al., "Connectionist Temporal Classification", ICML 2006
struct Ctc {
  std::int32_t blank = 0;
  /// Whether a target that is too long for the steps has a loss and gradients of 0, instead of infinity and NaN.
  bool zero_infinity = false;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Width and height of an anchor, in pixels of the network's input.
using AnchorSize = std::array<double, 2>;

/// A loss of detectors with anchors, as YOLOv5's, on one map of predictions: N×A·(5+classes)×H×W, of which channel
/// a·(5+classes)+k belongs to anchor a, and k is x, y, width, height, objectness, then the classes. The second input,
/// N×5×1×M, has the boxes of each image in pixels of the network's input: class, center x, center y, width, height; a
/// box of class −1 is not there.
///
/// A box matches an anchor if neither their widths nor their heights differ by a factor of 4 or more, and then the cell
/// of its center with this anchor, the nearest cell beside that if the center is more than a cell from this edge of the
/// map, and likewise the nearest above or below it. A center in the middle of its cell has no such neighbor, and one on
/// the border between two cells has the left or the upper one. Predictions are decoded as by `AnchorDecode`.
///
/// Gradients are those of the map; boxes get none. A cell that several boxes match has the sum of their gradients, in
/// their order. Without a match, weight, loss and gradients of `box` and `classes` are 0.
/// @source Zheng et al., "Distance-IoU Loss", AAAI 2020 (CIoU)
struct AnchorLoss {
  /// What the loss is of.
  enum class Part {
    /// Σ over matches of 1 − CIoU, whose trade-off α is constant for gradients. `LossSums::weight` is the number of
    /// matches, `correct` that of those whose intersection over union is above ½.
    box,
    /// Σ over cells and anchors of the binary cross-entropy against the CIoU of the match, at least 0, which is
    /// constant for gradients; against the largest one where several boxes match, and against 0 without a match.
    /// Weight: cells × anchors × samples; correct: those whose logit is above 0 exactly if the target is above ½.
    objectness,
    /// Σ over matches and classes of the binary cross-entropy. Weight: matches × classes; correct: classes × the
    /// matches whose largest logit is that of the class. With a single class all of them are 0.
    classes,
  };
  Part part = Part::box;
  std::vector<AnchorSize> anchors = {};  ///< at most 16
  std::int64_t stride = 8;               ///< pixels of a cell
  double label_smoothing = 0;            ///< ε of `classes`: targets are 1 − ε ÷ 2 and ε ÷ 2

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Decodes a map of predictions of a detector with anchors, as `AnchorLoss` has it, into N×(5+classes)×1×A·H·W: with
/// the sigmoid σ of each element, the center (2σ − 0.5 + column or row)·stride and the extents (2σ)²·anchor in pixels
/// of the network's input, then σ of objectness and classes; ordered by anchor, row and column. It has no backward
/// pass. Results stay in float32 where activations are of half precision, whose 8 or 11 bits are too few for
/// coordinates.
struct AnchorDecode {
  std::vector<AnchorSize> anchors = {};  ///< at most 16
  std::int64_t stride = 8;               ///< pixels of a cell

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// An operator that a program defines: its signature, and a kernel over plain formats.
class CustomOperator {
 public:
  virtual ~CustomOperator() = default;
  /// @throws Error{invalid_argument} for inputs that it cannot take
  [[nodiscard]] virtual Signature signature(std::span<const Shape> inputs) const = 0;
  [[nodiscard]] virtual std::string text() const = 0;
  /// @param inputs  plain formats, as many as `signature` accepted; the batch may be 0
  [[nodiscard]] virtual KernelPtr make(Formats inputs) const = 0;
};

/// A node with a CustomOperator.
struct Custom {
  std::shared_ptr<const CustomOperator> of;

  /// @throws Error{invalid_argument} naming an invalid option or extent
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The operator of a node.
using Operator = std::variant<Convolution, BatchNorm, Relu, MaxPool, AveragePool, Linear, Add, Dropout,
                              GlobalAveragePool, AdaptiveAveragePool, ChannelPool, TransposedConvolution, Pointwise,
                              Multiply, FrozenBatchNorm, LayerNorm, GroupNorm, Concat, Slice, Reshape, Permute, Resize,
                              Lstm, Embedding, CrossEntropy, OhemCrossEntropy, SoftCrossEntropy, BinaryCrossEntropy,
                              SmoothL1, Giou, Dice, Ctc, AnchorLoss, AnchorDecode, Custom>;

}  // namespace operators

/// The operator's own `signature`. @throws Error{invalid_argument} as that
Signature signature_of(const Operator& op, std::span<const Shape> inputs);
/// "convolution 3×3, stride 2, ReLU".
std::string text_of(const Operator& op);

}  // namespace lockstep::ops
