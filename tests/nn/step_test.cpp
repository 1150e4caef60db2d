// SPDX-License-Identifier: Apache-2.0
#include "nn/run/step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/nn/model.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/run/runner.hpp"
#include "nn/trainee.hpp"
#include "support/errors.hpp"
#include "support/verdict.hpp"

/// Tests steps as lists: what they may depend on, and features of graphs that classifiers do not use.
namespace lockstep::nn {
namespace {

using Doubles = std::vector<double>;

Buffer view(Doubles& values) { return {values.data(), {static_cast<std::int64_t>(values.size())}, DType::float64}; }

/// A model in float64 with its own memory and optimizer.
class Updated {
 public:
  explicit Updated(const Graph& graph, OptimizationPasses passes = {},
                   std::optional<OptimizerOptions> optimizer = OptimizerOptions{.momentum = 0.5}, int accumulate = 1)
      : model(graph, *ops_,
              {.dtype = DType::float64, .optimizer = optimizer, .step = {.accumulate = accumulate}, .passes = passes}),
        parameters(static_cast<std::size_t>(model.parameters().count().value)),
        gradients(parameters.size()),
        velocity(parameters.size()),
        state(static_cast<std::size_t>(model.state().count().value)) {
    model.bind({view(parameters), view(gradients), view(state), {view(velocity)}});
    model.initialize(1);
  }
  [[nodiscard]] Doubles gradient_of(const std::string& name) const {
    const TensorSlot& slot = model.parameters().find(name);
    const auto begin = gradients.begin() + slot.offset.value;
    return {begin, begin + slot.count.value};
  }

 private:
  std::unique_ptr<ops::Ops> ops_ = ops::make_reference_ops();

