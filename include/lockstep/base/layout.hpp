// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/types.hpp"

namespace lockstep {

/// The range of one tensor in a flat allocation: row-major, elements `offset` … `offset + count`.
struct TensorSlot {
  std::string name;
  std::vector<std::int64_t> shape;
  Count offset;
  Count count;
};

/// The ranges of named tensors in one flat allocation, without a dtype. Parameters, gradients and optimizer state share
/// one layout, so that element i of each belongs to the same weight.
class Layout {
 public:
  /// Tensors start at multiples of this many elements (64 bytes of float32).
  static constexpr std::int64_t alignment = 16;

  /// Appends a tensor and returns its index.
  /// @throws Error{invalid_argument} if a dimension is negative or the name is taken
  int add(std::string name, std::vector<std::int64_t> shape);

  [[nodiscard]] const std::vector<TensorSlot>& tensors() const { return tensors_; }
  /// @throws std::out_of_range for an index that add() has not returned
  [[nodiscard]] const TensorSlot& at(int index) const { return tensors_.at(static_cast<std::size_t>(index)); }
  /// @throws Error{invalid_argument} if there is no tensor of that name
  [[nodiscard]] const TensorSlot& find(const std::string& name) const;
  /// Elements of the whole allocation, padding included.
  [[nodiscard]] Count count() const { return count_; }
  /// FNV-1a hash of names, shapes and offsets; it is equal on ranks that built the same model.
  [[nodiscard]] std::uint64_t hash() const;

 private:
  std::vector<TensorSlot> tensors_;
  Count count_;
};

/// Elements `offset` … `offset + count` of flat allocations of one layout.
struct LayoutPart {
  Count offset;
  Count count;
  friend bool operator==(const LayoutPart&, const LayoutPart&) = default;
};

/// The intersection of two parts, possibly without elements.
inline LayoutPart common(const LayoutPart& a, const LayoutPart& b) {
  const Count begin = std::max(a.offset, b.offset);
  const Count end = std::min(a.offset + a.count, b.offset + b.count);
  return {begin, std::max(Count{0}, end - begin)};
}

/// The number of elements of disjoint parts.
inline Count total(std::span<const LayoutPart> parts) {
  Count sum;
  for (const LayoutPart& part : parts) sum += part.count;
  return sum;
}

}  // namespace lockstep
