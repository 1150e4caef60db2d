// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/cuda.hpp"
#include "ops/cuda/convolution/convolution.hpp"
#include "ops/cuda/cuda_device.hpp"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/cuda/kernels/implementation.hpp"
#include "ops/shapes.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::ops {
namespace {

using cuda::Implementation;

/// Runs an implementation's passes.
class CudaKernel final : public Kernel {
 public:
  explicit CudaKernel(Implementation implementation)
      : Kernel(implementation.traits), passes_(std::move(implementation)) {}
  [[nodiscard]] std::string algorithm(Pass /*pass*/) const override { return "cuda"; }

 private:
  static void submit(const cuda::Submit& pass, const char* name, const Arguments& call) {
    if (!pass) throw Error(ErrorCode::invalid_argument, std::string("the operator has no pass '") + name + "'");
    pass(call);
  }
  void forward(const Arguments& call) override { submit(passes_.forward, "forward", call); }
  void infer(const Arguments& call) override { submit(passes_.infer ? passes_.infer : passes_.forward, "infer", call); }
  void backward(const Arguments& call) override { submit(passes_.backward, "backward", call); }
  void recompute(const Arguments& call) override { submit(passes_.recompute, "recompute", call); }
  void normalizer(const Arguments& call) override { submit(passes_.normalizer, "normalizer", call); }
  void measure(const Arguments& call) override { submit(passes_.measure, "measure", call); }
  void measure_backward(const Arguments& call) override { submit(passes_.measure_backward, "measure_backward", call); }

  Implementation passes_;
};

/// Whether two inputs are a parameter's gradients, which are plain.
bool adds_plain(const Operator& op, Formats inputs) {
  return std::holds_alternative<Add>(op) && inputs[0].native == nullptr && inputs[1].native == nullptr &&
         inputs[0].dtype == DType::float32;
}

/// Whether kernels of any arithmetic made the inputs in float32, as those of decoded boxes, which stay so.
bool arranges_float32(const Operator& op, Formats inputs) {
  return std::holds_alternative<Concat>(op) && std::all_of(inputs.begin(), inputs.end(), [](const Format& input) {
           return input.native != nullptr && input.dtype == DType::float32;
         });
}

bool keeps_formats(const Operator& op, Formats inputs) {
  return adds_plain(op, inputs) || arranges_float32(op, inputs);
}

class CudaOps final : public Ops {
 public:
  CudaOps(int gpu, const CudaArithmetic& arithmetic, std::chrono::duration<double> deadline)
      : arithmetic_(arithmetic),
        device_(make_cuda_device(gpu, deadline)),
        properties_(gpu_properties(gpu)),
        convolutions_(cuda::make_convolutions([gpu] { select_gpu(gpu); })),
        workspace_(device_->allocate(cuda::sums_workspace())) {}

  [[nodiscard]] std::string_view name() const override { return "cuda"; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::float32; }
  [[nodiscard]] DType values(DType /*reals*/) const override { return arithmetic_.values; }
  [[nodiscard]] const ComputeDevice& device() const override { return *device_; }
  [[nodiscard]] std::string arithmetic() const override {
    return properties_.name + ", " + convolutions_->version() + ", " + std::string(lockstep::name(arithmetic_.values)) +
           (arithmetic_.tf32 ? " as tf32" : "") + (choices().empty() ? "" : ", kernel choices " + choices().hash());
  }
  [[nodiscard]] std::unique_ptr<Ops> another() const override {
    throw Error(ErrorCode::unsupported, "a GPU has one lane; the number of threads does not concern it");
  }

  [[nodiscard]] KernelPtr reorder(const Format& from, const Format& to) override {
    return std::make_unique<CudaKernel>(cuda::make_reorder(from, to));
  }

  [[nodiscard]] bool sums_in_convolutions() const override { return true; }
  [[nodiscard]] bool fuses_batch_norms() const override { return true; }
  [[nodiscard]] bool converts_bytes() const override { return true; }
  [[nodiscard]] KernelPtr convert_bytes(const Normalization& numbers, const Format& to) override {
    const std::vector<double> table = numbers.table();
    const Count count{static_cast<std::int64_t>(table.size())};
    const Allocation staging = device_->allocate_staging(bytes_of(count, DType::float32));
    std::copy(table.begin(), table.end(), static_cast<float*>(staging.data()));
    auto copy = std::make_shared<const Allocation>(device_->allocate(staging.bytes()));
    device_->copy(copy->data(), staging.data(), staging.bytes(), device_->queue());
    device_->wait(device_->queue());  // no order needed: freeing memory waits as well
    return std::make_unique<CudaKernel>(cuda::make_byte_conversion(std::move(copy), to));
  }

  [[nodiscard]] std::vector<KernelAlgorithms> candidates(const Operator& op, Formats inputs) override {
    if (key_of(op, inputs).empty()) return {};
    const auto layer = cuda::convolution_layer(op, inputs[0], arithmetic_.values, arithmetic_.tf32);
    return layer ? cuda::candidates(*layer, *convolutions_, std::string(name())) : std::vector<KernelAlgorithms>{};
  }
  void use(const KernelChoices& choices) override { choices_ = choices; }
  [[nodiscard]] const KernelChoices& choices() const override { return choices_; }