 public:
  Model model;
  Doubles parameters;
  Doubles gradients;
  Doubles velocity;
  Doubles state;
  [[nodiscard]] ops::Ops& ops() { return *ops_; }
};

/// Records a list without running it.
class Recording final : public ItemQueue {
 public:
  void submit(const Item& item) override { items.push_back(item); }
  std::vector<Item> items;
};

/// Reports the gradients as finite or not, as the test says.
class Verdict final : public QuietReducer {
 public:
  void finish(const Buffer& numbers, Queue /*queue*/) override {
    const std::span<double> values = span_of(numbers);
    if (!finite) values[values.size() - 3] += 1;  // another rank has a gradient that is not finite
  }
  bool finite = true;
};

/// Rule 1 is that no number computed in a step chooses its items. A list is taken once, before there are any data, and
/// run three times with different data, rate, divisor and scale; one of the steps must not update.
TEST(Step, ListTakenOnceDoesWhatStepsDo) {
  constexpr std::int64_t batch = 4;
  const Graph graph = knotty_network();
  Updated stepwise(graph);
  Updated replayed(graph);
  Doubles images(static_cast<std::size_t>(batch * image_elements(graph)), std::nan(""));
  std::vector<std::int32_t> labels(batch, -1);  // not a class, which is reported if it is read
  const void* inputs[] = {images.data(), labels.data()};
  const Feed feed{.samples = batch, .inputs = inputs};

  const Doubles before = replayed.parameters;
  Recording recording;
  replayed.model.submit_items(batch, recording);
  ASSERT_EQ(replayed.parameters, before) << "nothing has run";

  Verdict verdict;
  Runner runner(replayed.model.numbers(), replayed.model.lanes(), verdict, nullptr);
  for (const int step : {1, 2, 3}) {
    const Doubles drawn = wavy(static_cast<std::int64_t>(images.size()), step);
    std::copy(drawn.begin(), drawn.end(), images.begin());
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i) * step % 3;
    const StepScalars scalars{.learning_rate = 0.1 / step, .samples = 4.0 * step};
    const StepState state{.loss_scale = step == 3 ? 8.0 : 2.0};
    stepwise.model.set_state(state);
    replayed.model.set_state(state);
    verdict.finite = step != 2;
    const StepResult expected = stepwise.model.train(feed, scalars, verdict);
    replayed.model.set(feed, scalars);
    for (const Item& item : recording.items) runner.submit(item);
    const StepResult& result = replayed.model.numbers().result(0);
    EXPECT_EQ(result.loss, expected.loss);
    EXPECT_EQ(result.finite, step != 2);
    EXPECT_EQ(replayed.gradients, stepwise.gradients);
    EXPECT_EQ(replayed.parameters, stepwise.parameters);
    EXPECT_EQ(replayed.velocity, stepwise.velocity);
    EXPECT_EQ(replayed.state, stepwise.state);
  }
}

/// A rank whose share of the squares is an eighth. It counts the calls.
class OfParts final : public QuietReducer {
 public:
  [[nodiscard]] int size() const override { return 2; }
  void sum(const Buffer& numbers, Queue /*queue*/) override {
    for (double& value : span_of(numbers)) value *= 8;
  }
  void gather_parameters(Queue /*queue*/) override { ++gathered; }
  int gathered = 0;
};

/// A rank that owns two parts clips by the norm of all parts, changes only its own, and has the others gathered.
TEST(Step, UpdatesTheOwnedPartsAndGathersTheRest) {
  const Graph graph = knotty_network();
  const auto ops = ops::make_reference_ops();
  Model model(graph, *ops,
              {.dtype = DType::float64,
               .optimizer = OptimizerOptions{.momentum = 0.5},
               .step = {.clip_norm = 1e-3, .ema = 0.5}});
  const std::int64_t count = model.parameters().count().value;
  const std::vector<LayoutPart> owned{{{0}, {16}}, {{count - 32}, {32}}};
  Doubles parameters(static_cast<std::size_t>(count));
  Doubles gradients = parameters;
  Doubles state(static_cast<std::size_t>(model.state().count().value));
  Doubles velocity(48);
  Doubles averages(48);
  EXPECT_THROW(model.bind({view(parameters), view(gradients), view(state), {view(velocity)}, view(averages)}), Error);
  model.bind({.parameters = view(parameters),
              .gradients = view(gradients),
              .state = view(state),
              .optimizer_state = {view(velocity)},
              .averages = view(averages),
              .owned = owned,
              .summed = owned,
              .gathered_averages = view(gradients)});
  model.initialize(1);
  const Doubles before = parameters;
  const Doubles images = wavy(2 * image_elements(graph));
  const std::vector<std::int32_t> labels{0, 1};
  const void* inputs[] = {images.data(), labels.data()};
  OfParts exchange;
  const StepResult& result = model.train({2, inputs}, {.learning_rate = 1, .samples = 2}, exchange);
  EXPECT_EQ(exchange.gathered, 1);
  double squares = 0;
  std::size_t at = 0;
  for (const LayoutPart& part : owned)
    for (std::int64_t i = part.offset.value; i < part.offset.value + part.count.value; ++i)
      squares += gradients[static_cast<std::size_t>(i)] * gradients[static_cast<std::size_t>(i)];
  EXPECT_NEAR(result.gradient_norm, std::sqrt(8 * squares), 1e-12);
  ASSERT_GT(squares, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto element = static_cast<std::size_t>(i);
    if (i >= 16 && i < count - 32) {
      ASSERT_EQ(parameters[element], before[element]) << i;
      continue;
    }
    const double change = gradients[element] * 1e-3 / (result.gradient_norm + 1e-6);
    EXPECT_NEAR(parameters[element], before[element] - change, 1e-15) << i;
    EXPECT_NEAR(velocity[at], change, 1e-15);
    EXPECT_NEAR(averages[at], parameters[element] / 2, 1e-15) << "they began at 0 here";
    ++at;
  }
}

TEST(Step, WithoutFiniteGradientsOrLossUpdatesNothing) {
  const Graph graph = knotty_network();
  Updated trained(graph);
  Doubles images = wavy(2 * image_elements(graph));
  const std::vector<std::int32_t> labels{0, 1};
  const void* inputs[] = {images.data(), labels.data()};
  const StepScalars scalars{.learning_rate = 0.1, .samples = 2};
  Verdict verdict;
  const Doubles before = trained.parameters;
  verdict.finite = false;
  EXPECT_FALSE(trained.model.train({2, inputs}, scalars, verdict).finite);
  EXPECT_EQ(trained.parameters, before);
  verdict.finite = true;
  images[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(trained.model.train({2, inputs}, scalars, verdict).finite) << "the loss is not";
  EXPECT_EQ(trained.parameters, before);
  EXPECT_EQ(trained.velocity, Doubles(trained.velocity.size(), 0));
}

/// After a bad value no step changes weights, until the host sets the state.
TEST(Step, ABadLabelIsReportedAndHaltsLaterSteps) {
  const Graph graph = knotty_network();
  for (const int micro_batches : {1, 2}) {
    Updated trained(graph, {}, OptimizerOptions{}, micro_batches);
    const Doubles images = wavy(4 * image_elements(graph));
    std::vector<std::int32_t> labels{0, 1, 2, 3};
    const void* inputs[] = {images.data(), labels.data()};
    const StepScalars scalars{.learning_rate = 0.1, .samples = 4};
    SingleRank alone;
    const Doubles before = trained.parameters;
    const StepResult bad = trained.model.train({4, inputs}, scalars, alone);
    EXPECT_EQ(bad.faults, 1);
    EXPECT_NE(bad.state.halted, 0);
    const ops::Fault fault = trained.model.fault();
    EXPECT_EQ(fault.sample, 3) << "counted from the rank's first sample";
    EXPECT_EQ(trained.model.text_of(fault, "it"), "'loss': label of it is 3; there are 3 classes, numbered from 0");
    EXPECT_EQ(trained.parameters, before);
    labels[3] = 0;
    EXPECT_EQ(trained.model.train({4, inputs}, scalars, alone).faults, 0);
    EXPECT_EQ(trained.model.fault().code, ops::FaultCode::none);
    EXPECT_EQ(trained.parameters, before) << "the step before has halted";
    trained.model.set_state({});
    EXPECT_EQ(trained.model.train({4, inputs}, scalars, alone).state.updates, 1);
    EXPECT_NE(trained.parameters, before);
    labels[1] = -1;
    EXPECT_EQ(code_of([&] { (void)trained.model.predict({4, inputs}); }), ErrorCode::invalid_argument);
  }
}

TEST(Step, LossScaleIsTakenOutAgainByTheUpdate) {
  const Graph graph = knotty_network();
  Updated plain(graph);
  Updated scaled(graph);
  const Doubles images = wavy(3 * image_elements(graph));
  const std::vector<std::int32_t> labels{0, 1, 2};
  const void* inputs[] = {images.data(), labels.data()};
  SingleRank alone;
  plain.model.train({3, inputs}, {.learning_rate = 0.1, .samples = 3}, alone);
  scaled.model.set_state({.loss_scale = 1024});
  const StepResult result = scaled.model.train({3, inputs}, {.learning_rate = 0.1, .samples = 3}, alone);
  EXPECT_EQ(result.loss, plain.model.numbers().result(0).loss) << "as it is without a scale";
  EXPECT_EQ(scaled.parameters, plain.parameters) << "a power of two rounds nothing";
  EXPECT_EQ(scaled.gradient_of("fc.bias")[0], 1024 * plain.gradient_of("fc.bias")[0]);
}

/// Compares with PyTorch's clip_grad_norm_, and with EMA weights, which evaluations use.
TEST(Step, ClipsByTheNormOfAllThatIsUpdatedAndAveragesWeights) {
  const Graph graph = knotty_network();
  const Doubles images = wavy(3 * image_elements(graph));
  const std::vector<std::int32_t> labels{0, 1, 2};
  const void* inputs[] = {images.data(), labels.data()};
  const auto ops = ops::make_reference_ops();
  Updated plain(graph, {}, OptimizerOptions{});
  SingleRank alone;
  const Doubles before = plain.parameters;
  plain.model.train({3, inputs}, {.learning_rate = 1, .samples = 3}, alone);
  double squares = 0;
  for (const double gradient : plain.gradients) squares += gradient * gradient;
  const double norm = std::sqrt(squares);
  for (const double scale : {1.0, 64.0}) {
    Model model(
        graph, *ops,
        {.dtype = DType::float64, .optimizer = OptimizerOptions{}, .step = {.clip_norm = norm / 4, .ema = 0.75}});
    Doubles parameters = before;
    Doubles gradients(parameters.size());
    Doubles velocity(parameters.size());
    Doubles averages = before;
    Doubles state(plain.state.size());
    model.bind({view(parameters), view(gradients), view(state), {view(velocity)}, view(averages)});
    model.set_state({.loss_scale = scale});
    const StepResult result = model.train({3, inputs}, {.learning_rate = 1, .samples = 3}, alone);
    EXPECT_NEAR(result.gradient_norm, norm, 1e-12 * norm);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const double step = plain.gradients[i] * (norm / 4) / (norm + 1e-6);
      ASSERT_NEAR(parameters[i], before[i] - step, 1e-14);
      ASSERT_NEAR(averages[i], 0.75 * before[i] + 0.25 * parameters[i], 1e-15);
    }
    const double evaluated = model.predict({3, inputs}).losses.front().loss;
    parameters.assign(parameters.size(), 0);
    EXPECT_EQ(model.predict({3, inputs}).losses.front().loss, evaluated) << "of the averages";
  }
  EXPECT_EQ(code_of([&] { (void)Model(graph, *ops, {.dtype = DType::float64, .step = {.clip_norm = -1}}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)Model(graph, *ops, {.dtype = DType::float64, .step = {.ema = 1}}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { (void)Model(graph, *ops, {.dtype = DType::float64, .step = {.accumulate = 0}}); }),
            ErrorCode::invalid_argument);
}

/// Makes a graph of fc(x) and, with the same weights, fc(relu(fc2(x))), each with its own loss.
Graph two_heads(Normalizer normalizer, double second) {
  Graph graph("two-heads");
  const int x = graph.input({"x", {3, 1, 1}});
  const int labels = graph.input({"labels", {1, 1, 1}, Content::integer});
  const int first = graph.add("fc", Linear{.out_features = 3}, {x});
  const int between = graph.add("fc2", Linear{.out_features = 3}, {x});
  const int hidden = graph.add("relu", Relu{}, {between});
  graph.loss("near", CrossEntropy{.ignore_index = 0}, {first, labels}, 1, normalizer);
  graph.loss("far", CrossEntropy{.ignore_index = 1}, {graph.add_shared("fc-again", "fc", {hidden}), labels}, second,
             normalizer);
  return graph;
}

/// Compares the gradients of Σ coefficient · loss ÷ normalizer with central differences. The weights of the losses
/// ignore some labels, and the shared weights have two users.
TEST(Step, GradientsOfSharedWeightsAndSeveralLossesAreDerivatives) {
  constexpr std::int64_t batch = 5;
  for (const Normalizer normalizer : {Normalizer::samples, Normalizer::weight}) {
    Updated trained(two_heads(normalizer, 0.25), {}, std::nullopt);
    const Doubles x = wavy(batch * 3);
    const std::vector<std::int32_t> labels{0, 1, 2, 0, 2};
    const void* inputs[] = {x.data(), labels.data()};
    SingleRank alone;
    const auto loss = [&] {
      return trained.model.train({batch, inputs}, {.samples = static_cast<double>(batch)}, alone).loss;
    };
    const double whole = loss();
    const std::span<const ops::LossSums> loss_sums = trained.model.own_loss_sums();
    EXPECT_EQ(loss_sums[0].weight, 3);
    EXPECT_EQ(loss_sums[1].weight, 4);
    const bool by_samples = normalizer == Normalizer::samples;
    EXPECT_DOUBLE_EQ(whole, loss_sums[0].loss / (by_samples ? 5 : 3) + 0.25 * loss_sums[1].loss / (by_samples ? 5 : 4));
    const Doubles gradients = trained.gradients;
    for (std::size_t i = 0; i < trained.parameters.size(); ++i) {
      constexpr double h = 1e-6;
      const double at = trained.parameters[i];
      trained.parameters[i] = at + h;
      const double above = loss();
      trained.parameters[i] = at - h;
      const double below = loss();
      trained.parameters[i] = at;
      EXPECT_NEAR(gradients[i], (above - below) / (2 * h), 1e-8) << i;
    }
  }
}

/// A rank among others whose parts of the batch have other weights.
class Heavier final : public QuietReducer {
 public:
  [[nodiscard]] int size() const override { return 2; }
  void reduce(int parameter, Queue /*queue*/) override { ready_parameters.push_back(parameter); }
  void sum(const Buffer& numbers, Queue /*queue*/) override {
    for (double& value : span_of(numbers)) value += 10;
  }
  std::vector<int> ready_parameters;
};

TEST(Step, WeightsAreSummedOverRanksBeforeTheFirstGradient) {
  Updated alone(two_heads(Normalizer::weight, 1), {}, std::nullopt);
  Updated among(two_heads(Normalizer::weight, 1), {}, std::nullopt);
  const Doubles x = wavy(2 * 3);
  const std::vector<std::int32_t> labels{2, 2};
  const void* inputs[] = {x.data(), labels.data()};
  SingleRank nobody;
  Heavier other;
  alone.model.train({2, inputs}, {.samples = 2}, nobody);
  among.model.train({2, inputs}, {.samples = 2}, other);
  for (const char* name : {"fc.weight", "fc2.bias"}) {
    const Doubles whole = alone.gradient_of(name);
    const Doubles part = among.gradient_of(name);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(part[i], whole[i] * 2 / 12, 1e-15) << name;
  }
  // fc's weights are ready after the last of their users, and therefore after fc2's.
  EXPECT_EQ(other.ready_parameters, (std::vector<int>{3, 2, 1, 0}));
}

/// Without batch norm, micro-batches are equivalent to the batch; one may be empty.
TEST(Step, MicroBatchesAddUpToTheBatch) {
  const Graph graph = two_heads(Normalizer::weight, 0.5);
  const Doubles x = wavy(5 * 3);
  const std::vector<std::int32_t> labels{0, 1, 2, 0, 2};
  const void* inputs[] = {x.data(), labels.data()};
  const auto ops = ops::make_reference_ops();
  Doubles whole;
  double loss = 0;
  for (const int accumulate : {1, 2, 5, 7}) {
    Model model(graph, *ops, {.dtype = DType::float64, .step = {.accumulate = accumulate}});
    Doubles parameters(static_cast<std::size_t>(model.parameters().count().value));
    Doubles gradients(parameters.size(), 77);
    Doubles state;
    model.bind({view(parameters), view(gradients), view(state)});
    model.initialize(1);
    Heavier peers;
    const StepResult result = model.train({5, inputs}, {.samples = 5}, peers);
    EXPECT_EQ(peers.ready_parameters, (std::vector<int>{3, 2, 1, 0})) << "once each";
    if (accumulate == 1) {
      whole = gradients;
      loss = result.loss;
    }
    EXPECT_NEAR(result.loss, loss, 1e-14);
    for (const TensorSlot& slot : model.parameters().tensors()) {
      for (std::int64_t i = slot.offset.value; i < slot.offset.value + slot.count.value; ++i)
        EXPECT_NEAR(gradients[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(i)], 1e-15) << slot.name;
    }
  }
  const Graph large = make_model("resnet20", DataSpec::of_images(3, 16, 16, 10));
  Model at_once(large, *ops, {.dtype = DType::float64});
  Model in_four(large, *ops, {.dtype = DType::float64, .step = {.accumulate = 4}});
  EXPECT_LT(in_four.activation_bytes(16).value, at_once.activation_bytes(16).value / 2);
}

TEST(Step, ATermWithoutWeightGivesGradientsOfZero) {
  Updated trained(two_heads(Normalizer::weight, 1), {}, std::nullopt);
  const Doubles x = wavy(2 * 3);
  const std::vector<std::int32_t> labels{0, 0};  // the first term has no valid label
  const void* inputs[] = {x.data(), labels.data()};
  SingleRank alone;
  const StepResult result = trained.model.train({2, inputs}, {.samples = 2}, alone);
  EXPECT_DOUBLE_EQ(result.loss, trained.model.own_loss_sums()[1].loss / 2);
  EXPECT_TRUE(result.finite);
}

/// Computes y = w·x element by element, with one weight. It accumulates into all its gradients.
class Scaling final : public ops::CustomOperator {
 public:
  /// @param separates  whether the gradients of weight and input may be computed in two calls
  explicit Scaling(bool separates) : separates_(separates) {}
  [[nodiscard]] ops::Signature signature(std::span<const ops::Shape> inputs) const override {
    return {.output = inputs[0],
            .parameters = {{.name = "weight", .shape = {1}, .value = 1.5}},
            .forward = {inputs[0].count(), 2 * inputs[0].count()},
            .backward = {4 * inputs[0].count(), 3 * inputs[0].count()}};
  }
  [[nodiscard]] std::string text() const override { return "scaling"; }
  [[nodiscard]] std::unique_ptr<ops::Kernel> make(std::span<const ops::Format> inputs) const override {
    if (inputs[0].dtype == DType::float32) return std::make_unique<KernelOf<float>>(inputs[0], separates_);
    return std::make_unique<KernelOf<double>>(inputs[0], separates_);
  }

 private:
  template <typename Real>
  class KernelOf final : public ops::Kernel {
   public:
    KernelOf(const ops::Format& in, bool separates)
        : Kernel({.inputs = {in},
                  .output = in,
                  .backward_reads_output = false,
                  .separates_gradients = separates,
                  .input_gradients = ops::Writes::accumulates,
                  .parameter_gradients = ops::Writes::accumulates}),
          count_(in.shape.count()) {}

   private:
    void forward(const ops::Arguments& call) override {
      const Real w = *static_cast<const Real*>(call.parameters[0]);
      for (std::int64_t i = 0; i < count_; ++i)
        static_cast<Real*>(call.output)[i] = w * static_cast<const Real*>(call.inputs[0])[i];
    }
    void backward(const ops::Arguments& call) override {
      const Real w = *static_cast<const Real*>(call.parameters[0]);
      const auto* gradient = static_cast<const Real*>(call.output_gradient);
      auto* of_input = static_cast<Real*>(call.input_gradients[0]);
      for (std::int64_t i = 0; i < count_; ++i) {
        if (!call.parameter_gradients.empty())
          *static_cast<Real*>(call.parameter_gradients[0]) += gradient[i] * static_cast<const Real*>(call.inputs[0])[i];
        if (of_input != nullptr) of_input[i] += w * gradient[i];
      }
    }
    std::int64_t count_;
  };

  bool separates_;
};

/// A convolution's result goes three ways: through a custom operator, through the same operator again, and directly.
Graph with_custom_operator(bool separates = false) {
  const DataSpec data = DataSpec::of_images(2, 6, 6, 3);
  Graph graph("custom");
  graph.input(data.at("images"));
  const int x = graph.add("conv", Convolution{.out_channels = 16, .kernel = 3, .padding = 1});
  const int a = graph.add("scale", Custom{std::make_shared<Scaling>(separates)}, {x});
  const int b = graph.add_shared("scale-again", "scale", {x});
  const int sum = graph.add("sum", Add{}, {graph.add("ab", Add{}, {a, b}), x});
  graph.add("twice", Add{}, {sum, sum});
  graph.add("fc", Linear{.out_features = 3});
  classify(graph, data);
  return graph;
}

/// Gradients of kernels that accumulate are zeroed first and need no sum; those of other kernels are added.
TEST(Step, CustomOperatorsThatAccumulateGiveDerivatives) {
  for (const auto& [reuse, separates] : {std::pair(true, false), std::pair(false, false), std::pair(true, true)}) {
    const Graph graph = with_custom_operator(separates);
    Updated trained(graph, {.reuse_memory = reuse}, std::nullopt);
    std::fill(trained.gradients.begin(), trained.gradients.end(), 77);
    const Doubles images = wavy(3 * image_elements(graph));
    const std::vector<std::int32_t> labels{0, 1, 2};
    const void* inputs[] = {images.data(), labels.data()};
    SingleRank alone;
    const auto loss = [&] { return trained.model.train({3, inputs}, {.samples = 3}, alone).loss; };
    loss();
    const Doubles gradients = trained.gradients;
    for (const char* name : {"conv.weight", "conv.bias", "scale.weight", "fc.weight"}) {
      const TensorSlot& slot = trained.model.parameters().find(name);
      double& parameter = trained.parameters[static_cast<std::size_t>(slot.offset.value)];
      constexpr double h = 1e-6;
      const double at = parameter;
      parameter = at + h;
      const double above = loss();
      parameter = at - h;
      const double below = loss();
      parameter = at;
      EXPECT_NEAR(gradients[static_cast<std::size_t>(slot.offset.value)], (above - below) / (2 * h), 1e-8) << name;
    }
  }
}

/// Records passes and reductions in their order.
class RecordingStep final : public QuietReducer, public Observer {
 public:
  explicit RecordingStep(const Graph& graph) : layout_(graph.parameters()) {}
  void reduce(int parameter, Queue /*queue*/) override { all.push_back("reduce " + layout_.at(parameter).name); }
  void span(const Span& span) override { all.emplace_back(span.name); }
  std::vector<std::string> all;

 private:
  Layout layout_;
};

TEST(Step, ReducesAWeightBeforeTheGradientOfTheInputIsComputed) {
  Graph graph("two layers");
  const DataSpec data = DataSpec::of_images(2, 8, 8, 3);
  graph.input(data.at("images"));
  graph.add("scale1", Custom{std::make_shared<Scaling>(true)});
  graph.add("scale2", Custom{std::make_shared<Scaling>(true)});
  graph.add("fc", Linear{.out_features = 3});
  classify(graph, data);
  RecordingStep step(graph);
  Trainee trainee(graph, 1, &step);
  const Doubles images = wavy(2 * image_elements(graph));
  const std::vector<std::int32_t> labels = cycling_labels(2, 3);
  trainee.differentiate(images.data(), labels.data(), 2, step);
  const auto backward = std::ranges::find(step.all, "backward fc");
  EXPECT_EQ(std::vector<std::string>(backward, step.all.end()),
            (std::vector<std::string>{"backward fc", "reduce fc.bias", "reduce fc.weight", "backward scale2",
                                      "reduce scale2.weight", "backward scale2 inputs", "backward scale1",
                                      "reduce scale1.weight"}));
}

/// oneDNN's convolution gives blocks of channels; the custom operator takes plain formats.
TEST(Step, CustomOperatorsAreFedPlainFormatsByEveryBackEnd) {
  const Graph graph = with_custom_operator();
  constexpr std::int64_t batch = 2;
  const Doubles exact_images = wavy(batch * image_elements(graph));
  const std::vector<float> images(exact_images.begin(), exact_images.end());
  const std::vector<std::int32_t> labels{2, 1};
  TraineeOf<float> fast(graph, 1, nullptr, ops::make_onednn_ops(1));
  Trainee exact(graph);
  exact.parameters.assign(fast.parameters.begin(), fast.parameters.end());
  const double loss = exact.differentiate({images.begin(), images.end()}, labels);
  EXPECT_NEAR(fast.differentiate(images, labels), loss, 1e-5);
  for (std::size_t i = 0; i < exact.gradients.size(); ++i) EXPECT_NEAR(fast.gradients[i], exact.gradients[i], 1e-4);
  bool reorders = false;
  for (const OperatorReport& report : fast.model.operators(batch)) reorders = reorders || report.operation == "reorder";
  if (!reorders) LOCKSTEP_SKIP(blocked) << "no reorder stands before the custom operator, so this shows little";
}

TEST(Step, ARankWithoutSamplesTakesTheSameItems) {
  Updated trained(knotty_network());
  Recording none;
  trained.model.submit_items(0, none);
  Recording some;
  trained.model.submit_items(2, some);
  ASSERT_EQ(none.items.size(), some.items.size());
  for (std::size_t i = 0; i < some.items.size(); ++i) EXPECT_EQ(none.items[i].index(), some.items[i].index()) << i;
}

}  // namespace
}  // namespace lockstep::nn
