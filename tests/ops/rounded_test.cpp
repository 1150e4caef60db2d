// SPDX-License-Identifier: Apache-2.0
// Tests operators that emulate 16-bit formats, on the reference and on oneDNN.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/rows.hpp"
#include "support/errors.hpp"
#include "support/verdict.hpp"

namespace lockstep::ops::test {
namespace {

/// A 16-bit format. In the range of these tests, only its number of significant bits matters.
struct Half {
  DType dtype;
  int bits;
  [[nodiscard]] double unit() const { return std::ldexp(1.0, -bits); }
  /// Returns x rounded to the format by arithmetic alone; exact in double.
  [[nodiscard]] double nearest(double x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    const int least = dtype == DType::float16 ? -14 : -126;
    const double last = std::ldexp(1.0, std::max(std::ilogb(x), least) - bits + 1);
    return std::nearbyint(x / last) * last;
  }
};
constexpr std::array halves = {Half{DType::bfloat16, 8}, Half{DType::float16, 11}};

std::unique_ptr<Ops> rounded_reference(const Half& half) { return make_rounded_ops(make_reference_ops(), half.dtype); }
std::unique_ptr<Ops> rounded_onednn(const Half& half) { return make_rounded_ops(make_onednn_ops(1), half.dtype); }
/// Returns operators with native kernels for the format; null if there are none.
std::unique_ptr<Ops> native_onednn(const Half& half) {
  auto ops = make_onednn_ops(1);
  if (!ops->half_kernels(half.dtype).exist) return nullptr;
  return make_rounded_ops(std::move(ops), half.dtype, HalfPrecision::native);
}

bool is_representable(const Values& values, const Half& half) {
  return std::all_of(values.begin(), values.end(), [&](double x) { return half.nearest(x) == x; });
}

/// Rounds all inputs first, so that the only rounding is that of stored results.
void begin_rounded(Trial& trial, const Half& half) {
  for (Tensor* variable : trial.variables())
    for (std::int64_t i = 0; i < variable->count(); ++i) variable->set(i, half.nearest(variable->get(i)));
  trial.change_output_gradient([half](double x) { return half.nearest(x); });
}

void expect_within(const Values& actual, const Values& expected, double relative, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(std::isfinite(actual[i])) << what << " element " << i;
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(actual[i] - expected[i]));
  }
  EXPECT_LE(error, relative * (largest < 1e-9 ? 1 : largest)) << what;
}

bool is_of_value(const std::string& name) { return name.starts_with("gradient of input") || name == "output"; }

/// One row on rounded operators, compared with float64 on the same rounded numbers.
class RoundedRow {
 public:
  RoundedRow(Ops& ops, const Row& row, const Half& half)
      : half_(half),
        is_stored_in_half_(signature_of(row.op, row.inputs).has_backward),
        exact_(*exact_ops_, DType::float64, row),
        fast_(ops, DType::float32, row, true) {
    for (Trial* trial : {&exact_, &fast_}) {
      begin_rounded(*trial, half);
      trial->forward();
      trial->backward();
    }
  }

  void expect_close() const {
    const auto relative = [&](const std::string& name) {
      const bool reads_result = name.starts_with("gradient of weight_hh");  // the result was rounded
      return (is_stored_in_half_ && (is_of_value(name) || reads_result) ? half_.unit() : 0) + 5e-5;
    };
    const auto actual = fast_.results();
    const auto expected = exact_.results();
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_within(actual[i].values, expected[i].values, relative(expected[i].name), expected[i].name);
    expect_within(fast_.output(), exact_.output(), relative("output"), "output");
  }
  void expect_rounded() const {
    if (!is_stored_in_half_) {
      EXPECT_FALSE(is_representable(fast_.output(), half_)) << "coordinates need the bits of float32";
      return;
    }
    EXPECT_TRUE(is_representable(fast_.output(), half_)) << "output";
    for (const Trial::Named& result : fast_.results())
      EXPECT_TRUE(!is_of_value(result.name) || is_representable(result.values, half_)) << result.name;
  }
  /// Returns whether rounding changes any result or gradient.
  [[nodiscard]] bool would_be_other() const {
    bool other = !is_representable(exact_.output(), half_);
    for (const Trial::Named& result : exact_.results())
      other |= is_of_value(result.name) && !is_representable(result.values, half_);
    return other;
  }
  [[nodiscard]] bool has_long_parameter_gradients() const {
    const auto results = fast_.results();
    return std::any_of(results.begin(), results.end(), [&](const Trial::Named& result) {
      return result.name.starts_with("gradient of") && !is_of_value(result.name) &&
             !is_representable(result.values, half_);
    });
  }

