// SPDX-License-Identifier: Apache-2.0
// Errors that the public headers of ops promise, as far as processors can meet them. Contract tests have what operators
// and calls refuse.
#include "support/errors.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "lockstep/ops/cuda.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"

namespace lockstep::ops::test {
namespace {

constexpr auto invalid = ErrorCode::invalid_argument;
constexpr auto unsupported = ErrorCode::unsupported;
const Shape pixels{2, 3, 8, 8};
const Format image_format = Format::plain(pixels, DType::float32);

/// An operator of a program that takes one channel, and whose forward pass fails.
class OneChannel final : public CustomOperator {
 public:
  [[nodiscard]] Signature signature(std::span<const Shape> inputs) const override {
    if (inputs[0].channels != 1) throw Error(invalid, "one channel is needed");
    return {.output = inputs[0]};
  }
  [[nodiscard]] std::string text() const override { return "one channel"; }
  [[nodiscard]] std::unique_ptr<Kernel> make(std::span<const Format> inputs) const override {
    class Failing final : public Kernel {
     public:
      explicit Failing(const Format& in) : Kernel({.inputs = {in}, .output = in}) {}

     private:
      void forward(const Arguments& /*call*/) override { throw Error(ErrorCode::io, "the pass fails"); }
      void backward(const Arguments& /*call*/) override {}
    };
    return std::make_unique<Failing>(inputs[0]);
  }
};

TEST(OpsErrors, OfSignatures) {
  const auto expect_refused = [](const Operator& op, std::vector<Shape> inputs, const std::string& part) {
    expect_error([&] { (void)signature_of(op, inputs); }, invalid, {part});
  };
  const Shape nothing{2, 0, 8, 8};
  for (const double probability : {-0.5, 1.0})
    expect_refused(Dropout{.probability = probability}, {pixels}, "probability");
  expect_refused(GlobalAveragePool{}, {nothing}, "2x0x8x8");
  expect_refused(Relu{}, {nothing}, "2x0x8x8");
  expect_refused(Linear{.out_features = 0}, {pixels}, "out_features is 0");
  expect_refused(Add{}, {pixels, {2, 3, 8, 7}}, "2x3x8x7");
  expect_refused(BatchNorm{.epsilon = 0}, {pixels}, "epsilon");
  expect_refused(Custom{}, {pixels}, "custom");
  expect_refused(Custom{std::make_shared<OneChannel>()}, {pixels}, "one channel is needed");
}

TEST(OpsErrors, OfKernels) {
  const auto ops = make_reference_ops();
  const Custom failing{std::make_shared<OneChannel>()};
  expect_error([&] { (void)ops->make(failing, std::array{image_format}); }, invalid, {"one channel is needed"});
  const auto kernel = ops->make(failing, std::array{Format::plain({2, 1, 8, 8}, DType::float32)});
  const std::vector<float> values(128);
  const void* input = values.data();
  expect_error([&] { kernel->run(Pass::forward, {.inputs = std::span(&input, 1)}); }, ErrorCode::io,
               {"the pass fails"});
}

TEST(OpsErrors, OfFormatsAndTypes) {
  const auto ops = make_reference_ops();
  expect_error([&] { (void)ops->reorder(image_format, image_format); }, unsupported);
  for (const bool is_reference : {true, false}) {
    const auto cpu = is_reference ? make_reference_ops() : make_onednn_ops(1);
    EXPECT_FALSE(cpu->converts_bytes());
    const Normalization numbers{.mean = {0, 0, 0}, .deviation = {1, 1, 1}};
    expect_error([&] { (void)cpu->convert_bytes(numbers, image_format); }, unsupported);
    const auto make_half = [&] {
      (void)cpu->make_half(Convolution{.kernel = 9}, std::array{image_format}, DType::bfloat16);
    };
    expect_error(make_half, invalid, {"kernel of 9"});
    for (const DType dtype : {DType::int64, DType::bfloat16}) {
      const UpdateScalars scalars;
      const UpdateStep step{.dtype = dtype, .scalars = &scalars};
      expect_error([&] { cpu->update({&step, 1}); }, unsupported);
      expect_error([&] { cpu->measure_update({&step, 1}); }, unsupported);
      double sum = 0;
      expect_error([&] { cpu->add_squares({nullptr, {0}, dtype}, &sum, Queue::host()); }, unsupported);
      expect_error([&] { (void)cpu->measure_limits(dtype); }, unsupported);
    }
  }
}

TEST(OpsErrors, OfKernelChoices) {
  const std::string line = "64 onednn direct direct winograd a convolution\n";
  const auto choices = KernelChoices::parse(line, "the checkpoint");
  EXPECT_EQ(choices.text(), line);
  expect_error([] { (void)KernelChoices::parse("0 onednn direct direct direct a\n", "the checkpoint"); },
               ErrorCode::corrupt, {"the checkpoint, line 1", "'0'"});
  const std::array<std::string_view, 1> direct{"direct"};
  expect_error([&] { choices.require("onednn", direct, "this is exact"); }, unsupported,
               {"this is exact", "a convolution", "'winograd'"});
  expect_error([&] { choices.require("reference", direct, "there is one way"); }, unsupported, {"onednn"});
  const auto ops = make_reference_ops();
  const auto others = KernelChoices::parse("64 reference direct direct direct a convolution\n", "the checkpoint");
  expect_error([&] { ops->use(others); }, unsupported, {"one algorithm", "a convolution"});
  EXPECT_TRUE(ops->choices().empty()) << "nothing has changed";
}

/// Computes nothing, and has no dtype.
class NoOps final : public Ops {
 public:
  [[nodiscard]] std::string_view name() const override { return "none"; }
  [[nodiscard]] bool supports(DType /*dtype*/) const override { return false; }
  [[nodiscard]] std::unique_ptr<Kernel> reorder(const Format& /*from*/, const Format& /*to*/) override { return {}; }
  [[nodiscard]] std::vector<KernelAlgorithms> candidates(const Operator& /*op*/,
                                                         std::span<const Format> /*inputs*/) override {
    return {};
  }
  void use(const KernelChoices& /*choices*/) override {}
  [[nodiscard]] const KernelChoices& choices() const override { return choices_; }
  [[nodiscard]] std::unique_ptr<Ops> another() const override { return std::make_unique<NoOps>(); }
  [[nodiscard]] std::string arithmetic() const override { return "none"; }
  void update(std::span<const UpdateStep> /*steps*/) override {}
  void measure_update(std::span<const UpdateStep> /*steps*/) override {}
  void average(const AverageStep& /*step*/) override {}
  void add_squares(const ConstBuffer& /*values*/, double* /*sum*/, Queue /*queue*/) override {}
  [[nodiscard]] MachineLimits measure_limits(DType /*dtype*/) override { return {}; }

