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
  std::vector<Count> parts;  ///< of each rank, one behind the other; none where every rank gets all of it

  /// A rank's part of the flat gradients. @pre there are parts
  [[nodiscard]] LayoutPart part_of(Rank rank) const;
};

struct BucketOptions {
  Bytes size{25 << 20};  ///< a bucket is closed once it holds this much
  /// The first bucket's, which is ready while most of backward is still to come.
  Bytes first{1 << 20};
  int parts = 0;  ///< into how many each is cut, a rank's each; 0: it is not
};

/// Parts that differ by `Layout::alignment` elements at most and begin at multiples of that; no rank has more than the
/// first. Some may be empty.
std::vector<Count> even_parts(Count count, int parts);

/// Cuts a layout into buckets, from its last tensor to its first: backward finishes them about in that order.
/// No tensor is cut; one larger than a bucket has its own.
/// @throws Error{invalid_argument} if a size is not positive
std::vector<Bucket> plan_buckets(const Layout& layout, DType dtype, const BucketOptions& options);

/// A fingerprint of layout, dtype, cuts and parts: ranks that differ in it would add up unrelated gradients.
std::uint64_t hash(const Layout& layout, DType dtype, const std::vector<Bucket>& buckets);

}  // namespace lockstep::ddp