 private:
  Half half_;
  bool is_stored_in_half_;
  std::unique_ptr<Ops> exact_ops_ = make_reference_ops();
  Trial exact_;
  Trial fast_;
};

class RoundedRows : public testing::TestWithParam<std::unique_ptr<Ops> (*)(const Half&)> {};

TEST_P(RoundedRows, AreNearFloat64AndStoreWhatTheFormatHas) {
  int formats = 0;
  for (const Half& half : halves) {
    int others = 0;
    int long_gradients = 0;
    const auto ops = GetParam()(half);
    if (ops == nullptr) continue;
    ++formats;
    for (const Row& row : rows()) {
      SCOPED_TRACE(row.name + " on " + std::string(ops->name()));
      const RoundedRow rounded(*ops, row, half);
      rounded.expect_close();
      rounded.expect_rounded();
      others += rounded.would_be_other() ? 1 : 0;
      long_gradients += rounded.has_long_parameter_gradients() ? 1 : 0;
    }
    EXPECT_GT(others, 40) << "rounding changes too little to be seen";
    EXPECT_GT(long_gradients, 10) << "gradients of parameters are not to be rounded";
  }
  if (formats == 0) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
}

constexpr std::array<const char*, 3> over_names = {"Reference", "OneDnn", "OneDnnItself"};

INSTANTIATE_TEST_SUITE_P(Over, RoundedRows, testing::Values(rounded_reference, rounded_onednn, native_onednn),
                         [](const auto& over) { return over_names[over.index]; });

/// Runs a linear layer on one sample, whose values are converted to the layer's format.
std::vector<float> linear(Ops& ops, const std::vector<float>& in, const std::vector<float>& weight,
                          const std::vector<float>& bias) {
  const auto features = static_cast<std::int64_t>(in.size());
  const auto outs = static_cast<std::int64_t>(bias.size());
  const Format plain = Format::plain({1, features, 1, 1}, DType::float32);
  const auto kernel = ops.make(Linear{.out_features = outs}, std::array{plain});
  const auto there = ops.reorder(plain, kernel->traits().inputs[0]);
  const Tensor handed(kernel->traits().inputs[0].bytes);
  const void* from = in.data();
  there->run(Pass::forward, {.inputs = std::span(&from, 1), .output = handed.data()});
  const void* input = handed.data();
  const std::array<const void*, 2> parameters = {weight.data(), bias.data()};
  std::vector<float> out(bias.size());
  kernel->run(Pass::forward, {.inputs = std::span(&input, 1), .parameters = parameters, .output = out.data()});
  return out;
}

TEST(Rounded, ProductsReadRoundedCopiesAndLeaveTheMastersAlone) {
  constexpr float more = 1 + 0x1p-9F;  // it rounds to 1 in bfloat16, by half of the last place, because 1 is even
  const std::vector<float> weight = {more, 0, 0, 1};
  const std::vector<float> bias = {0, more};
  for (const auto& make : {rounded_reference, rounded_onednn}) {
    const auto brain = make(halves[0]);
    EXPECT_EQ(linear(*brain, {more, -1}, weight, bias), (std::vector<float>{1, 0}));
    EXPECT_EQ(weight[0], more);
    EXPECT_EQ(bias[1], more);
    const auto half = make(halves[1]);
    EXPECT_EQ(linear(*half, {1, -1}, weight, bias), (std::vector<float>{more, 0x1p-9F})) << "float16 has that bit";
  }
}

