// SPDX-License-Identifier: Apache-2.0
#include "kernels/instruction_set.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/host/host_ops.hpp"
#include "ops/onednn/library.hpp"
#include "ops/onednn/operators.hpp"
#include "ops/onednn/primitives/format.hpp"
#include "ops/onednn/primitives/primitive.hpp"

// This function is libgomp's; its header works with one compiler only.
extern "C" void omp_set_num_threads(int threads);

namespace lockstep::ops {
namespace {

/// Translates oneDNN's exceptions to Error: it has no kernel for the request.
template <typename Make>
auto translated(const std::string& what, const Make& make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    throw Error(ErrorCode::unsupported, "oneDNN cannot make this " + what + ": " + error.what());
  }
}

/// Converts from one layout to another.
class Reorder final : public Kernel {
 public:
  Reorder(const onednn::ContextPtr& context, const Format& from, const Format& to)
      : Kernel({.inputs = {from}, .output = to, .backward_reads_inputs = false, .backward_reads_output = false}),
        reorder_(onednn::make_reorder(context, onednn::to_desc(from), onednn::to_desc(to))) {}

  [[nodiscard]] std::string algorithm(Pass /*pass*/) const override { return reorder_.kernel(); }
  void forward(const Arguments& call) override {
    reorder_.run({{DNNL_ARG_FROM, call.inputs[0]}, {DNNL_ARG_TO, call.output}});
  }
  void backward(const Arguments& /*call*/) override {
    throw Error(ErrorCode::invalid_argument, "a reorder has no backward pass; make the one in the other direction");
  }

 private:
  onednn::Primitive reorder_;
};

/// Computes any operator on an empty batch, for which oneDNN has no kernels. Gradients of parameters are zero, and
/// state is unchanged. The result has the first input's dtype.
class EmptyBatch final : public Kernel {
 public:
  EmptyBatch(Formats inputs, const Signature& signature)
      : Kernel({.inputs = {inputs.begin(), inputs.end()},
                .output = Format::plain(signature.output, inputs[0].dtype),
                .backward_reads_inputs = false,
                .backward_reads_output = false}) {
    for (const OwnedTensor& parameter : signature.parameters) parameter_counts_.push_back(parameter.count());
  }

  [[nodiscard]] std::string algorithm(Pass /*pass*/) const override { return "nothing"; }

  void forward(const Arguments& /*call*/) override {}
  void backward(const Arguments& call) override {
    for (std::size_t i = 0; i < parameter_counts_.size(); ++i) {
      std::fill_n(static_cast<float*>(call.parameter_gradients[i]), parameter_counts_[i], 0.0F);
    }
  }

 private:
  std::vector<std::int64_t> parameter_counts_;
};

class OneDnnOps final : public HostOps {
 public:
  OneDnnOps(int threads, bool exact) : HostOps(onednn::on_team), reference_(make_reference_ops()) {
    if (threads < 1) {
      throw Error(ErrorCode::invalid_argument, "threads is " + std::to_string(threads) + "; it must be at least 1");
    }
    omp_set_num_threads(threads);
    context_ = std::make_shared<onednn::Context>();
    context_->exact = exact;
  }
  OneDnnOps(int threads, bool exact, KernelChoices choices) : OneDnnOps(threads, exact) {
    context_->choices = std::move(choices);
  }

  [[nodiscard]] std::string_view name() const override { return "onednn"; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::float32; }

  KernelPtr reorder(const Format& from, const Format& to) override {
    return translated("reorder", [&] { return std::make_unique<Reorder>(context_, from, to); });
  }

  [[nodiscard]] std::unique_ptr<Ops> another() const override {
    return std::make_unique<OneDnnOps>(1, context_->exact, context_->choices);
  }
  [[nodiscard]] std::string arithmetic() const override {
    std::string text = onednn::library_version();
    text += " isa " + std::to_string(static_cast<int>(dnnl::get_effective_cpu_isa())) + ", ";
    text += kernels::instruction_set_of_loops() + std::string(context_->exact ? ", exact" : "");
    return text + (choices().empty() ? "" : ", kernel choices " + choices().hash());
  }

