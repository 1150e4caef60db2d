// SPDX-License-Identifier: Apache-2.0
// The library of convolutions for emulated GPUs: the reference operators, in place of the file that calls cuDNN.
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emulated_gpu/cuda/queue.hpp"
#include "emulated_gpu/device/memory.hpp"
#include "kernels/cuda/element.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/cuda/convolution/convolutions.hpp"

namespace lockstep::ops::cuda {
namespace {

constexpr Bytes workspace_bytes{64};
constexpr const char* with_statistics = "loops-with-statistics";

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
bool adds_bias(const ConvolutionRequest& request) { return request.dtype != DType::float32; }

/// Sums in float32, row by row and sample by sample, because a library of GPUs sums in parts, too.
void sum_statistics(const std::vector<float>& y, const ConvolutionRequest& r, const ConvolutionTensors& tensors) {
  const Elements shift(const_cast<float*>(tensors.shift), r.y.channels, DType::float32);
  const Elements deviations(tensors.sums.deviations, r.y.channels, DType::float32);
  const Elements squares(tensors.sums.squares, r.y.channels, DType::float32);
  struct Sums {
    float first = 0;
    float second = 0;
    void add(float a, float b) {
      first += a;
      second += b;
    }
  };
  for (std::int64_t c = 0; c < r.y.channels; ++c) {
    Sums all;
    for (std::int64_t n = 0; n < r.y.batch; ++n) {
      const float* value = y.data() + (n * r.y.channels + c) * r.y.height * r.y.width;
      Sums sample;
      for (std::int64_t h = 0; h < r.y.height; ++h) {
        Sums row;
        for (std::int64_t w = 0; w < r.y.width; ++w, ++value) {
          const float deviation = *value - shift.get(c);
          row.add(deviation, deviation * deviation);
        }
        sample.add(row.first, row.second);
      }
      all.add(sample.first, sample.second);
    }
    deviations.set(c, all.first);
    squares.set(c, all.second);
  }
}

/// Computes a request on the host with the reference operator.
/// @param statistics  whether its statistics are a part of it
void compute_request(const ConvolutionRequest& r, const ConvolutionTensors& tensors, bool statistics) {
  const Shape filter{r.y.channels, r.x.channels / r.groups, r.kernel.height, r.kernel.width};
  const Format input = Format::plain(r.x, DType::float32);
  const Convolution op{.out_channels = r.y.channels,
                       .kernel = r.kernel,
                       .stride = r.stride,
                       .padding = r.padding,
                       .dilation = r.dilation,
                       .groups = r.groups,
                       .bias = r.bias && adds_bias(r),
                       .activation = r.relu && adds_bias(r) ? Activation::relu : Activation::none};
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
  std::vector<std::byte> workspace(static_cast<std::size_t>(kernel->workspace().value));
  const std::array<const void*, 1> inputs{x.data()};
  std::vector<const void*> parameters{w.data()};
  if (op.bias) parameters.push_back(bias.data());
  if (forward) {
    kernel->run(Pass::forward, {.inputs = inputs, .parameters = parameters, .output = y.data(), .saved = saved.data()});
    if (statistics) sum_statistics(y, r, tensors);
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
  ConvolutionTask(const ConvolutionRequest& request, const ConvolutionTensors& tensors, bool statistics)
      : request_(request), tensors_(tensors), statistics_(statistics) {}
  emulated_gpu::Step step(emulated_gpu::Random& /*random*/) override {
    std::memset(emulated_gpu::Memory::instance().view(tensors_.workspace, workspace_bytes.value, what()), 0xff,
                workspace_bytes.value);
    compute_request(request_, tensors_, statistics_);
    return emulated_gpu::Step::done;
  }
  [[nodiscard]] std::string what() const override { return "a convolution"; }
  [[nodiscard]] bool is_kernel() const override { return true; }

 private:
  ConvolutionRequest request_;
  ConvolutionTensors tensors_;
  bool statistics_;
};

class ReferencePlan final : public ConvolutionPlan {
 public:
  ReferencePlan(const ConvolutionRequest& request, bool statistics) : request_(request), statistics_(statistics) {}
  [[nodiscard]] Bytes workspace() const override { return workspace_bytes; }
  [[nodiscard]] bool applies_epilogue() const override {
    return request_.statistics ? statistics_ : adds_bias(request_);
  }
  void run(const ConvolutionTensors& tensors, Queue queue) const override {
    const cudaError_t code =
        emulated_gpu::enqueue(static_cast<cudaStream_t>(queue.native()), cudaGraphNodeTypeKernel,
                              [request = request_, statistics = statistics_, tensors] {
                                return std::make_unique<ConvolutionTask>(request, tensors, statistics);
                              });
    if (code != cudaSuccess) throw Error(ErrorCode::device, "a convolution was not submitted");
  }

 private:
  ConvolutionRequest request_;
  bool statistics_;
};

/// Knows three ways to compute forward passes, which are the same but for one that it refuses. In bfloat16 that is the
/// first. A fourth one gives statistics; with EMULATED_GPU_STATISTICS=epilogue it is the rule.
class ReferenceConvolutions final : public Convolutions {
 public:
  [[nodiscard]] std::string version() const override { return "reference"; }
  [[nodiscard]] std::vector<std::string> candidates(const ConvolutionRequest& request) override {
    if (request.pass != ConvolutionPass::forward) return {"loops"};
    std::vector<std::string> words{"loops", "loops-again", "refused"};
    if (request.dtype == DType::bfloat16) words = {"refused", "loops", "loops-again"};
    const char* first = std::getenv("EMULATED_GPU_STATISTICS");
    const bool is_first = first != nullptr && std::string(first) == "epilogue";
    if (request.statistics) words.insert(is_first ? words.begin() : words.end(), with_statistics);
    return words;
  }
  [[nodiscard]] std::shared_ptr<const PendingPlan> plan(const ConvolutionRequest& request, const std::string& word,
                                                        IfMissing if_missing) override {
    return std::make_shared<const PendingPlan>(std::launch::deferred, [=, this](const std::stop_token&) -> Planned {
      std::vector<std::string> words = candidates(request);
      if (!word.empty() && (if_missing == IfMissing::fail || exists(request, word))) words = {word};
      for (const std::string& each : words)
        if (exists(request, each))
          return {each, request, std::make_unique<ReferencePlan>(request, each == with_statistics)};
      throw Error(ErrorCode::unsupported, "the reference has no '" + word + "' for " + text(request));
    });
  }

 private:
  static bool exists(const ConvolutionRequest& request, const std::string& word) {
    return word == "loops" || word == "loops-again" || (word == with_statistics && request.statistics);
  }
};

}  // namespace

std::string why_no_convolutions() { return {}; }

std::unique_ptr<Convolutions> make_convolutions(const std::function<void()>& /*select_gpu*/) {
  return std::make_unique<ReferenceConvolutions>();
}

}  // namespace lockstep::ops::cuda
