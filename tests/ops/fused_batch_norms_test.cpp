// SPDX-License-Identifier: Apache-2.0
// A batch norm whose residual is normalized, too, or with a max pool behind it, gives the bits of the two operators
// that it stands for.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/element.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ops/cuda.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/graph/passes.hpp"
#include "nn/trainee.hpp"
#include "ops/cuda/device/tensor_view.hpp"
#include "ops/hosted_ops.hpp"
#include "support/errors.hpp"

namespace lockstep::ops::test {
namespace {

/// A tensor in a format, with its padding.
using RawTensor = std::vector<std::byte>;

/// With zeros in the padding, as kernels leave it.
RawTensor drawn_raw(const Format& format, double phase) {
  const std::int64_t padded = cuda::padded_channels(format.shape.channels, format.dtype);
  RawTensor bytes(static_cast<std::size_t>(format.bytes.value));
  for (std::size_t i = 0; i < bytes.size() / static_cast<std::size_t>(size_of(format.dtype)); ++i) {
    if (static_cast<std::int64_t>(i) % padded >= format.shape.channels) continue;
    const auto value = static_cast<float>(2 * std::sin(1.7 * static_cast<double>(i) + phase) + 0.3 * phase);
    if (format.dtype == DType::float32) {
      reinterpret_cast<float*>(bytes.data())[i] = value;
    } else {
      reinterpret_cast<std::uint16_t*>(bytes.data())[i] = format.dtype == DType::bfloat16
                                                              ? kernels::cuda::BFloat16::narrow(value)
                                                              : kernels::cuda::Float16::narrow(value);
    }
  }
  return bytes;
}

std::vector<float> wave(std::int64_t count, float phase) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.5F * std::sin(static_cast<float>(i) + phase);
  return values;
}

/// Parameters, their gradients and the state of one batch norm.
struct Channels {
  explicit Channels(std::int64_t count, float phase)
      : weight(wave(count, phase)),
        bias(wave(count, phase + 1)),
        of_weight(weight.size()),
        of_bias(weight.size()),
        mean(wave(count, phase + 2)),
        variance(weight.size(), 2) {}

  std::vector<float> weight, bias, of_weight, of_bias, mean, variance;
  friend bool operator==(const Channels&, const Channels&) = default;
};

/// What one rank has of the batch, and what it computes of it.
struct Rank {
  Rank(const Format& format, double phase)
      : inputs{drawn_raw(format, phase), drawn_raw(format, phase + 1)},
        gradient(drawn_raw(format, phase + 2)),
        second(drawn_raw(format, phase + 3)),
        output(gradient.size()),
        of_inputs{RawTensor(gradient.size()), RawTensor(gradient.size())},
        channels{Channels(format.shape.channels, 0), Channels(format.shape.channels, 5)} {}

  std::array<RawTensor, 2> inputs;
  RawTensor gradient;
  RawTensor second;
  RawTensor output;
  std::array<RawTensor, 2> of_inputs;
  std::array<Channels, 2> channels;
};

/// An operator on one rank.
struct NormOnRank {
  NormOnRank(Ops& ops, const BatchNorm& norm, const Format& format, const std::vector<int>& which)
      : kernel(ops.make(norm, norm.residual ? std::vector{format, format} : std::vector{format})),
        norms(which),
        saved(static_cast<std::size_t>(kernel->traits().saved.value)),
        part(static_cast<std::size_t>(kernel->traits().forward_part)) {}

  /// @param call  has the tensors; this adds what belongs to channels
  void run(Pass pass, Rank& rank, Arguments call, const std::vector<double>& parts) {
    std::vector<const void*> parameters;
    std::vector<void*> state;
    std::vector<void*> gradients;
    for (const int norm : norms) {
      Channels& of = rank.channels[static_cast<std::size_t>(norm)];
      parameters.insert(parameters.end(), {of.weight.data(), of.bias.data()});
      state.insert(state.end(), {of.mean.data(), of.variance.data()});
      gradients.insert(gradients.end(), {of.of_weight.data(), of.of_bias.data()});
    }
    call.parameters = parameters;
    call.state = state;
    call.parameter_gradients = gradients;
    call.saved = saved.data();
    call.part = part.data();
    call.parts = parts;
    kernel->run(pass, call);
  }

