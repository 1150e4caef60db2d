// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"

namespace lockstep::ddp {

/// Consecutive tensors that are reduced together: elements `offset` … `offset + count` of the flat gradients.
struct Bucket {
  Count offset;
  Count count;
  std::vector<int> tensors;  ///< indices into the layout, last layer first
  std::vector<Count> parts;  ///< parts of the ranks, in rank order; empty if every rank gets the whole bucket

  /// Returns a rank's part of the flat gradients. @pre parts is not empty
  [[nodiscard]] LayoutPart part_of(Rank rank) const;
};

struct BucketOptions {
  Bytes size{25 << 20};  ///< a bucket is closed once it holds this many bytes
  /// Size of the first bucket, which is ready while most of the backward pass is still to run.
  Bytes first{1 << 20};
  int parts = 0;  ///< number of parts per bucket, one for each rank; 0 leaves buckets whole
};

/// Divides `count` elements into parts that differ by at most `Layout::alignment` elements and begin at multiples of
/// it; no part is larger than the first. Some parts may be empty.
std::vector<Count> even_parts(Count count, int parts);

/// Divides a layout into buckets, from its last tensor to its first, which is about the order in which backward
/// finishes them.
/// No tensor is split; a tensor larger than a bucket gets a bucket of its own.
/// @throws Error{invalid_argument} if a size is not positive
std::vector<Bucket> plan_buckets(const Layout& layout, DType dtype, const BucketOptions& options);

/// Returns a fingerprint of the layout, dtype, buckets and parts. Ranks whose fingerprints differ would reduce
/// unrelated gradients.
std::uint64_t hash(const Layout& layout, DType dtype, const std::vector<Bucket>& buckets);

}  // namespace lockstep::ddp
