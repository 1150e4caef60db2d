// SPDX-License-Identifier: Apache-2.0
// Tests what oneDNN's operators do in layouts other than NCHW, beside the reference's kernels in NCHW.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/libraries.hpp"
#include "ops/onednn/primitives/format.hpp"

namespace lockstep::ops::test {
namespace {

using onednn::Tag;

Format in_layout(const Shape& shape, Tag tag) {
  return onednn::to_format(onednn::describe(onednn::dims_of(shape), tag), shape);
}

std::vector<float> numbers(std::int64_t count, float phase) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(phase + static_cast<float>(i));
  return values;
}

std::vector<float> zeros_of(const Format& format) {
  return std::vector<float>(static_cast<std::size_t>(format.bytes.value) / sizeof(float));
}

/// What a concatenation of 32 and 48 channels computes, in NCHW.
struct Concatenated {
  std::vector<float> result;
  std::vector<float> first_gradient;
  std::vector<float> second_gradient;
  std::array<std::string_view, 3> layouts;  ///< of both inputs and the result

  [[nodiscard]] bool has_values_of(const Concatenated& other) const {
    return result == other.result && first_gradient == other.first_gradient && second_gradient == other.second_gradient;
  }
};

Concatenated concatenate(Ops& ops, Ops& formats, const std::array<Format, 2>& wished) {
  const auto kernel = ops.make(Concat{}, wished);
  const Format& first = kernel->traits().inputs[0];
  const Format& second = kernel->traits().inputs[1];
  const Format& out = kernel->traits().output;
  const std::vector<float> a = to_format(formats, numbers(first.shape.count(), 1), first);
  const std::vector<float> b = to_format(formats, numbers(second.shape.count(), 2), second);
  const std::array<const void*, 2> inputs{a.data(), b.data()};
  std::vector<float> result = zeros_of(out);
  kernel->run(Pass::forward, {.inputs = inputs, .output = result.data()});
  std::vector<float> dy = to_format(formats, numbers(out.shape.count(), 3), out);
  std::vector<float> da = zeros_of(first);
  std::vector<float> db = zeros_of(second);
  const std::array<void*, 2> gradients{da.data(), db.data()};
  kernel->run(Pass::backward, {.inputs = inputs, .output_gradient = dy.data(), .input_gradients = gradients});
  return {from_format(formats, result, out),
          from_format(formats, da, first),
          from_format(formats, db, second),
          {first.layout, second.layout, out.layout}};
}

TEST(Layouts, ChannelsAreConcatenatedWithoutReorders) {
  const auto ops = make_onednn_ops(1);
  const Shape small{3, 32, 4, 5};
  const Shape large{3, 48, 4, 5};
  const std::array plain{Format::plain(small, DType::float32), Format::plain(large, DType::float32)};
  const Concatenated expected = concatenate(*make_reference_ops(), *ops, plain);
  for (const Tag tag : {Tag::nchw, Tag::nhwc, Tag::nChw8c, Tag::nChw16c}) {
    const std::array given{in_layout(small, tag), in_layout(large, tag)};
    const Concatenated found = concatenate(*ops, *ops, given);
    for (const std::string_view layout : found.layouts) EXPECT_EQ(layout, given[0].layout);
    EXPECT_TRUE(found.has_values_of(expected)) << given[0].layout;
    const auto kernel = ops->make(Concat{}, given);
    for (std::size_t i = 0; i < given.size(); ++i)
      EXPECT_EQ(kernel->traits().inputs[i].native, given[i].native) << "it would be reordered";
    // Only what lies differently is reordered.
    const Concatenated mixed = concatenate(*ops, *ops, {plain[0], given[1]});
    for (const std::string_view layout : mixed.layouts) EXPECT_EQ(layout, given[1].layout);
    EXPECT_TRUE(mixed.has_values_of(expected)) << given[0].layout;
  }
}

/// Blocks of 16 would need padding in the middle of the result.
TEST(Layouts, ChannelsThatDoNotFillBlocksAreConcatenatedInNchw) {
  const auto ops = make_onednn_ops(1);
  for (const std::int64_t channels : {8, 24}) {
    const Shape small{2, 16, 3, 3};
    const Shape other{2, channels, 3, 3};
    const std::array plain{Format::plain(small, DType::float32), Format::plain(other, DType::float32)};
    const Concatenated expected = concatenate(*make_reference_ops(), *ops, plain);
    const Concatenated found = concatenate(*ops, *ops, {in_layout(small, Tag::nChw16c), plain[1]});
    for (const std::string_view layout : found.layouts) EXPECT_EQ(layout, plain[0].layout);
    EXPECT_TRUE(found.has_values_of(expected)) << channels;
  }
}

/// Where blocks of channels are full, the bias and the ReLU are a primitive of their own.
TEST(Layouts, TransposedConvolutionsAddTheirBiasBeforeTheRelu) {
  const auto ops = make_onednn_ops(1);
  const auto reference = make_reference_ops();
  const Format in = Format::plain({2, 16, 3, 5}, DType::float32);
  for (const std::int64_t channels : {16, 32, 12, 3}) {
    for (const Activation activation : {Activation::none, Activation::relu}) {
      const TransposedConvolution up{.out_channels = channels, .kernel = 2, .stride = 2, .activation = activation};
      const std::vector<float> x = numbers(in.shape.count(), 1);
      const std::vector<float> weights = numbers(16 * channels * 4, 2);
      const std::vector<float> bias = numbers(channels, 3);
      const std::array<const void*, 2> parameters{weights.data(), bias.data()};
      const auto result_of = [&](Ops& library) {
        const auto kernel = library.make(up, std::span(&in, 1));
        const std::vector<float> input = to_format(*ops, x, kernel->traits().inputs[0]);
        const void* const from = input.data();
        std::vector<float> result = zeros_of(kernel->traits().output);
        kernel->run(Pass::forward, {.inputs = {&from, 1}, .parameters = parameters, .output = result.data()});
        return from_format(*ops, result, kernel->traits().output);
      };
      const std::vector<float> expected = result_of(*reference);
      const std::vector<float> found = result_of(*ops);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-5) << channels << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace lockstep::ops::test
