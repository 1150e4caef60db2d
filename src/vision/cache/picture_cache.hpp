// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/origin_process.hpp"
#include "vision/cache/cache_file.hpp"
#include "vision/image/image.hpp"

namespace lockstep::vision {

/// A decoded picture, and the size of the original, in whose pixels its annotation is. Both sizes are the same unless
/// the picture was scaled when it was decoded.
struct DecodedPicture {
  Image image;
  Image mask{.channels = 1, .pixels = {}};  ///< the class of each pixel of the image; without pixels there is none
  int original_width = 0;
  int original_height = 0;
};

/// Decoded pictures, by sample, which all processes of a node share: whoever needs a sample first decodes and keeps it.
///
/// A sample has one word in a table: the place of its picture, once that is complete. Whoever keeps a picture takes
/// memory, fills it, and then enters the place. There is no state in between, so a process that dies while it fills
/// memory leaves the sample as it was, for others to keep; what it loses is the block that it took. Processes that keep
/// the same sample at the same moment waste the memory of one picture. Memory is not given back before the end.
/// All functions may be called by several threads at once. None waits for another process.
class PictureCache {
 public:
  /// @param file     made for `file_bytes`
  /// @param samples  the same for all users of the file
  PictureCache(std::shared_ptr<CacheFile> file, std::int64_t samples);

  /// Whether a file on disk is a cache of this. @param contents  as label() has written
  static bool holds(const CacheFile& file, std::uint64_t contents, std::int64_t samples);
  /// Provides the table of a new file, and writes what the file is for.
  /// @param contents  a hash of what tells the pictures from others, not 0
  /// @throws as CacheFile::provide
  void label(std::uint64_t contents);
  /// The size of a file for the table, and this many bytes of pictures.
  static Bytes file_bytes(std::int64_t samples, Bytes pictures);

  [[nodiscard]] std::int64_t samples() const { return samples_; }
  /// Copies a picture out of the cache.
  /// @param picture  overwritten, also without success; its memory is used again
  /// @return whether it was there
  bool find(std::int64_t sample, DecodedPicture& picture) const;
  /// Keeps a copy of a picture, unless it is there already or the cache has no room for it.
  void keep(std::int64_t sample, const DecodedPicture& picture);

  /// The memory that pictures have taken, of all users together.
  [[nodiscard]] Bytes used() const;
  /// The most that they can take.
  [[nodiscard]] Bytes capacity() const { return {file_->size().value - data_begin_}; }
  /// Whether a picture was decoded that found no room.
  [[nodiscard]] bool is_full() const { return is_full_.load(std::memory_order_relaxed); }

 private:
  struct Header;
  struct Record;

  [[nodiscard]] Header& header() const;
  [[nodiscard]] std::atomic<std::uint64_t>& word(std::int64_t sample) const;
  [[nodiscard]] std::optional<Record> record_at(std::uint64_t place) const;
  std::optional<std::int64_t> allocate(std::int64_t bytes);
  std::optional<std::int64_t> take(std::int64_t bytes);

  std::shared_ptr<CacheFile> file_;
  std::int64_t samples_;
  std::int64_t data_begin_;  ///< offset behind the table
  OriginProcess origin_;
  std::mutex mutex_;              ///< guards the block
  std::int64_t block_begin_ = 0;  ///< the free part of the block that this process fills
  std::int64_t block_end_ = 0;
  std::atomic<bool> is_full_ = false;
};

}  // namespace lockstep::vision