TEST(Rounded, ProductsReadRoundedCopiesInBackwardToo) {
  const auto ops = rounded_reference(halves[0]);
  const Format plain = Format::plain({1, 2, 1, 1}, DType::float32);
  const Format in = ops->make(Linear{.out_features = 2}, std::array{plain})->traits().output;
  const auto kernel = ops->make(Linear{.out_features = 2}, std::array{in});
  const std::array<float, 2> x = {1, 1};
  const std::array<float, 4> weight = {1 + 0x1p-9F, 3, -1, -3};  // the first rounds to 1 in bfloat16
  const std::array<float, 2> bias{};
  std::array<float, 2> dy = {1, 1};
  std::array<float, 2> dx = {7, 7};
  std::array<float, 4> dw{};
  std::array<float, 2> db{};
  const void* input = x.data();
  void* input_gradient = dx.data();
  const std::array<const void*, 2> parameters = {weight.data(), bias.data()};
  const std::array<void*, 2> gradients = {dw.data(), db.data()};
  kernel->run(Pass::backward, {.inputs = std::span(&input, 1),
                               .parameters = parameters,
                               .output_gradient = dy.data(),
                               .input_gradients = std::span(&input_gradient, 1),
                               .parameter_gradients = gradients});
  EXPECT_EQ(dx, (std::array{0.0F, 0.0F})) << "1 − 1, and not 2⁻⁹";
}

