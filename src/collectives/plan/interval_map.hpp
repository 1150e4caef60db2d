// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace lockstep::collectives {

/// A value for each position of a line, kept by intervals: it costs as many entries as there are borders, however long
/// the line. A freshly made one has `T{}` everywhere.
template <class T>
class IntervalMap {
 public:
  IntervalMap() { pieces_.emplace(std::numeric_limits<std::int64_t>::min(), T{}); }

  /// Calls visit(piece_begin, piece_end, T&) for the pieces of [begin, end) in ascending order.
  template <class Visit>
  void visit(std::int64_t begin, std::int64_t end, Visit&& visit) {
    if (begin >= end) return;
    const auto last = split(end);
    for (auto piece = split(begin); piece != last;) {
      const auto next = std::next(piece);
      visit(piece->first, next->first, piece->second);
      piece = next;
    }
  }

  /// Sets [begin, end) to one value.
  void assign(std::int64_t begin, std::int64_t end, T value) {
    if (begin >= end) return;
    const auto last = split(end);
    const auto first = split(begin);
    first->second = std::move(value);
    pieces_.erase(std::next(first), last);
  }

 private:
  using Pieces = std::map<std::int64_t, T>;

  /// Makes `position` a border and returns the piece that begins there.
  typename Pieces::iterator split(std::int64_t position) {
    const auto after = pieces_.upper_bound(position);
    const auto piece = std::prev(after);
    if (piece->first == position) return piece;
    return pieces_.emplace_hint(after, position, piece->second);
  }

  Pieces pieces_;
};

}  // namespace lockstep::collectives
