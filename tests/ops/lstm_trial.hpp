// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/ops/ops.hpp"

namespace lockstep::ops::test {

/// An LSTM whose parameters are all 0.5 reads two sequences of up to two steps; everything beyond their lengths is NaN.
inline void expect_nothing_read_beyond_lengths(Ops& ops) {
  const auto kernel = ops.make(
      Lstm{}, std::vector{Format::plain({2, 1, 1, 2}, DType::float32), Format::plain({2, 1, 1, 1}, DType::int32)});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> in{1, nan, nan, nan};
  std::vector<std::int32_t> lengths{1, 0};
  const std::vector<float> values(4, 0.5F);
  const std::vector<const void*> inputs{in.data(), lengths.data()};
  const std::vector<const void*> parameters(4, values.data());
  std::vector<float> out(4, 77);
  std::vector<float> saved(static_cast<std::size_t>(kernel->traits().saved.value) / sizeof(float));
  kernel->run(Pass::forward, {.inputs = inputs, .parameters = parameters, .output = out.data(), .saved = saved.data()});
  const double gate = 1 / (1 + std::exp(-1.5));
  EXPECT_NEAR(out[0], gate * std::tanh(gate * std::tanh(1.5)), 1e-6);
  EXPECT_EQ((std::vector<float>{out[1], out[2], out[3]}), (std::vector<float>{0, 0, 0}));

  std::vector<float> out_gradient(4, 1);
  std::vector<float> in_gradient(4, 77);
  std::vector<std::vector<float>> gradients(4, std::vector<float>(4, 77));
  const std::vector<void*> input_gradients{in_gradient.data(), nullptr};
  const std::vector<void*> pointers{gradients[0].data(), gradients[1].data(), gradients[2].data(), gradients[3].data()};
  kernel->run(Pass::backward, {.inputs = inputs,
                               .parameters = parameters,
                               .output = out.data(),
                               .saved = saved.data(),
                               .output_gradient = out_gradient.data(),
                               .input_gradients = input_gradients,
                               .parameter_gradients = pointers});
  EXPECT_GT(in_gradient[0], 0);
  EXPECT_EQ((std::vector<float>{in_gradient[1], in_gradient[2], in_gradient[3]}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(gradients[0], gradients[2]);                      // the only value that is read is 1
  EXPECT_EQ(gradients[1], (std::vector<float>{0, 0, 0, 0}));  // no step has a predecessor
  for (const std::int32_t wrong : {-1, 3}) {
    lengths[1] = wrong;
    Fault fault;
    kernel->run(Pass::infer, {.inputs = inputs, .parameters = parameters, .output = out.data(), .fault = &fault});
    EXPECT_EQ(text_of(fault, "sample " + std::to_string(fault.sample)),
              "sample 1 has " + std::to_string(wrong) + " steps; it must be between 0 and 2");
  }
}

}  // namespace lockstep::ops::test
