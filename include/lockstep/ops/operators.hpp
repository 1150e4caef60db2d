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

/// What an operator does to its result before handing it on; fused so that a back end can save a pass over memory.
enum class Activation {
  none,
  relu,
  relu6,  ///< of batch norm only
};

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
  double correct = 0;  ///< what predictions that are right weigh, where that can be said

  /// Of two parts of a batch together.
  Figures& operator+=(const Figures& other);
};
/// All of them as numbers.
std::span<double> numbers(std::span<Figures> figures);

// Each operator: its options, then `signature`, what follows from them for inputs of some extent, and `text`, what it
// is called in lists.

/// A number for each direction; one alone stands for both.
struct Pair {
  std::int64_t height;
  std::int64_t width;

  /// The same in both directions.
  constexpr Pair(std::int64_t both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  /// One for each.
  constexpr Pair(std::int64_t vertical, std::int64_t horizontal) : height(vertical), width(horizontal) {}
  [[nodiscard]] constexpr std::int64_t area() const { return height * width; }
  friend bool operator==(const Pair&, const Pair&) = default;
};

/// Weights: out_channels × (in_channels ÷ groups) × kernel height × kernel width; bias: out_channels.
/// Cross-correlation, as everywhere in the field, and PyTorch's Conv2d. Channels in and out are cut into `groups` equal
/// parts, in order, and each part of the result sees its own part of the input only; as many groups as channels make it
/// depthwise.
struct Convolution {
  std::int64_t out_channels = 1;
  Pair kernel = 3;
  Pair stride = 1;
  Pair padding = 0;   ///< zeros on each side
  Pair dilation = 1;  ///< from one element of a window to the next
  std::int64_t groups = 1;
  bool bias = true;
  Activation activation = Activation::none;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Normalization of each channel by the batch's mean and variance in training, by the running ones else. With
/// `residual` a second input of the same extent is added to that: the end of a residual block in one operator.
/// Parameters gamma ("weight") and beta ("bias"), state "running_mean" and "running_var": channels each.
/// @source Ioffe & Szegedy, "Batch Normalization", ICML 2015
struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< running = (1 − momentum)·running + momentum·batch (variance unbiased), as PyTorch
  Activation activation = Activation::none;
  bool synchronized = false;  ///< by mean and variance of all ranks' parts of the batch, not of each part by itself
  bool residual = false;      ///< whether there is a second input; the activation comes after the sum

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// max(x, 0), element by element.
struct Relu {
  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The largest element of each window, as PyTorch's MaxPool2d; one that does not fit is left out, and padding, at most
/// half of the kernel, is never the largest. Ties: the first in row-major order takes the gradient.
struct MaxPool {
  Pair kernel = 2;
  Pair stride = 2;
  Pair padding = 0;  ///< on each side
  Activation activation = Activation::none;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The mean of each window, as PyTorch's AvgPool2d; one that does not fit is left out.
struct AveragePool {
  Pair kernel = 2;
  Pair stride = 2;
  Pair padding = 0;               ///< on each side, at most half of the kernel
  bool count_include_pad = true;  ///< whether padding counts as zeros in the mean, or is left out of it

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Weights, out_features × (channels·height·width) of the input in NCHW order, times the flattened input, plus a bias:
/// `out_features` elements of each sample.
struct Linear {
  std::int64_t out_features = 1;
  Activation activation = Activation::none;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Sum of two results of equal shape: the end of a residual block.
struct Add {
  Activation activation = Activation::none;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
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

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A function of each element by itself, as PyTorch's of that name, also in what it takes for the derivative where
/// there is none: 0 for relu6 at 0 and 6, `slope` for leaky_relu at 0, 0 and 1 for hard_swish at −3 and 3.
struct Pointwise {
  /// Which function of x.
  enum class Kind {
    relu6,       ///< min(max(x, 0), 6)
    leaky_relu,  ///< x where it is positive, else slope·x
    silu,        ///< x·sigmoid(x), also called swish
    hard_swish,  ///< x·relu6(x + 3) ÷ 6
    sigmoid,     ///< 1 ÷ (1 + exp(−x))
    tanh,
    gelu,       ///< x·Φ(x), Φ the distribution function of the normal distribution, by erf
    gelu_tanh,  ///< the same with Φ(x) ≈ ½·(1 + tanh(√(2/π)·(x + 0.044715·x³))): PyTorch's approximate='tanh'
  };
  Kind kind = Kind::silu;
  double slope = 0.01;  ///< of leaky_relu, not negative

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The mean of each channel: batch × channels × 1 × 1.
struct GlobalAveragePool {
  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// The means of height × width windows, whatever the input's extent, as PyTorch's AdaptiveAvgPool2d: window i of n
/// along an axis of e elements begins at ⌊i·e ÷ n⌋ and ends before ⌈(i + 1)·e ÷ n⌉, so windows can overlap.
struct AdaptiveAveragePool {
  std::int64_t height = 1;
  std::int64_t width = 1;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// What takes a convolution's results back to the extent of its inputs, as PyTorch's ConvTranspose2d: every element is
/// multiplied by the window of its channel's weights, and windows that overlap are added. Along each axis of n elements
/// the result has (n − 1)·stride − 2·padding + dilation·(kernel − 1) + output_padding + 1.
/// Weights: in_channels × (out_channels ÷ groups) × kernel height × kernel width; bias: out_channels.
/// @source Dumoulin & Visin, "A guide to convolution arithmetic for deep learning", arXiv 1603.07285
struct TransposedConvolution {
  std::int64_t out_channels = 1;
  Pair kernel = 3;
  Pair stride = 1;
  Pair padding = 0;         ///< what is cut off on each side
  Pair output_padding = 0;  ///< what is added at the end; less than the stride or the dilation
  Pair dilation = 1;
  std::int64_t groups = 1;  ///< as of `Convolution`
  bool bias = true;
  Activation activation = Activation::none;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Product of two results, element by element. Where one of them has one channel, row or column and the other more, it
/// is used for all of them, as in PyTorch, and its gradient is the sum over them: the gate of a squeeze-and-excitation
/// block has one row and one column. The batches are equal.
struct Multiply {
  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Batch norm of which nothing is learned and nothing changes: (x − running_mean) ÷ √(running_var + epsilon) · weight +
/// bias, all four of them state, channels each. As torchvision's FrozenBatchNorm2d.
struct FrozenBatchNorm {
  double epsilon = 1e-5;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Normalization by the mean and (biased) variance of what `axes` says, then times "weight" plus "bias", parameters of
/// the extent that has been normalized. In training as in evaluation.
/// @source Ba, Kiros & Hinton, "Layer Normalization", arXiv:1607.06450
struct LayerNorm {
  /// Over what mean and variance are taken.
  enum class Axes {
    channels,  ///< those of each position by itself: nn.LayerNorm(C) of a sequence, LayerNorm2d of ConvNeXt
    sample,    ///< channels, rows and columns: nn.LayerNorm((C, H, W))
  };
  Axes axes = Axes::channels;
  double epsilon = 1e-5;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Normalization of each sample's groups of neighboring channels by their mean and (biased) variance, then times
/// "weight" plus "bias" of each channel, as PyTorch's nn.GroupNorm. In training as in evaluation.
/// @source Wu & He, "Group Normalization", ECCV 2018
struct GroupNorm {
  std::int64_t groups = 1;  ///< divide the channels
  double epsilon = 1e-5;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// What a sample's values are arranged along.
enum class Axis { channels, height, width };

/// Two or more inputs one after another along an axis, in which alone their shapes may differ; as torch.cat.
struct Concat {
  Axis axis = Axis::channels;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// What lies at begin … end − 1 along an axis; as PyTorch's x[:, begin:end] for channels, but for negative numbers and
/// for ends beyond the input, which are refused.
struct Slice {
  Axis axis = Axis::channels;
  std::int64_t begin = 0;
  std::int64_t end = 1;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Each sample's values, in row-major order, in another shape of as many elements; as PyTorch's reshape with the batch
/// as it is.
struct Reshape {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Another order of each sample's axes: `order` names the input's axes that become channels, height and width. As
/// PyTorch's permute(0, …): {width, channels, height} is permute(0, 3, 1, 2).
struct Permute {
  std::array<Axis, 3> order{Axis::channels, Axis::height, Axis::width};

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// How a value between pixels is found.
enum class Interpolation { nearest, bilinear };

/// Images of another size, as PyTorch's F.interpolate(mode = "nearest" or "bilinear"): to height × width, or, where
/// `scale` is not 0, to that many times the input's. The nearest pixel is floor(out index · (in ÷ out)), in float32 as
/// PyTorch does it; bilinear ones are taken between pixels' centers, without antialiasing.
struct Resize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t scale = 0;
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  ///< of bilinear: the corners' centers stay where they are

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// Long short-term memory over a sequence N×C×1×T, as torch.nn.LSTM of one layer: hidden states N×hidden×1×T, and where
/// it is bidirectional those of the other direction after them, N×2·hidden×1×T. Initial states are zero; gates are in
/// the order i, f, g, o. A second input, int32 lengths N×1×1×1 from 0 to T, makes it as with packed sequences: results
/// from a sample's length on are zero, values of the input there are not read, and the other direction starts at the
/// sample's own end.
/// Parameters "weight_ih_l0": 4·hidden × C, "weight_hh_l0": 4·hidden × hidden, "bias_ih_l0" and "bias_hh_l0": 4·hidden,
/// and with "_reverse" behind the name those of the other direction.
/// @source Hochreiter & Schmidhuber, "Long Short-Term Memory", Neural Computation 9(8), 1997; with the forget gate of
/// Gers et al., "Learning to Forget", 2000
struct Lstm {
  std::int64_t hidden = 1;
  bool bidirectional = false;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A row of a table for each token, as torch.nn.Embedding: int32 tokens N×1×1×T, from 0 to entries − 1, to
/// N×features×1×T. Parameter "weight": entries × features, before training uniform in [−√3, √3), which has the variance
/// of the normal distribution that PyTorch draws from.
struct Embedding {
  std::int64_t entries = 1;
  std::int64_t features = 1;
  /// A token whose row gets no gradient. (PyTorch also begins with zeros in it; here it begins as the others do.)
  std::optional<std::int32_t> padding_index = std::nullopt;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: softmax over the channels of the first input, then cross-entropy against the second, an int32 label for each
/// position, as PyTorch's. `Figures::weight` counts the labels that are not ignored, each as much as its class;
/// `correct` those with the largest logit (the first of equals).
struct CrossEntropy {
  std::int32_t ignore_index = -100;  ///< a label that counts for nothing, as in PyTorch
  /// The part of a target that is spread evenly over all classes.
  /// @source Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016
  double label_smoothing = 0;
  std::vector<double> class_weights = {};  ///< what each class's part of a loss is multiplied by; empty: all 1

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: softmax over the channels of the first input, then cross-entropy against the second, which has a probability
/// for each class at each position, N×C×H×W as the logits, as PyTorch's with such targets. Targets are taken as they
/// are, whatever they sum to. `Figures::weight` counts positions, whatever classes weigh; `correct` those whose largest
/// logit is where the largest target is (the first of equals).
struct SoftCrossEntropy {
  double label_smoothing = 0;              ///< as `CrossEntropy`'s
  std::vector<double> class_weights = {};  ///< as `CrossEntropy`'s

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: of each logit x of the first input, against its target t in [0, 1] in the second, which is of the same
/// shape: −p·t·log σ(x) − (1 − t)·log(1 − σ(x)), as PyTorch's `binary_cross_entropy_with_logits`. A third input of the
/// same shape, if there is one, has what each element's loss is multiplied by; it is to be no less than 0.
/// `Figures::weight` is the sum of these weights, or the number of elements; `correct` that of elements whose logit is
/// above 0 just where the target is above ½.
struct BinaryCrossEntropy {
  double positive_weight = 1;  ///< p

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: of each difference d of the first input and the second, which is of the same shape: d² ÷ 2β where |d| < β,
/// else |d| − β ÷ 2, as PyTorch's `smooth_l1_loss`; with β = 0 the absolute error. Weights as `BinaryCrossEntropy`'s.
/// @source Girshick, "Fast R-CNN", ICCV 2015
struct SmoothL1 {
  double beta = 1;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss of boxes, N×4×H×W: x1, y1, x2, y2 in the channels, of a prediction and a target. 1 − generalized intersection
/// over union, as torchvision's `generalized_box_iou_loss`. A third input N×1×H×W, if there is one, has what each box's
/// loss is multiplied by; it is to be no less than 0. `Figures::weight` is the sum of these weights, or the number of
/// boxes. An area that would be negative, as there is where x2 < x1, counts as 0 where it divides: finite boxes give
/// finite losses and gradients.
/// @source Rezatofighi et al., "Generalized Intersection over Union", CVPR 2019
struct Giou {
  double epsilon = 1e-7;  ///< is added to areas that divide

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss: of each sample and channel of logits against targets in [0, 1] of the same shape, with p = σ(logit) and sums
/// over positions, 1 − (2·Σ p·t + ε) ÷ (Σ p + Σ t + ε), as common code of segmentation has it. `Figures::weight` is
/// samples × channels.
/// @source Milletari et al., "V-Net", 3DV 2016
struct Dice {
  double epsilon = 1;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// A loss of sequences that are not aligned: −log of the probability, by a softmax over channels at each step, of all
/// paths that become the target when repetitions, then blanks are left out. Inputs: logits N×C×1×T, then int32 targets
/// N×1×1×S without blanks, how many of these each sample has N×1×1×1, and how many of its steps N×1×1×1. What comes
/// after these lengths is not read. As PyTorch's `ctc_loss` with reduction "sum" of `log_softmax`: `Figures::weight` is
/// the number of samples, and samples are not divided by their targets' lengths; `correct` counts those whose likeliest
/// class at each step, repetitions, then blanks left out, makes the target.
/// @source Graves et al., "Connectionist Temporal Classification", ICML 2006
struct Ctc {
  std::int32_t blank = 0;
  /// Whether a target for which the steps do not suffice has a loss and gradients of 0, instead of infinity and NaN.
  bool zero_infinity = false;

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
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

  /// @throws Error{invalid_argument} naming an option or extent that cannot be
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const;
  [[nodiscard]] std::string text() const;
};

/// What a node of a network computes.
using Operator =
    std::variant<Convolution, BatchNorm, Relu, MaxPool, AveragePool, Linear, Add, Dropout, GlobalAveragePool,
                 AdaptiveAveragePool, TransposedConvolution, Pointwise, Multiply, FrozenBatchNorm, LayerNorm, GroupNorm,
                 Concat, Slice, Reshape, Permute, Resize, Lstm, Embedding, CrossEntropy, SoftCrossEntropy,
                 BinaryCrossEntropy, SmoothL1, Giou, Dice, Ctc, Custom>;

/// As the operator's own. @throws Error{invalid_argument} as that
Signature signature_of(const Operator& op, std::span<const Shape> inputs);
/// "convolution 3×3, stride 2, ReLU".
std::string text_of(const Operator& op);

}  // namespace lockstep::ops
