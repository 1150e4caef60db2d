// SPDX-License-Identifier: Apache-2.0
// Compares native bfloat16 kernels with emulated ones. On a processor without the instructions, oneDNN emulates them
// slowly, and these tests still run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/convert.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/rows.hpp"
#include "support/errors.hpp"
#include "support/verdict.hpp"

namespace lockstep::ops::test {
namespace {

constexpr DType brain_float = DType::bfloat16;

bool has_native() { return make_onednn_ops(1)->half_kernels(brain_float).exist; }

std::unique_ptr<Ops> native_ops() { return make_rounded_ops(make_onednn_ops(1), brain_float, HalfPrecision::native); }
std::unique_ptr<Ops> emulated_ops() { return make_rounded_ops(make_onednn_ops(1), brain_float); }

/// Returns whether the row must have a native kernel on every processor. Pools with overlapping windows have none,
/// because oneDNN would round each term of a sum.
bool has_to_be_native(const Row& row) {
  return std::visit(
      [](const auto& op) {
        using Kind = std::remove_cvref_t<decltype(op)>;
        if constexpr (std::is_same_v<Kind, MaxPool> || std::is_same_v<Kind, AveragePool>)
          return op.stride.height >= op.kernel.height && op.stride.width >= op.kernel.width;
        return std::is_same_v<Kind, Convolution> || std::is_same_v<Kind, Linear> ||
               std::is_same_v<Kind, GlobalAveragePool> || std::is_same_v<Kind, BatchNorm> ||
               std::is_same_v<Kind, FrozenBatchNorm> || std::is_same_v<Kind, Relu> || std::is_same_v<Kind, Pointwise> ||
               std::is_same_v<Kind, Add>;
      },
      row.op);
}

/// Returns the largest error relative to the largest element.
double relative_error(const Values& actual, const Values& expected) {
  double largest = 0;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(actual[i] - expected[i]));
  }
  return error / (largest < 1e-9 ? 1 : largest);
}

/// Compares the results. In activations, the order of sums can decide between two neighbors in the format; gradients of
/// parameters are float32.
void expect_near(const Trial& actual, const Trial& expected) {
  constexpr double unit = 0x1p-8;
  EXPECT_LE(relative_error(actual.output(), expected.output()), unit) << "output";
  const auto found = actual.results();
  const auto wanted = expected.results();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool is_value = wanted[i].name.starts_with("gradient of input");
    EXPECT_LE(relative_error(found[i].values, wanted[i].values), is_value ? unit : 1e-5) << wanted[i].name;
  }
}

void expect_stored_in_half(const Format& format) {
  EXPECT_EQ(format.dtype, brain_float);
  EXPECT_GE(format.bytes.value, 2 * format.shape.count());
  const std::int64_t padded =
      (format.shape.channels + 15) / 16 * 16 * format.shape.batch * format.shape.height * format.shape.width;
  EXPECT_LE(format.bytes.value, 2 * padded);
}

TEST(Native, OperatorsComputeWhatIsEmulatedElsewhere) {
  if (!has_native()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto native = native_ops();
  const auto emulated = emulated_ops();
  int others = 0;
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    Trial one(*native, DType::float32, row, true);
    Trial other(*emulated, DType::float32, row, true);
    if (one.traits().output.dtype == brain_float) {
      expect_stored_in_half(one.traits().output);
      expect_stored_in_half(one.traits().inputs[0]);
    } else {
      EXPECT_FALSE(has_to_be_native(row)) << "it is emulated";
      ++others;
    }
    for (Trial* trial : {&one, &other}) {
      trial->forward();
      trial->backward();
    }
    expect_near(one, other);
    one.forward(Pass::infer);
    other.forward(Pass::infer);
    EXPECT_LE(relative_error(one.output(), other.output()), 0x1p-8) << "of evaluation";
  }
  EXPECT_GT(others, 10) << "losses and arrangements have no kernels of their own, and go on from what others store";
}

/// Converts values to a format and back.
std::vector<float> there_and_back(Ops& ops, const std::vector<float>& values, const Format& plain,
                                  const Format& format) {
  const auto there = ops.reorder(plain, format);
  const auto back = ops.reorder(format, plain);
  const Tensor handed(format.bytes);
  std::vector<float> result(values.size());
  const void* from = values.data();
  there->run(Pass::forward, {.inputs = std::span(&from, 1), .output = handed.data()});
  from = handed.data();
  back->run(Pass::forward, {.inputs = std::span(&from, 1), .output = result.data()});
  return result;
}

