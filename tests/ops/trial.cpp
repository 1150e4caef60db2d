// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "ops/rows.hpp"

namespace lockstep::ops::test {
namespace {

/// Returns element `i` of tensor `k` of a row, in [−1, 1]; operators-pytorch.py computes the same.
double wave(std::size_t k, std::int64_t i) {
  const auto x = static_cast<double>(i);
  const auto phase = static_cast<double>(k);
  return std::sin(1.7 * x + 0.9 * phase + 0.3) * std::cos(0.31 * x * x + phase);
}

/// Returns the weight of element `i` of a result in scalar products.
double weight(std::int64_t i) { return std::cos(static_cast<double>(i) + 0.5); }

/// Rounds to float32, so that every precision starts from the same numbers.
double rounded(double x) { return static_cast<double>(static_cast<float>(x)); }

/// Turns the last two of four channels into the corners opposite to the first two.
void make_boxes(Tensor& tensor, const Shape& shape) {
  const std::int64_t half = 2 * shape.height * shape.width;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    if (i % (2 * half) >= half) tensor.set(i, rounded(tensor.get(i - half) + 0.55 + 0.45 * tensor.get(i)));
  }
}

/// Turns five channels into classes, and boxes in an image of 32 × 32 pixels.
void make_targets(Tensor& tensor, const Shape& shape) {
  const std::int64_t boxes = shape.width;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const std::int64_t channel = i / boxes % 5;
    const std::int64_t box = i % boxes;
    const double x = tensor.get(i);
    double value = channel < 3 ? 16 + 15.9 * x : 20.5 + 19.5 * x;
    if (channel == 0) value = box == boxes - 1 ? -1 : static_cast<double>((box + i / (5 * boxes)) % 3);
    tensor.set(i, rounded(value));
  }
}

double dot(const Values& values) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * weight(static_cast<std::int64_t>(i));
  return sum;
}

Domain domain_of(const Row& row, const Signature& signature, std::size_t index) {
  if (index < signature.inputs.size() && signature.inputs[index] == Content::integer) return Domain::integer;
  return index < row.domains.size() ? row.domains[index] : Domain::any;
}

Signature signature_of_row(const Row& row) { return signature_of(row.op, row.inputs); }

std::unique_ptr<Tensor> tensor_of(const Format& format, DType dtype) {
  if (format.native == nullptr) return std::make_unique<Tensor>(format.shape.count(), dtype);
  return std::make_unique<Tensor>(format.bytes);
}

/// Returns the format in which a network's first convolution would write such values, blocked if any is.
Format native_format(Ops& ops, const Format& plain) {
  Shape image = plain.shape;
  image.channels = 3;
  const Convolution first{.out_channels = plain.shape.channels, .padding = 1};
  return ops.make(first, std::array{Format::plain(image, plain.dtype)})->traits().output;
}

void copy(Kernel& kernel, const Tensor& from, const Tensor& to) {
  const void* input = from.data();
  kernel.run(Pass::forward, {.inputs = std::span(&input, 1), .output = to.data()});
}

}  // namespace

void Trial::make_input(const Row& row, std::size_t index, bool native) {
  Input& input = inputs_.emplace_back();
  const Domain domain = domain_of(row, signature_, index);
  if (domain == Domain::integer) {
    input.format = Format::plain(row.inputs[index], DType::int32);
    input.plain = std::make_unique<Tensor>(input.format.bytes);
    auto* values = static_cast<std::int32_t*>(input.plain->data());
    const Range range = row.range(index);
    for (std::int64_t i = 0; i < row.inputs[index].count(); ++i)
      values[i] = static_cast<std::int32_t>(range.low + (7 * i + 3) % (range.high - range.low));
    return;
  }
  input.format = Format::plain(row.inputs[index], dtype_);
  input.plain = std::make_unique<Tensor>(row.inputs[index].count(), dtype_);
  input.gradient = std::make_unique<Tensor>(row.inputs[index].count(), dtype_);
  for (std::int64_t i = 0; i < input.plain->count(); ++i) {
    const double x = rounded(wave(index, i));
    input.plain->set(i, domain == Domain::unit ? rounded(0.5 + 0.49 * x) : x);
  }
  if (domain == Domain::boxes) make_boxes(*input.plain, row.inputs[index]);
  if (domain == Domain::targets) make_targets(*input.plain, row.inputs[index]);
  if (native) input.format = native_format(ops_, input.format);
}

