// SPDX-License-Identifier: Apache-2.0
#include "ops/hosted_ops.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::ops::test {
namespace {

/// Copies of host memory on a device, for one call. The same host memory has one copy.
class Copies {
 public:
  explicit Copies(const ComputeDevice& device) : device_(device) {}

  /// Returns the copy of what a kernel reads; null for null.
  const void* read(const void* host, Bytes bytes) { return at(const_cast<void*>(host), bytes, false); }
  /// Returns the copy of what a kernel writes, or reads and writes.
  void* write(void* host, Bytes bytes) { return at(host, bytes, true); }
  template <typename T>
  T* write(T* host) {
    return static_cast<T*>(write(static_cast<void*>(host), Bytes{sizeof(T)}));
  }
  template <typename T>
  const T* read(const T* host) {
    return static_cast<const T*>(read(static_cast<const void*>(host), Bytes{sizeof(T)}));
  }
  /// Returns memory of the device without a counterpart on the host.
  void* scratch(Bytes bytes) { return scratch_.emplace_back(device_.allocate(bytes)).data(); }

  /// Copies back what was written.
  void bring_back() {
    for (const auto& [host, copy] : copies_)
      if (copy.written) device_.copy(host, copy.memory.data(), copy.bytes, device_.queue());
    device_.wait(device_.queue());
  }

 private:
  struct Copy {
    Allocation memory;
    Bytes bytes;
    bool written = false;
  };
  void* at(void* host, Bytes bytes, bool written) {
    if (host == nullptr) return nullptr;
    Copy& copy = copies_[host];
    if (copy.memory.data() == nullptr) {
      copy.memory = device_.allocate({std::max<std::int64_t>(bytes.value, 1)});
      copy.bytes = bytes;
      device_.copy(copy.memory.data(), host, bytes, device_.queue());
    }
    copy.written |= written;
    return copy.memory.data();
  }

  const ComputeDevice& device_;
  std::map<void*, Copy> copies_;
  std::vector<Allocation> scratch_;
};

Traits hosted(Traits traits) {
  traits.workspace = {};
  traits.packed = {};
  return traits;
}

class HostedKernel final : public Kernel {
 public:
  /// @param signature  empty for a conversion
  HostedKernel(Ops& ops, std::unique_ptr<Kernel> inner, std::optional<Signature> signature)
      : Kernel(hosted(inner->traits())), ops_(ops), inner_(std::move(inner)), signature_(std::move(signature)) {}

  [[nodiscard]] std::string algorithm(Pass pass) const override { return inner_->algorithm(pass); }
  void forward(const Arguments& call) override { run_there(Pass::forward, call); }
  void infer(const Arguments& call) override { run_there(Pass::infer, call); }
  void backward(const Arguments& call) override { run_there(Pass::backward, call); }
  void recompute(const Arguments& call) override { run_there(Pass::recompute, call); }
  void normalizer(const Arguments& call) override { run_there(Pass::normalizer, call); }
  void measure(const Arguments& call) override { run_there(Pass::measure, call); }
  void measure_backward(const Arguments& call) override { run_there(Pass::measure_backward, call); }

 private:
  static Bytes doubles(std::int64_t count) { return {count * static_cast<std::int64_t>(sizeof(double))}; }
  static Bytes bytes_of(const OwnedTensor& tensor) { return {tensor.count() * size_of(DType::float32)}; }
  [[nodiscard]] Bytes output_bytes() const {
    return is_loss() ? Bytes{sizeof(LossSums)} : inner_->traits().output.bytes;
  }
  [[nodiscard]] Bytes gradient_bytes() const { return is_loss() ? doubles(1) : inner_->traits().output.bytes; }
  [[nodiscard]] bool is_loss() const { return signature_ && signature_->is_loss; }

  std::vector<const void*> parameters(Copies& copies, const Arguments& call) {
    const Traits& traits = inner_->traits();
    std::vector<const void*> parameters;
    std::vector<PackedParameter> packed;
    for (std::size_t i = 0; i < call.parameters.size(); ++i) {
      parameters.push_back(copies.read(call.parameters[i], bytes_of(signature_->parameters[i])));
      if (i >= traits.packed.size() || traits.packed[i].value == 0) continue;
      void* to = copies.scratch(traits.packed[i]);
      packed.push_back({inner_.get(), static_cast<int>(i), parameters.back(), to});
      parameters.back() = to;
    }
    if (!packed.empty()) ops_.pack(packed, ops_.device().queue());
    return parameters;
  }

  void run_there(Pass pass, const Arguments& host) {
    Copies copies(ops_.device());
    const Traits& traits = inner_->traits();
    std::vector<const void*> inputs;
    std::vector<void*> state;
    std::vector<void*> input_gradients;
    std::vector<void*> parameter_gradients;
    for (std::size_t i = 0; i < host.inputs.size(); ++i)
      inputs.push_back(copies.read(host.inputs[i], traits.inputs[i].bytes));
    for (std::size_t i = 0; i < host.state.size(); ++i)
      state.push_back(copies.write(host.state[i], bytes_of(signature_->state[i])));
    for (std::size_t i = 0; i < host.input_gradients.size(); ++i)
      input_gradients.push_back(copies.write(host.input_gradients[i], traits.inputs[i].bytes));
    for (std::size_t i = 0; i < host.parameter_gradients.size(); ++i)
      parameter_gradients.push_back(copies.write(host.parameter_gradients[i], bytes_of(signature_->parameters[i])));
    const std::vector<const void*> parameters = this->parameters(copies, host);
    const std::int64_t part = pass == Pass::measure            ? traits.forward_part
                              : pass == Pass::measure_backward ? traits.backward_part
                              : pass == Pass::forward          ? traits.statistics
                                                               : 0;
    Arguments call = host;
    call.inputs = inputs;
    call.parameters = parameters;
    call.state = state;
    call.output = copies.write(host.output, output_bytes());
    call.saved = copies.write(host.saved, traits.saved);
    call.workspace = copies.scratch({inner_->workspace().value + 1});
    call.rng_key = copies.read(host.rng_key);
    call.part = part > 0 ? static_cast<double*>(copies.write(static_cast<void*>(host.part), doubles(part))) : nullptr;
    const auto count = static_cast<std::int64_t>(host.parts.size());
    call.parts = {static_cast<const double*>(copies.read(static_cast<const void*>(host.parts.data()), doubles(count))),
                  host.parts.size()};
    call.output_gradient = copies.write(host.output_gradient, gradient_bytes());
    call.second_output_gradient = copies.read(host.second_output_gradient, gradient_bytes());
    call.input_gradients = input_gradients;
    call.parameter_gradients = parameter_gradients;
    call.fault = copies.write(host.fault);
    call.queue = ops_.device().queue();
    inner_->run(pass, call);
    copies.bring_back();
  }