  void pack(std::span<const PackedParameter> parameters, Queue queue) override {
    std::vector<cuda::PackingTask> tasks;
    for (const PackedParameter& each : parameters) {
      const auto& kernel = dynamic_cast<const cuda::ConvolutionKernel&>(*each.kernel);
      tasks.push_back({kernel.packing(each.parameter), each.from, each.to});
    }
    cuda::pack_weights(tasks, queue);
  }

  void update(std::span<const UpdateStep> steps) override { cuda::update(steps); }
  void measure_update(std::span<const UpdateStep> steps) override { cuda::measure_update(steps, workspace_.data()); }
  void average(const AverageStep& step) override { cuda::average(step); }
  void add_squares(const ConstBuffer& values, double* sum, Queue queue) override {
    cuda::add_squares(values, sum, workspace_.data(), queue);
  }
  void count_not_finite(const ConstBuffer& values, std::span<const std::int64_t> ends, double* counts,
                        Queue queue) override {
    cuda::count_not_finite(values, ends, counts, queue);
  }
  void compute_scalars(StepStage stage, const StepBlock& block, Queue queue) override {
    cuda::compute_scalars(stage, block, queue);
  }

  [[nodiscard]] MachineLimits measure_limits(DType /*dtype*/) override {
    constexpr Bytes bytes{std::int64_t{256} << 20};
    constexpr int copies = 8;
    const Allocation from = device_->allocate(bytes);
    const Allocation to = device_->allocate(bytes);
    const auto seconds_of = [&](int number) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < number; ++i) device_->copy(to.data(), from.data(), bytes, device_->queue());
      device_->wait(device_->queue());  // wait for timing only
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    seconds_of(1);
    return {.bytes_per_second = 2.0 * copies * static_cast<double>(bytes.value) / seconds_of(copies)};
  }

 private:
  KernelPtr make_kernel(const Operator& op, Formats inputs, const Signature& signature, DType /*reals*/) override {
    if (const auto layer = cuda::convolution_layer(op, inputs[0], arithmetic_.values, arithmetic_.tf32)) {
      const std::string key = key_of(op, inputs);
      const KernelAlgorithms* chosen = choices_.find(key, inputs[0].shape.batch);
      // A choice for another batch size need not exist for this one.
      const bool is_for_another = chosen != choices_.at(key, inputs[0].shape.batch);
      return cuda::make_convolution(*layer, *convolutions_, chosen,
                                    is_for_another ? cuda::IfMissing::take_the_rule : cuda::IfMissing::fail);
    }
    const std::vector<Format> wanted = keeps_formats(op, inputs) ? std::vector<Format>(inputs.begin(), inputs.end())
                                                                 : wanted_formats(op, inputs, signature);
    const auto of_kind = [&](const auto& kind) -> KernelPtr {
      if constexpr (std::is_same_v<std::decay_t<decltype(kind)>, Embedding>) {
        return std::make_unique<CudaKernel>(cuda::make(kind, wanted, signature, arithmetic_.values));
      } else if constexpr (requires { cuda::make(kind, wanted, signature); }) {
        return std::make_unique<CudaKernel>(cuda::make(kind, wanted, signature));
      } else {
        throw Error(ErrorCode::unsupported,
                    "there is no GPU kernel for the operator '" + kind.text() + "'; compute on the CPU");
      }
    };
    return std::visit(of_kind, op);
  }

  /// Returns NHWC for reals, in float32 for targets of losses, and plain for integers and boxes.
  [[nodiscard]] std::vector<Format> wanted_formats(const Operator& op, Formats inputs,
                                                   const Signature& signature) const {
    std::vector<Format> wanted;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool is_integer = i < signature.inputs.size() && signature.inputs[i] == Content::integer;
      const bool is_target = signature.is_loss && i > 0;
      const DType dtype = is_integer ? DType::int32 : (is_target ? DType::float32 : arithmetic_.values);
      const bool is_plain = is_integer || (is_target && std::holds_alternative<AnchorLoss>(op));
      wanted.push_back(is_plain ? Format::plain(inputs[i].shape, dtype) : cuda::nhwc(inputs[i].shape, dtype));
    }
    return wanted;
  }

  CudaArithmetic arithmetic_;
  std::unique_ptr<ComputeDevice> device_;
  GpuProperties properties_;
  std::unique_ptr<cuda::Convolutions> convolutions_;
  Allocation workspace_;
  KernelChoices choices_;
};

}  // namespace

std::string why_no_cuda_ops() { return cuda::why_no_convolutions(); }

bool has_cuda_kernel(const Operator& op) {
  const auto is_made = []<typename Kind>(const Kind& kind) {
    const std::vector<Format> none;
    return std::is_same_v<Kind, Convolution> || std::is_same_v<Kind, TransposedConvolution> ||
           std::is_same_v<Kind, Linear> || requires {
      cuda::make(kind, none, Signature{});
    }
    || requires { cuda::make(kind, none, Signature{}, DType::float32); };
  };
  return std::visit(is_made, op);
}

std::unique_ptr<Ops> make_cuda_ops(int gpu, const CudaArithmetic& arithmetic, std::chrono::duration<double> deadline) {
  require(arithmetic.values == DType::float32 || size_of(arithmetic.values) == 2,
          "values of " + std::string(name(arithmetic.values)) + " on a GPU; use float32, bfloat16 or float16");
  return std::make_unique<CudaOps>(gpu, arithmetic, deadline);
}

}  // namespace lockstep::ops
