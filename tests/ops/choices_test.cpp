// SPDX-License-Identifier: Apache-2.0
// Tests choices of algorithms as values, and the kernels that are made with them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/kernel_choices.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/graph.hpp"
#include "support/verdict.hpp"

namespace lockstep::ops::test {
namespace {

const std::string direct = "direct";
const std::string winograd = "winograd";

/// Returns oneDNN's algorithms.
KernelAlgorithms by(const std::string& forward, const std::string& backward_data, const std::string& backward_weights) {
  return {"onednn", forward, backward_data, backward_weights};
}

std::string key(const Convolution& convolution, const Shape& in = {8, 32, 12, 10}, DType dtype = DType::float32) {
  const Format format = Format::plain(in, dtype);
  return key_of(convolution, std::span(&format, 1));
}

/// Returns the message of the error that is thrown.
std::string refusal(const std::function<void()>& what, ErrorCode code) {
  try {
    what();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.message();
  }
  return "nothing was refused";
}

TEST(ChoicesKey, TellsApartAllThatDecidesKernelsButTheBatch) {
  const Convolution c{.out_channels = 32, .padding = 1};
  const auto with = [&c](const std::function<void(Convolution&)>& change) {
    Convolution other = c;
    change(other);
    return key(other);
  };
  const std::vector<std::string> keys{key(c),
                                      key(c, {8, 64, 12, 10}),
                                      key(c, {8, 32, 10, 12}),
                                      key(c, {8, 32, 12, 10}, DType::float64),
                                      with([](Convolution& o) { o.out_channels = 64; }),
                                      with([](Convolution& o) {
                                        o.kernel = {3, 1};
                                      }),
                                      with([](Convolution& o) { o.stride = 2; }),
                                      with([](Convolution& o) { o.padding = 0; }),
                                      with([](Convolution& o) { o.dilation = 2; }),
                                      with([](Convolution& o) { o.groups = 2; }),
                                      with([](Convolution& o) { o.bias = false; }),
                                      with([](Convolution& o) { o.statistics = true; }),
                                      with([](Convolution& o) { o.activation = Activation::relu; })};
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), keys.size());
  EXPECT_EQ(key(c, {8, 32, 12, 10}), key(c, {9, 32, 12, 10}));
}

TEST(KernelChoices, AreThoseOfTheNearestBatch) {
  KernelChoices choices;
  const KernelAlgorithms of_8 = by(direct, direct, winograd);
  const KernelAlgorithms of_16 = by(winograd, direct, direct);
  choices.set("a", 8, of_8);
  choices.set("a", 16, of_16);
  for (const auto& [batch, expected] :
       {std::pair(1, of_8), {8, of_8}, {11, of_8}, {12, of_8}, {13, of_16}, {99, of_16}})
    EXPECT_EQ(*choices.find("a", batch), expected) << batch;
  EXPECT_EQ(choices.find("b", 8), nullptr);
  EXPECT_EQ(choices.at("a", 9), nullptr);
  EXPECT_EQ(*choices.at("a", 16), of_16);
}

TEST(KernelChoices, ComeBackFromTheirText) {
  KernelChoices choices;
  choices.set(key({}), 64, by(winograd, direct, direct));
  choices.set(key({}), 8, by(direct, winograd, direct));
  choices.set(key({.out_channels = 7}), 8, by(direct, direct, winograd));
  const KernelChoices back = KernelChoices::parse(choices.text(), "here");
  EXPECT_EQ(back, choices);
  EXPECT_EQ(back.hash(), choices.hash());
  EXPECT_EQ(back.size(), 3U);
  KernelChoices other = choices;
  other.set(key({}), 64, by(winograd, direct, winograd));
  EXPECT_NE(other.hash(), choices.hash());
  const KernelChoicesByConditions file{{"one machine", choices}, {"another, 2 threads", other}};
  EXPECT_EQ(parse_choices_file(format_choices_file(file), "file"), file);
}

