// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/ddp/data_parallel.hpp"

/// Three parameters of integers, so that sums are exact. Buckets are so small that there are several.
namespace lockstep::ddp::testing_support {

inline constexpr int parameters = 3;
/// Most tests need no gradients of all parameters.
inline constexpr DataParallelOptions small_buckets{.bucket = {256}, .allow_unused = true};

inline Layout layout() {
  Layout layout;
  layout.add("conv.weight", {40});
  layout.add("conv.bias", {3});
  layout.add("fc.weight", {100});
  return layout;
}

inline float* floats(const Buffer& buffer) { return static_cast<float*>(buffer.data); }

/// Returns the contribution of rank r to element i of a parameter in a backward pass.
inline float contribution(int rank, int parameter, std::int64_t i, int backward = 0) {
  return static_cast<float>(1 + rank + 10 * parameter + 100 * backward + i % 7);
}

inline void write(const Buffer& gradient, int rank, int parameter, int backward = 0) {
  for (std::int64_t i = 0; i < gradient.count.value; ++i)
    floats(gradient)[i] = contribution(rank, parameter, i, backward);
}
inline void add(const Buffer& gradient, int rank, int parameter, int backward) {
  for (std::int64_t i = 0; i < gradient.count.value; ++i)
    floats(gradient)[i] += contribution(rank, parameter, i, backward);
}
inline void poison(const Buffer& buffer) {
  for (std::int64_t i = 0; i < buffer.count.value; ++i) floats(buffer)[i] = -1e30F;
}

/// Tensors that belong to the program.
struct OwnTensors {
  std::vector<std::vector<float>> values = {std::vector<float>(40), std::vector<float>(3), std::vector<float>(100)};
  std::vector<std::vector<float>> gradients = values;

  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto view = [](std::vector<float>& of) {
        return Buffer{of.data(), {static_cast<std::int64_t>(of.size())}, DType::float32};
      };
      all.push_back({"tensor " + std::to_string(i), view(values[i]), view(gradients[i])});
    }
    return all;
  }
};

}  // namespace lockstep::ddp::testing_support
