// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace lockstep::collectives {

/// Maps each position of a line to a value, stored by intervals: it has as many entries as there are borders, however
/// long the line. A new map has `T{}` everywhere. The entries are in a sorted array, which is faster to search and
/// rebuild than a tree for the few hundred entries that occur.
template <class T>
class IntervalMap {
 public:
  /// Calls visit(piece_begin, piece_end, T&) for the pieces of [begin, end) in ascending order.
  template <class Visit>
  void visit(std::int64_t begin, std::int64_t end, Visit&& visit) {
    if (begin >= end) return;
    const std::size_t first = split(begin);
    const std::size_t last = split(end);
    for (std::size_t i = first; i != last; ++i) visit(pieces_[i].begin, pieces_[i + 1].begin, pieces_[i].value);
  }

  /// Sets [begin, end) to one value.
  void assign(std::int64_t begin, std::int64_t end, T value) {
    if (begin >= end) return;
    const std::size_t first = split(begin);
    const std::size_t last = split(end);
    pieces_[first].value = std::move(value);
    pieces_.erase(at(first + 1), at(last));
  }

 private:
  struct Piece {
    std::int64_t begin;
    T value;
  };

  auto at(std::size_t index) { return pieces_.begin() + static_cast<std::ptrdiff_t>(index); }

  /// Makes `position` a border and returns the index of the piece that begins there.
  std::size_t split(std::int64_t position) {
    const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), position,
                                        [](std::int64_t p, const Piece& piece) { return p < piece.begin; });
    const auto index = static_cast<std::size_t>(after - pieces_.begin());
    if (pieces_[index - 1].begin == position) return index - 1;
    T value = pieces_[index - 1].value;
    pieces_.insert(after, Piece{position, std::move(value)});
    return index;
  }

  std::vector<Piece> pieces_ = std::vector<Piece>(1, Piece{std::numeric_limits<std::int64_t>::min(), T{}});
};

}  // namespace lockstep::collectives
