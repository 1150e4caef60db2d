// SPDX-License-Identifier: Apache-2.0
#include "workloads/segmentation/mask_reader.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "workloads/frame.hpp"

namespace lockstep::workloads {
namespace {

using Pixels = std::vector<std::uint8_t>;

/// Logits of three classes for an input of 5×4 pixels, of which a picture has the 4×3 at the top left.
constexpr std::array<float, 60> logits = {
    -0.125F, 0.375F,  -0.75F, 0.125F,  0.625F, -0.25F, 1.625F,  -1.625F, 0,     -0.25F, 0.25F,   -0.25F,
    0.875F,  0.25F,   0.625F, 0.375F,  0.25F,  0.875F, -0.5F,   -1.625F, 1,     0.5F,   -0.125F, 0,
    0.625F,  2.25F,   1.875F, -1.25F,  1,      0.5F,   2.375F,  -0.125F, -0.5F, -0.25F, -0.375F, 0.375F,
    0,       -0.125F, 0.375F, -0.875F, -0.25F, 0.125F, 0.125F,  0.625F,  0.25F, -0.25F, -0.375F, 0.625F,
    -0.125F, -0.375F, 0.375F, -0.25F,  -2,     -1.25F, -0.375F, -0.375F, 0.5F,  0,      -1.125F, -0.5F};

nn::Graph graph_of_logits() {
  nn::Graph graph("logits");
  graph.input({"images", {3, 4, 5}, Content::real});
  graph.output("logits", graph.add("head", nn::Convolution{.out_channels = 3, .kernel = 1}));
  return graph;
}

/// Returns the mask of a picture of this size that was resized to 4×3 pixels.
vision::Image mask_of(int width, int height) {
  const nn::Graph graph = graph_of_logits();
  const std::vector<TensorSpec> tensors = {{"images", {3, 4, 5}, Content::real}, frame_tensor()};
  const auto reader = MaskReader::of({.graph = graph, .tensors = tensors, .classes = 3, .inputs = {{5, 4}}});
  std::array<float, 60> output = logits;
  const std::array<Buffer, 1> outputs = {Buffer(output.data(), Count{60}, DType::float32)};
  std::array<float, 6> numbers{};
  const Buffer frame(numbers.data(), Count{6}, DType::float32);
  write_frame({.scale_x = 4.0 / width, .scale_y = 3.0 / height, .width = width, .height = height}, frame);
  const std::array<Buffer, 2> of_batch = {Buffer(nullptr, Count{0}, DType::float32), frame};
  return reader.value().mask({.outputs = outputs}, {.samples = {1}, .tensors = of_batch}, 0).value();
}

/// What torch.nn.functional.interpolate(size, mode="bilinear", align_corners=False) makes of the 4×3 pixels, and argmax
/// of that. No two of its numbers at a pixel differ by less than 0.01.
TEST(MaskReader, InterpolatesAsPyTorchWithinThePicture) {
  const Pixels enlarged = {1, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 1,
                           1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 0, 0,
                           0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0};
  EXPECT_EQ(mask_of(9, 7).pixels, enlarged);
  EXPECT_EQ(mask_of(4, 3).pixels, (Pixels{1, 1, 2, 2, 1, 1, 2, 1, 1, 1, 0, 0}));
  EXPECT_EQ(mask_of(2, 2).pixels, (Pixels{1, 2, 1, 0}));
}

TEST(MaskReader, HasNoMaskOfASampleThatIsLeftOutAndNoneOfOtherModels) {
  const nn::Graph graph = graph_of_logits();
  std::vector<TensorSpec> tensors = {{"images", {3, 4, 5}, Content::real}, frame_tensor()};
  const auto reader = MaskReader::of({.graph = graph, .tensors = tensors, .classes = 3, .inputs = {{5, 4}}});
  std::array<float, 6> none{};
  const std::array<Buffer, 2> of_batch = {Buffer(nullptr, Count{0}, DType::float32),
                                          Buffer(none.data(), Count{6}, DType::float32)};
  EXPECT_FALSE(reader.value().mask({}, {.samples = {1}, .tensors = of_batch}, 0));
  EXPECT_FALSE(MaskReader::of({.graph = graph, .tensors = tensors, .classes = 4}));
  tensors.pop_back();
  EXPECT_FALSE(MaskReader::of({.graph = graph, .tensors = tensors, .classes = 3}));
}

}  // namespace
}  // namespace lockstep::workloads