TEST(KernelChoices, AreMarkedWithTheirLibrary) {
  KernelChoices choices;
  choices.set("a", 8, by(direct, direct, winograd));
  choices.set("b", 8, {"cudnn", "engine-7", "engine-7", "engine-12"});
  EXPECT_EQ(choices.text(), "8 onednn direct direct winograd a\n8 cudnn engine-7 engine-7 engine-12 b\n");
  EXPECT_EQ(choices.of("cudnn").text(), "8 cudnn engine-7 engine-7 engine-12 b\n");
  EXPECT_TRUE(choices.of("another").empty());
  const auto ops = make_onednn_ops(1);
  EXPECT_NE(refusal([&] { ops->use(choices.of("cudnn")); }, ErrorCode::unsupported).find("'cudnn', not by onednn"),
            std::string::npos);
}

TEST(KernelChoices, OfABrokenFileAreRefusedWithLineAndValue) {
  const std::string head = "lockstep kernel choices, version 2\n# a comment\n\non this machine\n";
  const std::string line = "64 onednn direct direct winograd convolution\n";
  const struct {
    std::string text;
    std::vector<std::string> parts;
  } bad[] = {{"", {"f.txt is empty"}},
             {"lockstep kernel choices, version 1\n", {"f.txt, line 1", "version 1"}},
             {"lockstep kernel choices, version 2\n" + line,
              {"f.txt, line 2", "'64 onednn direct direct winograd convolution'"}},
             {head + "sixty onednn direct direct direct convolution\n", {"f.txt, line 5", "the batch is 'sixty'"}},
             {head + "0 onednn direct direct direct convolution\n", {"f.txt, line 5", "the batch is '0'"}},
             {head + "64x onednn direct direct direct convolution\n", {"f.txt, line 5", "the batch is '64x'"}},
             {head + "64 onednn direct direct winograd\n",
              {"f.txt, line 5", "'64 onednn direct direct winograd' is too short"}},
             {head + line + line, {"f.txt, line 6", "batch 64 of 'convolution' has a line already"}},
             {head + line + "on this machine\n", {"f.txt, line 6", "'on this machine' is there twice"}}};
  for (const auto& file : bad) {
    const std::string message = refusal([&] { (void)parse_choices_file(file.text, "f.txt"); }, ErrorCode::corrupt);
    for (const std::string& part : file.parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  }
  EXPECT_EQ(parse_choices_file(head + line, "f.txt").at("this machine").size(), 1U);
}

/// A convolution after another one, in the format that oneDNN prefers for it.
class ChosenConvolution : public testing::Test {
 protected:
  static constexpr std::int64_t batch = 3;
  const Convolution shape_{.out_channels = 32, .padding = 1, .activation = Activation::relu};

  static Format blocked(Ops& ops) {
    const Format plain = Format::plain({batch, 3, 12, 10}, DType::float32);
    return ops.make(Convolution{.out_channels = 48, .padding = 1}, std::span(&plain, 1))->traits().output;
  }
  std::vector<KernelAlgorithms> candidates(Ops& ops) const {
    const Format in = blocked(ops);
    return ops.candidates(shape_, std::span(&in, 1));
  }
  std::unique_ptr<Kernel> make(Ops& ops) const {
    const Format in = blocked(ops);
    return ops.make(shape_, std::span(&in, 1));
  }
  KernelChoices only(const KernelAlgorithms& algorithms) const {
    KernelChoices choices;
    choices.set(key(shape_, {batch, 48, 12, 10}), batch, algorithms);
    return choices;
  }
};

bool is_winograd(const std::string& kernel) { return kernel.find("wino") != std::string::npos; }

/// Returns the algorithms that the kernel reports.
KernelAlgorithms told(const Kernel& kernel) {
  const auto of = [](const std::string& name) { return is_winograd(name) ? winograd : direct; };
  const std::string backward = kernel.algorithm(Pass::backward);
  const std::size_t comma = backward.find(", ");
  return by(of(kernel.algorithm(Pass::forward)), of(backward.substr(0, comma)), of(backward.substr(comma)));
}

TEST_F(ChosenConvolution, IsComputedByTheAlgorithmsOfEachPass) {
  const auto ops = make_onednn_ops(1);
  const std::vector<KernelAlgorithms> found = candidates(*ops);
  if (found.empty()) LOCKSTEP_SKIP(winograd) << "oneDNN has none for this processor";
  EXPECT_EQ(told(*make(*ops)), found.front()) << "the first is the rule's";
  EXPECT_EQ(found.size(), 4U) << "and each other one differs from it in one pass";
  for (const std::string& forward : {direct, winograd})
    for (const std::string& data : {direct, winograd})
      for (const std::string& weights : {direct, winograd}) {
        ops->use(only(by(forward, data, weights)));
        EXPECT_EQ(told(*make(*ops)), by(forward, data, weights));
        EXPECT_EQ(told(*make(*ops->another())), by(forward, data, weights)) << "on another lane";
      }
  for (const KernelAlgorithms& candidate : found) EXPECT_EQ(std::count(found.begin(), found.end(), candidate), 1);
}

/// Returns the largest difference relative to the largest element.
double distance(const Values& actual, const Values& expected) {
  double largest = 0;
  double error = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(actual[i] - expected[i]));
  }
  return error / largest;
}

