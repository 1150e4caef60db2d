// SPDX-License-Identifier: Apache-2.0
// The test provides the seconds of each turn, so the result of a contest does not depend on a clock.
#include "nn/plan/choose.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/plan/kernel_bench.hpp"
#include "support/verdict.hpp"

namespace lockstep::nn {
namespace {

/// A contest whose turns take given seconds; `now` is their sum.
struct FakeClock {
  double now = 0;
  std::vector<std::size_t> turns = {};

  std::optional<std::size_t> contest(const std::vector<double>& seconds, double end = 1e9, ContestRules rules = {}) {
    return fastest(
        seconds.size(), rules,
        [&](std::size_t entrant) {
          turns.push_back(entrant);
          now += seconds[entrant];
          return seconds[entrant];
        },
        [&] { return now >= end; });
  }
};

TEST(Contest, IsWonByTheFastest) {
  EXPECT_EQ(FakeClock().contest({2, 1}), 1U);
  EXPECT_EQ(FakeClock().contest({1, 2}), 0U);
  EXPECT_EQ(FakeClock().contest({5, 3, 2, 4}), 2U);
  EXPECT_EQ(FakeClock().contest({1}), 0U);
}

TEST(Contest, IsNotWonWithinTheMargin) {
  EXPECT_EQ(FakeClock().contest({100, 98}), 0U);
  EXPECT_EQ(FakeClock().contest({100, 96}), 1U);
  EXPECT_EQ(FakeClock().contest({100, 96}, 1e9, {.margin = 0.05}), 0U);
}

/// Two of three turns of the faster entrant are disturbed by other work.
TEST(Contest, IsDecidedByTheTurnsThatNobodyDisturbs) {
  int turn = 0;
  const auto take = [&](std::size_t entrant) {
    const bool is_disturbed = entrant == 1 && turn++ % 3 > 0;
    return is_disturbed ? 1000.0 : entrant == 1 ? 1.0 : 2.0;
  };
  EXPECT_EQ(fastest(2, {}, take, [] { return false; }), 1U);
}

TEST(Contest, LetsEntrantsTakeTurns) {
  FakeClock clock;
  (void)clock.contest({1, 1}, 1e9, {.rounds = 3});
  EXPECT_EQ(clock.turns, (std::vector<std::size_t>{0, 1, 0, 1, 0, 1}));
}

TEST(Contest, EndsWithItsTime) {
  FakeClock clock;
  EXPECT_EQ(clock.contest({2, 1}, 10), 1U) << "three rounds and a bit";
  EXPECT_LT(clock.now, 12);
  EXPECT_EQ(FakeClock().contest({2, 1}, 6.5), std::nullopt) << "two rounds and a bit are too few";
  FakeClock over;
  EXPECT_EQ(over.contest({2, 1}, 0), std::nullopt);
  EXPECT_TRUE(over.turns.empty());
}

/// Remembers the operands that it is measured with.
class Watching final : public ops::Kernel {
 public:
  explicit Watching(const ops::Format& format) : Kernel({.inputs = {format}, .output = format}), format_(format) {}
  [[nodiscard]] const std::vector<float>& seen() const { return seen_; }

 private:
  void forward(const ops::Arguments& call) override { add(call.inputs.front()); }
  void backward(const ops::Arguments& call) override { add(call.output_gradient); }
  void add(const void* values) {
    const auto add_as = [&]<typename T>(const T* numbers) {
      for (std::int64_t i = 0; i < format_.shape.count(); ++i) seen_.push_back(static_cast<float>(numbers[i]));
    };
    switch (format_.dtype) {
      case DType::bfloat16: return add_as(static_cast<const bfloat16*>(values));
      case DType::float16: return add_as(static_cast<const float16*>(values));
      default: return add_as(static_cast<const float*>(values));
    }
  }

  ops::Format format_;
  std::vector<float> seen_;
};

/// Random bits taken for numbers of 16 bits are not finite now and then, which changes the speed of kernels.
TEST(KernelBench, DrawsNumbersOfTheKernelsType) {
  const auto ops = ops::make_reference_ops();
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    auto watching = std::make_unique<Watching>(ops::Format::plain({2, 4, 16, 16}, dtype));
    Watching& kernel = *watching;
    std::vector<ops::KernelPtr> kernels;
    kernels.push_back(std::move(watching));
    KernelBench bench(ops::Relu{}, kernels, dtype, ops->device());
    bench.run(kernel, ops::Pass::forward, false);
    bench.run(kernel, ops::Pass::backward, true);
    ASSERT_EQ(kernel.seen().size(), 2U * 8 * 16 * 16);
    for (const float value : kernel.seen()) ASSERT_LE(std::abs(value), 1) << name(dtype) << ' ' << value;
    EXPECT_GT(std::set(kernel.seen().begin(), kernel.seen().end()).size(), 100U) << name(dtype);
  }
}

Graph small_lenet() { return make_model("lenet", DataSpec::of_images(1, 16, 16, 10)); }

constexpr ContestRules short_rules{.rounds = 3, .least_rounds = 1};

TEST(ChooseAlgorithms, MeasuresEachOperatorOnceForItsBatch) {
  const auto ops = ops::make_onednn_ops(1);
  const MeasureOptions options{.samples = 4, .rules = short_rules};
  const MeasuredChoices first = measure_kernels(small_lenet(), *ops, options, {});
  if (first.measured == 0) LOCKSTEP_SKIP(winograd) << "oneDNN has none for this processor";
  EXPECT_EQ(first.measured, 1) << "the second convolution; the first one has one channel";
  EXPECT_EQ(first.choices.size(), 1U);
  EXPECT_EQ(first.choices.text().substr(0, 2), "4 ");
  EXPECT_GT(first.seconds, 0);
  EXPECT_TRUE(ops->choices().empty()) << "it was only measured";

  const MeasuredChoices again = measure_kernels(small_lenet(), *ops, options, first.choices);
  EXPECT_EQ(again.choices, first.choices);
  EXPECT_EQ(again.known, 1);
  EXPECT_EQ(again.measured, 0);

  MeasureOptions other_batch = options;
  other_batch.samples = 5;
  const MeasuredChoices other = measure_kernels(small_lenet(), *ops, other_batch, first.choices);
  EXPECT_EQ(other.measured, 1);
  EXPECT_EQ(other.choices.text().substr(0, 2), "5 ") << "what was found for others is left out";
}

TEST(ChooseAlgorithms, LeavesToTheRuleWhatThereIsNoTimeFor) {
  const auto ops = ops::make_onednn_ops(1);
  ops::KernelChoices used;
  used.set("something", 1, {"onednn", "direct", "direct", "direct"});
  ops->use(used);
  const MeasuredChoices chosen = measure_kernels(small_lenet(), *ops, {.samples = 4, .seconds = 0}, {});
  EXPECT_TRUE(chosen.choices.empty());
  EXPECT_EQ(chosen.measured, 0);
  EXPECT_EQ(ops->choices(), used);
}

TEST(ChooseAlgorithms, HasNothingToDoWhereThereIsOneWay) {
  const auto exact = ops::make_onednn_ops(1, true);
  const auto reference = ops::make_reference_ops();
  for (ops::Ops* ops : {exact.get(), reference.get()}) {
    const MeasuredChoices chosen = measure_kernels(small_lenet(), *ops, {.samples = 4, .rules = short_rules}, {});
    EXPECT_TRUE(chosen.choices.empty()) << ops->name();
    EXPECT_EQ(chosen.measured + chosen.known + chosen.left, 0) << ops->name();
  }
}

}  // namespace
}  // namespace lockstep::nn
