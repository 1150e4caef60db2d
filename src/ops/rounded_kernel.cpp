// SPDX-License-Identifier: Apache-2.0
#include "ops/rounded_kernel.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "kernels/convert.hpp"

namespace lockstep::ops {
namespace {

constexpr std::int64_t line_bytes = 64;

/// Returns all of a value's memory. Padding is rounded, too, and stays 0.
std::span<float> elements(const Format& format, void* values) {
  return {static_cast<float*>(values), static_cast<std::size_t>(format.bytes.value) / sizeof(float)};
}

/// Returns the bytes of a copy, rounded up to cache lines.
std::int64_t bytes_of_copy(std::int64_t count) {
  return (count * size_of(DType::float32) + line_bytes - 1) / line_bytes * line_bytes;
}

/// to[i] = from[i], rounded. The threads of the team share many values.
void round_on_team(const OnTeam& on_team, DType half, std::span<const float> from, std::span<float> to) {
  constexpr std::size_t many = 1 << 16;
  if (from.size() < many) return kernels::round_to(half, from, to);
  const auto round_some = [&](int member, int members) {
    constexpr std::size_t line = line_bytes / sizeof(float);
    const std::size_t lines = (from.size() + line - 1) / line;
    const auto edge = [&](int of) {
      return std::min(from.size(), lines * static_cast<std::size_t>(of) / static_cast<std::size_t>(members) * line);
    };
    const std::size_t begin = edge(member);
    const std::size_t count = edge(member + 1) - begin;
    kernels::round_to(half, from.subspan(begin, count), to.subspan(begin, count));
  };
  on_team(std::ref(round_some));  // std::ref, because std::function holds it without allocating
}

}  // namespace

Format rounded(const Format& inner) {
  Format format = inner;
  format.native = std::make_shared<const Format>(inner);
  return format;
}

bool is_rounded(const Format& format) { return format.native != nullptr; }

const Format& inner_of(const Format& format) {
  const auto* inner = static_cast<const Format*>(format.native.get());
  return inner == nullptr ? format : *inner;
}

bool is_emulated(const Format& format) { return is_rounded(format) && inner_of(format).dtype == DType::float32; }

RoundedKernel::RoundedKernel(KernelPtr inner, Traits traits, DType half, std::vector<std::int64_t> parameters,
                             std::shared_ptr<Scratch> scratch, OnTeam on_team)
    : Kernel(std::move(traits)),
      inner_(std::move(inner)),
      half_(half),
      counts_(std::move(parameters)),
      parameters_(counts_.size()),
      scratch_(std::move(scratch)),
      on_team_(std::move(on_team)) {
  std::int64_t bytes = 0;
  for (const std::int64_t count : counts_) bytes += bytes_of_copy(count);
  scratch_->reserve({bytes});
}

std::string RoundedKernel::algorithm(Pass pass) const {
  const Format& stored = is_rounded(traits().output) ? traits().output : traits().inputs[0];
  return inner_->algorithm(pass) + (is_rounded(stored) && !is_emulated(stored) ? ", bf16" : ", rounded");
}

void RoundedKernel::round_in_place(const Format& format, void* values) const {
  if (!is_emulated(format)) return;
  const std::span<float> all = elements(format, values);
  round_on_team(on_team_, half_, all, all);
}

Arguments RoundedKernel::with_rounded_parameters(Arguments call) {
  if (counts_.empty()) return call;
  std::byte* at = scratch_->data();
  for (std::size_t k = 0; k < counts_.size(); ++k) {
    parameters_[k] = call.parameters[k];
    if (counts_[k] == 0) continue;
    const auto count = static_cast<std::size_t>(counts_[k]);
    auto* copy = reinterpret_cast<float*>(at);
    round_on_team(on_team_, half_, {static_cast<const float*>(call.parameters[k]), count}, {copy, count});
    parameters_[k] = copy;
    at += bytes_of_copy(counts_[k]);
  }
  call.parameters = parameters_;
  return call;
}

void RoundedKernel::run_forward(Pass pass, const Arguments& call) {
  inner_->run(pass, with_rounded_parameters(call));
  round_in_place(traits().output, call.output);
}

void RoundedKernel::backward(const Arguments& call) {
  inner_->run(Pass::backward, with_rounded_parameters(call));
  for (std::size_t i = 0; i < call.input_gradients.size(); ++i) {
    if (call.input_gradients[i] != nullptr) round_in_place(traits().inputs[i], call.input_gradients[i]);
  }
}

RoundedReorder::RoundedReorder(KernelPtr inner, const Format& from, const Format& to, DType half, OnTeam on_team)
    : Kernel({.inputs = {from}, .output = to, .backward_reads_inputs = false, .backward_reads_output = false}),
      inner_(std::move(inner)),
      half_(half),
      rounds_(is_emulated(to) && !is_rounded(from)),
      on_team_(std::move(on_team)) {}

std::string RoundedReorder::algorithm(Pass pass) const {
  return (inner_ ? inner_->algorithm(pass) : "copy") + (rounds_ ? ", rounded" : "");
}

void RoundedReorder::forward(const Arguments& call) {
  if (inner_) {
    inner_->run(Pass::forward, call);
  } else {
    std::memcpy(call.output, call.inputs[0], static_cast<std::size_t>(traits().output.bytes.value));
  }
  if (!rounds_) return;
  const std::span<float> all = elements(traits().output, call.output);
  round_on_team(on_team_, half_, all, all);
}

void RoundedReorder::backward(const Arguments& /*call*/) {
  throw Error(ErrorCode::invalid_argument, "a reorder has no backward pass; make the one in the other direction");
}

}  // namespace lockstep::ops
