// SPDX-License-Identifier: Apache-2.0
// Measures how long one thread computes on a training picture with mosaics: cached pictures of 640×480 with 15 boxes
// each become 320×320. It prints milliseconds of processor time for lists of transforms, and for single stages.
#include <array>
#include <cstdio>
#include <ctime>
#include <memory>

#include "vision/cache/picture_cache.hpp"
#include "vision/image/color.hpp"
#include "vision/image/flip.hpp"
#include "vision/pattern_source.hpp"
#include "vision/picture_dataset.hpp"
#include "vision/planes.hpp"
#include "vision/transforms/pipeline.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::vision;

constexpr std::int64_t samples = 64;
constexpr Size input{.width = 320, .height = 320};

class LargePictures final : public Source {
 public:
  LargePictures() {
    for (int i = 0; i < 15; ++i) {
      const auto at = static_cast<float>(i);
      annotation_.boxes.push_back({.left = 20 * at, .top = 10 * at, .right = 20 * at + 60, .bottom = 10 * at + 70});
    }
  }
  [[nodiscard]] std::string format() const override { return "pattern"; }
  [[nodiscard]] std::int64_t size() const override { return samples; }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return names_; }
  [[nodiscard]] const Annotation& annotation(std::int64_t /*sample*/) const override { return annotation_; }
  [[nodiscard]] std::string place(std::int64_t sample) const override { return std::to_string(sample); }
  void read(std::int64_t /*sample*/, std::vector<std::byte>& bytes) const override { bytes.clear(); }
  void decode(std::int64_t sample, std::span<const std::byte> /*bytes*/, const DecodeOptions& options,
              Image& picture) const override {
    picture = pattern(640, 480, options.channels, static_cast<int>(sample));
  }

 private:
  Annotation annotation_;
  std::vector<std::string> names_ = {"object"};
};

double milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

template <typename Work>
void measure(const char* name, int times, const Work& work) {
  work(0);
  const double begin = milliseconds();
  for (int i = 0; i < times; ++i) work(i);
  std::printf("%-40s %7.3f ms\n", name, (milliseconds() - begin) / times);
}

void measure_transforms(const char* transforms, const std::shared_ptr<const Source>& source) {
  std::string why_not;
  auto file = make_memory_file(PictureCache::file_bytes(samples, {samples << 20}), {}, why_not);
  const PictureDataset dataset(source, {.name = "pattern",
                                        .input = input,
                                        .transforms = parse_transforms(transforms, input),
                                        .normalization = {.mean = {0, 0, 0}, .deviation = {1, 1, 1}},
                                        .cache = std::make_shared<PictureCache>(std::move(file), samples)});
  std::vector<float> images(3 * 320 * 320);
  std::int32_t label = 0;
  const std::array<Buffer, 2> tensors{std::span(images), label};
  for (std::int64_t i = 0; i < samples; ++i) dataset.read({.index = i}, tensors);
  measure(transforms, 4 * samples,
          [&](int i) { dataset.read({.epoch = 1 + i / samples, .index = i % samples}, tensors); });
}

}  // namespace

int main() {
  const auto source = std::make_shared<LargePictures>();
  for (const char* transforms : {"mosaic,affine,hsv,flip", "mosaic,affine,hsv", "mosaic,affine",
                                 "mosaic,affine:0.5,0.1,5", "mosaic,letterbox", "letterbox"})
    measure_transforms(transforms, source);
  Image picture = pattern(320, 320);
  const Image large = pattern(640, 480);
  Image canvas = pattern(640, 640);
  const std::vector<float> table(3 * 256, 1.0F);
  std::vector<float> planes(3 * 320 * 320);
  measure("hsv", 200, [&](int /*time*/) { scale_hsv(picture, 1.01F, 1.2F, 0.9F); });
  measure("flip", 200, [&](int /*time*/) { flip(picture); });
  measure("numbers of 320×320 pixels", 200, [&](int /*time*/) { write_planes(picture, table.data(), planes.data()); });
  measure("resize 640×480 to 320×240", 200, [&](int /*time*/) {
    resize_into(large, 320, 240, {0, 0, 320, 240}, canvas, 0, 0);
  });
}
