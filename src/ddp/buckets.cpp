// SPDX-License-Identifier: Apache-2.0
#include "ddp/buckets.hpp"

#include <algorithm>
#include <string>

#include "base/hash.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::ddp {

LayoutPart Bucket::part_of(Rank rank) const {
  const auto own = static_cast<std::size_t>(rank.value);
  LayoutPart part{offset, parts[own]};
  for (std::size_t before = 0; before < own; ++before) part.offset.value += parts[before].value;
  return part;
}

std::vector<Count> even_parts(Count count, int parts) {
  const std::int64_t blocks = (count.value + Layout::alignment - 1) / Layout::alignment;
  std::vector<Count> cut;
  std::int64_t begin = 0;
  for (int part = 1; part <= parts; ++part) {
    const std::int64_t end = std::min(count.value, (blocks * part + parts - 1) / parts * Layout::alignment);
    cut.push_back({end - begin});
    begin = end;
  }
  return cut;
}

std::vector<Bucket> plan_buckets(const Layout& layout, DType dtype, const BucketOptions& options) {
  for (const Bytes size : {options.size, options.first}) {
    if (size.value < 1) {
      throw Error(ErrorCode::invalid_argument,
                  "a bucket of " + std::to_string(size.value) + " bytes: the size must be positive");
    }
  }
  std::vector<Bucket> buckets;
  Count end = layout.count();
  Bucket open;
  const auto close = [&] {
    open.count = {end.value - open.offset.value};
    open.parts = even_parts(open.count, options.parts);
    end = open.offset;
    buckets.push_back(std::move(open));
    open = {};
  };
  for (int tensor = static_cast<int>(layout.tensors().size()) - 1; tensor >= 0; --tensor) {
    const Bytes limit = buckets.empty() ? std::min(options.first, options.size) : options.size;
    const bool large = layout.at(tensor).count.value * size_of(dtype) >= limit.value;
    if (large && !open.tensors.empty()) close();  // small tensors that are ready need not wait for the large one
    open.offset = layout.at(tensor).offset;
    open.tensors.push_back(tensor);
    if (large || (end.value - open.offset.value) * size_of(dtype) >= limit.value) close();
  }
  if (!open.tensors.empty()) close();
  return buckets;
}

std::uint64_t hash(const Layout& layout, DType dtype, const std::vector<Bucket>& buckets) {
  Fnv1a hash;
  hash.add(static_cast<std::int64_t>(layout.hash()));
  hash.add(name(dtype));
  for (const Bucket& bucket : buckets) {
    hash.add(bucket.offset.value);
    hash.add(bucket.count.value);
    for (const Count part : bucket.parts) hash.add(part.value);
  }
  return hash.value();
}

}  // namespace lockstep::ddp