  std::unique_ptr<Kernel> kernel;
  std::vector<int> norms;
  std::vector<std::byte> saved;
  std::vector<double> part;
};

const std::vector<double>& part_of(const NormOnRank& norm) { return norm.part; }

/// Runs `submit(rank's operator, rank, pass, parts)` on all ranks, where they exchange statistics after they have
/// measured them.
template <typename Norm, typename Submit>
void on_all(std::vector<Norm>& norms, std::vector<Rank>& ranks, Pass measure, Pass pass, const Submit& submit) {
  std::vector<double> parts;
  for (std::size_t i = 0; i < ranks.size() && !part_of(norms[i]).empty() && pass != Pass::infer; ++i) {
    submit(norms[i], ranks[i], measure, {});
    parts.insert(parts.end(), part_of(norms[i]).begin(), part_of(norms[i]).end());
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) submit(norms[i], ranks[i], pass, parts);
}

struct CaseOfTwo {
  BatchNorm norm;
  bool has_second = false;
  bool in_place = false;
  bool infers = false;
};

/// As two operators: the second input's norm, then the first one's with that as its residual.
void run_apart(Ops& ops, const CaseOfTwo& of, const std::vector<Format>& formats, std::vector<Rank>& ranks) {
  std::vector<NormOnRank> sums;
  std::vector<NormOnRank> shortcuts;
  std::vector<RawTensor> normalized;
  std::vector<RawTensor> of_normalized;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    BatchNorm shortcut = of.norm;
    shortcut.residual = false;
    shortcut.activation = Activation::none;
    sums.emplace_back(ops, of.norm, formats[i], std::vector{0});
    shortcuts.emplace_back(ops, shortcut, formats[i], std::vector{1});
    normalized.emplace_back(ranks[i].output.size());
    of_normalized.emplace_back(ranks[i].output.size());
  }
  const auto index = [&](const Rank& rank) { return static_cast<std::size_t>(&rank - ranks.data()); };
  const auto of_shortcut = [&](NormOnRank& norm, Rank& rank, Pass pass, const std::vector<double>& parts) {
    const std::array<const void*, 1> inputs{rank.inputs[1].data()};
    const std::array<void*, 1> gradients{rank.of_inputs[1].data()};
    norm.run(pass, rank,
             {.inputs = inputs,
              .output = normalized[index(rank)].data(),
              .output_gradient = of_normalized[index(rank)].data(),
              .input_gradients = gradients},
             parts);
  };
  const auto of_sum = [&](NormOnRank& norm, Rank& rank, Pass pass, const std::vector<double>& parts) {
    const std::array<const void*, 2> inputs{rank.inputs[0].data(), normalized[index(rank)].data()};
    const std::array<void*, 2> gradients{rank.of_inputs[0].data(), of_normalized[index(rank)].data()};
    norm.run(pass, rank,
             {.inputs = inputs,
              .output = rank.output.data(),
              .output_gradient = rank.gradient.data(),
              .second_output_gradient = of.has_second ? rank.second.data() : nullptr,
              .input_gradients = gradients},
             parts);
  };
  const Pass pass = of.infers ? Pass::infer : Pass::forward;
  on_all(shortcuts, ranks, Pass::measure, pass, of_shortcut);
  on_all(sums, ranks, Pass::measure, pass, of_sum);
  if (of.infers) return;
  on_all(sums, ranks, Pass::measure_backward, Pass::backward, of_sum);
  on_all(shortcuts, ranks, Pass::measure_backward, Pass::backward, of_shortcut);
}

