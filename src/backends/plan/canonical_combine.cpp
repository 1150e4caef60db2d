// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/canonical_combine.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>

#include "collectives/plan/canonical_order.hpp"

namespace lockstep::backends {
namespace {

/// Bytes of the tiles that the inputs are cut into: a few of them, one for each level of the tree, stay in the
/// first-level cache.
constexpr std::int64_t tile_bytes = 4096;

struct alignas(64) Tile {
  std::array<std::byte, tile_bytes> bytes;
};

class TileSum {
 public:
  TileSum(std::span<const void* const> ins, Count first, Count count, DType dtype, ReduceOp op)
      : ins_(ins), offset_(first.value * size_of(dtype)), count_(count), dtype_(dtype), op_(op) {}

  /// Where the sum of the inputs `first` … `first + leaves` is afterwards: in `room`, or where it was if it is one.
  const void* of(int first, int leaves, Tile& room) const {
    if (leaves == 1) return static_cast<const std::byte*>(ins_[static_cast<std::size_t>(first)]) + offset_;
    const int left = collectives::canonical_split(leaves);
    const void* lower = of(first, left, room);
    Tile rest;
    const void* upper = of(first + left, leaves - left, rest);
    kernels::reduce(room.bytes.data(), lower, upper, count_, dtype_, op_);
    return room.bytes.data();
  }

 private:
  std::span<const void* const> ins_;
  std::int64_t offset_;
  Count count_;
  DType dtype_;
  ReduceOp op_;
};

}  // namespace

void CanonicalCombine::operator()(std::span<void* const> outs, std::span<const void* const> ins, Count count,
                                  DType dtype, ReduceOp op, kernels::Residence residence) {
  const auto leaves = static_cast<int>(ins.size());
  if (leaves <= 2) return kernels::combine(outs, ins, count, dtype, op, residence);
  const bool in_place =
      std::find_first_of(outs.begin(), outs.end(), ins.begin(), ins.end(), std::equal_to<>()) != outs.end();
  if (in_place) residence = kernels::Residence::cache;  // a tile of what is written to has been read
  const int left = collectives::canonical_split(leaves);
  const std::int64_t width = size_of(dtype);
  tiles_.resize(outs.size());
  for (std::int64_t first = 0; first < count.value; first += tile_bytes / width) {
    const Count length{std::min(tile_bytes / width, count.value - first)};
    const TileSum sum(ins, {first}, length, dtype, op);
    Tile lower;
    Tile upper;
    const std::array<const void*, 2> halves{sum.of(0, left, lower), sum.of(left, leaves - left, upper)};
    std::transform(outs.begin(), outs.end(), tiles_.begin(),
                   [&](void* out) { return static_cast<std::byte*>(out) + first * width; });
    kernels::combine(tiles_, halves, length, dtype, op, residence);
  }
}

}  // namespace lockstep::backends
