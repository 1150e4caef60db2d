// SPDX-License-Identifier: Apache-2.0
// The library of convolutions for emulated GPUs: the reference operators, in place of the file that calls cuDNN.
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emulated_gpu/cuda/queue.hpp"
#include "emulated_gpu/device/memory.hpp"
#include "kernels/cuda/element.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/cuda/convolution_requests.hpp"

namespace lockstep::ops::cuda {
namespace {

constexpr Bytes workspace_bytes{64};

/// Reads and writes the elements of a tensor as float32.
class Elements {
 public:
  Elements(void* data, std::int64_t count, DType dtype)
      : data_(emulated_gpu::Memory::instance().view(data, static_cast<std::size_t>(count * size_of(dtype)),
                                                    "a convolution")),
        dtype_(dtype) {}
  [[nodiscard]] float get(std::int64_t i) const {
    if (dtype_ == DType::bfloat16) return kernels::cuda::BFloat16::widen(as<std::uint16_t>()[i]);
    if (dtype_ == DType::float16) return kernels::cuda::Float16::widen(as<std::uint16_t>()[i]);
    return as<float>()[i];
  }
  void set(std::int64_t i, float value) const {
    if (dtype_ == DType::bfloat16) {
      as<std::uint16_t>()[i] = kernels::cuda::BFloat16::narrow(value);
    } else if (dtype_ == DType::float16) {
      as<std::uint16_t>()[i] = kernels::cuda::Float16::narrow(value);
    } else {
      as<float>()[i] = value;
    }
  }

 private:
  template <typename T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  std::byte* data_;
  DType dtype_;
};

/// Calls `f(index of NHWC, index of NCHW)` for each element. A filter is K×C×R×S in place of N×C×H×W.
template <typename F>
void for_each_element(const Shape& shape, const F& f) {
  const std::int64_t positions = shape.height * shape.width;
  for (std::int64_t n = 0; n < shape.batch; ++n)
    for (std::int64_t c = 0; c < shape.channels; ++c)
      for (std::int64_t p = 0; p < positions; ++p)
        f((n * positions + p) * shape.channels + c, (n * shape.channels + c) * positions + p);
}

std::vector<float> plain(void* data, const Shape& shape, DType dtype) {
  const Elements from(data, shape.count(), dtype);
  std::vector<float> to(static_cast<std::size_t>(shape.count()));
  for_each_element(shape,
                   [&](std::int64_t nhwc, std::int64_t nchw) { to[static_cast<std::size_t>(nchw)] = from.get(nhwc); });
  return to;
}

void store(const std::vector<float>& from, void* data, const Shape& shape, DType dtype) {
  const Elements to(data, shape.count(), dtype);
  for_each_element(shape,
                   [&](std::int64_t nhwc, std::int64_t nchw) { to.set(nhwc, from[static_cast<std::size_t>(nchw)]); });
}

/// Both ways are tested.
bool applies_epilogue(const ConvolutionRequest& request) { return request.dtype != DType::float32; }

/// Computes a request on the host with the reference operator.
void compute_request(const ConvolutionRequest& r, const ConvolutionTensors& tensors) {
  const Shape filter{r.y.channels, r.x.channels / r.groups, r.kernel.height, r.kernel.width};
  const Format input = Format::plain(r.x, DType::float32);
  const Convolution op{.out_channels = r.y.channels,
                       .kernel = r.kernel,
                       .stride = r.stride,
                       .padding = r.padding,
                       .dilation = r.dilation,
                       .groups = r.groups,
                       .bias = r.bias && applies_epilogue(r),
                       .activation = r.relu && applies_epilogue(r) ? Activation::relu : Activation::none};
  const std::unique_ptr<Kernel> kernel = make_reference_ops()->make(op, std::span(&input, 1));
  const bool forward = r.pass == ConvolutionPass::forward;
  std::vector<float> x = r.pass == ConvolutionPass::backward_data
                             ? std::vector<float>(static_cast<std::size_t>(r.x.count()))
                             : plain(tensors.x, r.x, r.dtype);
  std::vector<float> w = r.pass == ConvolutionPass::backward_weights
                             ? std::vector<float>(static_cast<std::size_t>(filter.count()))
                             : plain(tensors.w, filter, r.dtype);
  std::vector<float> y =
      forward ? std::vector<float>(static_cast<std::size_t>(r.y.count())) : plain(tensors.y, r.y, r.dtype);
  std::vector<float> bias;
  if (op.bias) bias = plain(const_cast<void*>(tensors.bias), {1, r.y.channels}, DType::float32);
  std::vector<std::byte> saved(static_cast<std::size_t>(kernel->traits().saved.value));
  std::vector<std::byte> workspace(static_cast<std::size_t>(kernel->traits().workspace.value));
  const std::array<const void*, 1> inputs{x.data()};
  std::vector<const void*> parameters{w.data()};
  if (op.bias) parameters.push_back(bias.data());
  if (forward) {
    kernel->run(Pass::forward, {.inputs = inputs, .parameters = parameters, .output = y.data(), .saved = saved.data()});
    return store(y, tensors.y, r.y, r.dtype);
  }
  std::vector<float> dx(x.size());
  std::vector<float> dw(w.size());
  const std::array<void*, 1> input_gradients{r.pass == ConvolutionPass::backward_data ? dx.data() : nullptr};
  const std::array<void*, 1> parameter_gradients{dw.data()};
  kernel->run(Pass::backward, {.inputs = inputs,
                               .parameters = parameters,
                               .saved = saved.data(),
                               .output_gradient = y.data(),
                               .input_gradients = input_gradients,
                               .parameter_gradients = parameter_gradients});
  r.pass == ConvolutionPass::backward_data ? store(dx, tensors.x, r.x, r.dtype)
                                           : store(dw, tensors.w, filter, r.result);
}

class ConvolutionTask final : public emulated_gpu::Task {
 public:
  ConvolutionTask(const ConvolutionRequest& request, const ConvolutionTensors& tensors)
      : request_(request), tensors_(tensors) {}
  emulated_gpu::Step step(emulated_gpu::Random& /*random*/) override {
    std::memset(emulated_gpu::Memory::instance().view(tensors_.workspace, workspace_bytes.value, what()), 0xff,
                workspace_bytes.value);
    compute_request(request_, tensors_);
    return emulated_gpu::Step::done;
  }
  [[nodiscard]] std::string what() const override { return "a convolution"; }
  [[nodiscard]] bool is_kernel() const override { return true; }