void run_merged(Ops& ops, const CaseOfTwo& of, const std::vector<Format>& formats, std::vector<Rank>& ranks) {
  BatchNorm merged = of.norm;
  merged.normalizes_residual = true;
  std::vector<NormOnRank> norms;
  for (const Format& format : formats) norms.emplace_back(ops, merged, format, std::vector{0, 1});
  const auto submit = [&](NormOnRank& norm, Rank& rank, Pass pass, const std::vector<double>& parts) {
    const std::array<const void*, 2> inputs{rank.inputs[0].data(), rank.inputs[1].data()};
    void* const of_second = of.in_place ? rank.gradient.data() : rank.of_inputs[1].data();
    const std::array<void*, 2> gradients{rank.of_inputs[0].data(), of_second};
    norm.run(pass, rank,
             {.inputs = inputs,
              .output = rank.output.data(),
              .output_gradient = rank.gradient.data(),
              .second_output_gradient = of.has_second ? rank.second.data() : nullptr,
              .input_gradients = gradients},
             parts);
  };
  on_all(norms, ranks, Pass::measure, of.infers ? Pass::infer : Pass::forward, submit);
  if (of.infers) return;
  on_all(norms, ranks, Pass::measure_backward, Pass::backward, submit);
  if (!of.in_place) return;
  for (Rank& rank : ranks) rank.of_inputs[1] = rank.gradient;
}

void expect_same_bits(Ops& ops, const CaseOfTwo& of, const std::vector<Shape>& shapes, DType dtype) {
  std::vector<Format> formats;
  std::vector<Rank> apart;
  for (const Shape& shape : shapes) {
    const auto kernel = ops.make(of.norm, std::vector(2, Format::plain(shape, DType::float32)));
    formats.push_back(kernel->traits().output);
    ASSERT_EQ(formats.back().dtype, dtype);
    apart.emplace_back(formats.back(), static_cast<double>(apart.size()));
  }
  std::vector<Rank> merged = apart;
  run_apart(ops, of, formats, apart);
  run_merged(ops, of, formats, merged);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string what = std::string(name(dtype)) + " " + of.norm.text() + (of.has_second ? ", two terms" : "") +
                             (of.in_place ? ", in place" : "") + " " + std::to_string(i);
    EXPECT_TRUE(merged[i].output == apart[i].output) << what;
    EXPECT_TRUE(merged[i].of_inputs == apart[i].of_inputs) << what;
    EXPECT_EQ(merged[i].channels, apart[i].channels) << what;
    if (shapes[i].batch > 0 && !of.infers) {
      EXPECT_NE(merged[i].channels[1].of_weight, std::vector<float>(merged[i].channels[1].of_weight.size())) << what;
    }
  }
}

const std::array<CudaArithmetic, 3> arithmetics_of_two{{{}, {.values = DType::bfloat16}, {.values = DType::float16}}};

TEST(TwoBatchNorms, GiveTheBitsOfTwoOperators) {
  for (const CudaArithmetic& arithmetic : arithmetics_of_two) {
    const auto ops = make_hosted_ops(make_cuda_ops(0, arithmetic));
    for (const Activation activation : {Activation::none, Activation::relu6}) {
      for (const bool has_second : {false, true}) {
        for (const bool in_place : {false, true}) {
          CaseOfTwo of{{.activation = activation, .residual = true}, has_second, in_place};
          const Shape shape = has_second == in_place ? Shape{2, 20, 4, 3} : Shape{3, 5, 7, 5};
          expect_same_bits(*ops, of, {shape}, arithmetic.values);
          of.norm.synchronized = true;
          expect_same_bits(*ops, of, {{2, 20, 4, 3}, {0, 20, 4, 3}, {1, 20, 4, 3}}, arithmetic.values);
        }
      }
      const BatchNorm norm{.activation = activation, .residual = true};
      expect_same_bits(*ops, {.norm = norm, .infers = true}, {{2, 20, 4, 3}}, arithmetic.values);
    }
    const BatchNorm norm{.activation = Activation::relu, .residual = true};
    expect_same_bits(*ops, {norm, true}, {{5, 40, 40, 40}}, arithmetic.values);  // in several parts
  }
}

