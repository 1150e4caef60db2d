// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/convert.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/libraries.hpp"
#include "support/verdict.hpp"

/// Tests the bits that batch norm promises to its scheduler.
namespace lockstep::ops {
namespace {

using FloatList = std::vector<float>;

FloatList drawn_floats(std::size_t count, float phase) {
  FloatList values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(1.7F * static_cast<float>(i % 9973) + phase) + 0.3F * phase;
  return values;
}

/// A bfloat16 element.
struct Brain {
  std::uint16_t bits = 0;
  friend bool operator==(const Brain&, const Brain&) = default;
};

float as_float(float x) { return x; }
float as_float(Brain x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }
void assign(float& to, float x) { to = x; }
void assign(Brain& to, float x) {
  float rounded = 0;
  kernels::round_to(DType::bfloat16, {&x, 1}, {&rounded, 1});
  to.bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) >> 16);
}

template <typename T>
std::vector<T> drawn(std::size_t count, float phase) {
  std::vector<T> values(count);
  const FloatList floats = drawn_floats(count, phase);
  for (std::size_t i = 0; i < count; ++i) assign(values[i], floats[i]);
  return values;
}

/// Scales values so that a ReLU6 clips at both ends.
FloatList wide(FloatList values) {
  for (float& value : values) value *= 7;
  return values;
}

/// Calls a batch norm of 3×32×7×5 values, in the format that a convolution gives, with elements of type T.
template <typename T = float>
class NormCall {
 public:
  using Elements = std::vector<T>;

  NormCall(Ops& ops, const BatchNorm& norm) {
    const Format image = Format::plain({3, 3, 7, 5}, DType::float32);
    const Format in = ops.make(Convolution{.out_channels = 32, .padding = 1}, std::array{image})->traits().output;
    kernel_ = ops.make(norm, norm.residual ? std::vector{in, in} : std::vector{in});
    const auto count = static_cast<std::size_t>(in.shape.count());
    for (Elements* tensor : {&x, &residual, &y, &dx, &d_residual})
      *tensor = drawn<T>(count, static_cast<float>(count % 7));
    residual = drawn<T>(count, 0.5F);
    saved_.resize(static_cast<std::size_t>(kernel_->traits().saved.value) / sizeof(double));
  }

