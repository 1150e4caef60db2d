// SPDX-License-Identifier: Apache-2.0
#include "vision/cache/picture_cache.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/hash.hpp"
#include "lockstep/base/error.hpp"
#include "platform/node_memory/node_memory_layout.hpp"

namespace lockstep::vision {
namespace {

constexpr std::int64_t record_alignment = 64;
constexpr std::int64_t most_side = 1 << 20;

std::int64_t table_end(std::int64_t samples) {
  return rounded_up(page_bytes() + samples * static_cast<std::int64_t>(sizeof(std::uint64_t)), page_bytes());
}

}  // namespace

/// The first page of the file. A new file contains zeros, which is the initial value of all.
struct PictureCache::Header {
  std::uint64_t contents;           ///< of a file on disk: the hash of what it holds
  std::int64_t samples;             ///< of a file on disk: of its table
  std::atomic<std::int64_t> taken;  ///< bytes behind the table that users have taken
  std::atomic<bool> is_closed;      ///< the node had no memory or space for more
};

/// What precedes the pixels of a picture.
struct PictureCache::Record {
  std::int32_t width = 0;
  std::int32_t height = 0;
  std::int32_t channels = 0;
  std::int32_t original_width = 0;
  std::int32_t original_height = 0;
  std::int32_t has_mask = 0;  ///< whether the class of each pixel stands behind the pixels
  std::uint64_t hash = 0;     ///< of the pixels, where the file is lasting; extended by the mask and the extents

  [[nodiscard]] std::int64_t pixel_bytes() const {
    return std::int64_t{width} * height * (channels + (has_mask != 0 ? 1 : 0));
  }
  [[nodiscard]] std::uint64_t hash_with(std::span<const std::uint8_t> pixels,
                                        std::span<const std::uint8_t> mask) const {
    std::uint64_t value = hash_of(std::as_bytes(pixels));
    if (has_mask != 0) value = combine(value, hash_of(std::as_bytes(mask)));
    for (const std::int32_t extent : {width, height, channels, original_width, original_height})
      value = combine(value, static_cast<std::uint64_t>(extent));
    return value;
  }
};

PictureCache::PictureCache(std::shared_ptr<CacheFile> file, std::int64_t samples)
    : file_(std::move(file)), samples_(samples), data_begin_(table_end(samples)) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share these words");
}

Bytes PictureCache::file_bytes(std::int64_t samples, Bytes pictures) {
  return {table_end(samples) + whole_pages(pictures).value};
}

PictureCache::Header& PictureCache::header() const { return *reinterpret_cast<Header*>(file_->data()); }

std::atomic<std::uint64_t>& PictureCache::word(std::int64_t sample) const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(file_->data() + page_bytes())[sample];
}

/// The record at a place; nothing if it cannot be one, as in a damaged file.
std::optional<PictureCache::Record> PictureCache::record_at(std::uint64_t place) const {
  const auto size = static_cast<std::uint64_t>(file_->size().value);
  if (place % record_alignment != 0 || place < static_cast<std::uint64_t>(data_begin_)) return {};
  if (place > size - record_alignment) return {};
  Record record;
  std::memcpy(&record, file_->data() + place, sizeof record);
  const auto is_extent = [](std::int32_t extent, std::int64_t most) { return extent >= 1 && extent <= most; };
  if (!is_extent(record.width, most_side) || !is_extent(record.height, most_side) || !is_extent(record.channels, 4))
    return {};
  if (static_cast<std::uint64_t>(record.pixel_bytes()) > size - place - record_alignment) return {};
  return record;
}

