// SPDX-License-Identifier: Apache-2.0
// What the rows do not show of norms, losses and embeddings on a GPU. Sums over many blocks are compared with the
// reference in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/ops/cuda.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/libraries.hpp"
#include "ops/rows.hpp"
#include "support/verdict.hpp"

namespace lockstep::ops::test {
namespace {

double error_of_values(const Values& actual, const Values& expected) {
  double error = 0;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error = std::max(error, std::abs(actual[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return error / largest;
}

/// Runs a row on a GPU and on the reference, with the first input moved away from zero.
/// @return the largest error of each result, relative to its largest element
std::vector<std::pair<std::string, double>> errors_of(const Row& row, double moved) {
  const auto cuda = std::move(libraries().front());
  const auto reference = make_reference_ops();
  Trial actual(*cuda, DType::float32, row);
  Trial exact(*reference, DType::float64, row);
  Tensor& input = *actual.variables()[0];
  for (std::int64_t i = 0; i < input.count(); ++i) {
    input.set(i, input.get(i) + moved);
    exact.variables()[0]->set(i, input.get(i));
  }
  for (Trial* trial : {&actual, &exact}) {
    trial->change_output_gradient([](double x) { return static_cast<double>(static_cast<float>(x)); });
    trial->forward();
    trial->backward();
  }
  std::vector<std::pair<std::string, double>> errors;
  const auto results = actual.results();
  const auto expected = exact.results();
  for (std::size_t i = 0; i < expected.size(); ++i)
    errors.emplace_back(expected[i].name, error_of_values(results[i].values, expected[i].values));
  if (!exact.output().empty()) errors.emplace_back("output", error_of_values(actual.output(), exact.output()));
  return errors;
}

/// A channel has 163,840 values, in more parts than a block has threads to merge them, and far from 0, where float32
/// sums are less exact than this.
TEST(BatchNormOnGpus, IsExactWithManyValuesFarFromZero) {
  for (const auto& [name, error] : errors_of({"batch-norm", BatchNorm{}, {{40, 4, 64, 64}}}, 4))
    EXPECT_LE(error, name == "gradient of bias" ? 5e-5 : 5e-7) << name;  // the output gradients cancel
}

/// A batch norm that takes its statistics from the epilogue of a convolution, which only copies its input.
class NormBehindConvolution {
 public:
  NormBehindConvolution(const std::vector<float>& x, double running_mean) : x_(x) {
    const Convolution copy{.out_channels = channels, .kernel = 1, .bias = false, .statistics = true};
    const std::array in{Format::plain(shape, DType::float32)};
    KernelChoices choices;
    choices.set(key_of(copy, in), shape.batch, with_statistics);
    ops_->use(choices);
    const auto convolution = ops_->make(copy, in);
    EXPECT_EQ(convolution->algorithm(Pass::forward), with_statistics.forward);
    const auto norm = ops_->make(BatchNorm{}, std::array{convolution->traits().output});
    std::vector<float> unit(channels * channels);
    for (std::size_t c = 0; c < channels; ++c) unit[c * (channels + 1)] = 1;
    mean.assign(channels, static_cast<float>(running_mean));
    std::vector<double> statistics(static_cast<std::size_t>(convolution->traits().statistics));
    const std::vector<float> nhwc = to_format(*ops_, x, convolution->traits().inputs[0]);
    std::vector<float> copied(x.size());
    const std::array<const void*, 1> inputs{nhwc.data()};
    const std::array<const void*, 1> weights{unit.data()};
    const std::array<void*, 1> shift{mean.data()};
    convolution->run(
        Pass::forward,
        {.inputs = inputs, .parameters = weights, .state = shift, .output = copied.data(), .part = statistics.data()});
    std::vector<float> normalized(x.size());
    const std::vector<float> gamma(channels, 1);
    const std::vector<float> beta(channels, 0);
    std::vector<float> saved(static_cast<std::size_t>(norm->traits().saved.value) / sizeof(float));
    const std::array<const void*, 1> values{copied.data()};
    const std::array<const void*, 2> parameters{gamma.data(), beta.data()};
    const std::array<void*, 2> state{mean.data(), variance.data()};
    norm->run(Pass::forward, {.inputs = values,
                              .parameters = parameters,
                              .state = state,
                              .output = normalized.data(),
                              .saved = saved.data(),
                              .parts = statistics});
    y = from_format(*ops_, normalized, norm->traits().output);
  }

  /// The largest errors of y, relative to 1, and of the running variance, relative to its values.
  [[nodiscard]] std::pair<double, double> errors() const {
    const std::int64_t positions = shape.height * shape.width;
    std::pair<double, double> errors;
    for (std::int64_t c = 0; c < static_cast<std::int64_t>(channels); ++c) {
      const auto for_each = [&](const auto& f) {
        for (std::int64_t n = 0; n < shape.batch; ++n)
          for (std::int64_t p = 0; p < positions; ++p)
            f(static_cast<std::size_t>((n * static_cast<std::int64_t>(channels) + c) * positions + p));
      };
      const auto count = static_cast<double>(shape.batch * positions);
      double exact_mean = 0;
      double exact_variance = 0;
      for_each([&](std::size_t i) { exact_mean += static_cast<double>(x_[i]) / count; });
      for_each([&](std::size_t i) { exact_variance += std::pow(static_cast<double>(x_[i]) - exact_mean, 2) / count; });
      for_each([&](std::size_t i) {
        const double exact =
            (static_cast<double>(x_[i]) - exact_mean) / std::sqrt(exact_variance + BatchNorm{}.epsilon);
        errors.first = std::max(errors.first, std::abs(static_cast<double>(y[i]) - exact));
      });
      const double running = 0.9 + 0.1 * exact_variance * count / (count - 1);
      errors.second = std::max(
          errors.second, std::abs(static_cast<double>(variance[static_cast<std::size_t>(c)]) - running) / running);
    }
    return errors;
  }

  /// Tensor cores would round float32, so that cuDNN has no such convolutions.
  static inline const KernelAlgorithms with_statistics{"cuda", "loops-with-statistics", "loops", "loops"};
  [[nodiscard]] static bool exists() {
    const auto candidates = libraries().front()->candidates(
        Convolution{.out_channels = channels, .kernel = 1, .bias = false, .statistics = true},
        std::array{Format::plain(shape, DType::float32)});
    return std::any_of(candidates.begin(), candidates.end(),
                       [](const auto& each) { return each.forward == with_statistics.forward; });
  }

  static constexpr Shape shape{40, 4, 64, 64};
  static constexpr std::size_t channels = 4;
  std::vector<float> mean;  ///< running
  std::vector<float> variance = std::vector<float>(channels, 1);
  std::vector<float> y;

 private:
  std::vector<float> x_;
  std::unique_ptr<Ops> ops_ = std::move(libraries().front());
};

std::vector<float> values_far_from_zero() {
  std::vector<float> x(static_cast<std::size_t>(NormBehindConvolution::shape.count()));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(100 + std::sin(1.7 * static_cast<double>(i)) + std::sin(0.31 * static_cast<double>(i)));
  return x;
}

/// At a distance of 100 deviations from the shift, float32 sums of squares would have 3 digits.
TEST(BatchNormOnGpus, IsExactFarFromZeroWithSumsOfAConvolution) {
  if (!NormBehindConvolution::exists()) LOCKSTEP_SKIP(cudnn) << "this library has none in float32";
  const std::vector<float> x = values_far_from_zero();
  for (const double running_mean : {0.0, 97.0, 100.0}) {
    const auto [of_y, of_variance] = NormBehindConvolution(x, running_mean).errors();
    EXPECT_LE(of_y, 2e-5) << running_mean;  // x itself has an error of 4e-6
    EXPECT_LE(of_variance, 1e-6) << running_mean;
  }
}

TEST(BatchNormOnGpus, DoesNotHideNanInSumsOfAConvolution) {
  if (!NormBehindConvolution::exists()) LOCKSTEP_SKIP(cudnn) << "this library has none in float32";
  std::vector<float> x = values_far_from_zero();
  x.back() = std::numeric_limits<float>::quiet_NaN();
  const NormBehindConvolution run(x, 100);
  EXPECT_TRUE(std::isnan(run.y.front()));
  EXPECT_TRUE(std::isnan(run.variance.back()));
}

TEST(SumsOnGpus, OverManyPartsAreNearTheReference) {
  const std::vector<Row> rows{
      {"group-norm", GroupNorm{.groups = 2}, {{2, 6, 40, 40}}},
      {"layer-norm", LayerNorm{}, {{2, 5, 1, 2100}}},
      {"layer-norm-sample", LayerNorm{.axes = LayerNorm::Axes::sample}, {{520, 3, 2, 2}}},
      {"cross-entropy", CrossEntropy{}, {{1100, 40, 1, 1}, {1100, 1, 1, 1}}, {}, 40},
      {"binary-cross-entropy", BinaryCrossEntropy{}, {{8, 3, 20, 20}, {8, 3, 20, 20}}, {Domain::any, Domain::unit}},
      {"ohem", OhemCrossEntropy{.threshold = 0.1}, {{3, 9, 40, 40}, {3, 1, 40, 40}}, {}, 9},
      {"dice-by-label", Dice{.by_label = true}, {{2, 3, 40, 40}, {2, 1, 40, 40}}, {}, 3},
      {"dice", Dice{}, {{2, 2, 40, 40}, {2, 2, 40, 40}}, {Domain::any, Domain::unit}},
      {"embedding", Embedding{.entries = 9, .features = 5}, {{30, 1, 1, 30}}, {}, 9},
      {"multiply", Multiply{}, {{2, 5, 40, 40}, {2, 5, 1, 1}}},
  };
  for (const Row& row : rows)
    for (const auto& [name, error] : errors_of(row, 0)) EXPECT_LE(error, 2e-5) << row.name << ": " << name;
}

TEST(EmbeddingOnGpus, ReportsTheFirstTokenThatIsNoEntry) {
  const auto ops = std::move(libraries().front());
  const auto kernel =
      ops->make(Embedding{.entries = 3, .features = 2}, std::vector{Format::plain({2, 1, 1, 3}, DType::int32)});
  const std::vector<std::int32_t> tokens{2, 1, 0, 1, 9, -1};
  const std::vector<float> table{1, 2, 3, 4, 5, 6};
  const std::array<const void*, 1> inputs{tokens.data()};
  const std::array<const void*, 1> parameters{table.data()};
  std::vector<float> out(12);
  Fault fault;
  kernel->run(Pass::forward,
              {.inputs = inputs, .parameters = parameters, .output = out.data(), .fault = &fault, .node = 4});
  EXPECT_EQ(fault.node, 4);
  EXPECT_EQ(text_of(fault, "sample " + std::to_string(fault.sample)),
            "a token of sample 1 is 9; there are 3 entries, numbered from 0");
  EXPECT_EQ(from_format(*ops, out, kernel->traits().output), (std::vector<float>{5, 3, 1, 6, 4, 2, 3, 1, 1, 4, 2, 2}));
}

/// A norm of bfloat16 values with 5 channels, which have 8 in memory. Returns y, dx and the gradients of the
/// parameters.
std::vector<std::vector<float>> results_with_padding(const Operator& op, std::uint16_t padding) {
  const auto ops = std::move(bfloat16_libraries().front());
  const Shape shape{2, 5, 3, 3};
  const Format plain = Format::plain(shape, DType::float32);
  const auto kernel = ops->make(op, std::array{plain});
  const Format& format = kernel->traits().output;
  const auto padded = [&](double phase) {
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i) + phase));
    std::vector<float> there = to_format(*ops, values, format);
    auto* elements = reinterpret_cast<std::uint16_t*>(there.data());
    for (std::int64_t i = 0; i < 2 * 3 * 3 * 8; ++i)
      if (i % 8 >= 5) elements[i] = padding;
    return there;
  };
  const std::vector<float> x = padded(0);
  std::vector<float> dy = padded(1);
  std::vector<float> y(x.size());
  std::vector<float> dx(x.size());
  std::vector<float> saved(static_cast<std::size_t>(kernel->traits().saved.value) / sizeof(float));
  const std::vector<float> weights(45, 0.75F);  // at most one for each element of a sample
  std::vector<std::vector<float>> state(2, std::vector<float>(5, 1));
  std::vector<std::vector<float>> gradients(2, std::vector<float>(45));
  const std::array<const void*, 1> inputs{x.data()};
  const std::array<const void*, 2> parameters{weights.data(), weights.data()};
  const std::array<void*, 2> states{state[0].data(), state[1].data()};
  const std::array<void*, 1> of_inputs{dx.data()};
  const std::array<void*, 2> of_parameters{gradients[0].data(), gradients[1].data()};
  Arguments call{.inputs = inputs, .parameters = parameters, .output = y.data(), .saved = saved.data()};
  if (std::holds_alternative<BatchNorm>(op)) call.state = states;
  kernel->run(Pass::forward, call);
  call.output_gradient = dy.data();
  call.input_gradients = of_inputs;
  call.parameter_gradients = of_parameters;
  kernel->run(Pass::backward, call);
  return {from_format(*ops, y, format), from_format(*ops, dx, format), gradients[0], gradients[1]};
}

TEST(NormsOnGpus, DoNotReadThePaddingOfChannels) {
  constexpr std::uint16_t hundred = 0x42c8;  // in bfloat16
  for (const Operator& op : {Operator{BatchNorm{.activation = Activation::relu}}, Operator{LayerNorm{}},
                             Operator{GroupNorm{.groups = 5}}, Operator{LayerNorm{.axes = LayerNorm::Axes::sample}}})
    EXPECT_EQ(results_with_padding(op, hundred), results_with_padding(op, 0)) << text_of(op);
}

/// Nothing between making a kernel and running it waits for the GPU. What the GPU does meanwhile is drawn.
TEST(CrossEntropyOnGpus, HasTheWeightsOfClassesWhenItIsMade) {
  const auto ops = make_cuda_ops(0);
  const ComputeDevice& device = ops->device();
  const Bytes bytes{sizeof(LossSums)};
  const Allocation staging = device.allocate_staging(bytes);
  const Allocation labels = device.allocate(bytes);
  const Allocation result = device.allocate(bytes);
  const Allocation workspace = device.allocate({1 << 16});
  static_cast<std::int32_t*>(staging.data())[1] = 1;
  device.copy(labels.data(), staging.data(), bytes, device.queue());
  device.wait(device.queue());
  const std::array formats{Format::plain({2, 2}, DType::float32), Format::plain({2, 1}, DType::int32)};
  const std::array<const void*, 2> inputs{nullptr, labels.data()};
  std::vector<std::unique_ptr<Kernel>> kernels;  // to free one would wait
  for (int round = 0; round < 10; ++round) {
    kernels.push_back(ops->make(CrossEntropy{.class_weights = {0.5, 4}}, formats));
    Kernel& kernel = *kernels.back();
    ASSERT_LE(kernel.workspace().value, workspace.bytes().value);
    kernel.run(Pass::normalizer,
               {.inputs = inputs, .output = result.data(), .workspace = workspace.data(), .queue = device.queue()});
    device.copy(staging.data(), result.data(), bytes, device.queue());
    device.wait(device.queue());
    EXPECT_EQ(static_cast<const LossSums*>(staging.data())->weight, 4.5) << round;
  }
}

/// Without samples, the gradients of parameters and the sums of losses are zero, and nothing is read.
TEST(EmptyBatchesOnGpus, GiveZeros) {
  const auto ops = std::move(libraries().front());
  const Shape none{0, 6, 4, 4};
  for (const Row& row : std::vector<Row>{{"batch-norm", BatchNorm{.activation = Activation::relu}, {none}},
                                         {"batch-norm-add", BatchNorm{.residual = true}, {none, none}},
                                         {"embedding", Embedding{.entries = 3, .features = 4}, {{0, 1, 1, 5}}},
                                         {"resize", Resize{.scale = 2}, {none}},
                                         {"cross-entropy", CrossEntropy{}, {none, {0, 1, 4, 4}}}}) {
    Trial trial(*ops, DType::float32, row);
    trial.forward();
    trial.backward();
    for (const Tensor* gradient : trial.gradients())
      EXPECT_EQ(gradient->values(), Values(static_cast<std::size_t>(gradient->count()), 0.0)) << row.name;
    EXPECT_TRUE(trial.output().empty()) << row.name;
    trial.forward(Pass::infer);
  }
}

}  // namespace
}  // namespace lockstep::ops::test