/// Passes the input in the format that the kernel requests, which may differ from the one it was offered.
void Trial::hand_over(Input& input, const Format& wanted) {
  input.format = wanted;
  if (wanted.native == nullptr) return;
  const Format plain = Format::plain(wanted.shape, dtype_);
  input.there = ops_.reorder(plain, wanted);
  input.back = ops_.reorder(wanted, plain);
  input.handed = tensor_of(wanted, dtype_);
  input.handed_gradient = tensor_of(wanted, dtype_);
}

void Trial::make_owned(const std::vector<OwnedTensor>& owned, std::vector<std::unique_ptr<Tensor>>& tensors,
                       std::size_t first, double low, double high) {
  for (std::size_t k = 0; k < owned.size(); ++k) {
    tensors.push_back(std::make_unique<Tensor>(owned[k].count(), dtype_));
    for (std::int64_t i = 0; i < tensors[k]->count(); ++i) {
      const double x = low + (high - low) * (0.5 + 0.5 * wave(first + k, i));
      tensors[k]->set(i, static_cast<double>(static_cast<float>(x)));
    }
  }
}

Trial::Trial(Ops& ops, DType dtype, const Row& row, bool native)
    : ops_(ops), dtype_(dtype), signature_(signature_of_row(row)) {
  for (std::size_t i = 0; i < row.inputs.size(); ++i) make_input(row, i, native);
  make_owned(signature_.parameters, parameters_, inputs_.size(), -0.5, 0.7);
  make_owned(signature_.state, state_, inputs_.size() + parameters_.size(), 0.5, 1);
  std::vector<Format> formats;
  for (const Input& input : inputs_) formats.push_back(input.format);
  kernel_ = ops_.make(row.op, formats, dtype_);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    hand_over(inputs_[i], kernel_->traits().inputs[i]);
    native_inputs_ += inputs_[i].handed != nullptr ? 1 : 0;
  }
  const Format& out = kernel_->traits().output;
  output_ = tensor_of(out, signature_.is_loss ? DType::float64 : dtype_);
  output_gradient_ = tensor_of(out, dtype_);
  saved_ = std::make_unique<Tensor>(kernel_->traits().saved);
  if (!signature_.is_loss && out.native != nullptr) {
    const Format plain = Format::plain(out.shape, dtype_);
    output_back_ = ops_.reorder(out, plain);
    gradient_there_ = ops_.reorder(plain, out);
    plain_output_ = tensor_of(plain, dtype_);
    plain_gradient_ = tensor_of(plain, dtype_);
  }
  for (const OwnedTensor& parameter : signature_.parameters)
    parameter_gradients_.push_back(std::make_unique<Tensor>(parameter.count(), dtype_));
}

Arguments Trial::arguments() {
  input_pointers_.clear();
  parameter_pointers_.clear();
  state_pointers_.clear();
  input_gradient_pointers_.clear();
  parameter_gradient_pointers_.clear();
  for (const Input& input : inputs_) {
    input_pointers_.push_back((input.handed ? input.handed : input.plain)->data());
    const Tensor* gradient = input.handed ? input.handed_gradient.get() : input.gradient.get();
    input_gradient_pointers_.push_back(gradient == nullptr ? nullptr : gradient->data());
  }
  for (const auto& tensor : parameters_) parameter_pointers_.push_back(tensor->data());
  for (const auto& tensor : parameter_gradients_) parameter_gradient_pointers_.push_back(tensor->data());
  for (const auto& tensor : state_) state_pointers_.push_back(tensor->data());
  return {.inputs = input_pointers_,
          .parameters = parameter_pointers_,
          .state = state_pointers_,
          .output = signature_.is_loss ? static_cast<void*>(&figures_) : output_->data(),
          .saved = saved_->data(),
          .rng_key = &occasion_};
}

void Trial::forward(Pass pass) {
  for (const Input& input : inputs_)
    if (input.handed) copy(*input.there, *input.plain, *input.handed);
  kernel_->run(signature_.has_backward ? pass : Pass::infer, arguments());
  if (output_back_) copy(*output_back_, *output_, *plain_output_);
}

