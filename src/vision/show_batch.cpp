// SPDX-License-Identifier: Apache-2.0
#include "vision/show_batch.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/text_file.hpp"
#include "lockstep/base/error.hpp"
#include "vision/codec/codec.hpp"
#include "vision/image/draw.hpp"

namespace lockstep::vision {
namespace {

constexpr int least_shown_side = 96;
constexpr int line_height = 18;
constexpr int most_enlarged = 16;  // a picture of one column may be long

/// Returns the whole factor by which `side` becomes at least `wanted`.
int factor_to(int wanted, int side) { return std::max((wanted + side - 1) / side, 1); }

/// Repeats pixels, and gray in three channels, over a strip of white for a line of text.
Image enlarged(const Image& picture, int factor) {
  Image large;
  large.resize(picture.width * factor, picture.height * factor + line_height, 3);
  std::fill(large.pixels.begin(), large.pixels.end(), std::uint8_t{255});
  const auto channels = static_cast<std::size_t>(picture.channels);
  for (int y = 0; y < picture.height * factor; ++y) {
    const auto from = picture.row(y / factor);
    const auto to = large.row(y);
    for (std::size_t x = 0; x < static_cast<std::size_t>(large.width); ++x)
      for (std::size_t channel = 0; channel < 3; ++channel)
        to[3 * x + channel] =
            from[x / static_cast<std::size_t>(factor) * channels + (channels == 3 ? channel : std::size_t{0})];
  }
  return large;
}

std::string class_text(const Source& source, std::int32_t label) {
  const std::vector<std::string>& names = source.class_names();
  if (label < 0) return "no class";
  return static_cast<std::size_t>(label) < names.size() ? names[static_cast<std::size_t>(label)]
                                                        : std::to_string(label);
}

Region enlarged(const Box& box, int factor) {
  const auto edge = [factor](float value) { return static_cast<int>(std::lround(value * static_cast<float>(factor))); };
  const int left = edge(box.left);
  const int top = edge(box.top);
  return {.left = left, .top = top, .width = edge(box.right) - left, .height = edge(box.bottom) - top};
}

/// Draws on the strip of an enlarged picture.
void draw_below(const Caption& caption, Image& picture) {
  draw_label(caption.text, 0, picture.height - line_height + 1, caption.color, picture);
}

/// @param caption  null: the class of the sample
Image cell_of(const PictureDataset& dataset, const data::SampleKey& key, const Caption* caption) {
  Image picture;
  Annotation annotation;
  const bool is_good = dataset.view(key, picture, annotation);
  if (!annotation.mask.pixels.empty()) draw_mask(annotation.mask, picture);
  const int factor = factor_to(least_shown_side, std::min(picture.width, picture.height));
  Image cell = enlarged(picture, factor);
  for (const Box& box : annotation.boxes) draw_rectangle(enlarged(box, factor), 2, class_color(box.label), cell);
  for (const Box& box : annotation.boxes) {  // over the lines of all boxes
    const Region region = enlarged(box, factor);
    draw_label(class_text(dataset.source(), box.label), region.left, region.top, class_color(box.label), cell);
  }
  const bool has_text =
      !is_good || annotation.label >= 0 || (annotation.boxes.empty() && annotation.mask.pixels.empty());
  const std::string known = annotation.text.empty() ? class_text(dataset.source(), annotation.label) : annotation.text;
  const std::string text = is_good ? known : "left out";
  if (caption != nullptr && is_good) {
    draw_below(*caption, cell);
  } else if (has_text) {
    draw_below({text}, cell);
  }
  return cell;
}

}  // namespace

Image batch_sheet(const PictureDataset& dataset, std::span<const data::SampleKey> keys,
                  std::span<const Caption> captions) {
  std::vector<Image> cells;
  for (std::size_t i = 0; i < keys.size(); ++i)
    cells.push_back(cell_of(dataset, keys[i], i < captions.size() ? &captions[i] : nullptr));
  const int columns = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(keys.size()))));
  Image sheet;
  put_side_by_side(cells, std::max(columns, 1), 4, sheet);
  return sheet;
}

Image with_caption(const Image& picture, const Caption& caption) {
  const int by_side = factor_to(least_shown_side, std::min(picture.width, picture.height));
  const int by_text = factor_to(text_width(caption.text), picture.width);
  Image result = enlarged(picture, std::min(std::max(by_side, by_text), most_enlarged));
  draw_below(caption, result);
  return result;
}

void write_png(const Image& picture, const std::filesystem::path& file, const Palette* palette) {
  const std::vector<std::byte> bytes = encode_png(picture, palette);
  const Descriptor out(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (out.open() && write_all(out.get(), text)) return;
  throw Error(ErrorCode::io,
              "the picture '" + file.string() + "' cannot be written: " + std::generic_category().message(errno));
}

}  // namespace lockstep::vision