  void run(Pass pass, Elements* dy = nullptr, const Elements* second = nullptr, bool in_place = false) {
    const bool two = kernel_->traits().inputs.size() == 2;
    const std::array<const void*, 2> inputs{x.data(), residual.data()};
    const std::array<const void*, 2> parameters{gamma_.data(), beta_.data()};
    const std::array<void*, 2> state{mean_.data(), variance_.data()};
    const std::array<void*, 2> gradients{in_place && !two ? dy->data() : dx.data(),
                                         in_place ? dy->data() : d_residual.data()};
    const std::array<void*, 2> of_parameters{d_gamma.data(), d_beta.data()};
    kernel_->run(pass, {.inputs = std::span(inputs).first(two ? 2 : 1),
                        .parameters = parameters,
                        .state = state,
                        .output = y.data(),
                        .saved = saved_.data(),
                        .output_gradient = dy == nullptr ? nullptr : dy->data(),
                        .second_output_gradient = second == nullptr ? nullptr : second->data(),
                        .input_gradients = std::span(gradients).first(two ? 2 : 1),
                        .parameter_gradients = of_parameters});
  }
  [[nodiscard]] const Traits& traits() const { return kernel_->traits(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  FloatList gamma_ = wide(drawn_floats(32, 1));
  FloatList beta_ = drawn_floats(32, 2);
  FloatList mean_ = FloatList(32);
  FloatList variance_ = FloatList(32, 1);
  std::vector<double> saved_;

 public:
  Elements x;
  Elements residual;
  Elements y;
  Elements dx;
  Elements d_residual;
  FloatList d_gamma = FloatList(32);
  FloatList d_beta = FloatList(32);
};

template <typename T>
void expect_same_again(Ops& ops) {
  for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
    NormCall<T> call(ops, {.activation = activation});
    ASSERT_EQ(size_of(call.traits().output.dtype), static_cast<std::int64_t>(sizeof(T)));
    ASSERT_TRUE(call.traits().recomputable);
    call.run(Pass::forward);
    const std::vector<T> before = call.y;
    assign(call.y[0], 7);
    std::fill(call.y.begin(), call.y.end(), call.y[0]);
    call.run(Pass::recompute);
    EXPECT_EQ(call.y, before) << ops.name();
  }
  NormCall<T> whole(ops, {.residual = true});
  EXPECT_FALSE(whole.traits().recomputable);
}

template <typename T>
void expect_sum_of_two_terms(Ops& ops) {
  for (const auto& [activation, residual] : {std::pair(Activation::relu, false), std::pair(Activation::relu, true),
                                             std::pair(Activation::relu6, false), std::pair(Activation::relu6, true)}) {
    const BatchNorm norm{.activation = activation, .residual = residual};
    NormCall<T> apart(ops, norm);
    NormCall<T> summed(ops, norm);
    ASSERT_TRUE(apart.traits().takes_two_gradients);
    ASSERT_EQ(apart.traits().in_place_gradient, residual ? 1 : 0);
    for (NormCall<T>* call : {&apart, &summed}) call->run(Pass::forward);
    std::vector<T> first = drawn<T>(apart.x.size(), 3);
    const std::vector<T> second = drawn<T>(apart.x.size(), 4);
    std::vector<T> sum = first;
    for (std::size_t i = 0; i < sum.size(); ++i) assign(sum[i], as_float(first[i]) + as_float(second[i]));
    apart.run(Pass::backward, &first, &second, true);
    summed.run(Pass::backward, &sum);
    EXPECT_EQ(residual ? apart.dx : first, summed.dx) << ops.name();
    if (residual) {
      EXPECT_EQ(first, summed.d_residual) << ops.name();
    }
    EXPECT_EQ(apart.d_gamma, summed.d_gamma) << ops.name();
    EXPECT_EQ(apart.d_beta, summed.d_beta) << ops.name();
  }
}

TEST(BatchNormBits, AreThoseOfForwardWhenItIsComputedAgain) {
  for (const auto& ops : test::libraries()) expect_same_again<float>(*ops);
}

TEST(BatchNormBits, OfGradientsInTwoTermsAndInPlaceAreThoseOfTheirSum) {
  for (const auto& ops : test::libraries()) expect_sum_of_two_terms<float>(*ops);
}

TEST(BatchNormBits, OfBFloat16AreSoToo) {
  const auto all = test::bfloat16_libraries();
  if (all.empty()) LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  for (const auto& ops : all) {
    expect_same_again<Brain>(*ops);
    expect_sum_of_two_terms<Brain>(*ops);
  }
}

/// A ReLU6, both ends of which are reached, gives the same bits fused and as an operator of its own.
TEST(BatchNormBits, WithAReLU6AreThoseOfAReLU6BehindIt) {
  for (const auto& ops : test::libraries()) {
    for (const bool residual : {false, true}) {
      NormCall<> fused(*ops, {.activation = Activation::relu6, .residual = residual});
      NormCall<> plain(*ops, {.residual = residual});
      for (NormCall<>* call : {&fused, &plain}) call->run(Pass::forward);
      FloatList dy = drawn_floats(fused.x.size(), 3);
      FloatList masked = dy;
      std::array<int, 3> ends{};
      for (std::size_t i = 0; i < dy.size(); ++i) {
        const float y = plain.y[i];
        ASSERT_EQ(fused.y[i], y < 0 ? 0 : y > 6 ? 6 : y);
        ++ends[y <= 0 ? 0 : y < 6 ? 1 : 2];
        if (y <= 0 || y >= 6) masked[i] = 0;
      }
      for (const int values : ends) EXPECT_GT(values, 100);
      fused.run(Pass::backward, &dy);
      plain.run(Pass::backward, &masked);
      EXPECT_EQ(fused.dx, plain.dx) << ops->name();
      EXPECT_EQ(fused.d_gamma, plain.d_gamma) << ops->name();
      EXPECT_EQ(fused.d_beta, plain.d_beta) << ops->name();
      if (residual) {
        EXPECT_EQ(fused.d_residual, plain.d_residual) << ops->name();
      }
    }
  }
}

/// A batch norm of some samples of a batch of 3×20×4×3 values, with plain operands.
class PartCall {
 public:
  PartCall(Ops& ops, const BatchNorm& norm, std::int64_t first, std::int64_t batch) : ops_(ops) {
    const Format in = Format::plain({batch, channels, 4, 3}, DType::float32);
    kernel_ = ops.make(norm, norm.residual ? std::vector{in, in} : std::vector{in});
    for (const float phase : {0.0F, 0.5F, 3.0F, 4.0F}) {
      const FloatList all = drawn_floats(3 * sample, phase);
      const FloatList own(all.begin() + first * sample, all.begin() + (first + batch) * sample);
      operands_.push_back(test::to_format(ops, own, format()));
    }
    for (FloatList* result : {&y_, &dx_, &d_residual_}) result->resize(operands_[0].size());
    saved_.resize(static_cast<std::size_t>(kernel_->traits().saved.value) / sizeof(float));
    part.resize(3 * channels);
  }

