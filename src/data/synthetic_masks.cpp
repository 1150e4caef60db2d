// SPDX-License-Identifier: Apache-2.0
#include "data/scenes.hpp"

namespace lockstep::data {

namespace {

/// A data set with the contents of each pixel.
class MaskDataset final : public DrawnDataset {
 public:
  MaskDataset(Images images, Normalization normalization, std::vector<Scene> scenes)
      : DrawnDataset(std::move(images), std::move(normalization)), scenes_(std::move(scenes)) {}

  [[nodiscard]] std::int64_t classes() const override { return scene_classes + 1; }

 private:
  [[nodiscard]] std::vector<TensorSpec> targets() const override {
    return {{"labels", {1, scene_side, scene_side}, Content::integer},
            {"masks", {classes(), scene_side, scene_side}, Content::real}};
  }

  void read_targets(std::size_t sample, std::span<const Buffer> targets) const override {
    constexpr std::int64_t pixels = scene_side * scene_side;
    const Scene& scene = scenes_[sample];
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::size_t shown = scene.shown[static_cast<std::size_t>(i)];
      const std::int32_t label = shown == 0 ? 0 : scene.labels[shown - 1] + 1;
      put(targets[0], i, label);
      for (std::int64_t c = 0; c < classes(); ++c) put(targets[1], c * pixels + i, c == label ? 1 : 0);
    }
  }

  std::vector<Scene> scenes_;
};

}  // namespace

DatasetPair synthetic_masks(const SyntheticOptions& options) {
  return drawn_pair<MaskDataset>(draw_scenes("synthetic-masks", options.train, options.seed, Stream::scenes_train),
                                 draw_scenes("synthetic-masks", options.test, options.seed, Stream::scenes_test));
}

}  // namespace lockstep::data
