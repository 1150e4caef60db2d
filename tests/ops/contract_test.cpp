// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/graph.hpp"
#include "ops/lstm_trial.hpp"
#include "support/errors.hpp"

/// Tests what every implementation must provide: refusals, the loss, the optimizer, empty batches.
namespace lockstep::ops::test {
namespace {

class Contract : public testing::TestWithParam<Implementation> {
 protected:
  std::unique_ptr<Ops> ops_ = GetParam().make();

  void update(const UpdateStep& step) { ops_->update({&step, 1}); }

  template <typename F>
  void expect_refusal(const F& f, const std::string& part, ErrorCode code = ErrorCode::invalid_argument) {
    try {
      f();
      ADD_FAILURE() << "accepted; expected an error with \"" << part << '"';
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }
};

const Format image = Format::plain({2, 3, 8, 8}, DType::float32);

TEST_P(Contract, NamesItself) {
  EXPECT_EQ(ops_->name(), GetParam().name);
  EXPECT_TRUE(ops_->supports(DType::float32));
  EXPECT_FALSE(ops_->supports(DType::int32));
}

TEST_P(Contract, RefusesADtypeItDoesNotSupport) {
  expect_refusal(
      [&] {
        (void)ops_->make(Relu{}, std::vector{Format::plain({1, 1, 1, 1}, DType::int32)});
      },
      "int32", ErrorCode::unsupported);
}

TEST_P(Contract, RefusesConvolutionsThatCannotBe) {
  expect_refusal([&] { (void)ops_->make(Convolution{.out_channels = 0}, std::vector{image}); }, "out_channels is 0");
  expect_refusal([&] { (void)ops_->make(Convolution{.kernel = 0}, std::vector{image}); }, "kernel is 0");
  expect_refusal([&] { (void)ops_->make(Convolution{.stride = 0}, std::vector{image}); }, "stride is 0");
  expect_refusal([&] { (void)ops_->make(Convolution{.padding = -1}, std::vector{image}); }, "padding is -1");
  expect_refusal([&] { (void)ops_->make(Convolution{.kernel = 9}, std::vector{image}); },
                 "kernel of 9 does not fit an input of 2x3x8x8");
  expect_refusal(
      [&] {
        (void)ops_->make(Convolution{.kernel = {1, 9}}, std::vector{image});
      },
      "kernel of 1×9 does not fit an input of 2x3x8x8");
  expect_refusal([&] { (void)ops_->make(Convolution{.stride = {2, 0}}, std::vector{image}); }, "stride is 2×0");
  expect_refusal([&] { (void)ops_->make(Convolution{.dilation = 0}, std::vector{image}); }, "dilation is 0");
  expect_refusal([&] { (void)ops_->make(Convolution{.dilation = 4}, std::vector{image}); },
                 "kernel of 3 and dilation 4 does not fit");
  expect_refusal([&] { (void)ops_->make(Convolution{.groups = 0}, std::vector{image}); }, "groups is 0");
  expect_refusal([&] { (void)ops_->make(Convolution{.out_channels = 4, .groups = 3}, std::vector{image}); },
                 "groups is 3; it must divide both the 3 channels of the input and the 4 of the output");
}

TEST_P(Contract, RefusesTransposedConvolutionsThatCannotBe) {
  using Transposed = TransposedConvolution;
  const auto refuse = [&](const Transposed& shape, const std::string& part) {
    expect_refusal([&] { (void)ops_->make(shape, std::vector{image}); }, part);
  };
  refuse({.out_channels = 0}, "out_channels is 0");
  refuse({.kernel = {0, 3}}, "kernel is 0×3");
  refuse({.stride = 0}, "stride is 0");
  refuse({.padding = -1}, "padding is -1");
  refuse({.output_padding = -1}, "output_padding is -1");
  refuse({.stride = 2, .output_padding = 2},
         "output_padding is 2; it must be less than the stride, 2, or the dilation, 1");
  refuse({.stride = {1, 2}, .output_padding = 1, .dilation = 1},
         "output_padding is 1; it must be less than the stride, 1×2, or the dilation, 1");
  refuse({.dilation = 0}, "dilation is 0");
  refuse({.out_channels = 4, .groups = 3}, "groups is 3");
  refuse({.padding = 5}, "padding of 5 leaves no output for an input of 2x3x8x8");
}

TEST_P(Contract, RefusesPoolsThatCannotBe) {
  expect_refusal([&] { (void)ops_->make(MaxPool{.kernel = 9}, std::vector{image}); }, "does not fit");
  expect_refusal([&] { (void)ops_->make(AveragePool{.stride = 0}, std::vector{image}); }, "stride is 0");
  expect_refusal([&] { (void)ops_->make(MaxPool{.padding = -1}, std::vector{image}); }, "padding is -1");
  expect_refusal(
      [&] {
        (void)ops_->make(MaxPool{.kernel = {2, 3}, .padding = {1, 2}}, std::vector{image});
      },
      "padding is 1×2; it must be at most half of the kernel, which is 2×3");
  expect_refusal([&] { (void)ops_->make(AveragePool{.padding = 2}, std::vector{image}); },
                 "padding is 2; it must be at most half of the kernel, which is 2");
  expect_refusal([&] { (void)ops_->make(AdaptiveAveragePool{.height = 0}, std::vector{image}); }, "height is 0");
  expect_refusal([&] { (void)ops_->make(AdaptiveAveragePool{.width = -3}, std::vector{image}); }, "width is -3");
  expect_refusal([&] { (void)ops_->make(ChannelPool{}, std::vector{image, image}); }, "a channel pool takes 1 input");
}

TEST_P(Contract, RefusesOtherNonsense) {
  expect_refusal([&] { (void)ops_->make(Linear{.out_features = 0}, std::vector{image}); }, "out_features is 0");
  expect_refusal([&] { (void)ops_->make(BatchNorm{.epsilon = 0}, std::vector{image}); }, "epsilon");
  expect_refusal([&] { (void)ops_->make(BatchNorm{.momentum = 2}, std::vector{image}); }, "momentum");
  expect_refusal([&] { (void)ops_->make(BatchNorm{.residual = true}, std::vector{image}); }, "takes 2 inputs, not 1");
  expect_refusal(
      [&] {
        (void)ops_->make(Add{}, std::vector{image, Format::plain({2, 3, 8, 7}, DType::float32)});
      },
      "2x3x8x8 and 2x3x8x7");
  expect_refusal(
      [&] {
        (void)ops_->make(Relu{}, std::vector{Format::plain({1, 0, 1, 1}, DType::float32)});
      },
      "1x0x1x1");
  expect_refusal(
      [&] {
        (void)ops_->make(CrossEntropy{}, std::vector{image, Format::plain({2, 1, 1, 1}, DType::int32)});
      },
      "need a label for each position, 2x1x8x8");
  expect_refusal(
      [&] {
        (void)ops_->make(CrossEntropy{}, std::vector{image, Format::plain({2, 1, 8, 8}, DType::float32)});
      },
      "input 1 has to be int32");
  expect_refusal([&] { (void)ops_->make(Custom{}, std::vector{image}); }, "a custom operator is nothing");
  expect_refusal([&] { (void)ops_->make(Relu{}, {}); }, "needs an input");
}

TEST_P(Contract, RefusesLossesThatCannotBe) {
  const auto refuse = [&](const Operator& op, const std::vector<Shape>& shapes, const std::string& part) {
    expect_refusal([&] { (void)signature_of(op, shapes); }, part);
  };
  const Shape boxes{2, 4, 3, 3};
  const Shape labels{2, 1, 3, 3};
  const Shape one{2, 1, 1, 1};
  refuse(CrossEntropy{.label_smoothing = 1.5}, {boxes, labels}, "label_smoothing is 1.5");
  refuse(CrossEntropy{.class_weights = {1, 2}}, {boxes, labels}, "class_weights are 2; there are 4 classes");
  refuse(CrossEntropy{.class_weights = {1, 2, -1, 3}}, {boxes, labels}, "class_weights[2] is -1");
  refuse(SoftCrossEntropy{}, {boxes, labels}, "need targets of the same shape, not 2x1x3x3");
  refuse(SoftCrossEntropy{.label_smoothing = -1}, {boxes, boxes}, "label_smoothing is -1");
  refuse(BinaryCrossEntropy{.positive_weight = -2}, {boxes, boxes}, "positive_weight is -2");
  refuse(BinaryCrossEntropy{}, {boxes, boxes, labels}, "need weights of 2x4x3x3, not 2x1x3x3");
  refuse(BinaryCrossEntropy{}, {}, "binary cross-entropy takes 2 inputs, or 3");
  refuse(SmoothL1{.beta = -1}, {boxes, boxes}, "beta is -1");
  refuse(SmoothL1{}, {boxes, labels}, "need targets of the same shape");
  refuse(Giou{}, {labels, labels}, "have 1 channels; there must be 4");
  refuse(Giou{}, {boxes, boxes, boxes}, "need weights of 2x1x3x3");
  refuse(Giou{.epsilon = 0}, {boxes, boxes}, "epsilon is 0");
  refuse(OhemCrossEntropy{.threshold = 0}, {boxes, labels}, "threshold is 0");
  refuse(OhemCrossEntropy{.least = 2}, {boxes, labels}, "least is 2");
  refuse(OhemCrossEntropy{}, {boxes, one}, "need a label for each position, 2x1x3x3 in all");
  refuse(Dice{.epsilon = 0}, {boxes, boxes}, "epsilon is 0");
  refuse(Dice{}, {boxes, boxes, boxes}, "dice takes 2 inputs, not 3");
  refuse(Dice{.by_label = true}, {boxes, boxes}, "need a label for each position, 2x1x3x3 in all");
  const Shape map{2, 16, 3, 3};
  const Shape targets{2, 5, 1, 7};
  refuse(AnchorLoss{}, {map, targets}, "anchors are 0; there must be 1 to 16");
  refuse(AnchorLoss{.anchors = {{8, 0}}}, {map, targets}, "an anchor has the extent 0");
  refuse(AnchorLoss{.anchors = {{8, 8}}, .stride = 0}, {map, targets}, "stride is 0");
  refuse(AnchorLoss{.anchors = {{8, 8}, {8, 8}, {8, 8}}}, {map, targets}, "has 16 channels; 3 anchors need");
  refuse(AnchorLoss{.anchors = {{8, 8}, {8, 8}, {8, 8}, {8, 8}}}, {map, targets}, "has 16 channels; 4 anchors need");
  refuse(AnchorLoss{.anchors = {{8, 8}}}, {map, {2, 4, 1, 7}}, "needs boxes of 2x5x1xM, not 2x4x1x7");
  refuse(AnchorLoss{.anchors = {{8, 8}}}, {map, {1, 5, 1, 7}}, "needs boxes of 2x5x1xM, not 1x5x1x7");
  refuse(AnchorLoss{.anchors = {{8, 8}}, .label_smoothing = 2}, {map, targets}, "label_smoothing is 2");
  refuse(AnchorDecode{.anchors = {{8, 8}, {8, 8}, {8, 8}}}, {map}, "has 16 channels; 3 anchors need");
  refuse(Ctc{}, {boxes, one, one, one}, "their height must be 1");
  refuse(Ctc{.blank = 4}, {{2, 4, 1, 9}, {2, 1, 1, 3}, one, one}, "blank is 4; there are 4 classes");
  refuse(Ctc{}, {{2, 4, 1, 9}, {1, 1, 1, 3}, one, one}, "need targets of 2x1x1xS, not 1x1x1x3");
  refuse(Ctc{}, {{2, 4, 1, 9}, {2, 1, 1, 3}, one, {2, 1, 1, 2}}, "two lengths for each sample");
  refuse(Ctc{}, {{2, 4, 1, 9}, {2, 1, 1, 3}, {2, 1, 1, 2}}, "CTC of all steps needs a length for each sample");
}

TEST_P(Contract, RefusesFunctionsThatCannotBe) {
  const auto leaky = [](double slope) { return Pointwise{.kind = Pointwise::Kind::leaky_relu, .slope = slope}; };
  expect_refusal([&] { (void)ops_->make(leaky(-0.5), std::vector{image}); }, "slope is -0.5");
  expect_refusal([&] { (void)ops_->make(leaky(std::numeric_limits<double>::infinity()), std::vector{image}); },
                 "slope is inf");
  const Pointwise affine{.kind = Pointwise::Kind::affine, .offset = std::numeric_limits<double>::quiet_NaN()};
  expect_refusal([&] { (void)ops_->make(affine, std::vector{image}); }, "offset is nan");
}

TEST_P(Contract, RefusesProductsThatCannotBe) {
  const auto product = [&](const Shape& other) {
    (void)ops_->make(Multiply{}, std::vector{image, Format::plain(other, DType::float32)});
  };
  expect_refusal([&] { product({2, 2, 1, 1}); }, "cannot multiply activations of 2x3x8x8 and 2x2x1x1");
  expect_refusal([&] { product({1, 3, 8, 8}); }, "2x3x8x8 and 1x3x8x8");
}

TEST_P(Contract, RefusesNormsThatCannotBe) {
  const auto make = [&](const Operator& op) { (void)ops_->make(op, std::vector{image}); };
  expect_refusal([&] { make(FrozenBatchNorm{.epsilon = -1}); }, "epsilon is -1");
  expect_refusal([&] { make(LayerNorm{.epsilon = 0}); }, "epsilon is 0");
  expect_refusal([&] { make(GroupNorm{.epsilon = 0}); }, "epsilon is 0");
  expect_refusal([&] { make(GroupNorm{.groups = 0}); }, "groups is 0");
  expect_refusal([&] { make(GroupNorm{.groups = 2}); }, "groups is 2; it must divide the channels of 2x3x8x8");
}

TEST_P(Contract, RefusesArrangementsThatCannotBe) {
  const Format taller = Format::plain({2, 3, 9, 8}, DType::float32);
  expect_refusal([&] { (void)ops_->make(Concat{}, std::vector{image}); }, "at least 2 inputs, not 1");
  expect_refusal(
      [&] {
        (void)ops_->make(Concat{}, std::vector{image, taller});
      },
      "cannot concatenate activations of 2x3x8x8 and 2x3x9x8 along channels");
  expect_refusal(
      [&] {
        (void)ops_->make(Concat{}, std::vector{image, Format::plain({1, 3, 8, 8}, DType::float32)});
      },
      "2x3x8x8 and 1x3x8x8");
  expect_refusal([&] { (void)ops_->make(Slice{.begin = -1}, std::vector{image}); }, "begin is -1");
  expect_refusal([&] { (void)ops_->make(Slice{.begin = 1, .end = 1}, std::vector{image}); },
                 "end is 1; it must be greater than begin, 1");
  expect_refusal([&] { (void)ops_->make(Slice{.axis = Axis::width, .end = 9}, std::vector{image}); },
                 "end is 9; it must be greater than begin, 0, and at most the input's width, 8");
  expect_refusal([&] { (void)ops_->make(Reshape{.channels = 0}, std::vector{image}); }, "channels is 0");
  expect_refusal([&] { (void)ops_->make(Reshape{.channels = 3, .height = 8, .width = 9}, std::vector{image}); },
                 "samples of 2x3x8x8 into 2x3x8x9");
  expect_refusal(
      [&] {
        (void)ops_->make(Permute{.order = {Axis::width, Axis::height, Axis::width}}, std::vector{image});
      },
      "order is width, height, width");
}

TEST_P(Contract, RefusesSizesThatCannotBe) {
  expect_refusal([&] { (void)ops_->make(Resize{.scale = -2}, std::vector{image}); }, "scale is -2");
  expect_refusal([&] { (void)ops_->make(Resize{.height = 4}, std::vector{image}); }, "width is 0");
  expect_refusal([&] { (void)ops_->make(Resize{.width = 4, .scale = 2}, std::vector{image}); },
                 "a scale, 2, and a size, 0x4");
  expect_refusal([&] { (void)ops_->make(Resize{.scale = 2, .align_corners = true}, std::vector{image}); },
                 "align_corners is for mode bilinear");
}

TEST_P(Contract, RefusesSequencesThatCannotBe) {
  const Format sequences = Format::plain({2, 3, 1, 8}, DType::float32);
  const auto lengths = [](std::int64_t count, DType dtype) { return Format::plain({count, 1, 1, 1}, dtype); };
  expect_refusal([&] { (void)ops_->make(Lstm{.hidden = 0}, std::vector{sequences}); }, "hidden is 0");
  expect_refusal([&] { (void)ops_->make(Lstm{}, std::vector{image}); }, "of height 1");
  expect_refusal(
      [&] {
        (void)ops_->make(Lstm{}, std::vector{sequences, lengths(3, DType::int32)});
      },
      "a length for each sample, 2x1x1x1 in all, not 3x1x1x1");
  expect_refusal(
      [&] {
        (void)ops_->make(Lstm{}, std::vector{sequences, lengths(2, DType::float32)});
      },
      "input 1 has to be int32");
}

TEST_P(Contract, LstmReadsNothingBeyondASequencesLength) { expect_nothing_read_beyond_lengths(*ops_); }

TEST_P(Contract, RefusesEmbeddingsThatCannotBe) {
  const Format tokens = Format::plain({2, 1, 1, 3}, DType::int32);
  expect_refusal([&] { (void)ops_->make(Embedding{.entries = 0}, std::vector{tokens}); }, "entries is 0");
  expect_refusal([&] { (void)ops_->make(Embedding{.features = 0}, std::vector{tokens}); }, "features is 0");
  expect_refusal([&] { (void)ops_->make(Embedding{.entries = 4, .padding_index = 4}, std::vector{tokens}); },
                 "padding_index is 4");
  expect_refusal(
      [&] {
        (void)ops_->make(Embedding{}, std::vector{Format::plain({2, 3, 1, 3}, DType::int32)});
      },
      "2x3x1x3");
  expect_refusal(
      [&] {
        (void)ops_->make(Embedding{}, std::vector{Format::plain({2, 1, 1, 3}, DType::float32)});
      },
      "input 0 has to be int32");
  expect_refusal([&] { (void)ops_->make(Embedding{}, std::vector{tokens}, DType::int64); }, "int64",
                 ErrorCode::unsupported);
}

TEST_P(Contract, EmbeddingTakesRowsAndGivesThePaddingNoGradient) {
  const auto kernel = ops_->make(Embedding{.entries = 3, .features = 2, .padding_index = 1},
                                 std::vector{Format::plain({1, 1, 1, 3}, DType::int32)});
  std::vector<std::int32_t> tokens{2, 1, 2};
  const std::vector<float> table{1, 2, 3, 4, 5, 6};
  const std::vector<const void*> inputs{tokens.data()};
  const std::vector<const void*> parameters{table.data()};
  std::vector<float> out(6);
  kernel->run(Pass::forward, {.inputs = inputs, .parameters = parameters, .output = out.data()});
  EXPECT_EQ(out, (std::vector<float>{5, 3, 5, 6, 4, 6}));
  std::vector<float> out_gradient{1, 2, 4, 8, 16, 32};
  std::vector<float> gradient(6, 77);
  const std::vector<void*> none{nullptr};
  const std::vector<void*> gradients{gradient.data()};
  kernel->run(Pass::backward, {.inputs = inputs,
                               .parameters = parameters,
                               .output_gradient = out_gradient.data(),
                               .input_gradients = none,
                               .parameter_gradients = gradients});
  EXPECT_EQ(gradient, (std::vector<float>{0, 0, 0, 0, 5, 40}));
  for (const std::int32_t wrong : {-1, 3}) {
    tokens[1] = wrong;
    Fault fault;
    kernel->run(Pass::forward, {.inputs = inputs, .parameters = parameters, .output = out.data(), .fault = &fault});
    EXPECT_EQ(text_of(fault, "sample 4"),
              "a token of sample 4 is " + std::to_string(wrong) + "; there are 3 entries, numbered from 0");
  }
}

TEST_P(Contract, RefusesACallWithMissingTensors) {
  const auto op = ops_->make(Linear{.out_features = 4}, std::vector{image});
  expect_refusal([&] { op->run(Pass::forward, {}); }, "takes 1 inputs, the call brings 0");
  const std::vector<const void*> input{nullptr};
  expect_refusal([&] { op->run(Pass::backward, {.inputs = input}); }, "takes 2 parameters, the call brings 0");
  expect_refusal([&] { op->run(Pass::normalizer, {.inputs = input}); }, "only losses");
}

/// Computes the cross-entropy of plain logits, in float32.
struct LossOf {
  std::unique_ptr<Kernel> kernel;
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  std::vector<float> gradient = std::vector<float>(logits.size(), 77);
  Fault fault = {};

