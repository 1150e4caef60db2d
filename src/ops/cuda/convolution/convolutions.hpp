// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <future>
#include <stop_token>
#include <vector>

#include "ops/cuda/kernels/implementation.hpp"

namespace lockstep::ops::cuda {

/// The three passes of a convolution.
enum class ConvolutionPass {
  forward,           ///< y from x and w
  backward_data,     ///< the gradient of x from w and the gradient of y
  backward_weights,  ///< the gradient of w from x and the gradient of y
};

/// A pass of a convolution on a GPU. Activations x and y are NHWC and weights w are K×R×S×(C ÷ groups), all of one
/// dtype and without gaps. In 16-bit types the channels C and K, and C ÷ groups and K ÷ groups unless the convolution
/// is depthwise, are multiples of 8.
struct ConvolutionRequest {
  ConvolutionPass pass = ConvolutionPass::forward;
  Shape x;  ///< the batch is at least 1
  Shape y;
  Pair kernel = 1;
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
  DType dtype = DType::float32;   ///< float32, bfloat16 or float16; sums are float32
  bool tf32 = false;              ///< whether float32 operands may be rounded to TF32 for tensor cores
  bool bias = false;              ///< forward: adds a float32 bias of K elements
  bool relu = false;              ///< forward: then takes max(0, ·), which lets NaN pass
  bool statistics = false;        ///< forward, without bias and ReLU: also gives `ChannelSums`
  DType result = DType::float32;  ///< of the weight gradient: `dtype` or float32; the others are `dtype`

  friend bool operator==(const ConvolutionRequest&, const ConvolutionRequest&) = default;
};

/// The tensors of a convolution, in memory of the GPU. The pass overwrites one of x, w and y, by its gradient if it is
/// not the forward pass, and reads the others; none overlap. All are aligned to 16 bytes, `shift` to 4.
struct ConvolutionTensors {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  const void* bias = nullptr;
  const float* shift = nullptr;  ///< with statistics: a number for each channel of y
  ChannelSums sums;  ///< with statistics: overwritten; they are of y before it is rounded to 16 bits, in float32
  void* workspace = nullptr;  ///< of `ConvolutionPlan::workspace`, aligned to 256 bytes; its contents do not matter

  friend auto operator<=>(const ConvolutionTensors&, const ConvolutionTensors&) = default;
};

/// A way to compute a request, which gives the same bits every time.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  [[nodiscard]] virtual Bytes workspace() const = 0;
  /// Whether `run` adds the bias, takes the ReLU and sums the statistics of the request; otherwise the caller does this
  /// after it. True if the request has none of them.
  [[nodiscard]] virtual bool applies_epilogue() const = 0;
  /// Submits the pass to the queue, also while the queue is captured. @throws Error{device}
  virtual void run(const ConvolutionTensors& tensors, Queue queue) const = 0;
};

/// A plan, the word for it, and what it computes: the request, or with `IfMissing::take_the_rule` the same with a
/// weight gradient in `dtype`.
struct Planned {
  std::string word;
  ConvolutionRequest request;
  std::unique_ptr<const ConvolutionPlan> plan;
};

/// A plan that a thread may still be making, since some take seconds. Where nobody wants it any more, it is given up.
class PendingPlan {
 public:
  /// @param make  makes the plan, on another thread or, if `when` is deferred, in `get`
  PendingPlan(std::launch when, const std::function<Planned(const std::stop_token&)>& make)
      : made_(std::async(when, make, unwanted_.get_token()).share()) {}
  PendingPlan(const PendingPlan&) = delete;
  PendingPlan& operator=(const PendingPlan&) = delete;
  ~PendingPlan() { unwanted_.request_stop(); }

  /// Waits for the plan. @throws Error{unsupported} as `Convolutions::plan` says
  [[nodiscard]] const Planned& get() const { return made_.get(); }

 private:
  std::stop_source unwanted_;
  std::shared_future<Planned> made_;
};

/// The action if a GPU or a version of the library lacks the engine that a word names.
enum class IfMissing { fail, take_the_rule };