/// Returns the formats that a convolution reads and writes.
std::vector<Format> formats_of(Ops& ops, const Format& plain) {
  const Format image = Format::plain({1, 3, plain.shape.height, plain.shape.width}, plain.dtype);
  const auto reads = ops.make(Convolution{.out_channels = 16, .padding = 1}, std::array{plain});
  const auto makes = ops.make(Convolution{.out_channels = plain.shape.channels, .padding = 1}, std::array{image});
  return {reads->traits().inputs[0], makes->traits().output};
}

TEST(Native, ReordersRoundToNearestAndTakeBackExactly) {
  if (!has_native()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto ops = native_ops();
  std::vector<float> values = {0,        -0.0F,          1 + 0x1p-8F, 1 + 3 * 0x1p-8F, -1 - 0x1p-8F,
                               0x1p-9F,  1 + 0x1.02p-8F, 3e38F,       3.4e38F,         -3.4e38F,
                               INFINITY, -INFINITY,      0x1.fep127F, 65504,           1e-30F};
  for (int i = 0; values.size() < 16 * 6; ++i) values.push_back(std::sin(static_cast<float>(i)) * 100);
  std::vector<float> rounded(values.size());
  kernels::round_to(brain_float, values, rounded);
  EXPECT_EQ(rounded[2], 1);
  EXPECT_EQ(rounded[3], 1 + 0x1p-6F);
  EXPECT_EQ(rounded[8], INFINITY);
  for (const std::int64_t channels : {16, 3}) {
    const Format plain = Format::plain({1, channels, 2, 48 / channels}, DType::float32);
    const std::vector<float> some(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(plain.shape.count()));
    for (const Format& format : formats_of(*ops, plain)) {
      ASSERT_EQ(format.dtype, brain_float);
      const std::vector<float> found = there_and_back(*ops, some, plain, format);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(rounded[i]))
            << some[i] << ' ' << format.layout;
    }
  }
}

