// SPDX-License-Identifier: Apache-2.0
#include "vision/picture_tiles.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::vision {
namespace {

/// The pixels of a picture that a tile has in one direction, and those of them that count.
struct Stretch {
  int first = 0;
  int end = 0;
  int counted_first = 0;
  int counted_end = 0;
};

struct Tile {
  std::int64_t sample = 0;
  int number = 0;  ///< in its picture, from 1
  Stretch columns;
  Stretch rows;  ///< empty, as the columns: the whole picture
};

/// Divides a side of a picture evenly.
std::vector<Stretch> parts_of(int length, int side) {
  if (length <= side) return {{0, length, 0, length}};
  const int step = side - side / 4;
  const int count = (length - side + step - 1) / step + 1;
  std::vector<Stretch> parts;
  for (int i = 0; i < count; ++i) {
    const auto first = static_cast<int>(std::int64_t{length - side} * i / (count - 1));
    if (!parts.empty()) parts.back().counted_end = (first + parts.back().end) / 2;
    parts.push_back({first, first + side, parts.empty() ? 0 : parts.back().counted_end, length});
  }
  return parts;
}

/// Takes a part of a picture out of it.
void crop(const Stretch& columns, const Stretch& rows, Image& image) {
  const auto pixel = static_cast<std::size_t>(image.channels);
  const std::size_t bytes = static_cast<std::size_t>(columns.end - columns.first) * pixel;
  const std::size_t stride = image.row_bytes();
  for (int y = rows.first; y < rows.end; ++y)
    std::memmove(
        image.pixels.data() + static_cast<std::size_t>(y - rows.first) * bytes,
        image.pixels.data() + static_cast<std::size_t>(y) * stride + static_cast<std::size_t>(columns.first) * pixel,
        bytes);
  image.resize(columns.end - columns.first, rows.end - rows.first, image.channels);
}

class TileSource final : public Source {
 public:
  TileSource(std::shared_ptr<const Source> source, std::vector<Tile> tiles)
      : source_(std::move(source)), tiles_(std::move(tiles)) {}

  [[nodiscard]] std::string format() const override { return source_->format(); }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(tiles_); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  [[nodiscard]] const std::vector<std::int64_t>& category_ids() const override { return source_->category_ids(); }
  [[nodiscard]] const Annotation& annotation(std::int64_t sample) const override {
    return source_->annotation(at(sample).sample);
  }
  [[nodiscard]] std::string place(std::int64_t sample) const override {
    return source_->place(at(sample).sample) + number_text(at(sample));
  }
  [[nodiscard]] std::string relative_place(std::int64_t sample) const override {
    return source_->relative_place(at(sample).sample) + number_text(at(sample));
  }
  [[nodiscard]] std::int64_t stored_bytes(std::int64_t sample) const override {
    return source_->stored_bytes(at(sample).sample);
  }
  void read(std::int64_t sample, std::vector<std::byte>& bytes) const override {
    source_->read(at(sample).sample, bytes);
  }
  void decode(std::int64_t sample, std::span<const std::byte> bytes, const DecodeOptions& options,
              Image& picture) const override {
    source_->decode(at(sample).sample, bytes, options, picture);
    if (has(at(sample), picture)) crop(at(sample).columns, at(sample).rows, picture);
  }
  void read_mask(std::int64_t sample, std::vector<std::byte>& bytes, Image& mask) const override {
    const auto& [picture, number, columns, rows] = at(sample);
    source_->read_mask(picture, bytes, mask);
    if (!has(at(sample), mask)) return;
    for (int y = rows.first; y < rows.end; ++y) {
      const bool counts = y >= rows.counted_first && y < rows.counted_end;
      const auto row = mask.row(y);
      std::fill(row.begin(), row.begin() + (counts ? columns.counted_first : mask.width), left_out_pixel);
      std::fill(row.begin() + columns.counted_end, row.end(), left_out_pixel);
    }
    crop(columns, rows, mask);
  }

 private:
  [[nodiscard]] const Tile& at(std::int64_t sample) const { return tiles_[static_cast<std::size_t>(sample)]; }
  [[nodiscard]] static std::string number_text(const Tile& tile) {
    return " (tile " + std::to_string(tile.number) + ')';
  }
  /// Whether a picture has the tile: not if its header lies, and not if its size was unknown.
  [[nodiscard]] static bool has(const Tile& tile, const Image& picture) {
    return tile.columns.end > 0 && picture.width >= tile.columns.end && picture.height >= tile.rows.end;
  }

  std::shared_ptr<const Source> source_;
  std::vector<Tile> tiles_;
};

}  // namespace

Tiles tiles_of(std::shared_ptr<const Source> source, std::span<const Size> sizes, int side) {
  Tiles result;
  std::vector<Tile> tiles;
  for (std::size_t sample = 0; sample < sizes.size(); ++sample) {
    int number = 0;
    for (const Stretch& rows : parts_of(sizes[sample].height, side))
      for (const Stretch& columns : parts_of(sizes[sample].width, side)) {
        tiles.push_back({static_cast<std::int64_t>(sample), ++number, columns, rows});
        result.sizes.push_back({.width = columns.end - columns.first, .height = rows.end - rows.first});
      }
  }
  result.source = std::make_shared<TileSource>(std::move(source), std::move(tiles));
  return result;
}

}  // namespace lockstep::vision