  Ops& ops_;
  std::unique_ptr<Kernel> inner_;
  std::optional<Signature> signature_;
};

class HostedOps final : public Ops {
 public:
  HostedOps(std::unique_ptr<Ops> inner, bool merges) : inner_(std::move(inner)), merges_(merges) {}

  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] bool supports(DType dtype) const override { return inner_->supports(dtype); }
  [[nodiscard]] DType values(DType reals) const override { return inner_->values(reals); }
  [[nodiscard]] std::unique_ptr<Kernel> reorder(const Format& from, const Format& to) override {
    return std::make_unique<HostedKernel>(*inner_, inner_->reorder(from, to), std::nullopt);
  }
  [[nodiscard]] std::vector<KernelAlgorithms> candidates(const Operator& op, std::span<const Format> inputs) override {
    return inner_->candidates(op, inputs);
  }
  [[nodiscard]] bool sums_in_convolutions() const override { return inner_->sums_in_convolutions(); }
  [[nodiscard]] bool fuses_batch_norms() const override { return merges_ && inner_->fuses_batch_norms(); }
  void use(const KernelChoices& choices) override { inner_->use(choices); }
  [[nodiscard]] const KernelChoices& choices() const override { return inner_->choices(); }
  [[nodiscard]] std::unique_ptr<Ops> another() const override { return make_hosted_ops(inner_->another(), merges_); }
  [[nodiscard]] std::string arithmetic() const override { return inner_->arithmetic(); }

  void update(std::span<const UpdateStep> steps) override {
    on_device(steps, [this](std::span<const UpdateStep> there) { inner_->update(there); });
  }
  void measure_update(std::span<const UpdateStep> steps) override {
    on_device(steps, [this](std::span<const UpdateStep> there) { inner_->measure_update(there); });
  }
  void average(const AverageStep& step) override {
    Copies copies(inner_->device());
    const Bytes bytes{step.count.value * size_of(step.dtype)};
    AverageStep there = step;
    there.averages = copies.write(step.averages, bytes);
    there.values = copies.read(step.values, bytes);
    there.scalars = copies.read(step.scalars);
    there.queue = inner_->device().queue();
    inner_->average(there);
    copies.bring_back();
  }
  void add_squares(const ConstBuffer& values, double* sum, Queue /*queue*/) override {
    Copies copies(inner_->device());
    inner_->add_squares(there(values, copies), copies.write(sum), inner_->device().queue());
    copies.bring_back();
  }
  void count_not_finite(const ConstBuffer& values, std::span<const std::int64_t> ends, double* counts,
                        Queue /*queue*/) override {
    Copies copies(inner_->device());
    inner_->count_not_finite(
        there(values, copies), ends,
        static_cast<double*>(copies.write(static_cast<void*>(counts),
                                          bytes_of(Count{static_cast<std::int64_t>(ends.size())}, DType::float64))),
        inner_->device().queue());
    copies.bring_back();
  }
  [[nodiscard]] MachineLimits measure_limits(DType dtype) override { return inner_->measure_limits(dtype); }

 private:
  std::unique_ptr<Kernel> make_kernel(const Operator& op, std::span<const Format> inputs, const Signature& signature,
                                      DType reals) override {
    return std::make_unique<HostedKernel>(*inner_, inner_->make(op, inputs, reals), signature);
  }

  [[nodiscard]] static ConstBuffer there(const ConstBuffer& values, Copies& copies) {
    ConstBuffer buffer = values;
    buffer.data = copies.read(values.data, values.bytes());
    buffer.kind = MemoryKind::device;
    return buffer;
  }

  template <typename Run>
  void on_device(std::span<const UpdateStep> steps, const Run& run) {
    Copies copies(inner_->device());
    std::vector<UpdateStep> there(steps.begin(), steps.end());
    for (UpdateStep& step : there) {
      const Bytes bytes{step.count.value * size_of(step.dtype)};
      step.parameters = copies.write(step.parameters, bytes);
      step.gradients = copies.read(step.gradients, bytes);
      step.first = copies.write(step.first, bytes);
      step.second = copies.write(step.second, bytes);
      step.squares = static_cast<double*>(copies.write(static_cast<void*>(step.squares), Bytes{2 * sizeof(double)}));
      step.scalars = copies.read(step.scalars);
      step.queue = inner_->device().queue();
    }
    run(there);
    copies.bring_back();
  }

  std::unique_ptr<Ops> inner_;
  bool merges_;
};

}  // namespace

std::unique_ptr<Ops> make_hosted_ops(std::unique_ptr<Ops> inner, bool merges) {
  return std::make_unique<HostedOps>(std::move(inner), merges);
}

}  // namespace lockstep::ops::test
