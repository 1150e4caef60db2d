// SPDX-License-Identifier: Apache-2.0
#include "nn/graph/fill.hpp"

#include <algorithm>
#include <string>

#include "base/hash.hpp"
#include "base/split_mix.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

/// Returns a number uniform in [−1, 1), with 53 random bits.
double symmetric_uniform(std::uint64_t key, std::int64_t index) {
  const std::uint64_t bits = split_mix::mix(key + (static_cast<std::uint64_t>(index) + 1) * split_mix::golden_ratio);
  return static_cast<double>(bits >> 11) * 0x1p-52 - 1.0;
}

/// Calls `write(first element, count)` with a pointer of the tensor's type.
template <typename Write>
void write_elements(Buffer tensor, Write write) {
  switch (tensor.dtype) {
    case DType::float32: write(static_cast<float*>(tensor.data), tensor.count.value); return;
    case DType::float64: write(static_cast<double*>(tensor.data), tensor.count.value); return;
    default: break;
  }
  throw Error(ErrorCode::unsupported, "parameters cannot be " + std::string(name(tensor.dtype)));
}

}  // namespace

void fill_uniform(Buffer tensor, std::uint64_t seed, std::string_view name, double middle, double bound,
                  std::span<const double> added) {
  Fnv1a hash;
  hash.add(static_cast<std::int64_t>(seed));
  hash.add(name);
  const std::uint64_t key = split_mix::mix(hash.value());
  write_elements(tensor, [&]<typename Real>(Real* elements, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const double center = added.empty() ? middle : middle + added[static_cast<std::size_t>(i)];
      elements[i] = static_cast<Real>(center + bound * symmetric_uniform(key, i));
    }
  });
}

void fill(Buffer tensor, double value) {
  write_elements(tensor, [&]<typename Real>(Real* elements, std::int64_t count) {
    std::fill_n(elements, count, static_cast<Real>(value));
  });
}

void scale(Buffer tensor, double factor) {
  if (factor == 0) return fill(tensor, 0);
  write_elements(tensor, [&]<typename Real>(Real* elements, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) elements[i] = static_cast<Real>(elements[i] * factor);
  });
}

}  // namespace lockstep::nn
