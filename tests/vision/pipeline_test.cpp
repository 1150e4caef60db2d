// SPDX-License-Identifier: Apache-2.0
#include "vision/transforms/pipeline.hpp"

#include <gtest/gtest.h>

#include "support/errors.hpp"

namespace lockstep::vision {
namespace {

constexpr Size network_input{.width = 96, .height = 64};

std::string parsed(std::string_view text) { return text_of(parse_transforms(text, network_input)); }

TEST(ParseTransforms, ReadsNamesAndValues) {
  EXPECT_EQ(parsed("none"), "none");
  EXPECT_EQ(parsed("crop,flip"), "crop:4,flip");
  EXPECT_EQ(parsed("crop:2"), "crop:2");
  EXPECT_EQ(parsed("random-resized-crop,letterbox,center-crop"),
            "random-resized-crop:64x96,letterbox:64x96,center-crop:64x96");
  EXPECT_EQ(parsed("resize:256,center-crop:224"), "resize:256,center-crop:224");
  EXPECT_EQ(parsed("resize:32x100"), "resize:32x100");
  EXPECT_EQ(parsed("resize:32x32"), "resize:32x32") << "not the shorter side";
  EXPECT_EQ(parsed("color-jitter"), "color-jitter:0.4,0.4,0.4,0.1");
  EXPECT_EQ(parsed("color-jitter:0.2,.3,flip"), "color-jitter:0.2,0.3,0.4,0.1,flip");
  EXPECT_EQ(parsed("flip,color-jitter:0,0,0,0.5,crop:8"), "color-jitter:0,0,0,0.5,crop:8,flip")
      << "as data::Augmentation, which mirrors what it has cut out";
  EXPECT_EQ(parsed("flip,center-crop"), "flip,center-crop:64x96");
  EXPECT_EQ(parsed("mosaic,affine,hsv"), "mosaic,affine:0.5,0.1,0,0,hsv:0.015,0.7,0.4");
  EXPECT_EQ(parsed("mosaic:0.5,affine:0.9,0,10,hsv:0"), "mosaic:0.5,affine:0.9,0,10,0,hsv:0,0.7,0.4");
}

TEST(ParseTransforms, RefusesWhatItDoesNotKnow) {
  const auto refuse = [](std::string_view text, const std::vector<std::string>& parts) {
    expect_error([&] { (void)parsed(text); }, ErrorCode::invalid_argument, parts);
  };
  refuse("flipp", {"there is no transform 'flipp'", "did you mean 'flip'", "crop, flip, random-resized-crop"});
  refuse("flip,", {"there is no transform ''"});
  refuse("", {"there is no transform ''"});
  refuse("none,flip", {"there is no transform 'none'"});
  refuse("flip,crop,flip", {"flip is named twice"});
  refuse("flip:2", {"the transform flip has '2'", "it takes no value"});
  refuse("crop:0", {"the transform crop has '0'", "crop:4"});
  refuse("crop:4px", {"'4px'"});
  refuse("crop:", {"''"});
  refuse("resize", {"the transform resize has no value", "resize:256"});
  refuse("resize:256x", {"'256x'"});
  refuse("letterbox:0x5", {"'0x5'", "HEIGHTxWIDTH"});
  refuse("random-resized-crop:100000", {"'100000'"});
  refuse("color-jitter:0.1,0.1,0.1,0.6", {"hue (0 to 0.5)"});
  refuse("color-jitter:0.1,0.1,0.1,0.1,0.1", {"color-jitter"});
  refuse("color-jitter:nan", {"'nan'"});
  refuse("flip,mosaic", {"mosaic makes one picture of several; name it first"});
  refuse("mosaic:2", {"the transform mosaic has '2'", "mosaic:0.5"});
  refuse("affine:1", {"the transform affine has '1'", "0 to 0.9"});
  refuse("affine:0.5,0.1,0,45", {"0 to 40 degrees"});
  refuse("hsv:0.015,0.7,1.4", {"gains of hue, saturation and value"});
  refuse("4", {"there is no transform '4'"});
}

TEST(ParseTransforms, ListsThemForHelp) {
  EXPECT_EQ(transform_names(),
            "crop[:PIXELS], flip, random-resized-crop[:SIZE], scale[:LEAST,MOST], random-crop[:SIZE], resize:SIZE, "
            "letterbox[:SIZE], center-crop[:SIZE], "
            "color-jitter[:B,C,S,H], hsv[:H,S,V], affine[:SCALE,TRANSLATE,DEGREES,SHEAR], mosaic[:PROBABILITY], "
            "line[:SIZE], line-repeat[:SIZE]");
}

TEST(ClassificationPipelines, BringPicturesToTheInputsSize) {
  const auto texts = [](std::string_view augment, bool are_equal) {
    const Pipelines pipelines = classification_pipelines(augment, {224, 224}, are_equal);
    return text_of(pipelines.training) + " | " + text_of(pipelines.evaluation);
  };
  EXPECT_EQ(texts("", true), "none | none");
  EXPECT_EQ(texts("crop,flip", true), "crop:4,flip | none");
  EXPECT_EQ(texts("", false), "random-resized-crop:224,flip | resize:256,center-crop:224");
  EXPECT_EQ(texts("color-jitter", false),
            "random-resized-crop:224,color-jitter:0.4,0.4,0.4,0.1 | resize:256,center-crop:224");
  EXPECT_EQ(texts("none", false), "resize:256,center-crop:224 | resize:256,center-crop:224");
  EXPECT_EQ(texts("letterbox,flip", false), "letterbox:224,flip | resize:256,center-crop:224");
}

TEST(ClassificationPipelines, BringPicturesToTheSizeOfAStep) {
  const auto text = [](std::string_view augment, bool are_equal) {
    const StepSize step = classification_step(augment, {.width = 96, .height = 64}, are_equal);
    EXPECT_EQ(step.size, (Size{.width = 96, .height = 64}));
    return text_of(step.transforms);
  };
  EXPECT_EQ(text("", true), "resize:64x96");
  EXPECT_EQ(text("crop,flip", true), "crop:4,flip,resize:64x96");
  EXPECT_EQ(text("", false), "random-resized-crop:64x96,flip,resize:64x96") << "the last one has nothing to do";
  EXPECT_EQ(text("letterbox:48", false), "letterbox:48,resize:64x96") << "the user has named a size";
}

/// The scale at which a JPEG is decoded must not depend on what is drawn.
TEST(NeededSide, FollowsFromTheFirstTransformThatNeedsPixels) {
  const auto side = [](std::string_view text) { return needed_side(parse_transforms(text, {224, 224})); };
  EXPECT_EQ(side("none"), 0);
  EXPECT_EQ(side("flip"), 0);
  EXPECT_EQ(side("resize:256,center-crop"), 256);
  EXPECT_EQ(side("flip,letterbox:320"), 320);
  EXPECT_EQ(side("color-jitter,random-resized-crop"), 448);
  EXPECT_EQ(side("crop:4,resize:256"), 0);
  EXPECT_EQ(side("center-crop"), 0);
}

}  // namespace
}  // namespace lockstep::vision