TEST_F(ChosenConvolution, StaysAsNearToTheReferenceAsOthers) {
  const auto ops = make_onednn_ops(1);
  const auto reference = make_reference_ops();
  const auto build = [this](Ops& by, DType dtype) {
    Graph graph(by, dtype, {batch, 3, 12, 10});
    graph.linear(graph.convolution(graph.convolution(0, {.out_channels = 48, .padding = 1}), shape_), 4);
    graph.forward();
    graph.backward();
    return graph;
  };
  const Graph expected = build(*reference, DType::float64);
  Graph rule = build(*ops, DType::float32);
  for (const KernelAlgorithms& candidate : candidates(*ops)) {
    ops->use(only(candidate));
    Graph actual = build(*ops, DType::float32);
    EXPECT_LT(distance(actual.output(), expected.output()), 5e-5);
    EXPECT_LT(distance(actual.input_gradient(), expected.input_gradient()), 5e-5);
    const bool is_rule = candidate == candidates(*ops).front();
    for (std::size_t i = 0; i < rule.gradients().size(); ++i)
      EXPECT_LT(distance(actual.gradients()[i]->values(), rule.gradients()[i]->values()), is_rule ? 1e-30 : 1e-4) << i;
  }
}

TEST_F(ChosenConvolution, IsNeverWinogradsWhereThatIsBarred) {
  const auto exact = make_onednn_ops(1, true);
  EXPECT_TRUE(candidates(*exact).empty());
  const KernelChoices choices = only(by(direct, winograd, direct));
  const std::string message = refusal([&] { exact->use(choices); }, ErrorCode::unsupported);
  for (const std::string part : {"exact", "convolution of 48x12x10 to 32", "batch 3"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_TRUE(exact->choices().empty()) << "nothing has changed";
  EXPECT_EQ(told(*make(*exact)), by(direct, direct, direct));
  exact->use(only(by(direct, direct, direct)));  // choices without Winograd are allowed

  const auto reference = make_reference_ops();
  EXPECT_TRUE(candidates(*reference).empty());
  EXPECT_NE(refusal([&] { reference->use(choices); }, ErrorCode::unsupported).find("reference"), std::string::npos);
}

TEST_F(ChosenConvolution, ShowsInWhatRanksCompare) {
  const auto ops = make_onednn_ops(1);
  const std::string before = ops->arithmetic();
  ops->use(only(by(direct, direct, direct)));
  EXPECT_EQ(ops->arithmetic(), before + ", kernel choices " + only(by(direct, direct, direct)).hash());
  ops->use({});
  EXPECT_EQ(ops->arithmetic(), before);
}

}  // namespace
}  // namespace lockstep::ops::test