/// A batch norm and the max pool behind it on one rank, as two operators.
struct NormAndPool {
  NormAndPool(Ops& ops, const BatchNorm& fused, const Format& format)
      : norm(ops, without_pool(fused), format, {0}),
        pool(ops.make(*fused.pool, std::array{norm.kernel->traits().output})),
        normalized(static_cast<std::size_t>(format.bytes.value)),
        of_normalized(normalized.size()),
        saved(static_cast<std::size_t>(pool->traits().saved.value)) {}
  static BatchNorm without_pool(BatchNorm norm) {
    norm.pool.reset();
    return norm;
  }

  NormOnRank norm;
  KernelPtr pool;
  RawTensor normalized;
  RawTensor of_normalized;
  std::vector<std::byte> saved;
};
const std::vector<double>& part_of(const NormAndPool& of) { return of.norm.part; }

void submit_norm(NormOnRank& norm, Rank& rank, Pass pass, const std::vector<double>& parts, void* output,
                 void* output_gradient) {
  const std::array<const void*, 1> inputs{rank.inputs[0].data()};
  const std::array<void*, 1> gradients{rank.of_inputs[0].data()};
  norm.run(pass, rank,
           {.inputs = inputs, .output = output, .output_gradient = output_gradient, .input_gradients = gradients},
           parts);
}

void run_pooled(std::vector<NormOnRank>& norms, std::vector<Rank>& ranks, Pass measure, Pass pass) {
  on_all(norms, ranks, measure, pass, [](NormOnRank& norm, Rank& rank, Pass which, const std::vector<double>& parts) {
    submit_norm(norm, rank, which, parts, rank.output.data(), rank.gradient.data());
  });
}

void run_norms(std::vector<NormAndPool>& norms, std::vector<Rank>& ranks, Pass measure, Pass pass) {
  on_all(norms, ranks, measure, pass, [](NormAndPool& of, Rank& rank, Pass which, const std::vector<double>& parts) {
    submit_norm(of.norm, rank, which, parts, of.normalized.data(), of.of_normalized.data());
  });
}

void run_pools(std::vector<NormAndPool>& norms, std::vector<Rank>& ranks, Pass pass) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::array<const void*, 1> inputs{norms[i].normalized.data()};
    const std::array<void*, 1> gradients{norms[i].of_normalized.data()};
    norms[i].pool->run(pass, {.inputs = inputs,
                              .output = ranks[i].output.data(),
                              .saved = norms[i].saved.data(),
                              .output_gradient = ranks[i].gradient.data(),
                              .input_gradients = gradients});
  }
}

/// @param shapes  of the ranks' inputs
void expect_bits_of_norm_and_pool(Ops& ops, const BatchNorm& fused, const std::vector<Shape>& shapes, DType dtype) {
  std::vector<NormOnRank> together;
  std::vector<NormAndPool> apart;
  std::vector<Rank> expected;
  for (const Shape& shape : shapes) {
    const Format in = ops.make(BatchNorm{}, std::array{Format::plain(shape, DType::float32)})->traits().output;
    ASSERT_EQ(in.dtype, dtype);
    together.emplace_back(ops, fused, in, std::vector{0});
    apart.emplace_back(ops, fused, in);
    Rank& rank = expected.emplace_back(in, static_cast<double>(expected.size()));
    const Format out = together.back().kernel->traits().output;
    ASSERT_EQ(out.bytes, apart.back().pool->traits().output.bytes);
    rank.gradient = drawn_raw(out, 3);
    rank.output.resize(rank.gradient.size());
  }
  std::vector<Rank> found = expected;
  for (const Pass pass : {Pass::infer, Pass::forward, Pass::backward}) {
    const Pass measure = pass == Pass::backward ? Pass::measure_backward : Pass::measure;
    run_pooled(together, found, measure, pass);
    if (pass == Pass::backward) run_pools(apart, expected, pass);
    run_norms(apart, expected, measure, pass);
    if (pass != Pass::backward) run_pools(apart, expected, pass);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const std::string what = std::string(name(dtype)) + " " + fused.text() + " " + std::to_string(i);
      EXPECT_TRUE(found[i].output == expected[i].output) << what;
      EXPECT_TRUE(found[i].of_inputs == expected[i].of_inputs) << what;
      EXPECT_EQ(found[i].channels, expected[i].channels) << what;
    }
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const bool is_zero = found[i].of_inputs[0] == RawTensor(found[i].of_inputs[0].size());
    EXPECT_EQ(is_zero, shapes[i].batch == 0) << fused.text();
  }
}

