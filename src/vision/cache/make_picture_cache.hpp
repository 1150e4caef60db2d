// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "vision/cache/picture_cache.hpp"

namespace lockstep::vision {

/// Where decoded pictures are kept.
enum class CacheKind : std::uint8_t { none, ram, disk };

struct CacheOptions {
  CacheKind kind = CacheKind::none;
  Bytes most{0};                 ///< of pictures on this node; 0: a quarter of its free memory, or of the disk's space
  std::filesystem::path folder;  ///< for disk: gets a hidden folder for this data set, with a file for each host
  /// Says which data set this is and how its pictures are decoded. A file on disk with another text is made anew.
  std::string contents;
};

/// Makes the cache of a node. Collective over its ranks.
/// @param samples  of all parts that use it
/// @param why_not  set to the reason if a rank cannot take part; it decodes each picture when it needs it
/// @return null for `none`, or on such a rank
std::shared_ptr<PictureCache> make_picture_cache(const CacheOptions& options, std::int64_t samples,
                                                 const NodeRanks& ranks, std::string& why_not);

}  // namespace lockstep::vision
