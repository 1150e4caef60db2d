// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/extents.hpp"

#include <iterator>

namespace lockstep {

Extents::Extents(Bytes whole) { extents_[0] = {whole.value, false}; }

std::optional<std::int64_t> Extents::take(Bytes bytes, std::int64_t alignment) {
  for (auto at = extents_.begin(); at != extents_.end(); ++at) {
    const std::int64_t begin = (at->first + alignment - 1) / alignment * alignment;
    const std::int64_t end = at->first + at->second.bytes;
    if (at->second.taken || begin + bytes.value > end) continue;
    // The remainder is inserted first: if that throws, the extents still have no gaps.
    if (begin + bytes.value < end) {
      extents_.emplace(begin + bytes.value, Extent{end - begin - bytes.value, false});
      at->second.bytes = begin + bytes.value - at->first;
    }
    if (begin > at->first) {
      const std::int64_t before = begin - at->first;
      at = extents_.emplace(begin, Extent{bytes.value, false}).first;
      std::prev(at)->second.bytes = before;
    }
    at->second.taken = true;
    taken_.value += bytes.value;
    return begin;
  }
  return std::nullopt;
}

void Extents::give_back(std::int64_t offset) noexcept {
  auto at = extents_.find(offset);
  at->second.taken = false;
  taken_.value -= at->second.bytes;
  const auto after = std::next(at);
  if (after != extents_.end() && !after->second.taken) {
    at->second.bytes += after->second.bytes;
    extents_.erase(after);
  }
  if (at == extents_.begin()) return;
  const auto before = std::prev(at);
  if (!before->second.taken) {
    before->second.bytes += at->second.bytes;
    extents_.erase(at);
  }
}

}  // namespace lockstep
