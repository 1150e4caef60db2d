// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lockstep/ops/ops.hpp"

/// The operators of this library. There is one file of CUDA for each family of operators. It does not derive kernels
/// from `Kernel`, because it is linked into the room that has CUDA's runtime (cmake/Cuda.cmake), which knows no
/// operators.
namespace lockstep::ops::cuda {

/// Submits the kernels of a pass to `Arguments::queue`.
using Submit = std::function<void(const Arguments&)>;

/// An operator for inputs of given formats. Passes that it lacks are empty; without `infer` that is `forward`.
struct Implementation {
  Traits traits;
  Submit forward;
  Submit backward;
  Submit infer{};
  Submit recompute{};
  Submit normalizer{};
  Submit measure{};
  Submit measure_backward{};
};

// The inputs are NHWC, and plain if they are integers. Inputs of losses beside the first are float32 if they are real.
// The batch may be 0.

Implementation make(const Relu& op, Formats in, const Signature& signature);
Implementation make(const Add& op, Formats in, const Signature& signature);
Implementation make(const Dropout& op, Formats in, const Signature& signature);
Implementation make(const Pointwise& op, Formats in, const Signature& signature);
Implementation make(const Multiply& op, Formats in, const Signature& signature);
Implementation make(const MaxPool& op, Formats in, const Signature& signature);
Implementation make(const AveragePool& op, Formats in, const Signature& signature);
Implementation make(const GlobalAveragePool& op, Formats in, const Signature& signature);
Implementation make(const AdaptiveAveragePool& op, Formats in, const Signature& signature);
Implementation make(const ChannelPool& op, Formats in, const Signature& signature);
Implementation make(const BatchNorm& op, Formats in, const Signature& signature);
/// The same with `BatchNorm::normalizes_residual`.
Implementation make_two_batch_norms(const BatchNorm& op, Formats in);
/// The same with `BatchNorm::pool`.
Implementation make_pooled_batch_norm(const BatchNorm& op, Formats in, const Signature& signature);
Implementation make(const FrozenBatchNorm& op, Formats in, const Signature& signature);
Implementation make(const LayerNorm& op, Formats in, const Signature& signature);
Implementation make(const GroupNorm& op, Formats in, const Signature& signature);
Implementation make(const Concat& op, Formats in, const Signature& signature);
Implementation make(const Slice& op, Formats in, const Signature& signature);
Implementation make(const Reshape& op, Formats in, const Signature& signature);
Implementation make(const Permute& op, Formats in, const Signature& signature);
Implementation make(const Resize& op, Formats in, const Signature& signature);
/// Products and states are in float32 in each arithmetic.
Implementation make(const Lstm& op, Formats in, const Signature& signature);
Implementation make(const CrossEntropy& op, Formats in, const Signature& signature);
Implementation make(const OhemCrossEntropy& op, Formats in, const Signature& signature);
Implementation make(const SoftCrossEntropy& op, Formats in, const Signature& signature);
Implementation make(const BinaryCrossEntropy& op, Formats in, const Signature& signature);
Implementation make(const SmoothL1& op, Formats in, const Signature& signature);
Implementation make(const Giou& op, Formats in, const Signature& signature);
Implementation make(const Dice& op, Formats in, const Signature& signature);
Implementation make(const Ctc& op, Formats in, const Signature& signature);
Implementation make(const AnchorLoss& op, Formats in, const Signature& signature);
/// The result is in float32.
Implementation make(const AnchorDecode& op, Formats in, const Signature& signature);
/// @param reals  dtype of the result
Implementation make(const Embedding& op, Formats in, const Signature& signature, DType reals);

/// Converts between plain and NHWC, and between dtypes. Images may become larger, with zeros below and to the right, or
/// smaller.
Implementation make_reorder(const Format& from, const Format& to);

/// Converts plain uint8 to NHWC or plain, as `make_reorder`.
/// @param table  float32 on the device, the number of each byte: channels × 256
Implementation make_byte_conversion(std::shared_ptr<const Allocation> table, const Format& to);

/// The layout of a convolution's weights in memory, out × in × window, and of their copy, which is out × window × in.
/// The copy has more channels, which are zeros, and in a dense copy of a grouped convolution so are the products
/// between groups.
struct Packing {
  std::int64_t out = 0;
  std::int64_t in = 0;      ///< of a group
  std::int64_t window = 1;  ///< height × width
  std::int64_t groups = 1;
  std::int64_t packed_out = 0;
  std::int64_t packed_in = 0;  ///< of a group; of all groups in a dense copy
  bool dense = false;          ///< whether the copy is that of a convolution without groups
  DType dtype = DType::float32;

  [[nodiscard]] Bytes bytes() const { return {packed_out * window * packed_in * size_of(dtype)}; }
};
/// A tensor of weights and its copy.
struct PackingTask {
  Packing packing;
  const void* from;
  void* to;
};
/// Makes the copies, in as few kernels as possible.
void pack_weights(std::span<const PackingTask> tasks, Queue queue);
/// Overwrites a plain float32 gradient with that of its copy.
/// @param dtype  of the copy's gradient
void unpack_gradient(const Packing& packing, const void* from, DType dtype, void* to, Queue queue);

/// y += bias, by channel, then the activation, in place. @param bias  may be null
void add_bias(const Format& y, void* data, const void* bias, Activation activation, Queue queue);
/// Turns the gradient of an activation's result into that of its input, in place.
void activation_backward(const Format& y, const void* result, void* gradient, Activation activation, Queue queue);
/// The bytes of workspace that `sum_channels` needs.
Bytes sum_channels_workspace(const Format& y);
/// Overwrites `sums` with the sum of each channel in float32.
void sum_channels(const Format& y, const void* data, void* sums, void* workspace, Queue queue);

/// The statistics of a convolution for each channel of y: the sum of y − shift over the positions, and that of
/// its squares.
struct ChannelSums {
  float* deviations = nullptr;
  float* squares = nullptr;

  friend auto operator<=>(const ChannelSums&, const ChannelSums&) = default;
};
/// The number of doubles in the statistics that batch norm takes in place of its first pass over its input.
std::int64_t statistics_count(const Format& y);
/// Overwrites them by those of `data`. Given sums, it reads `data` only for channels whose mean is so far from the
/// shift that the sums cancel, and marks these channels in `sums.squares`.
/// @param shift  of the sums, for each channel; without sums null
void write_statistics(const Format& y, const void* data, const ChannelSums& sums, const float* shift, double* to,
                      Queue queue);

// What the optimizer and the gate need. @see Ops

void update(std::span<const UpdateStep> steps);
void measure_update(std::span<const UpdateStep> steps, void* workspace);
void average(const AverageStep& step);
void add_squares(const ConstBuffer& values, double* sum, void* workspace, Queue queue);
void count_not_finite(const ConstBuffer& values, std::span<const std::int64_t> ends, double* counts, Queue queue);
void compute_scalars(StepStage stage, const StepBlock& block, Queue queue);
/// The bytes of workspace that the sums above need, for any number of values.
Bytes sums_workspace();

}  // namespace lockstep::ops::cuda