const std::array<MaxPool, 4> fusible_pools{{{.kernel = 3, .stride = 2, .padding = 1},
                                            {.kernel = 2, .stride = 2},
                                            {.kernel = {5, 1}, .stride = {3, 1}, .padding = {2, 0}},
                                            {.kernel = {2, 6}, .stride = {3, 3}}}};

TEST(PooledBatchNorm, GivesTheBitsOfTwoOperators) {
  for (const CudaArithmetic& arithmetic : arithmetics_of_two) {
    const auto ops = make_hosted_ops(make_cuda_ops(0, arithmetic));
    std::vector<BatchNorm> norms;
    for (const MaxPool& pool : fusible_pools) norms.push_back({.activation = Activation::relu, .pool = pool});
    for (const Activation activation : {Activation::none, Activation::relu6})
      norms.push_back({.activation = activation, .pool = fusible_pools.front()});
    for (BatchNorm& norm : norms) {
      for (const Shape& shape : {Shape{2, 20, 7, 8}, Shape{3, 5, 6, 9}})
        expect_bits_of_norm_and_pool(*ops, norm, {shape}, arithmetic.values);
      norm.synchronized = true;
      expect_bits_of_norm_and_pool(*ops, norm, {{2, 20, 7, 8}, {0, 20, 7, 8}, {1, 20, 7, 8}}, arithmetic.values);
    }
    const BatchNorm norm{.activation = Activation::relu, .pool = fusible_pools.front()};
    expect_bits_of_norm_and_pool(*ops, norm, {{5, 40, 40, 40}}, arithmetic.values);  // in several parts
  }
}

TEST(PooledBatchNorm, IsRefusedWhereAnElementIsInMoreWindows) {
  const auto ops = make_hosted_ops(make_cuda_ops(0));
  const std::array in{Format::plain({1, 8, 40, 40}, DType::float32)};
  for (const MaxPool& pool : {MaxPool{.kernel = 3, .stride = 1}, MaxPool{.kernel = {2, 5}, .stride = 2},
                              MaxPool{.kernel = 16, .stride = 16}, MaxPool{.activation = Activation::relu}})
    expect_error([&] { (void)ops->make(BatchNorm{.pool = pool}, in); }, ErrorCode::invalid_argument,
                 {"a batch norm has no max pool"});
}

/// In the second case only the result is too large.
TEST(PooledBatchNorm, IsRefusedForTensorsThatAreTooLarge) {
  const auto expect_refusal = [](const Shape& shape, const MaxPool& pool, const std::string& samples) {
    const std::array in{Format::plain(shape, DType::float32)};
    expect_error([&] { (void)make_cuda_ops(0)->make(BatchNorm{.pool = pool}, in); }, ErrorCode::unsupported,
                 {samples + " samples of a batch norm with a max pool", "use fewer, or leave the pass 'fuse' out"});
  };
  expect_refusal({1 << 26, 64, 16, 16}, {}, "67108864");
  expect_refusal({1 << 30, 4, 1, 1}, {.kernel = 2, .stride = 1, .padding = 1}, "1073741824");
}

