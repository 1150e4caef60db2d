// SPDX-License-Identifier: Apache-2.0
#include "backends/plan/block_run.hpp"

namespace lockstep::backends {
namespace {

/// Bytes of the tiles that the inputs are divided into: one tile for each level of the tree must fit into the
/// first-level cache.
constexpr std::int64_t tile_bytes = 4096;

struct alignas(64) Tile {
  std::array<std::byte, tile_bytes> bytes;
};

/// Returns how many of the inputs (at least two) are in the left branch. @param widths  their widths, or empty
std::size_t left_branch(std::span<const int> widths, std::size_t inputs) {
  return widths.empty() ? static_cast<std::size_t>(canonical_split(static_cast<int>(inputs)))
                        : canonical_branch(widths);
}

std::span<const int> part(std::span<const int> widths, std::size_t first, std::size_t count) {
  return widths.empty() ? widths : widths.subspan(first, count);
}

class TileSum {
 public:
  TileSum(Count first, Count count, DType dtype, ReduceOp op)
      : offset_(first.value * size_of(dtype)), count_(count), dtype_(dtype), op_(op) {}

  /// Returns the address of the sum of the inputs: `room`, or the input itself if there is only one.
  const void* of(std::span<const void* const> ins, std::span<const int> widths, Tile& room) const {
    if (ins.size() == 1) return static_cast<const std::byte*>(ins[0]) + offset_;
    const std::size_t left = left_branch(widths, ins.size());
    const void* lower = of(ins.first(left), part(widths, 0, left), room);
    Tile rest;
    const void* upper = of(ins.subspan(left), part(widths, left, ins.size() - left), rest);
    kernels::reduce(room.bytes.data(), lower, upper, count_, dtype_, op_);
    return room.bytes.data();
  }

 private:
  std::int64_t offset_;
  Count count_;
  DType dtype_;
  ReduceOp op_;
};

}  // namespace

void CanonicalCombine::operator()(std::span<void* const> outs, std::span<const void* const> ins,
                                  std::span<const int> widths, Count count, DType dtype, ReduceOp op,
                                  kernels::Residence residence) {
  if (ins.size() <= 2) return kernels::combine(outs, ins, count, dtype, op, residence);
  const bool in_place =
      std::find_first_of(outs.begin(), outs.end(), ins.begin(), ins.end(), std::equal_to<>()) != outs.end();
  if (in_place) residence = kernels::Residence::cache;  // a tile that is written has been read before
  const std::size_t left = left_branch(widths, ins.size());
  const std::int64_t width = size_of(dtype);
  tiles_.resize(outs.size());
  for (std::int64_t first = 0; first < count.value; first += tile_bytes / width) {
    const Count length{std::min(tile_bytes / width, count.value - first)};
    const TileSum sum({first}, length, dtype, op);
    Tile lower;
    Tile upper;
    const std::array<const void*, 2> halves{sum.of(ins.first(left), part(widths, 0, left), lower),
                                            sum.of(ins.subspan(left), part(widths, left, ins.size() - left), upper)};
    std::transform(outs.begin(), outs.end(), tiles_.begin(),
                   [&](void* out) { return static_cast<std::byte*>(out) + first * width; });
    kernels::combine(tiles_, halves, length, dtype, op, residence);
  }
}

}  // namespace lockstep::backends