  void run(Pass pass, const std::vector<double>& parts = {}) {
    const std::size_t inputs = kernel_->traits().inputs.size();
    const std::array<const void*, 2> in{operands_[0].data(), operands_[1].data()};
    const std::array<const void*, 2> parameters{gamma_.data(), beta_.data()};
    const std::array<void*, 2> state{mean.data(), variance.data()};
    const std::array<void*, 2> gradients{dx_.data(), d_residual_.data()};
    const std::array<void*, 2> of_parameters{d_gamma.data(), d_beta.data()};
    const bool two = kernel_->traits().takes_two_gradients;
    kernel_->run(pass, {.inputs = std::span(in).first(inputs),
                        .parameters = parameters,
                        .state = state,
                        .output = y_.data(),
                        .saved = saved_.data(),
                        .part = part.data(),
                        .parts = parts,
                        .output_gradient = operands_[2].data(),
                        .second_output_gradient = two ? operands_[3].data() : nullptr,
                        .input_gradients = std::span(gradients).first(inputs),
                        .parameter_gradients = of_parameters});
  }
  [[nodiscard]] FloatList y() const { return test::from_format(ops_, y_, format()); }
  [[nodiscard]] FloatList dx() const { return test::from_format(ops_, dx_, format()); }
  [[nodiscard]] FloatList d_residual() const { return test::from_format(ops_, d_residual_, format()); }

 private:
  static constexpr std::int64_t channels = 20;
  static constexpr std::int64_t sample = channels * 4 * 3;
  [[nodiscard]] const Format& format() const { return kernel_->traits().output; }

  Ops& ops_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<FloatList> operands_;  ///< x, residual, and two summands of the gradient
  FloatList gamma_ = wide(drawn_floats(channels, 1));
  FloatList beta_ = drawn_floats(channels, 2);
  FloatList y_;
  FloatList dx_;
  FloatList d_residual_;
  FloatList saved_;

 public:
  FloatList mean = FloatList(channels, 0.25F);
  FloatList variance = FloatList(channels, 2);
  FloatList d_gamma = FloatList(channels);
  FloatList d_beta = FloatList(channels);
  std::vector<double> part;
};

void expect_close(const FloatList& actual, const FloatList& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-5) << what << " " << i;
}

/// Runs a pass on all ranks, after they have gathered the statistics of `measure`.
void run_on_all(std::vector<PartCall>& ranks, Pass measure, Pass pass) {
  std::vector<double> parts;
  for (PartCall& rank : ranks) {
    rank.run(measure);
    parts.insert(parts.end(), rank.part.begin(), rank.part.end());
  }
  for (PartCall& rank : ranks) rank.run(pass, parts);
}

/// The ranks have two samples, none and one.
TEST(SynchronizedBatchNorm, OfSeveralRanksIsThatOfTheWholeBatch) {
  for (const auto& ops : test::libraries()) {
    for (const Activation activation : {Activation::none, Activation::relu, Activation::relu6}) {
      for (const bool residual : {false, true}) {
        PartCall whole(*ops, {.activation = activation, .residual = residual}, 0, 3);
        whole.run(Pass::forward);
        const FloatList y = whole.y();  // a gradient may overwrite it
        whole.run(Pass::backward);
        const BatchNorm norm{.activation = activation, .synchronized = true, .residual = residual};
        std::vector<PartCall> ranks;
        for (const auto& [first, batch] : {std::pair(0, 2), std::pair(2, 0), std::pair(2, 1)})
          ranks.emplace_back(*ops, norm, first, batch);
        run_on_all(ranks, Pass::measure, Pass::forward);
        run_on_all(ranks, Pass::measure_backward, Pass::backward);
        FloatList together[3];
        FloatList d_gamma(20);
        FloatList d_beta(20);
        for (const PartCall& rank : ranks) {
          expect_close(rank.mean, whole.mean, "running mean");
          expect_close(rank.variance, whole.variance, "running variance");
          std::size_t which = 0;
          for (const FloatList& part : {rank.y(), rank.dx(), rank.d_residual()}) {
            together[which].insert(together[which].end(), part.begin(), part.end());
            ++which;
          }
          std::transform(d_gamma.begin(), d_gamma.end(), rank.d_gamma.begin(), d_gamma.begin(), std::plus<>());
          std::transform(d_beta.begin(), d_beta.end(), rank.d_beta.begin(), d_beta.begin(), std::plus<>());
        }
        expect_close(together[0], y, "y");
        expect_close(together[1], whole.dx(), "dx");
        if (residual) expect_close(together[2], whole.d_residual(), "d_residual");
        expect_close(d_gamma, whole.d_gamma, "d_gamma");
        expect_close(d_beta, whole.d_beta, "d_beta");
      }
    }
  }
}

TEST(BatchNormBits, AreTheOnlyOnesWithAReLU6OfTheirOwn) {
  const auto ops = make_reference_ops();
  const Format image = Format::plain({1, 3, 5, 5}, DType::float32);
  for (const Operator& op :
       {Operator{Convolution{.activation = Activation::relu6}}, Operator{Linear{.activation = Activation::relu6}}})
    EXPECT_THROW((void)ops->make(op, std::array{image}), Error);
  EXPECT_THROW((void)ops->make(Add{.activation = Activation::relu6}, std::array{image, image}), Error);
}

}  // namespace
}  // namespace lockstep::ops