 private:
  ConvolutionRequest request_;
  ConvolutionTensors tensors_;
};

class ReferencePlan final : public ConvolutionPlan {
 public:
  explicit ReferencePlan(const ConvolutionRequest& request) : request_(request) {}
  [[nodiscard]] Bytes workspace() const override { return workspace_bytes; }
  [[nodiscard]] bool applies_epilogue() const override { return cuda::applies_epilogue(request_); }
  void run(const ConvolutionTensors& tensors, Queue queue) const override {
    const cudaError_t code = emulated_gpu::enqueue(
        static_cast<cudaStream_t>(queue.native()), cudaGraphNodeTypeKernel,
        [request = request_, tensors] { return std::make_unique<ConvolutionTask>(request, tensors); });
    if (code != cudaSuccess) throw Error(ErrorCode::device, "a convolution was not submitted");
  }

 private:
  ConvolutionRequest request_;
};

/// Knows three ways to compute forward passes, which are the same but for one that it refuses. In bfloat16 that is the
/// first.
class ReferenceConvolutions final : public Convolutions {
 public:
  [[nodiscard]] std::string version() const override { return "reference"; }
  [[nodiscard]] std::vector<std::string> candidates(const ConvolutionRequest& request) override {
    if (request.pass != ConvolutionPass::forward) return {"loops"};
    if (request.dtype == DType::bfloat16) return {"refused", "loops", "loops-again"};
    return {"loops", "loops-again", "refused"};
  }
  [[nodiscard]] std::unique_ptr<ConvolutionPlan> plan(const ConvolutionRequest& request,
                                                      const std::string& word) override {
    if (word != "loops" && word != "loops-again")
      throw Error(ErrorCode::unsupported, "the reference has no '" + word + "' for " + text(request));
    return std::make_unique<ReferencePlan>(request);
  }
};

}  // namespace

std::string why_no_convolutions() { return {}; }

std::unique_ptr<Convolutions> make_convolutions() { return std::make_unique<ReferenceConvolutions>(); }

}  // namespace lockstep::ops::cuda