  [[nodiscard]] HalfKernels half_kernels(DType half) const override {
    return half == DType::bfloat16 ? onednn::bfloat16_kernels() : HalfKernels{};
  }
  [[nodiscard]] Format stored_as(const Format& format, DType dtype) const override {
    return format.dtype == dtype ? format : onednn::stored_as(format, dtype);
  }

  [[nodiscard]] std::vector<KernelAlgorithms> candidates(const Operator& op, Formats inputs) override {
    const auto* convolution = std::get_if<Convolution>(&op);
    if (convolution == nullptr || inputs[0].shape.batch == 0) return {};
    return translated(convolution->text(), [&] { return onednn::candidates(*convolution, context_, inputs); });
  }
  void use(const KernelChoices& choices) override {
    if (!has_winograd_) has_winograd_ = onednn::has_winograd(context_);
    if (context_->exact) {
      choices.require(name(), std::array{onednn::direct}, "algorithms that round more are disabled (exact)");
    } else if (!*has_winograd_) {
      choices.require(name(), std::array{onednn::direct},
                      onednn::library_version() + " has no Winograd convolutions on this processor");
    } else {
      choices.require(name(), std::array{onednn::direct, onednn::winograd},
                      onednn::library_version() + " has no other algorithms");
    }
    context_->choices = choices;
  }
  [[nodiscard]] const KernelChoices& choices() const override { return context_->choices; }

 private:
  KernelPtr make_kernel(const Operator& op, Formats inputs, const Signature& signature, DType reals) override {
    KernelPtr kernel = make_own(op, inputs, signature);
    return kernel ? std::move(kernel) : reference_->make(op, inputs, reals);
  }

  KernelPtr make_half_kernel(const Operator& op, Formats inputs, const Signature& signature, DType half) override {
    if (!half_kernels(half).exist) return nullptr;
    std::vector<Format> stored;
    for (const Format& input : inputs) stored.push_back(stored_as(input, half));
    try {
      return make_own(op, stored, signature);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      return nullptr;
    }
  }

  /// Returns null if the reference's kernel is to be used.
  KernelPtr make_own(const Operator& op, Formats inputs, const Signature& signature) {
    const auto of_kind = [&](const auto& kind) -> KernelPtr {
      if constexpr (requires { onednn::make(kind, context_, inputs); }) {
        if (inputs[0].shape.batch > 0)
          return translated(kind.text(), [&] { return onednn::make(kind, context_, inputs); });
        // A rank without samples still takes part in the exchange of statistics.
        if constexpr (requires { kind.synchronized; }) return nullptr;
        return std::make_unique<EmptyBatch>(inputs, signature);
      }
      return nullptr;
    };
    return std::visit(of_kind, op);
  }

  std::unique_ptr<Ops> reference_;  ///< for operators without oneDNN kernels
  onednn::ContextPtr context_;
  std::optional<bool> has_winograd_;  ///< empty until it is first queried
};

}  // namespace

std::string onednn::library_version() {
  const dnnl_version_t& version = *dnnl_version();
  std::string text = "oneDNN";
  for (const int number : {version.major, version.minor, version.patch}) text += ' ' + std::to_string(number);
  return text;
}

std::string onednn::library_instruction_set() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  switch (isa) {
    case dnnl::cpu_isa::sse41: return "SSE4.1";
    case dnnl::cpu_isa::avx: return "AVX";
    case dnnl::cpu_isa::avx2: return "AVX2";
    case dnnl::cpu_isa::avx512_core: return "AVX-512";
    case dnnl::cpu_isa::avx512_core_vnni: return "AVX-512 with VNNI";
    case dnnl::cpu_isa::avx512_core_bf16: return "AVX-512 with BF16";
    case dnnl::cpu_isa::avx512_core_amx: return "AVX-512 with AMX";
    default: return "number " + std::to_string(static_cast<int>(isa)) + " of dnnl::cpu_isa";
  }
}

std::unique_ptr<Ops> make_onednn_ops(int threads, bool exact) { return std::make_unique<OneDnnOps>(threads, exact); }

}  // namespace lockstep::ops
