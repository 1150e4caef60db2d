// SPDX-License-Identifier: Apache-2.0
// Every row of the table of operators on a GPU, real or emulated, against the reference in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/element.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ops/cuda.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/decorated.hpp"
#include "nn/plan/choose.hpp"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/hosted_ops.hpp"
#include "ops/libraries.hpp"
#include "ops/lstm_trial.hpp"
#include "ops/rows.hpp"
#include "support/errors.hpp"

namespace lockstep::ops::test {
namespace {

struct Arithmetic {
  std::string name;
  CudaArithmetic arithmetic;
  double tolerance;  ///< relative to a tensor's largest element
};
const std::array<Arithmetic, 3> all_arithmetics{
    {{"float32", {}, 1e-5}, {"bf16", {.values = DType::bfloat16}, 1e-2}, {"fp16", {.values = DType::float16}, 1e-2}}};

double rounded(double x, DType dtype) {
  const auto value = static_cast<float>(x);
  if (dtype == DType::bfloat16)
    return static_cast<double>(kernels::cuda::BFloat16::widen(kernels::cuda::BFloat16::narrow(value)));
  if (dtype == DType::float16)
    return static_cast<double>(kernels::cuda::Float16::widen(kernels::cuda::Float16::narrow(value)));
  return static_cast<double>(value);
}

/// Returns a 16-bit number as float32.
float half_at(const void* data, std::size_t i, DType dtype) {
  if (dtype == DType::bfloat16)
    return kernels::cuda::BFloat16::widen(static_cast<const kernels::cuda::BFloat16::Stored*>(data)[i]);
  return kernels::cuda::Float16::widen(static_cast<const kernels::cuda::Float16::Stored*>(data)[i]);
}

/// Rounds all operands first, so that the only rounding is that of results.
void begin_rounded(Trial& trial, DType dtype) {
  for (Tensor* variable : trial.variables())
    for (std::int64_t i = 0; i < variable->count(); ++i) variable->set(i, rounded(variable->get(i), dtype));
  trial.change_output_gradient([dtype](double x) { return rounded(x, dtype); });
}

void expect_near(const Trial::Named& actual, const Trial::Named& expected, double tolerance) {
  double largest = 0;
  double error = 0;
  ASSERT_EQ(actual.values.size(), expected.values.size());
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    largest = std::max(largest, std::abs(expected.values[i]));
    error = std::max(error, std::abs(actual.values[i] - expected.values[i]));
    ASSERT_FALSE(std::isnan(actual.values[i])) << expected.name << " element " << i;
  }
  EXPECT_LE(error, tolerance * (largest < 1e-9 ? 1 : largest)) << expected.name;
}

void PrintTo(const Arithmetic& how, std::ostream* out) { *out << how.name; }

class CudaRows : public testing::TestWithParam<std::tuple<Row, Arithmetic>> {};

TEST_P(CudaRows, AreNearTheReference) {
  const auto& [row, how] = GetParam();
  // What only predictions need stays in float32.
  const double tolerance = signature_of(row.op, row.inputs).has_backward ? how.tolerance : 1e-5;
  // Its bias is added to a rounded sum, so that other elements than in float64 are below zero and get no gradient.
  const bool has_other_gradients = row.name == "transposed-3x3-relu" && how.name == "bf16";
  const auto cuda = make_hosted_ops(make_cuda_ops(0, how.arithmetic));
  const auto reference = make_reference_ops();
  Trial exact(*reference, DType::float64, row);
  Trial fast(*cuda, DType::float32, row);
  for (Trial* trial : {&exact, &fast}) begin_rounded(*trial, how.arithmetic.values);
  for (int round = 0; round < 2; ++round) {  // the second time with used memory
    for (Trial* trial : {&exact, &fast}) {
      trial->forward();
      trial->backward();
    }
    const auto results = fast.results();
    const auto expected = exact.results();
    for (std::size_t i = 0; i < expected.size() && !has_other_gradients; ++i)
      expect_near(results[i], expected[i], tolerance);
    expect_near({"output", fast.output()}, {"output", exact.output()}, tolerance);
  }
  exact.forward(Pass::infer);
  fast.forward(Pass::infer);
  expect_near({"output of an evaluation", fast.output()}, {"output", exact.output()}, tolerance);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Row, Arithmetic>>& test) {
  std::string name = std::get<0>(test.param).name + "_" + std::get<1>(test.param).name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Ops, CudaRows, testing::Combine(testing::ValuesIn(rows()), testing::ValuesIn(all_arithmetics)),
                         name_of);

/// Channels whose numbers are multiples of 8 are loaded and stored 16 bytes at a time, also those of 16 bits.
const std::vector<Row> rows_of_packs{
    {"concat", Concat{}, {{3, 16, 8, 6}, {3, 8, 8, 6}}},
    {"concat-of-three", Concat{}, {{2, 8, 3, 5}, {2, 24, 3, 5}, {2, 8, 3, 5}}},
    {"slice", Slice{.axis = Axis::channels, .begin = 8, .end = 24}, {{3, 32, 5, 7}}},
    {"slice-height", Slice{.axis = Axis::height, .begin = 1, .end = 3}, {{2, 8, 5, 6}}},
    {"multiply", Multiply{}, {{3, 16, 5, 4}, {3, 16, 5, 4}}},
    {"multiply-gate", Multiply{}, {{3, 24, 7, 5}, {3, 24, 1, 1}}},
    {"multiply-by-positions", Multiply{}, {{2, 1, 4, 3}, {2, 16, 4, 3}}}};
INSTANTIATE_TEST_SUITE_P(OfPacks, CudaRows,
                         testing::Combine(testing::ValuesIn(rows_of_packs), testing::ValuesIn(all_arithmetics)),
                         name_of);

TEST(CudaOps, LstmReadsNothingBeyondASequencesLength) {
  expect_nothing_read_beyond_lengths(*make_hosted_ops(make_cuda_ops(0, {})));
}

/// The numbers are those of the host to the bit, before they are rounded to 16 bits.
TEST(CudaOps, ConvertsBytesToTheNumbersThatTheHostMakesOfThem) {
  const Shape shape{3, 3, 17, 15};
  const Normalization numbers{{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
  const std::vector<double> table = numbers.table();
  for (const Arithmetic& how : all_arithmetics) {
    const auto ops = make_cuda_ops(0, how.arithmetic);
    const ComputeDevice& device = ops->device();
    const DType dtype = how.arithmetic.values;
    for (const Format& to : {cuda::nhwc(shape, dtype), Format::plain(shape, DType::float32)}) {
      const auto kernel = ops->convert_bytes(numbers, to);
      const Allocation bytes = device.allocate_staging({shape.count()});
      auto* byte = static_cast<std::uint8_t*>(bytes.data());
      for (std::int64_t i = 0; i < shape.count(); ++i) byte[i] = static_cast<std::uint8_t>(i * i % 256 + i / 256);
      const Allocation from = device.allocate(bytes.bytes());
      const Allocation result = device.allocate(to.bytes);
      const Allocation found = device.allocate_staging(to.bytes);
      device.copy(from.data(), bytes.data(), bytes.bytes(), device.queue());
      const void* input = from.data();
      kernel->run(Pass::forward, {.inputs = {&input, 1}, .output = result.data(), .queue = device.queue()});
      device.copy(found.data(), result.data(), to.bytes, device.queue());
      device.wait(device.queue());

      const cuda::TensorView target = cuda::view_of(to);
      std::vector<float> expected(static_cast<std::size_t>(target.elements()));  // zeros in the padding
      for (std::int64_t i = 0; i < shape.count(); ++i) {
        const std::int64_t in_sample = i % (shape.count() / shape.batch);
        const cuda::Position at = target.plain_position(i / (shape.count() / shape.batch), in_sample);
        expected[static_cast<std::size_t>(target.offset(at))] =
            static_cast<float>(table[static_cast<std::size_t>(at.channel * 256 + byte[i])]);
      }
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const float number = to.dtype == DType::float32 ? static_cast<const float*>(found.data())[i]
                                                        : half_at(found.data(), i, to.dtype);
        ASSERT_EQ(number, static_cast<float>(rounded(static_cast<double>(expected[i]), to.dtype)))
            << how.name << ' ' << to.layout << ' ' << i;
      }
    }
  }
}

/// The sums are not rounded to 16 bits on the way.
TEST(CudaOps, WritesWeightGradientsInFloat32WhereThatIsChosen) {
  const Row row{
      "convolution", Convolution{.out_channels = 8, .kernel = 3, .padding = 1, .bias = false}, {{4, 8, 16, 16}}};
  const auto cuda = make_hosted_ops(make_cuda_ops(0, {.values = DType::bfloat16}));
  const std::array input{Format::plain(row.inputs.front(), DType::float32)};
  const std::vector<KernelAlgorithms> candidates = cuda->candidates(row.op, input);
  const auto in_float32 = std::find_if(candidates.begin(), candidates.end(),
                                       [](const auto& each) { return each.backward_weights.starts_with("float32,"); });
  ASSERT_NE(in_float32, candidates.end());
  const auto rule = cuda->make(row.op, input);
  const std::string backward = rule->algorithm(Pass::backward);  // of both gradients
  KernelChoices choices;
  choices.set(
      key_of(row.op, input), row.inputs.front().batch,
      {"cuda", rule->algorithm(Pass::forward), backward.substr(0, backward.find(' ')), in_float32->backward_weights});
  cuda->use(choices);
  const auto reference = make_reference_ops();
  Trial exact(*reference, DType::float64, row);
  Trial fast(*cuda, DType::float32, row);
  for (Trial* trial : {&exact, &fast}) {
    begin_rounded(*trial, DType::bfloat16);
    trial->forward();
    trial->backward();
  }
  ASSERT_EQ(exact.gradients().size(), 2U);  // the second one is that of the weights
  expect_near({"weights", fast.gradients()[1]->values()}, {"weights", exact.gradients()[1]->values()}, 1e-5);
}

TEST(CudaOps, TakesItsRuleWhereTheChoiceOfAnotherBatchSizeDoesNotExist) {
  const Operator layer = Convolution{.out_channels = 8, .bias = false};
  const Shape shape{2, 8, 6, 6};
  const auto ops = make_cuda_ops(0);
  const std::array input{Format::plain(shape, DType::float32)};
  const std::string rule = ops->make(layer, input)->algorithm(Pass::forward);
  const auto made = [&](std::int64_t batch) {
    KernelChoices choices;
    choices.set(key_of(layer, input), batch, {"cuda", "absent", "absent", "absent"});
    ops->use(choices);
    return ops->make(layer, input, DType::float32);
  };
  EXPECT_EQ(made(shape.batch + 1)->algorithm(Pass::forward), rule);
  EXPECT_EQ(code_of([&] { (void)made(shape.batch)->workspace(); }), ErrorCode::unsupported);
}

/// Returns the running mean and variance of a batch norm behind a convolution that is computed so.
std::vector<float> running_statistics(Ops& ops, const Convolution& layer, const Format& in,
                                      const KernelAlgorithms& choice) {
  KernelChoices choices;
  choices.set(key_of(layer, std::span(&in, 1)), in.shape.batch, choice);
  ops.use(choices);
  const auto convolution = ops.make(layer, std::span(&in, 1));
  const auto norm = ops.make(BatchNorm{}, std::array{convolution->traits().output});
  const auto channels = static_cast<std::size_t>(layer.out_channels);
  std::vector<float> numbers(static_cast<std::size_t>(in.shape.count()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(std::sin(1.3 * static_cast<double>(i)));
  std::vector<float> weights(channels * static_cast<std::size_t>(in.shape.channels) * 9);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<float>(std::cos(0.7 * static_cast<double>(i)));
  const std::vector<float> x = to_format(ops, numbers, convolution->traits().inputs[0]);
  std::vector<float> state(2 * channels, 0.5F);
  std::vector<float> y(static_cast<std::size_t>(convolution->traits().output.bytes.value) / sizeof(float));
  std::vector<float> normalized(y.size());
  std::vector<double> statistics(static_cast<std::size_t>(convolution->traits().statistics));
  std::vector<float> saved(static_cast<std::size_t>(norm->traits().saved.value) / sizeof(float));
  const std::vector<float> ones(channels, 1);
  const std::array<const void*, 1> inputs{x.data()};
  const std::array<const void*, 1> parameters{weights.data()};
  const std::array<void*, 1> shift{state.data()};
  convolution->run(
      Pass::forward,
      {.inputs = inputs, .parameters = parameters, .state = shift, .output = y.data(), .part = statistics.data()});
  const std::array<const void*, 1> values{y.data()};
  const std::array<const void*, 2> scales{ones.data(), ones.data()};
  const std::array<void*, 2> running{state.data(), state.data() + channels};
  norm->run(Pass::forward, {.inputs = values,
                            .parameters = scales,
                            .state = running,
                            .output = normalized.data(),
                            .saved = saved.data(),
                            .parts = statistics});
  return state;
}

/// Whichever way a convolution gives the statistics, they are the same but for rounding, and to the bit every time.
TEST(CudaOps, StatisticsOfConvolutionsAreThoseOfTheirResults) {
  const Convolution layer{.out_channels = 16, .kernel = 3, .padding = 1, .bias = false, .statistics = true};
  const Format in = Format::plain({8, 16, 14, 14}, DType::float32);
  for (const Arithmetic& how : all_arithmetics) {
    const auto ops = make_hosted_ops(make_cuda_ops(0, how.arithmetic));
    std::vector<KernelAlgorithms> candidates = ops->candidates(layer, std::span(&in, 1));
    ASSERT_FALSE(candidates.empty());
    std::vector<double> expected;
    for (const KernelAlgorithms& candidate : candidates) {
      if (!expected.empty() && candidate.forward == candidates.front().forward) continue;
      std::vector<float> found;
      try {
        found = running_statistics(*ops, layer, in, candidate);
      } catch (const Error& error) {  // cuDNN knows only when it compiles
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        continue;
      }
      EXPECT_EQ(running_statistics(*ops, layer, in, candidate), found) << how.name << ' ' << candidate.forward;
      const std::vector<double> all(found.begin(), found.end());
      if (expected.empty()) expected = all;
      expect_near({"", all}, {how.name + " " + candidate.forward, expected}, how.tolerance);
    }
    EXPECT_FALSE(expected.empty()) << how.name;
  }
}

/// Every candidate runs with the statistics that batch norm needs, so that their times can be compared.
TEST(CudaOps, MeasuresConvolutionsWithTheirStatistics) {
  nn::Graph graph("small");
  graph.input({"images", {8, 6, 6}});
  graph.add("conv", Convolution{.out_channels = 8, .bias = false});
  graph.add("norm", BatchNorm{});
  const int logits = graph.add("fc", Linear{.out_features = 3});
  graph.loss("loss", CrossEntropy{}, {logits, graph.input({"labels", {1, 1, 1}, Content::integer})});
  for (const Arithmetic& how : all_arithmetics) {
    const auto ops = make_cuda_ops(0, how.arithmetic);
    const nn::MeasuredChoices chosen =
        nn::measure_kernels(graph, *ops, {.samples = 2, .rules = {.rounds = 1, .least_rounds = 1}}, {});
    EXPECT_EQ(chosen.measured, 1) << how.name;
    EXPECT_NE(chosen.choices.text().find(", statistics, "), std::string::npos) << chosen.choices.text();
  }
}

TEST(CudaOps, RunsNodesThatNoLossNeedsInPredictionsOnly) {
  nn::expect_that_outputs_cost_steps_nothing<float>([] { return make_hosted_ops(make_cuda_ops(0)); }, {}, 1e-6);
}

/// There are more tensors than a launch takes, and some have no values.
TEST(CudaOps, FindsTheTensorsWhoseValuesAreNotFinite) {
  std::vector<std::int64_t> ends;
  for (std::int64_t k = 0; k < 600; ++k) ends.push_back((ends.empty() ? 0 : ends.back()) + k % 7);
  std::vector<float> values(static_cast<std::size_t>(ends.back()), 1);
  values[0] = std::numeric_limits<float>::quiet_NaN();
  values[values.size() / 2] = std::numeric_limits<float>::infinity();
  values[values.size() / 2 + 1] = std::numeric_limits<float>::max();
  values.back() = -std::numeric_limits<float>::infinity();
  std::vector<double> expected(ends.size());
  make_reference_ops()->count_not_finite(Buffer(values), ends, expected.data(), Queue::host());
  EXPECT_EQ(std::count(expected.begin(), expected.end(), 1.0), 3);
  std::vector<double> found(ends.size());
  make_hosted_ops(make_cuda_ops(0))->count_not_finite(Buffer(values), ends, found.data(), Queue::host());
  EXPECT_EQ(found, expected);
}

/// An operator of a program.
class OnHostsOnly final : public CustomOperator {
 public:
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const override { return {.output = inputs[0]}; }
  [[nodiscard]] std::string text() const override { return "on hosts only"; }
  [[nodiscard]] KernelPtr make(Formats /*inputs*/) const override { return nullptr; }
};

TEST(CudaOps, NamesAnOperatorWithoutKernel) {
  const Operator op = Custom{std::make_shared<OnHostsOnly>()};
  EXPECT_FALSE(has_cuda_kernel(op));
  for (const Row& row : rows()) EXPECT_TRUE(has_cuda_kernel(row.op)) << row.name;
  const auto cuda = make_cuda_ops(0);
  expect_error(
      [&] {
        (void)cuda->make(op, std::vector{Format::plain({1, 2, 3, 4}, DType::float32)});
      },
      ErrorCode::unsupported, {"'on hosts only'", "compute on the CPU"});
}

}  // namespace
}  // namespace lockstep::ops::test