/// A gradient may overwrite the output's gradient.
TEST(Native, GradientsInPlaceAreTheSame) {
  if (!has_native()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto ops = native_ops();
  const Format image = Format::plain({2, 3, 5, 4}, DType::float32);
  const Format in = ops->make(Convolution{.out_channels = 20, .padding = 1}, std::array{image})->traits().output;
  for (const Operator& op : {Operator(Relu{}), Operator(Add{}), Operator(Add{.activation = Activation::relu})}) {
    const std::vector<Format> inputs(std::holds_alternative<Relu>(op) ? 1 : 2, in);
    const auto kernel = ops->make(op, inputs);
    ASSERT_EQ(kernel->traits().in_place_gradient, 0);
    ASSERT_EQ(kernel->traits().output.dtype, brain_float);
    const auto count = static_cast<std::size_t>(in.bytes.value) / 2;
    std::vector<std::uint16_t> output(count);
    std::vector<std::uint16_t> dy(count);
    for (std::size_t i = 0; i < count; ++i) {
      output[i] = i % 3 == 0 ? 0 : 0x3f80;  // the bfloat16 1
      dy[i] = static_cast<std::uint16_t>(0x3f00 + i);
    }
    const std::vector<const void*> nothing(inputs.size());
    const auto backward = [&](void* gradient, void* first) {
      std::vector<void*> gradients(inputs.size());
      gradients[0] = first;
      kernel->run(
          Pass::backward,
          {.inputs = nothing, .output = output.data(), .output_gradient = gradient, .input_gradients = gradients});
    };
    std::vector<std::uint16_t> apart(count);
    std::vector<std::uint16_t> copy = dy;
    backward(copy.data(), apart.data());
    std::vector<std::uint16_t> same = dy;
    backward(same.data(), same.data());
    EXPECT_EQ(same, apart);
    EXPECT_EQ(apart[1], dy[1]);
    EXPECT_EQ(apart[3],
              std::holds_alternative<Add>(op) && std::get<Add>(op).activation == Activation::none ? dy[3] : 0);
  }
}

TEST(Native, NoSamplesGiveGradientsOfZero) {
  if (!has_native()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto ops = native_ops();
  const auto kernel =
      ops->make(Convolution{.out_channels = 4}, std::array{Format::plain({0, 3, 6, 6}, DType::float32)});
  EXPECT_EQ(kernel->traits().output.dtype, brain_float);
  const auto pool = ops->make(MaxPool{}, std::array{kernel->traits().output});
  EXPECT_EQ(pool->traits().output.dtype, brain_float);
  const std::vector<float> weight(4 * 3 * 9, 1);
  const std::vector<float> bias(4, 1);
  std::vector<float> weight_gradient(weight.size(), 7);
  std::vector<float> bias_gradient(4, 7);
  const void* input = nullptr;
  void* input_gradient = nullptr;
  const std::array<const void*, 2> parameters = {weight.data(), bias.data()};
  const std::array<void*, 2> gradients = {weight_gradient.data(), bias_gradient.data()};
  kernel->run(Pass::forward, {.inputs = std::span(&input, 1), .parameters = parameters});
  kernel->run(Pass::backward, {.inputs = std::span(&input, 1),
                               .parameters = parameters,
                               .input_gradients = std::span(&input_gradient, 1),
                               .parameter_gradients = gradients});
  EXPECT_EQ(weight_gradient, std::vector<float>(weight.size()));
  EXPECT_EQ(bias_gradient, std::vector<float>(4));
}

/// Kernel choices apply to float32 only.
TEST(Native, ChoicesOfAlgorithmsDecideNothing) {
  if (!has_native()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto ops = native_ops();
  const Format plain = Format::plain({8, 32, 16, 16}, DType::float32);
  const Convolution convolution{.out_channels = 32, .padding = 1};
  const Format in = ops->make(convolution, std::array{plain})->traits().output;
  EXPECT_TRUE(ops->candidates(convolution, std::array{in}).empty());
  KernelChoices choices;
  for (const Format& format : {plain, in})
    choices.set(key_of(convolution, std::array{format}), 8, {"onednn", "winograd", "winograd", "winograd"});
  try {
    ops->use(choices);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << "there are none of Winograd's on this processor";
  }
  const auto kernel = ops->make(convolution, std::array{in});
  EXPECT_EQ(kernel->traits().output.dtype, brain_float);
  for (const Pass pass : {Pass::forward, Pass::backward})
    EXPECT_EQ(kernel->algorithm(pass).find("wino"), std::string::npos) << kernel->algorithm(pass);
}

TEST(Native, SaysWhatItIs) {
  if (!has_native()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  const auto native = native_ops();
  EXPECT_EQ(native->name(), "onednn in bfloat16");
  EXPECT_NE(native->arithmetic(), emulated_ops()->arithmetic()) << "ranks of which some emulate are to be told apart";
  EXPECT_EQ(native->another()->arithmetic(), native->arithmetic());
  EXPECT_EQ(native->values(DType::float32), brain_float);
  const Format plain = Format::plain({2, 3, 6, 6}, DType::float32);
  const auto kernel = native->make(Convolution{.out_channels = 16}, std::array{plain});
  EXPECT_NE(kernel->algorithm(Pass::forward).find(", bf16"), std::string::npos) << kernel->algorithm(Pass::forward);
  const auto slice = native->make(Slice{.end = 8}, std::array{kernel->traits().output});
  EXPECT_NE(slice->algorithm(Pass::forward).find(", rounded"), std::string::npos) << "there is no kernel of it";
  EXPECT_EQ(slice->traits().output.dtype, DType::float32);
}

TEST(Native, IsRefusedWhereThereAreNoKernels) {
  EXPECT_FALSE(make_reference_ops()->half_kernels(brain_float).exist);
  EXPECT_FALSE(make_onednn_ops(1)->half_kernels(DType::float16).exist);
  EXPECT_EQ(code_of([&] { (void)make_rounded_ops(make_reference_ops(), brain_float, HalfPrecision::native); }),
            ErrorCode::unsupported);
  EXPECT_EQ(code_of([&] { (void)make_rounded_ops(make_onednn_ops(1), DType::float16, HalfPrecision::native); }),
            ErrorCode::unsupported);
  const Format plain = Format::plain({1, 2, 3, 3}, DType::float32);
  EXPECT_EQ(make_reference_ops()->make_half(Relu{}, std::array{plain}, brain_float), nullptr);
  EXPECT_EQ(make_onednn_ops(1)->make_half(Relu{}, std::array{plain}, DType::float16), nullptr);
}

}  // namespace
}  // namespace lockstep::ops::test