/// Returns a network with a stem whose pool has overlapping windows, a block with a projection shortcut, and a pool
/// behind a ReLU whose windows do not overlap.
nn::Graph network_with_fused_norms() {
  const nn::DataSpec data = nn::DataSpec::of_images(3, 20, 18, 3);
  nn::Graph network("fused");
  network.input(data.at("images"));
  const Convolution same{.out_channels = 8, .kernel = 3, .padding = 1, .bias = false};
  network.add("conv1", same);
  network.add("bn1", BatchNorm{});
  network.add("relu1", Relu{});
  const int stem = network.add("maxpool", fusible_pools.front());
  network.add("a.conv", same);
  const int main = network.add("a.bn", BatchNorm{});
  network.add("a.downsample", Convolution{.out_channels = 8, .kernel = 1, .bias = false}, {stem});
  network.add("a.add", Add{}, {main, network.add("a.downbn", BatchNorm{})});
  network.add("a.relu", Relu{});
  network.add("conv2", same);
  network.add("bn2", BatchNorm{});
  network.add("relu2", Relu{});
  network.add("maxpool2", MaxPool{});
  network.add("fc", Linear{.out_features = 3});
  nn::classify(network, data);
  return network;
}

TEST(FusedBatchNorms, GiveTheStepsOfTheirOperators) {
  constexpr std::int64_t batch = 6;
  const nn::Graph network = network_with_fused_norms();
  const std::vector<double> drawn_images = nn::wavy(batch * nn::image_elements(network));
  const std::vector<float> images(drawn_images.begin(), drawn_images.end());
  const std::vector<std::int32_t> labels = nn::cycling_labels(batch, 3);
  for (const CudaArithmetic& arithmetic : arithmetics_of_two) {
    nn::TraineeOf<float> apart(network, 1, nullptr, make_hosted_ops(make_cuda_ops(0, arithmetic), false));
    nn::TraineeOf<float> fused(network, 1, nullptr, make_hosted_ops(make_cuda_ops(0, arithmetic)));
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(fused.step(images, labels, 0.1), apart.step(images, labels, 0.1));
      EXPECT_EQ(fused.gradients, apart.gradients);
      EXPECT_EQ(fused.parameters, apart.parameters);
      EXPECT_EQ(fused.state, apart.state);
    }
    EXPECT_EQ(fused.evaluate(images.data(), labels.data(), batch).loss,
              apart.evaluate(images.data(), labels.data(), batch).loss);
    std::vector<std::string> names;
    for (const nn::OperatorReport& report : fused.model.operators(batch)) names.push_back(report.name);
    for (const std::string gone : {"forward a.bn", "backward a.bn", "forward maxpool", "backward maxpool",
                                   "forward maxpool2", "backward maxpool2"})
      EXPECT_EQ(std::ranges::count(names, gone), 0) << gone;
    EXPECT_EQ(std::ranges::count(names, "forward bn1"), 1);
    EXPECT_LT(fused.model.activation_bytes(batch).value, apart.model.activation_bytes(batch).value);
  }
}

TEST(FusedBatchNorms, AreRefusedByLibrariesWithoutThem) {
  const Format in = Format::plain({1, 2, 3, 4}, DType::float32);
  const BatchNorm two{.residual = true, .normalizes_residual = true};
  expect_error(
      [&] {
        (void)make_reference_ops()->make(two, std::vector{in, in});
      },
      ErrorCode::unsupported, {"reference operators have no batch norm, add batch norm", "leave the pass 'fuse' out"});
  expect_error([&] { (void)make_reference_ops()->make(BatchNorm{.pool = MaxPool{}}, std::array{in}); },
               ErrorCode::unsupported, {"reference operators have no batch norm, max pool"});
}

}  // namespace
}  // namespace lockstep::ops::test
