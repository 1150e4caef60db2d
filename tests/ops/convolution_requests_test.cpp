// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.hpp"
#include "ops/cuda/convolution/convolutions.hpp"

namespace lockstep::ops::cuda {
namespace {

TEST(ConvolutionRequests, ChannelsArePaddedIn16BitsOnly) {
  const Convolution stem{.out_channels = 20, .kernel = 7, .stride = 2, .padding = 3, .activation = Activation::relu};
  const ConvolutionRequests half = requests_of(stem, {2, 3, 32, 32}, DType::bfloat16, false);
  EXPECT_EQ(half.forward.x, (Shape{2, 8, 32, 32}));
  EXPECT_EQ(half.forward.y, (Shape{2, 24, 16, 16}));
  EXPECT_TRUE(half.forward.bias && half.forward.relu);
  EXPECT_EQ(half.backward_weights.pass, ConvolutionPass::backward_weights);
  EXPECT_EQ(half.backward_weights.result, DType::bfloat16);
  EXPECT_FALSE(half.backward_weights.bias || half.backward_data.relu);
  const ConvolutionRequests single = requests_of(stem, {2, 3, 32, 32}, DType::float32, true);
  EXPECT_EQ(single.forward.x.channels, 3);
  EXPECT_EQ(single.backward_data.y.channels, 20);
  EXPECT_TRUE(single.backward_data.tf32);
}

TEST(ConvolutionRequests, GiveStatisticsWithTheProductUnlessChannelsArePadded) {
  Convolution layer{.out_channels = 24, .bias = false, .statistics = true};
  const ConvolutionRequests requests = requests_of(layer, {2, 8, 8, 8}, DType::bfloat16, false);
  EXPECT_TRUE(requests.forward.statistics);
  EXPECT_FALSE(requests.backward_data.statistics || requests.backward_weights.statistics);
  EXPECT_NE(text(requests.forward).find(", statistics"), std::string::npos);
  layer.out_channels = 20;
  EXPECT_FALSE(requests_of(layer, {2, 8, 8, 8}, DType::bfloat16, false).forward.statistics);
  EXPECT_TRUE(requests_of(layer, {2, 8, 8, 8}, DType::float32, true).forward.statistics);
}

TEST(ConvolutionRequests, GroupsStayWhereTheirChannelsAreAligned) {
  const auto groups_of = [](std::int64_t in, std::int64_t out, std::int64_t groups, DType dtype) {
    return requests_of(Convolution{.out_channels = out, .groups = groups}, {1, in, 8, 8}, dtype, false).forward.groups;
  };
  EXPECT_EQ(groups_of(64, 128, 8, DType::float16), 8);   // 8 and 16 channels a group
  EXPECT_EQ(groups_of(64, 32, 8, DType::float16), 1);    // 8 and 4
  EXPECT_EQ(groups_of(12, 24, 12, DType::float16), 1);   // two outputs an input
  EXPECT_EQ(groups_of(12, 12, 12, DType::float16), 16);  // depthwise
  EXPECT_EQ(groups_of(64, 32, 8, DType::float32), 8);
}

TEST(ConvolutionRequests, ATransposedConvolutionIsTheBackwardPassOfOne) {
  const TransposedConvolution up{.out_channels = 5, .kernel = 4, .stride = 2, .padding = 1};
  const ConvolutionRequests requests = requests_of(up, {3, 9, 6, 7}, DType::bfloat16, false);
  EXPECT_TRUE(requests.transposed);
  EXPECT_EQ(requests.forward.pass, ConvolutionPass::backward_data);
  EXPECT_EQ(requests.backward_data.pass, ConvolutionPass::forward);
  EXPECT_EQ(requests.forward.x, (Shape{3, 8, 12, 14}));  // the operator's output
  EXPECT_EQ(requests.forward.y, (Shape{3, 16, 6, 7}));
  EXPECT_FALSE(requests.forward.bias || requests.backward_data.bias);
}

TEST(ConvolutionRequests, RowsOfZerosReachAnOutputPaddingBeyondTheStride) {
  const TransposedConvolution op{
      .out_channels = 4, .kernel = {3, 2}, .padding = 2, .output_padding = {2, 0}, .dilation = {3, 1}};
  const Shape input{1, 4, 6, 5};
  const ConvolutionRequest request = requests_of(op, input, DType::float32, false).forward;
  EXPECT_EQ(request.y, (Shape{1, 4, 8, 5}));  // as many rows as the convolution of the output gives
  EXPECT_EQ(request.x, op.signature(std::span(&input, 1)).output);
}

TEST(ConvolutionRequests, ALinearLayerReadsAnImageAsItLies) {
  const ConvolutionRequests requests = requests_of(Linear{.out_features = 10}, {4, 20, 5, 5}, DType::float16, false);
  EXPECT_EQ(requests.forward.x, (Shape{4, 24 * 25}));
  EXPECT_EQ(requests.forward.y, (Shape{4, 16}));
  EXPECT_TRUE(requests.forward.bias);
}

TEST(ConvolutionRequests, OtherTypesAreRefusedByName) {
  try {
    requests_of(Linear{.out_features = 10}, {1, 2}, DType::float64, false);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("float64"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::ops::cuda