bool PictureCache::find(std::int64_t sample, DecodedPicture& picture) const {
  std::uint64_t place = word(sample).load(std::memory_order_acquire);
  if (place == 0) return false;
  if (const auto record = record_at(place)) {
    Image& image = picture.image;
    image.resize(record->width, record->height, record->channels);
    const std::byte* pixels = file_->data() + place + record_alignment;
    std::memcpy(image.pixels.data(), pixels, image.pixels.size());
    picture.original_width = record->original_width;
    picture.original_height = record->original_height;
    Image& mask = picture.mask;
    record->has_mask != 0 ? mask.resize(record->width, record->height, 1) : mask.resize(0, 0, 1);
    if (!mask.pixels.empty()) std::memcpy(mask.pixels.data(), pixels + image.pixels.size(), mask.pixels.size());
    if (!file_->is_lasting() || record->hash == record->hash_with(image.pixels, mask.pixels)) return true;
  }
  word(sample).compare_exchange_strong(place, 0, std::memory_order_relaxed);  // damaged: it is kept anew
  return false;
}

void PictureCache::keep(std::int64_t sample, const DecodedPicture& picture) {
  const Image& image = picture.image;
  // A child of fork() would fill the block of its parent.
  if (word(sample).load(std::memory_order_relaxed) != 0 || !origin_.is_here()) return;
  Record record{.width = image.width,
                .height = image.height,
                .channels = image.channels,
                .original_width = picture.original_width,
                .original_height = picture.original_height,
                .has_mask = picture.mask.pixels.empty() ? 0 : 1};
  const auto place = allocate(record_alignment + record.pixel_bytes());
  if (!place) return is_full_.store(true, std::memory_order_relaxed);
  const std::vector<std::uint8_t>& mask = picture.mask.pixels;
  if (file_->is_lasting()) record.hash = record.hash_with(image.pixels, mask);
  std::byte* to = file_->data() + *place;
  std::memcpy(to, &record, sizeof record);
  std::memcpy(to + record_alignment, image.pixels.data(), image.pixels.size());
  if (!mask.empty()) std::memcpy(to + record_alignment + image.pixels.size(), mask.data(), mask.size());
  std::uint64_t empty = 0;
  word(sample).compare_exchange_strong(empty, static_cast<std::uint64_t>(*place), std::memory_order_release,
                                       std::memory_order_relaxed);
}

/// Allocates from this process's block. What remains of a block is given up when a picture does not fit into it.
std::optional<std::int64_t> PictureCache::allocate(std::int64_t bytes) {
  // Blocks are small beside the whole, because each process has one.
  const std::int64_t whole_block = std::clamp<std::int64_t>(rounded_up(capacity().value / 1024, page_bytes()),
                                                            16 * page_bytes(), std::int64_t{4} << 20);
  bytes = rounded_up(bytes, record_alignment);
  if (bytes > whole_block / 4) return take(bytes);
  const std::lock_guard lock(mutex_);
  if (bytes > block_end_ - block_begin_) {
    const auto block = take(whole_block);
    if (!block) return {};
    block_begin_ = *block;
    block_end_ = *block + whole_block;
  }
  return std::exchange(block_begin_, block_begin_ + bytes);
}

/// Takes whole pages of the file. @return their offset; nothing if the file or the node has no room
std::optional<std::int64_t> PictureCache::take(std::int64_t bytes) {
  bytes = rounded_up(bytes, page_bytes());
  std::atomic<std::int64_t>& taken = header().taken;
  std::int64_t before = taken.load(std::memory_order_relaxed);
  do {
    if (before < 0 || bytes > capacity().value - before || header().is_closed.load(std::memory_order_relaxed))
      return {};
  } while (!taken.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  try {
    file_->provide(data_begin_ + before, {bytes});
  } catch (const Error&) {
    header().is_closed.store(true, std::memory_order_relaxed);  // others need not try
    return {};
  }
  return data_begin_ + before;
}

Bytes PictureCache::used() const { return {header().taken.load(std::memory_order_relaxed)}; }

bool PictureCache::holds(const CacheFile& file, std::uint64_t contents, std::int64_t samples) {
  const auto& header = *reinterpret_cast<const Header*>(file.data());
  return header.contents == contents && header.samples == samples && file.size() > table_end(samples);
}

void PictureCache::label(std::uint64_t contents) {
  file_->provide(0, {data_begin_});
  header().samples = samples_;
  header().contents = contents;
}

}  // namespace lockstep::vision