 private:
  [[nodiscard]] std::unique_ptr<Kernel> make_kernel(const Operator& /*op*/, std::span<const Format> /*inputs*/,
                                                    const Signature& /*signature*/, DType /*reals*/) override {
    return nullptr;
  }
  KernelChoices choices_;
};

TEST(OpsErrors, OfHalfPrecision) {
  expect_error([] { (void)make_rounded_ops(std::make_unique<NoOps>(), DType::bfloat16); }, unsupported, {"float32"});
}

/// A device whose work never ends.
class StuckDevice final : public ComputeDevice {
 public:
  StuckDevice() : ComputeDevice(std::chrono::milliseconds(1)) {}
  [[nodiscard]] std::string_view name() const override { return "stuck"; }
  [[nodiscard]] Queue queue() const override { return Queue::host(); }
  [[nodiscard]] Allocation allocate(Bytes bytes) const override { return allocate_host(bytes); }
  [[nodiscard]] Allocation allocate_staging(Bytes bytes) const override { return allocate_host(bytes); }
  void copy(void* /*to*/, const void* /*from*/, Bytes /*bytes*/, Queue /*queue*/) const override {}
  void clear(void* /*memory*/, Bytes /*bytes*/, Queue /*queue*/) const override {}
  [[nodiscard]] bool is_idle(Queue /*queue*/) const override { return false; }
  [[nodiscard]] std::unique_ptr<DeviceEvent> new_event() const override { return nullptr; }
};

TEST(OpsErrors, OfDevices) {
  expect_error([] { StuckDevice().wait(Queue::host()); }, ErrorCode::timeout, {"'stuck'"});
  const Bytes too_much{std::numeric_limits<std::int64_t>::max()};
  EXPECT_THROW((void)host_device().allocate(too_much), std::bad_alloc);
  EXPECT_THROW((void)host_device().allocate_staging(too_much), std::bad_alloc);
}

TEST(OpsErrors, OfGpusThatThisMachineOrBuildLacks) {
  if (!why_no_cuda_ops().empty())
    expect_error([] { (void)make_cuda_ops(0); }, unsupported, {why_no_cuda_ops()});
  else
    expect_error([] { (void)make_cuda_ops(0, {.values = DType::int32}); }, invalid, {"int32"});
}

}  // namespace
}  // namespace lockstep::ops::test
