// SPDX-License-Identifier: Apache-2.0
#include "ops/rows.hpp"

namespace lockstep::ops::test {
namespace {

// Each family has a function, because one list of all rows takes compilers minutes and gigabytes.

std::vector<Row> convolutions() {
  return {
      // These are convolutions of LeNet and of the stems of ResNets for CIFAR and ImageNet, and some that do not fill
      // vectors.
      {"conv-1x1", Convolution{.out_channels = 64, .kernel = 1}, {{3, 32, 8, 8}}},
      {"conv-1x1-stride", Convolution{.out_channels = 32, .kernel = 1, .stride = 2, .bias = false}, {{1, 16, 9, 7}}},
      {"conv-3x3", Convolution{.out_channels = 32, .padding = 1}, {{3, 1, 28, 28}}},
      {"conv-3x3-relu", Convolution{.out_channels = 16, .padding = 1, .activation = Activation::relu}, {{1, 3, 6, 5}}},
      {"conv-3x3-stride", Convolution{.out_channels = 16, .stride = 2, .padding = 1, .bias = false}, {{1, 16, 16, 16}}},
      {"conv-3x3-odd", Convolution{.out_channels = 7, .padding = 1}, {{5, 3, 11, 6}}},
      {"conv-5x5", Convolution{.out_channels = 6, .kernel = 5, .padding = 2}, {{2, 3, 12, 9}}},
      {"conv-7x7-stem",
       Convolution{.out_channels = 16, .kernel = 7, .stride = 2, .padding = 3, .bias = false},
       {{1, 3, 32, 32}}},
      {"conv-small", Convolution{.out_channels = 2, .kernel = 2, .padding = 3}, {{1, 2, 3, 3}}},
      // These are grouped, dilated and rectangular convolutions, from MobileNet, ResNeXt, Inception and DeepLab.
      {"conv-depthwise", Convolution{.out_channels = 32, .padding = 1, .groups = 32, .bias = false}, {{3, 32, 14, 14}}},
      {"conv-depthwise-stride",
       Convolution{.out_channels = 32, .stride = 2, .padding = 1, .groups = 32, .activation = Activation::relu},
       {{1, 32, 15, 12}}},
      {"conv-depthwise-5x5",
       Convolution{.out_channels = 32, .kernel = 5, .stride = {2, 1}, .padding = 2, .groups = 32, .bias = false},
       {{2, 32, 4, 10}}},
      // Windows are higher than the image, and in the second also wider.
      {"conv-depthwise-low",
       Convolution{.out_channels = 32, .padding = 1, .groups = 32, .bias = false},
       {{3, 32, 2, 9}}},
      {"conv-depthwise-small",
       Convolution{.out_channels = 16, .kernel = 5, .padding = 2, .groups = 16, .bias = false},
       {{2, 16, 3, 2}}},
      {"conv-depthwise-multiplied",
       Convolution{.out_channels = 20, .kernel = 5, .padding = 2, .dilation = 2, .groups = 10},
       {{2, 10, 9, 7}}},
      {"conv-groups", Convolution{.out_channels = 6, .padding = 1, .groups = 2}, {{3, 10, 7, 5}}},
      {"conv-groups-1x1", Convolution{.out_channels = 9, .kernel = 1, .stride = 2, .groups = 3}, {{1, 6, 5, 7}}},
      {"conv-groups-resnext",
       Convolution{.out_channels = 64, .stride = 2, .padding = 1, .groups = 16, .bias = false},
       {{1, 64, 14, 14}}},
      {"conv-groups-wide", Convolution{.out_channels = 32, .padding = 1, .groups = 2}, {{2, 32, 8, 8}}},
      {"conv-1x7",
       Convolution{.out_channels = 16, .kernel = {1, 7}, .padding = {0, 3}, .activation = Activation::relu},
       {{1, 16, 9, 9}}},
      {"conv-7x1", Convolution{.out_channels = 10, .kernel = {7, 1}, .padding = {3, 0}, .bias = false}, {{3, 8, 9, 6}}},
      {"conv-dilation",
       Convolution{.out_channels = 16, .padding = 2, .dilation = 2, .activation = Activation::relu},
       {{2, 16, 12, 12}}},
      {"conv-rectangles",
       Convolution{.out_channels = 5, .kernel = {3, 2}, .stride = {1, 3}, .padding = {2, 1}, .dilation = {2, 3}},
       {{3, 7, 6, 11}}},
      {"conv-sequence", Convolution{.out_channels = 12, .kernel = {1, 3}, .dilation = {1, 4}}, {{2, 5, 1, 19}}},
  };
}

std::vector<Row> transposed_convolutions() {
  return {
      // These are from U-Net, DCGAN and autoencoders, and some that leave gaps or cut off more than a window.
      {"transposed-2x2", TransposedConvolution{.out_channels = 16, .kernel = 2, .stride = 2}, {{3, 32, 7, 5}}},
      {"transposed-4x4",
       TransposedConvolution{.out_channels = 16, .kernel = 4, .stride = 2, .padding = 1, .bias = false},
       {{1, 32, 8, 8}}},
      {"transposed-3x3-relu",
       TransposedConvolution{
           .out_channels = 7, .stride = 2, .padding = 1, .output_padding = 1, .activation = Activation::relu},
       {{2, 5, 6, 7}}},
      {"transposed-same", TransposedConvolution{.out_channels = 10, .padding = 1}, {{3, 16, 9, 5}}},
      {"transposed-gaps",
       TransposedConvolution{.out_channels = 5, .kernel = 1, .stride = 3, .output_padding = 2},
       {{1, 3, 4, 3}}},
      {"transposed-dilation",
       TransposedConvolution{
           .out_channels = 16, .stride = 2, .padding = 2, .output_padding = 1, .dilation = 2, .bias = false},
       {{1, 16, 5, 6}}},
      {"transposed-groups",
       TransposedConvolution{.out_channels = 6, .stride = 2, .padding = 1, .output_padding = {1, 0}, .groups = 2},
       {{3, 10, 5, 7}}},
      {"transposed-depthwise",
       TransposedConvolution{.out_channels = 32, .kernel = 4, .stride = 2, .padding = 1, .groups = 32, .bias = false},
       {{2, 32, 6, 6}}},
      {"transposed-rectangles",
       TransposedConvolution{.out_channels = 5,
                             .kernel = {3, 2},
                             .stride = {1, 3},
                             .padding = {2, 1},
                             .output_padding = {1, 2},
                             .dilation = {2, 3}},
       {{3, 7, 6, 4}}},
      {"transposed-added-beyond-stride",
       TransposedConvolution{.out_channels = 4, .kernel = {3, 2}, .output_padding = {2, 0}, .dilation = {3, 1}},
       {{2, 6, 4, 5}}},
      {"transposed-cut", TransposedConvolution{.out_channels = 4, .padding = {3, 2}}, {{2, 8, 6, 5}}},
  };
}

std::vector<Row> pools() {
  return {
      {"max-pool", MaxPool{}, {{3, 16, 8, 8}}},
      {"max-pool-relu", MaxPool{.activation = Activation::relu}, {{3, 32, 7, 9}}},
      {"max-pool-overlapping-relu",
       MaxPool{.kernel = 3, .stride = 2, .padding = 1, .activation = Activation::relu},
       {{2, 16, 9, 6}}},
      {"max-pool-overlapping", MaxPool{.kernel = 3, .stride = 2}, {{1, 5, 9, 7}}},
      {"average-pool", AveragePool{}, {{3, 16, 8, 6}}},
      {"average-pool-global", AveragePool{.kernel = 8, .stride = 8}, {{5, 64, 8, 8}}},
      // These are from the stem of a ResNet, from Inception and from heads, and adaptive ones whose windows differ and
      // overlap.
      {"max-pool-padding", MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {{1, 16, 15, 12}}},
      {"max-pool-rectangles", MaxPool{.kernel = {2, 5}, .stride = {3, 1}, .padding = {1, 2}}, {{3, 7, 8, 6}}},
      {"max-pool-sequence", MaxPool{.kernel = {1, 2}, .stride = {1, 2}}, {{2, 5, 1, 13}}},
      {"average-pool-padding", AveragePool{.kernel = 3, .stride = 1, .padding = 1}, {{3, 10, 7, 5}}},
      {"average-pool-padding-left-out",
       AveragePool{.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false},
       {{2, 16, 9, 8}}},
      {"average-pool-rectangles", AveragePool{.kernel = {4, 1}, .stride = {2, 3}, .padding = {2, 0}}, {{1, 7, 9, 11}}},
      {"average-pool-rectangles-left-out",
       AveragePool{.kernel = {2, 5}, .stride = {1, 2}, .padding = {0, 2}, .count_include_pad = false},
       {{3, 5, 4, 9}}},
      {"global-average-pool", GlobalAveragePool{}, {{3, 17, 7, 7}}},
      {"global-average-pool-large", GlobalAveragePool{}, {{1, 16, 28, 19}}},
      {"adaptive-average-pool", AdaptiveAveragePool{.height = 3, .width = 2}, {{2, 16, 9, 8}}},
      {"adaptive-average-pool-uneven", AdaptiveAveragePool{.height = 7, .width = 3}, {{1, 5, 10, 7}}},
      {"adaptive-average-pool-finer", AdaptiveAveragePool{.height = 7, .width = 5}, {{3, 16, 2, 3}}},
      // The two maps of CBAM's spatial attention.
      {"channel-mean", ChannelPool{}, {{2, 64, 7, 5}}},
      {"channel-mean-odd", ChannelPool{}, {{3, 37, 4, 3}}},
      {"channel-max", ChannelPool{.kind = ChannelPool::Kind::max}, {{2, 64, 7, 5}}},
      {"channel-max-odd", ChannelPool{.kind = ChannelPool::Kind::max}, {{3, 5, 1, 6}}},
  };
}

std::vector<Row> norms() {
  return {
      {"batch-norm", BatchNorm{}, {{3, 5, 4, 3}}},
      {"batch-norm-relu", BatchNorm{.activation = Activation::relu}, {{4, 16, 8, 8}}},
      {"batch-norm-relu-odd", BatchNorm{.activation = Activation::relu}, {{3, 37, 5, 3}}},
      {"batch-norm-relu6", BatchNorm{.activation = Activation::relu6}, {{3, 37, 5, 3}}},
      {"batch-norm-add", BatchNorm{.residual = true}, {{3, 20, 4, 3}, {3, 20, 4, 3}}},
      {"batch-norm-add-relu",
       BatchNorm{.activation = Activation::relu, .residual = true},
       {{2, 32, 8, 8}, {2, 32, 8, 8}}},
      {"batch-norm-add-relu-odd",
       BatchNorm{.activation = Activation::relu, .residual = true},
       {{3, 5, 4, 3}, {3, 5, 4, 3}}},
      {"frozen-batch-norm", FrozenBatchNorm{}, {{3, 5, 4, 3}}},
      {"frozen-batch-norm-epsilon", FrozenBatchNorm{.epsilon = 0.1}, {{1, 17, 7, 5}}},
      {"layer-norm-tokens", LayerNorm{}, {{3, 24, 1, 7}}},
      {"layer-norm-vectors", LayerNorm{}, {{5, 37, 1, 1}}},
      {"layer-norm-2d", LayerNorm{.epsilon = 1e-6}, {{1, 16, 5, 6}}},
      {"layer-norm-2d-odd", LayerNorm{.epsilon = 0.01}, {{3, 5, 4, 7}}},
      {"layer-norm-sample", LayerNorm{.axes = LayerNorm::Axes::sample}, {{3, 5, 4, 7}}},
      {"layer-norm-sample-epsilon", LayerNorm{.axes = LayerNorm::Axes::sample, .epsilon = 0.01}, {{1, 8, 3, 3}}},
      {"group-norm", GroupNorm{.groups = 4}, {{3, 12, 5, 3}}},
      {"group-norm-of-all", GroupNorm{}, {{2, 5, 3, 4}}},
      {"group-norm-of-each", GroupNorm{.groups = 7, .epsilon = 0.01}, {{1, 7, 5, 5}}},
      {"group-norm-vectors", GroupNorm{.groups = 3}, {{3, 33, 1, 1}}},
  };
}

std::vector<Row> functions() {
  return {
      {"relu6", Pointwise{.kind = Pointwise::Kind::relu6}, {{3, 17, 5, 4}}},
      {"leaky-relu", Pointwise{.kind = Pointwise::Kind::leaky_relu}, {{1, 7, 5, 4}}},
      {"leaky-relu-slope", Pointwise{.kind = Pointwise::Kind::leaky_relu, .slope = 0.2}, {{2, 16, 4, 4}}},
      {"silu", Pointwise{.kind = Pointwise::Kind::silu}, {{3, 5, 7, 3}}},
      {"hard-swish", Pointwise{.kind = Pointwise::Kind::hard_swish}, {{3, 3, 7, 5}}},
      {"sigmoid", Pointwise{.kind = Pointwise::Kind::sigmoid}, {{3, 5, 4, 3}}},
      {"sigmoid-gate", Pointwise{.kind = Pointwise::Kind::sigmoid}, {{1, 20, 1, 1}}},
      {"tanh", Pointwise{.kind = Pointwise::Kind::tanh}, {{2, 3, 1, 13}}},
      {"gelu", Pointwise{.kind = Pointwise::Kind::gelu}, {{3, 48, 1, 9}}},
      {"gelu-tanh", Pointwise{.kind = Pointwise::Kind::gelu_tanh}, {{1, 6, 1, 11}}},
      // 1 − a, the rest of an attention.
      {"affine-rest", Pointwise{.kind = Pointwise::Kind::affine, .slope = -1, .offset = 1}, {{2, 1, 7, 5}}},
      {"affine", Pointwise{.kind = Pointwise::Kind::affine, .slope = 0.3, .offset = -2}, {{3, 17, 5, 4}}},
      // The gate of MobileNetV3 in PaddleOCR, and one of which some are 0 and some 1.
      {"hard-sigmoid-gate",
       Pointwise{.kind = Pointwise::Kind::hard_sigmoid, .slope = 0.2, .offset = 0.5},
       {{3, 20, 1, 1}}},
      {"hard-sigmoid-steep",
       Pointwise{.kind = Pointwise::Kind::hard_sigmoid, .slope = 1.5, .offset = 0.4},
       {{2, 17, 5, 3}}},
      {"relu", Relu{}, {{3, 17, 5, 4}}},
  };
}

std::vector<Row> arithmetic() {
  return {
      {"multiply", Multiply{}, {{3, 7, 5, 4}, {3, 7, 5, 4}}},
      {"multiply-gate", Multiply{}, {{3, 5, 7, 5}, {3, 5, 1, 1}}},
      {"multiply-gate-first", Multiply{}, {{1, 20, 1, 1}, {1, 20, 5, 3}}},
      {"multiply-gate-of-gates", Multiply{}, {{3, 6, 1, 1}, {3, 6, 1, 1}}},
      {"multiply-by-positions", Multiply{}, {{2, 5, 4, 3}, {2, 1, 4, 3}}},
      {"multiply-by-row", Multiply{}, {{2, 1, 1, 9}, {2, 4, 3, 9}}},
      {"multiply-by-column", Multiply{}, {{3, 4, 3, 7}, {3, 4, 3, 1}}},
      {"multiply-by-one", Multiply{}, {{3, 1, 1, 1}, {3, 5, 3, 2}}},
      {"multiply-both-ways", Multiply{}, {{2, 6, 1, 5}, {2, 1, 4, 1}}},
      {"linear", Linear{.out_features = 10}, {{3, 64, 1, 1}}},
      {"linear-of-images", Linear{.out_features = 12, .activation = Activation::relu}, {{1, 16, 7, 7}}},
      {"add", Add{}, {{3, 16, 5, 5}, {3, 16, 5, 5}}},
      {"add-relu", Add{.activation = Activation::relu}, {{1, 7, 3, 4}, {1, 7, 3, 4}}},
      {"dropout", Dropout{.probability = 0.3, .key = 11}, {{3, 16, 5, 4}}, {}, 3, false},
  };
}

std::vector<Row> arrangements() {
  return {
      // These are skips of a U-Net, channels last, images to sequences, a single sample, and odd sizes.
      {"concat", Concat{}, {{3, 16, 8, 6}, {3, 5, 8, 6}}},
      {"concat-height", Concat{.axis = Axis::height}, {{2, 3, 4, 5}, {2, 3, 1, 5}, {2, 3, 7, 5}}},
      {"concat-width", Concat{.axis = Axis::width}, {{1, 4, 3, 2}, {1, 4, 3, 7}}},
      {"slice", Slice{.axis = Axis::channels, .begin = 4, .end = 9}, {{3, 16, 5, 7}}},
      {"slice-height", Slice{.axis = Axis::height, .begin = 0, .end = 3}, {{2, 3, 5, 6}}},
      {"slice-width", Slice{.axis = Axis::width, .begin = 6, .end = 7}, {{1, 5, 3, 7}}},
      {"reshape", Reshape{.channels = 12, .height = 1, .width = 10}, {{3, 4, 5, 6}}},
      {"permute-to-channels-last", Permute{.order = {Axis::height, Axis::width, Axis::channels}}, {{3, 16, 9, 7}}},
      {"permute-to-channels-first", Permute{.order = {Axis::width, Axis::channels, Axis::height}}, {{1, 9, 7, 16}}},
      {"permute-planes", Permute{.order = {Axis::height, Axis::channels, Axis::width}}, {{2, 5, 3, 8}}},
      {"permute-transposed", Permute{.order = {Axis::channels, Axis::width, Axis::height}}, {{1, 2, 6, 11}}},
      // These are decoders that double, segmentation heads, feature pyramids, and sizes that do not divide or are
      // smaller.
      {"resize-nearest", Resize{.scale = 2}, {{3, 16, 5, 7}}},
      {"resize-nearest-size", Resize{.height = 10, .width = 9}, {{1, 5, 7, 13}}},
      {"resize-nearest-smaller", Resize{.height = 3, .width = 11}, {{2, 3, 8, 5}}},
      {"resize-bilinear", Resize{.scale = 2, .mode = Interpolation::bilinear}, {{3, 16, 5, 7}}},
      {"resize-bilinear-size", Resize{.height = 10, .width = 9, .mode = Interpolation::bilinear}, {{1, 5, 7, 13}}},
      {"resize-bilinear-logits", Resize{.height = 17, .width = 24, .mode = Interpolation::bilinear}, {{2, 5, 3, 2}}},
      {"resize-bilinear-one", Resize{.height = 1, .width = 6, .mode = Interpolation::bilinear}, {{2, 3, 4, 1}}},
      {"resize-bilinear-corners",
       Resize{.scale = 4, .mode = Interpolation::bilinear, .align_corners = true},
       {{1, 7, 4, 3}}},
      {"resize-bilinear-corners-size",
       Resize{.height = 1, .width = 5, .mode = Interpolation::bilinear, .align_corners = true},
       {{3, 2, 6, 8}}},
  };
}

std::vector<Row> sequences() {
  return {
      // These read lines of text. Lengths, 3, 10, 4, 11, 5, are between 1 and the steps, because PyTorch accepts no
      // empty sequence.
      {"lstm", Lstm{.hidden = 8}, {{3, 5, 1, 11}}},
      {"lstm-one", Lstm{.hidden = 3}, {{1, 4, 1, 1}}},
      {"lstm-lengths", Lstm{.hidden = 6}, {{5, 4, 1, 11}, {5, 1, 1, 1}}, {}, 13},
      {"lstm-bidirectional", Lstm{.hidden = 7, .bidirectional = true}, {{2, 9, 1, 6}}},
      {"lstm-bidirectional-one", Lstm{.hidden = 5, .bidirectional = true}, {{3, 4, 1, 1}}},
      {"lstm-bidirectional-lengths", Lstm{.hidden = 5, .bidirectional = true}, {{5, 3, 1, 11}, {5, 1, 1, 1}}, {}, 13},
      // More of everything than a block of a GPU's kernels takes.
      {"lstm-wide", Lstm{.hidden = 18, .bidirectional = true}, {{17, 67, 1, 3}}},
      // Tokens repeat, and some entries are not used. No token is the padding, because its gradient, zero, is not the
      // derivative.
      {"embedding", Embedding{.entries = 10, .features = 7}, {{3, 1, 1, 9}}, {}, 10},
      {"embedding-padding", Embedding{.entries = 6, .features = 16, .padding_index = 5}, {{1, 1, 1, 12}}, {}, 5},
  };
}

std::vector<Row> losses() {
  return {
      {"cross-entropy", CrossEntropy{}, {{5, 10, 1, 1}, {5, 1, 1, 1}}, {}, 10},
      {"cross-entropy-pixels", CrossEntropy{.ignore_index = 2}, {{2, 4, 3, 5}, {2, 1, 3, 5}}, {}, 4},
      // These are losses of classification: ImageNet's heads, pixels with few classes, and one position.
      {"cross-entropy-smoothed", CrossEntropy{.label_smoothing = 0.1}, {{3, 100, 1, 1}, {3, 1, 1, 1}}, {}, 100},
      {"cross-entropy-weighted",
       CrossEntropy{.ignore_index = 1, .class_weights = {0.25, 2, 1, 0.5, 3}},
       {{1, 5, 7, 3}, {1, 1, 7, 3}},
       {},
       5},
      {"cross-entropy-weighted-smoothed",
       CrossEntropy{.ignore_index = 0, .label_smoothing = 0.25, .class_weights = {1, 0.5, 2}},
       {{3, 3, 5, 4}, {3, 1, 5, 4}},
       {},
       3},
      // These are losses of segmentation: pixels of which some are hard, of which too few are, and of many classes.
      {"ohem", OhemCrossEntropy{.threshold = 0.25, .ignore_index = 2}, {{2, 4, 3, 5}, {2, 1, 3, 5}}, {}, 4},
      {"ohem-least", OhemCrossEntropy{.threshold = 0.05, .least = 0.3}, {{3, 5, 7, 6}, {3, 1, 7, 6}}, {}, 5},
      {"ohem-all", OhemCrossEntropy{}, {{1, 19, 17, 16}, {1, 1, 17, 16}}, {}, 19},
      {"soft-cross-entropy", SoftCrossEntropy{}, {{3, 17, 1, 1}, {3, 17, 1, 1}}, {Domain::any, Domain::unit}},
      {"soft-cross-entropy-pixels",
       SoftCrossEntropy{.label_smoothing = 0.2, .class_weights = {1, 0.5, 2, 0.25}},
       {{2, 4, 5, 3}, {2, 4, 5, 3}},
       {Domain::any, Domain::unit}},
      {"binary-cross-entropy", BinaryCrossEntropy{}, {{3, 1, 1, 1}, {3, 1, 1, 1}}, {Domain::any, Domain::unit}},
      {"binary-cross-entropy-weighted",
       BinaryCrossEntropy{.positive_weight = 2.5},
       {{1, 80, 5, 7}, {1, 80, 5, 7}, {1, 80, 5, 7}},
       {Domain::any, Domain::unit, Domain::unit}},
      {"smooth-l1", SmoothL1{}, {{3, 4, 3, 5}, {3, 4, 3, 5}}},
      {"smooth-l1-weighted",
       SmoothL1{.beta = 0.25},
       {{1, 36, 13, 7}, {1, 36, 13, 7}, {1, 36, 13, 7}},
       {Domain::any, Domain::any, Domain::unit}},
      {"smooth-l1-sharp", SmoothL1{.beta = 0}, {{5, 17, 1, 1}, {5, 17, 1, 1}}},
      {"giou", Giou{}, {{3, 4, 1, 11}, {3, 4, 1, 11}}, {Domain::boxes, Domain::boxes}},
      {"giou-weighted",
       Giou{.epsilon = 1e-3},
       {{1, 4, 7, 9}, {1, 4, 7, 9}, {1, 1, 7, 9}},
       {Domain::boxes, Domain::boxes, Domain::unit}},
      {"dice", Dice{}, {{3, 2, 9, 7}, {3, 2, 9, 7}}, {Domain::any, Domain::unit}},
      {"dice-by-label", Dice{.by_label = true, .ignore_index = 1}, {{3, 4, 9, 7}, {3, 1, 9, 7}}, {}, 4},
      {"dice-one", Dice{.epsilon = 1e-3}, {{1, 1, 32, 31}, {1, 1, 32, 31}}, {Domain::any, Domain::unit}},
      // These are from speech: characters at no more than half of the steps, and targets that just fit, some with
      // repetitions.
      {"ctc",
       Ctc{},
       {{3, 29, 1, 50}, {3, 1, 1, 20}, {3, 1, 1, 1}, {3, 1, 1, 1}},
       {},
       3,
       true,
       {{}, {1, 29}, {12, 21}, {43, 51}}},
      {"ctc-tight",
       Ctc{.blank = 2},
       {{5, 3, 1, 9}, {5, 1, 1, 5}, {5, 1, 1, 1}, {5, 1, 1, 1}},
       {},
       3,
       true,
       {{}, {0, 2}, {0, 6}, {7, 10}}},
      {"ctc-too-long",
       Ctc{.zero_infinity = true},
       {{3, 5, 1, 6}, {3, 1, 1, 6}, {3, 1, 1, 1}, {3, 1, 1, 1}},
       {},
       3,
       true,
       {{}, {1, 5}, {3, 7}, {3, 6}}},
      // A reader of text, whose steps all count.
      {"ctc-all-steps",
       Ctc{.zero_infinity = true},
       {{3, 37, 1, 25}, {3, 1, 1, 9}, {3, 1, 1, 1}},
       {},
       3,
       true,
       {{}, {1, 37}, {0, 9}}},
  };
}

/// Maps of a detector with 3 and with 80 classes, and some that are not square and have two anchors. Several
/// boxes match the same cells.
std::vector<Row> anchors() {
  using enum AnchorLoss::Part;
  const std::vector<AnchorSize> small{{10, 13}, {16, 30}, {33, 23}};
  const std::vector<AnchorSize> two{{6, 4.5}, {20, 25}};
  const std::vector<Domain> domains{Domain::any, Domain::targets};
  const std::vector<Shape> square{{3, 24, 4, 4}, {3, 5, 1, 9}};
  const std::vector<Shape> rectangle{{2, 16, 8, 9}, {2, 5, 1, 5}};
  const auto row = [&](const char* name, const AnchorLoss& loss, const std::vector<Shape>& inputs) {
    return Row{.name = name, .op = loss, .inputs = inputs, .domains = domains, .has_derivatives = loss.part == classes};
  };
  return {
      row("anchor-box", {.part = box, .anchors = small}, square),
      row("anchor-box-rectangle", {.part = box, .anchors = two, .stride = 4}, rectangle),
      row("anchor-objectness", {.part = objectness, .anchors = small}, square),
      row("anchor-objectness-rectangle", {.part = objectness, .anchors = two, .stride = 4}, rectangle),
      row("anchor-classes", {.part = classes, .anchors = small}, square),
      row("anchor-classes-smoothed", {.part = classes, .anchors = small, .stride = 16, .label_smoothing = 0.1},
          {{1, 255, 2, 2}, {1, 5, 1, 7}}),
      {"anchor-decode", AnchorDecode{.anchors = small}, {{3, 24, 4, 4}}},
      {"anchor-decode-rectangle", AnchorDecode{.anchors = two, .stride = 32}, {{2, 12, 3, 5}}},
  };
}

}  // namespace

const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (const auto& family : {convolutions, transposed_convolutions, pools, norms, functions, arithmetic, arrangements,
                               sequences, losses, anchors}) {
      const std::vector<Row> some = family();
      rows.insert(rows.end(), some.begin(), some.end());
    }
    return rows;
  }();
  return all;
}

}  // namespace lockstep::ops::test