/// The last thread's share is no whole number of vectors.
TEST(Rounded, ThreadsShareManyValues) {
  constexpr std::int64_t count = (1 << 17) + 5;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 + static_cast<float>(i % 1000) * 0x1p-12F;
  const Half& brain = halves[0];
  for (const int threads : {1, 3}) {
    const auto ops = make_rounded_ops(make_onednn_ops(threads), brain.dtype);
    const Format plain = Format::plain({1, count, 1, 1}, DType::float32);
    const Format rounded = ops->make(Linear{.out_features = 1}, std::array{plain})->traits().inputs[0];
    std::vector<float> found(static_cast<std::size_t>(rounded.bytes.value) / sizeof(float), 7);
    const void* from = values.data();
    ops->reorder(plain, rounded)->run(Pass::forward, {.inputs = std::span(&from, 1), .output = found.data()});
    ASSERT_EQ(found.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(found[i], brain.nearest(values[i])) << threads << ' ' << i;
  }
  (void)make_onednn_ops(1);  // the number of threads is the calling thread's
}

TEST(Rounded, WhatIsTooLargeIsInfinite) {
  const auto half = rounded_reference(halves[1]);
  const std::vector<float> one = {1};
  EXPECT_EQ(linear(*half, {40000}, {1.5F}, {5000}), (std::vector<float>{64992}));
  EXPECT_EQ(linear(*half, {40000}, {2}, {0})[0], INFINITY);
  EXPECT_EQ(linear(*half, {-0x1p-14F}, {0x1p-9F}, {0})[0], -0x1p-23F) << "subnormal numbers stay";
  EXPECT_TRUE(std::isnan(linear(*half, {NAN}, {1}, {0})[0]));
  EXPECT_EQ(linear(*rounded_reference(halves[0]), {40000}, {2}, {0})[0], 79872) << "40000 and 80000, rounded";
}

/// Such sums are those of shards and micro-batches, and of parameters that several operators share.
TEST(Rounded, GradientsOfParametersAreAddedInFloat32) {
  const auto ops = rounded_onednn(halves[0]);
  const Format plain = Format::plain({1, 2, 1, 1}, DType::float32);
  const auto add = ops->make(Add{}, std::array{plain, plain});
  const std::array<float, 2> a = {1, 2};
  const std::array<float, 2> b = {0x1p-12F, 0x1p-12F};
  const std::array<const void*, 2> inputs = {a.data(), b.data()};
  std::array<float, 2> sum{};
  add->run(Pass::forward, {.inputs = inputs, .output = sum.data()});
  EXPECT_EQ(sum, (std::array{1 + 0x1p-12F, 2 + 0x1p-12F}));
}

/// Gradients below the format's range become zero, and those above it infinite.
TEST(Rounded, LossesGradientsEndWhereTheFormatDoes) {
  const auto ops = rounded_reference(halves[1]);
  const Format plain = Format::plain({1, 2, 1, 1}, DType::float32);
  const Format in = ops->make(Linear{.out_features = 2}, std::array{plain})->traits().output;
  const auto loss = ops->make(SmoothL1{}, std::array{in, plain});
  const std::array<float, 2> predicted = {0.5F, -3};
  const std::array<float, 2> target = {0, 0};
  const std::array<const void*, 2> inputs = {predicted.data(), target.data()};
  LossSums loss_sums;
  std::array<float, 2> gradient{};
  const std::array<void*, 2> gradients = {gradient.data(), nullptr};
  loss->run(Pass::forward, {.inputs = inputs, .output = &loss_sums});
  EXPECT_DOUBLE_EQ(loss_sums.loss, 0.125 + 2.5);
  const auto scaled = [&](double factor) {
    loss->run(Pass::backward,
              {.inputs = inputs, .output = &loss_sums, .output_gradient = &factor, .input_gradients = gradients});
    return gradient;
  };
  EXPECT_EQ(scaled(1), (std::array{0.5F, -1.0F}));
  EXPECT_EQ(scaled(1e-8), (std::array{0.0F, -0.0F}));
  EXPECT_EQ(scaled(70000), (std::array{35008.0F, -INFINITY}));
}

TEST(Rounded, SaysWhatItIs) {
  const auto ops = rounded_onednn(halves[0]);
  const auto plain = make_onednn_ops(1);
  EXPECT_EQ(ops->name(), "onednn rounded to bfloat16");
  EXPECT_NE(ops->arithmetic(), plain->arithmetic());
  EXPECT_NE(ops->arithmetic(), rounded_onednn(halves[1])->arithmetic());
  EXPECT_EQ(ops->another()->arithmetic(), ops->arithmetic());
  EXPECT_EQ(ops->values(DType::float32), DType::bfloat16);
  EXPECT_EQ(plain->values(DType::float32), DType::float32);
  EXPECT_TRUE(ops->supports(DType::float32));
  EXPECT_FALSE(rounded_reference(halves[0])->supports(DType::float64)) << "of which nothing is stored";
}

TEST(Rounded, RefusesOtherFormats) {
  for (const DType dtype : {DType::float32, DType::float64, DType::int32})
    EXPECT_EQ(code_of([&] { (void)make_rounded_ops(make_reference_ops(), dtype); }), ErrorCode::invalid_argument);
}

/// A custom operator that knows nothing about formats and triples its input.
class Triple final : public CustomOperator {
 public:
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const override { return {.output = inputs[0]}; }
  [[nodiscard]] std::string text() const override { return "triple"; }
  [[nodiscard]] std::unique_ptr<Kernel> make(std::span<const Format> inputs) const override {
    class Loop final : public Kernel {
     public:
      explicit Loop(const Format& in) : Kernel({.inputs = {in}, .output = in, .backward_reads_output = false}) {}
      void forward(const Arguments& call) override { triple(call.inputs[0], call.output); }
      void backward(const Arguments& call) override { triple(call.output_gradient, call.input_gradients[0]); }

     private:
      void triple(const void* from, void* to) const {
        for (std::int64_t i = 0; i < traits().output.shape.count(); ++i)
          static_cast<float*>(to)[i] = 3 * static_cast<const float*>(from)[i];
      }
    };
    return std::make_unique<Loop>(inputs[0]);
  }
};

TEST(Rounded, OperatorsOfOthersAreToo) {
  const auto ops = rounded_onednn(halves[0]);
  const Format plain = Format::plain({1, 2, 1, 1}, DType::float32);
  const Format in = ops->make(Linear{.out_features = 2}, std::array{plain})->traits().output;
  const auto kernel = ops->make(Custom{std::make_shared<Triple>()}, std::array{in});
  const std::array<float, 2> x = {1 + 0x1p-7F, 1};  // 3·x = 3 + 3·2⁻⁷ lies between two bfloat16 numbers
  std::array<float, 2> y{};
  std::array<float, 2> dy = x;
  std::array<float, 2> dx{};
  const void* input = x.data();
  void* gradient = dx.data();
  kernel->run(Pass::forward, {.inputs = std::span(&input, 1), .output = y.data()});
  kernel->run(
      Pass::backward,
      {.inputs = std::span(&input, 1), .output_gradient = dy.data(), .input_gradients = std::span(&gradient, 1)});
  EXPECT_EQ(y, (std::array{3 + 0x1p-5F, 3.0F})) << "3 + 2⁻⁶ or 3 + 2⁻⁵ are in bfloat16; the latter is even";
  EXPECT_EQ(dx, y);
}

}  // namespace
}  // namespace lockstep::ops::test