/// The library that computes convolutions on a GPU. One thread uses it.
class Convolutions {
 public:
  virtual ~Convolutions() = default;
  /// "cuDNN 9.19.0"
  [[nodiscard]] virtual std::string version() const = 0;
  /// Returns words for the ways to compute the request, the most promising first; the same for the same kind of GPU and
  /// version. It is empty if there is none. Words have no spaces. `plan` may still refuse one whose code it compiles.
  [[nodiscard]] virtual std::vector<std::string> candidates(const ConvolutionRequest& request) = 0;
  /// Begins to make a plan. Whoever asks for it again while it is there gets the same one.
  /// @param word  one of `candidates`, here or on another GPU; empty: the rule, which is the first that is not refused
  /// The plan's `get` throws Error{unsupported} naming the word and the request if this GPU or version lacks it.
  [[nodiscard]] virtual std::shared_ptr<const PendingPlan> plan(const ConvolutionRequest& request,
                                                                const std::string& word,
                                                                IfMissing if_missing = IfMissing::fail) = 0;
};

/// Returns why there is no such library, and the remedy; empty if there is one. It does not throw.
std::string why_no_convolutions();

/// Makes the library for the GPU that the thread has selected.
/// @param select_gpu  selects the same GPU, in threads that make plans
/// @throws Error{unsupported} saying why it is missing, and the remedy
std::unique_ptr<Convolutions> make_convolutions(const std::function<void()>& select_gpu);

/// The requests of an operator's passes to a library of convolutions. All three have the same geometry.
///
/// Shapes have padded channels. `groups` is the operator's, except that it is the number of padded channels for a
/// depthwise convolution in 16 bits, and 1 if the channels of a group are no multiple of 8 in 16 bits: the packed
/// weights then have zeros outside the blocks of the groups, and only the blocks of the weight gradient are used.
///
/// `kernel` is the operator's, except that it is one larger along an axis of a transposed convolution whose output
/// padding is at least a stride and larger than its padding: the packed weights have zeros there, at the end.
///
/// A linear layer of C×H×W inputs is a convolution of one position with H·W·(padded C) channels, which are ordered as
/// the NHWC input lies in memory.
struct ConvolutionRequests {
  /// With the operator's bias and ReLU, unless the operator is transposed, and with its statistics, unless channels are
  /// padded.
  ConvolutionRequest forward;
  ConvolutionRequest backward_data;
  ConvolutionRequest backward_weights;  ///< the result is of the activations' dtype, unless a choice says otherwise
  /// Whether the operator's input and its gradient are y of the requests, and its output and its gradient are x: a
  /// transposed convolution is the backward pass of a convolution, with the same weights. The request `forward` is then
  /// of the pass `backward_data`, and has neither bias nor ReLU, and `backward_data` is of the pass `forward`. With an
  /// output padding that is not below the stride, y has more rows and columns than the operator's input, which are
  /// zeros.
  bool transposed = false;
};

/// @param input  of the operator, without padding; the batch is at least 1
/// @param dtype  of the activations: float32, bfloat16 or float16
/// @param tf32   whether float32 operands may be rounded to TF32
/// @throws Error{invalid_argument} naming an invalid option, extent or dtype
ConvolutionRequests requests_of(const Convolution& op, const Shape& input, DType dtype, bool tf32);
ConvolutionRequests requests_of(const TransposedConvolution& op, const Shape& input, DType dtype, bool tf32);
ConvolutionRequests requests_of(const Linear& op, const Shape& input, DType dtype, bool tf32);

/// Returns a text such as "backward_data of a 3×3 convolution, stride 2, from 8x64x32x32 to 8x128x16x16 in bfloat16".
std::string text(const ConvolutionRequest& request);

/// Makes cuDNN's plans for a GPU that this machine need not have; they cannot run.
/// @param device_properties  JSON of a CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
/// @throws Error{unsupported} if cuDNN is missing; Error{invalid_argument} if it refuses the properties
std::unique_ptr<Convolutions> make_convolutions_for(const std::string& device_properties);

}  // namespace lockstep::ops::cuda