void Trial::backward() {
  if (!signature_.has_backward) return;
  run_backward(false);
  if (!kernel_->traits().separates_gradients) return;
  const std::vector<Named> together = results();
  run_backward(true);
  const std::vector<Named> apart = results();
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (apart[i].values != together[i].values)
      throw std::logic_error("in two calls, backward gives another " + apart[i].name);
  }
}

void Trial::run_backward(bool separately) {
  Arguments call = arguments();
  const Traits& traits = kernel_->traits();
  // Operands that the kernel promises not to read are null.
  std::vector<const void*> nothing(inputs_.size());
  if (!traits.backward_reads_inputs) call.inputs = nothing;
  if (traits.backward_reads_inputs && traits.backward_reads_first_input) {
    nothing[0] = call.inputs[0];
    call.inputs = nothing;
  }
  if (!traits.backward_reads_output) call.output = nullptr;
  const double stale = 3;  // overwritten, or zeroed first if the kernel accumulates
  const auto prepare = [&](const Tensor& tensor, Writes writes) {
    if (writes == Writes::accumulates) std::memset(tensor.data(), 0, static_cast<std::size_t>(tensor.bytes().value));
  };
  for (const auto& tensor : parameter_gradients_) {
    for (std::int64_t i = 0; i < tensor->count(); ++i) tensor->set(i, stale);
    prepare(*tensor, traits.parameter_gradients);
  }
  for (const Input& input : inputs_) {
    if (input.gradient == nullptr) continue;
    for (std::int64_t i = 0; i < input.gradient->count(); ++i) input.gradient->set(i, stale);
    prepare(input.handed ? *input.handed_gradient : *input.gradient, traits.input_gradients);
  }
  call.output_gradient = &factor_;
  if (!signature_.is_loss) {
    Tensor& plain = plain_gradient_ ? *plain_gradient_ : *output_gradient_;
    for (std::int64_t i = 0; i < plain.count(); ++i) plain.set(i, change_(weight(i)));
    if (gradient_there_) copy(*gradient_there_, plain, *output_gradient_);
    call.output_gradient = output_gradient_->data();
  }
  call.input_gradients = input_gradient_pointers_;
  call.parameter_gradients = parameter_gradient_pointers_;
  const std::vector<void*> no_gradients(inputs_.size());
  if (separately) {
    call.input_gradients = no_gradients;
    kernel_->run(Pass::backward, call);
    std::ranges::fill(nothing, nullptr);
    call.inputs = nothing;
    call.output = nullptr;
    call.input_gradients = input_gradient_pointers_;
    call.parameter_gradients = {};
  }
  kernel_->run(Pass::backward, call);
  for (const Input& input : inputs_)
    if (input.handed) copy(*input.back, *input.handed_gradient, *input.gradient);
}

Values Trial::output() const {
  return signature_.is_loss ? Values{} : (plain_output_ ? *plain_output_ : *output_).values();
}

double Trial::objective() const { return signature_.is_loss ? figures_.loss : dot(output()); }

std::vector<Trial::Named> Trial::results() const {
  if (!signature_.has_backward) return {{"output", output()}};
  std::vector<Named> results;
  for (std::size_t i = 0; i < state_.size(); ++i)
    results.push_back({"state " + signature_.state[i].name, state_[i]->values()});
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].gradient)
      results.push_back({"gradient of input " + std::to_string(i), inputs_[i].gradient->values()});
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    results.push_back({"gradient of " + signature_.parameters[i].name, parameter_gradients_[i]->values()});
  if (signature_.is_loss) results.push_back({"loss_sums", {figures_.weight, figures_.loss, figures_.correct}});
  return results;
}

std::vector<double> Trial::digest() const {
  std::vector<double> digest;
  for (const Named& result : results())
    digest.push_back(result.name == "loss_sums" ? figures_.loss : dot(result.values));
  return digest;
}

std::vector<Tensor*> Trial::variables() {
  std::vector<Tensor*> tensors;
  for (Input& input : inputs_)
    if (input.gradient) tensors.push_back(input.plain.get());
  for (auto& tensor : parameters_) tensors.push_back(tensor.get());
  return tensors;
}

std::vector<const Tensor*> Trial::gradients() const {
  std::vector<const Tensor*> tensors;
  for (const Input& input : inputs_)
    if (input.gradient) tensors.push_back(input.gradient.get());
  for (const auto& tensor : parameter_gradients_) tensors.push_back(tensor.get());
  return tensors;
}

}  // namespace lockstep::ops::test