  LossSums run(Pass pass) {
    LossSums loss_sums{-1, -1, -1};
    const std::vector<const void*> inputs{logits.data(), labels.data()};
    kernel->run(pass, {.inputs = inputs, .output = &loss_sums, .fault = &fault});
    return loss_sums;
  }
  const std::vector<float>& backward(double factor) {
    const std::vector<const void*> inputs{logits.data(), labels.data()};
    const std::vector<void*> gradients{gradient.data(), nullptr};
    kernel->run(Pass::backward, {.inputs = inputs, .output_gradient = &factor, .input_gradients = gradients});
    return gradient;
  }
};

LossOf make_loss(Ops& ops, const Shape& shape, std::vector<float> logits, std::vector<std::int32_t> labels,
                 const CrossEntropy& loss = {}) {
  const std::vector formats{Format::plain(shape, DType::float32),
                            Format::plain({shape.batch, 1, shape.height, shape.width}, DType::int32)};
  return {ops.make(loss, formats), std::move(logits), std::move(labels)};
}

TEST_P(Contract, LossOfEqualLogitsIsTheLogarithmOfTheClasses) {
  LossOf loss = make_loss(*ops_, {2, 4}, std::vector<float>(8, 100.0F), {0, 3});
  const LossSums loss_sums = loss.run(Pass::forward);
  EXPECT_EQ(loss_sums.weight, 2);
  EXPECT_NEAR(loss_sums.loss, 2 * std::log(4), 1e-6);
  EXPECT_EQ(loss_sums.correct, 1);  // class 0 is the first of equal ones
  EXPECT_EQ(loss.backward(2), (std::vector<float>{-1.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F, -1.5F}));
}

TEST_P(Contract, LossTakesALabelForEachPositionAndLeavesOutTheIgnored) {
  // There are two classes at 1×3 positions of one sample; the first position is ignored.
  LossOf loss = make_loss(*ops_, {1, 2, 1, 3}, {5, 0, 1, -5, 0, 1}, {9, 1, 0}, {.ignore_index = 9});
  EXPECT_EQ(loss.run(Pass::normalizer).weight, 2);
  const LossSums loss_sums = loss.run(Pass::forward);
  EXPECT_EQ(loss_sums.weight, 2);
  EXPECT_NEAR(loss_sums.loss, 2 * std::log(2), 1e-6);
  EXPECT_EQ(loss_sums.correct, 1);
  EXPECT_EQ(loss.backward(1), (std::vector<float>{0, 0.5F, -0.5F, 0, -0.5F, 0.5F}));
}

TEST_P(Contract, LossOfNoWeightGivesGradientsOfZeroWhateverTheLogits) {
  LossOf loss = make_loss(*ops_, {1, 2}, {std::numeric_limits<float>::infinity(), 0}, {-100});
  EXPECT_EQ(loss.run(Pass::forward).weight, 0);
  EXPECT_EQ(loss.backward(0), (std::vector<float>{0, 0}));
}

TEST_P(Contract, LossOfNotANumberIsNotANumber) {
  LossOf loss = make_loss(*ops_, {1, 3}, {1, std::numeric_limits<float>::quiet_NaN(), 2}, {0});
  EXPECT_TRUE(std::isnan(loss.run(Pass::forward).loss));
}

TEST_P(Contract, LossReportsTheFirstLabelThatIsNoClassAndIgnoresIt) {
  for (const std::int32_t wrong : {-1, 4}) {
    LossOf loss = make_loss(*ops_, {3, 4}, std::vector<float>(12), {0, wrong, 77});
    const LossSums sums = loss.run(Pass::forward);
    EXPECT_EQ(text_of(loss.fault, "sample " + std::to_string(loss.fault.sample)),
              "label of sample 1 is " + std::to_string(wrong) + "; there are 4 classes, numbered from 0");
    EXPECT_EQ(sums.weight, 1);
    const std::vector<float>& gradient = loss.backward(1);
    EXPECT_EQ(std::vector<float>(gradient.begin() + 4, gradient.end()), std::vector<float>(8, 0));
  }
}

TEST_P(Contract, SgdTakesTheStepOfItsFormula) {
  for (const bool nesterov : {false, true}) {
    // g = 4·0.5 + 0.25·2 = 2.5, v = 0.5·1 + 2.5 = 3, with Nesterov's method 2.5 + 0.5·3 = 4
    std::vector<float> parameters{2};
    std::vector<float> velocity{1};
    const std::vector<float> gradients{4};
    const UpdateScalars scalars{.learning_rate = 0.125, .gradient_scale = 0.5};
    update({.parameters = parameters.data(),
            .gradients = gradients.data(),
            .first = velocity.data(),
            .count = {1},
            .momentum = 0.5,
            .nesterov = nesterov,
            .weight_decay = 0.25,
            .scalars = &scalars});
    EXPECT_EQ(velocity[0], 3.0F);
    EXPECT_EQ(parameters[0], nesterov ? 1.5F : 1.625F);
  }
}

/// The length is not divisible by any thread's part, cache line or vector. The rate is read when the update runs.
TEST_P(Contract, SgdUpdatesEveryElementOnceAndReadsItsScalarsWhenItRuns) {
  constexpr std::size_t count = 1003;
  constexpr float untouched = 77;
  std::vector<float> parameters(count + 1, untouched);
  std::vector<float> velocity(count + 1, untouched);
  std::vector<float> gradients(count);
  for (std::size_t i = 0; i < count; ++i) {
    parameters[i] = static_cast<float>(i);
    velocity[i] = 0;
    gradients[i] = static_cast<float>(i % 5);
  }
  UpdateScalars scalars{.learning_rate = 9};
  const UpdateStep step{.parameters = parameters.data(),
                        .gradients = gradients.data(),
                        .first = velocity.data(),
                        .count = {count},
                        .momentum = 0.5,
                        .scalars = &scalars};
  for (const double rate : {0.5, 0.25}) {
    scalars.learning_rate = rate;
    update(step);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto g = static_cast<float>(i % 5);
    ASSERT_EQ(velocity[i], 1.5F * g) << i;
    ASSERT_EQ(parameters[i], static_cast<float>(i) - 0.5F * g - 0.25F * 1.5F * g) << i;
  }
  EXPECT_EQ(parameters[count], untouched);
  EXPECT_EQ(velocity[count], untouched);
}

TEST_P(Contract, SgdChangesNothingWhereTheUpdateIsNotToBeMade) {
  std::vector<float> parameters{2};
  std::vector<float> velocity{1};
  const std::vector<float> gradients{std::numeric_limits<float>::quiet_NaN()};
  const UpdateScalars scalars{.learning_rate = 1, .go = false};
  update({.parameters = parameters.data(),
          .gradients = gradients.data(),
          .first = velocity.data(),
          .count = {1},
          .momentum = 0.5,
          .scalars = &scalars});
  EXPECT_EQ(velocity[0], 1);
  EXPECT_EQ(parameters[0], 2);
}

TEST_P(Contract, AveragesAreWeightedSumsInWhichAFactorOfZeroGivesZeros) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto averaged = [&](const AverageScalars& scalars, float average, float value) {
    std::vector<float> averages{average, 8};
    const std::vector<float> values{value, 4};
    ops_->average({.averages = averages.data(), .values = values.data(), .count = {2}, .scalars = &scalars});
    return averages;
  };
  EXPECT_EQ(averaged({.keep = 0.75, .take = 0.25}, 2, 6), (std::vector<float>{3, 7}));
  EXPECT_EQ(averaged({.keep = 0, .take = 0.5}, nan, 6), (std::vector<float>{3, 2}));
  EXPECT_EQ(averaged({.keep = 1, .take = 0}, 2, nan), (std::vector<float>{2, 8}));
  EXPECT_EQ(averaged({.keep = 0, .take = 0}, nan, nan), (std::vector<float>{0, 0}));
  EXPECT_EQ(averaged({.keep = 0.75, .take = 0.25, .go = false}, 2, nan), (std::vector<float>{2, 8}));
}

TEST_P(Contract, SgdRefusesIntegers) {
  expect_refusal([&] { update({.dtype = DType::int64}); }, "int64", ErrorCode::unsupported);
  expect_refusal([&] { (void)ops_->measure_limits(DType::int64); }, "int64", ErrorCode::unsupported);
}

TEST_P(Contract, EmptyBatchGivesZeroGradientsAndKeepsStatistics) {
  Graph graph(*ops_, DType::float32, {0, 3, 8, 8});
  int node = graph.convolution(0, {.out_channels = 16, .padding = 1, .activation = Activation::relu});
  node = graph.batch_norm(node, {.activation = Activation::relu});
  node = graph.add(graph.relu(node), node, Activation::relu);
  node = graph.average_pool(graph.max_pool(node, {}), {});
  graph.linear(graph.convolution(node, {.out_channels = 5, .kernel = 1, .bias = false}), 10);
  std::vector<Values> before;
  for (const auto& state : graph.state()) before.push_back(state->values());
  graph.forward();
  graph.backward();
  EXPECT_TRUE(graph.output().empty());
  for (const auto& gradient : graph.gradients()) {
    EXPECT_EQ(gradient->values(), Values(static_cast<std::size_t>(gradient->count()), 0.0));
  }
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(graph.state()[i]->values(), before[i]);
}

TEST_P(Contract, LossOfAnEmptyBatchIsZero) {
  LossOf loss = make_loss(*ops_, {0, 10}, {}, {});
  const LossSums loss_sums = loss.run(Pass::forward);
  EXPECT_EQ(loss_sums.weight, 0);
  EXPECT_EQ(loss_sums.loss, 0);
  EXPECT_EQ(loss_sums.correct, 0);
}

TEST_P(Contract, RepeatsItselfBitForBit) {
  const auto run = [&] {
    Graph graph(*ops_, DType::float32, {4, 3, 12, 12});
    const int node = graph.convolution(0, {.out_channels = 16, .padding = 1});
    graph.linear(graph.max_pool(graph.batch_norm(node, {.activation = Activation::relu}), {}), 10);
    graph.forward();
    graph.backward();
    std::vector<Values> result{graph.output(), graph.input_gradient()};
    for (const auto& gradient : graph.gradients()) result.push_back(gradient->values());
    return result;
  };
  EXPECT_EQ(run(), run());
}

INSTANTIATE_TEST_SUITE_P(Ops, Contract,
                         testing::Values(Implementation{"reference", make_reference_ops},
                                         Implementation{"onednn", [] { return make_onednn_ops(1); }}),
                         [](const auto& test) { return test.param.name; });

TEST(OneDnn, RefusesToRunOnNoThreads) {
  EXPECT_EQ(code_of([&] { (void)make_onednn_ops(0); }), ErrorCode::invalid_argument);
}

TEST(OneDnn, RefusesFloat64) {
  EXPECT_EQ(code_of([&] {
              (void)make_onednn_ops(1)->make(Relu{}, std::vector{Format::plain({1, 1, 1, 1}, DType::float64)});
            }),
            ErrorCode::unsupported);
}

}  // namespace
}  // namespace lockstep::ops::test
