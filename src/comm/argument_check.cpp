// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/borders.hpp"
#include "comm/back_end.hpp"
#include "comm/collective_parts.hpp"

namespace lockstep {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }

/// Returns the caller's part of a buffer that holds one part for each rank.
ConstBuffer own_part(const Collective& c, const ConstBuffer& whole, const ConstBuffer& part, Rank rank) {
  const Count offset = has_part_counts(c.kind) ? offset_of_part(c.parts, rank) : Count{part.count.value * rank.value};
  return slice(whole, offset, part.count);
}

/// Returns whether the output holds the parts of all ranks and the input holds one of them.
bool gathers_parts(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::gather || kind == CollectiveKind::all_gather_v;
}

bool scatters_parts(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scatter ||
         kind == CollectiveKind::reduce_scatter_v;
}

bool overlap(const ConstBuffer& a, const ConstBuffer& b) {
  if (a.count == 0 || b.count == 0) return false;
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data);
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data);
  return a_begin < b_begin ? std::cmp_less(b_begin - a_begin, a.bytes().value)
                           : std::cmp_less(a_begin - b_begin, b.bytes().value);
}

bool counts_fit(const Collective& c, Rank rank, int size) {
  const std::int64_t in = c.in.count.value;
  const std::int64_t out = c.out.count.value;
  switch (c.kind) {
    case CollectiveKind::all_gather: return is_product(out, in, size);
    case CollectiveKind::reduce_scatter: return is_product(in, out, size);
    case CollectiveKind::reduce: return rank != c.root || in == out;
    case CollectiveKind::gather: return rank != c.root || is_product(out, in, size);
    case CollectiveKind::scatter: return rank != c.root || is_product(in, out, size);
    case CollectiveKind::all_to_all: return in == out && in % size == 0;
    case CollectiveKind::send:
    case CollectiveKind::recv:
    case CollectiveKind::all_gather_v:  // complaint_about_parts checks these three
    case CollectiveKind::reduce_scatter_v:
    case CollectiveKind::all_to_all_v: return true;
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
    case CollectiveKind::scan:
    case CollectiveKind::exclusive_scan:
    case CollectiveKind::barrier: return in == out;
  }
  return false;
}

/// Returns whether no number was cast to an enumeration that does not have it. Each selects a table's entry or a width.
bool has_enumerators(const Collective& c) {
  return is_valid(c.kind) && is_valid(c.op) && is_valid(c.in.dtype) && is_valid(c.out.dtype) && is_valid(c.in.kind) &&
         is_valid(c.out.kind);
}

/// @pre !has_enumerators(c)
std::string complaint_about_enumerators(const Collective& c) {
  if (!is_valid(c.kind)) return no_enumerator("CollectiveKind", c.kind);
  if (!is_valid(c.op)) return no_enumerator("ReduceOp", c.op);
  for (const DType dtype : {c.in.dtype, c.out.dtype})
    if (!is_valid(dtype)) return no_enumerator("DType", dtype);
  return no_enumerator("MemoryKind", is_valid(c.in.kind) ? c.out.kind : c.in.kind);
}

/// The elements whose bytes have to be counted in 63 bits: those of the larger buffer. The whole of a gather or scatter
/// is known to its root only, and all ranks have to refuse it.
Count largest_count(const Collective& c) {
  if (c.kind == CollectiveKind::gather) return c.in.count;
  return c.kind == CollectiveKind::scatter ? c.out.count : std::max(c.in.count, c.out.count);
}

bool sizes_fit(const Collective& c, int size) {
  const bool is_part = c.kind == CollectiveKind::gather || c.kind == CollectiveKind::scatter;
  const auto elements = product(largest_count(c).value, is_part ? size : 1);
  return elements && product(*elements, size_of(c.out.dtype));
}

/// Returns what is wrong with the per-rank counts of a buffer, or an empty string.
std::string complaint_about_parts(const std::string& what, std::span<const Count> parts, const ConstBuffer& whole,
                                  int size) {
  if (parts.size() != static_cast<std::size_t>(size))
    return what + " has " + std::to_string(parts.size()) + " counts for " + text(size) + " ranks";
  std::int64_t left = whole.count.value;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const std::int64_t part = parts[rank].value;
    if (part < 0) return what + " has a negative count for rank " + std::to_string(rank) + ": " + text(part);
    if (part > left)
      return what + " has counts of more than the " + text(whole.count.value) + " elements there are, from rank " +
             std::to_string(rank) + " on, for which it has " + text(part);
    left -= part;
  }
  if (left > 0)
    return what + " has counts of " + text(whole.count.value - left) + " elements in all, of " +
           text(whole.count.value);
  return {};
}

/// Returns what is wrong with any per-rank counts of the call, or an empty string.
std::string complaint_about_parts(const Collective& c, Rank rank, int size) {
  const bool gathers = c.kind == CollectiveKind::all_gather_v;
  if (c.kind == CollectiveKind::all_to_all_v) {
    std::string wrong = complaint_about_parts("what is sent", c.parts, c.in, size);
    if (wrong.empty()) wrong = complaint_about_parts("what is received", c.received, c.out, size);
    if (!wrong.empty()) return wrong;
    const auto me = static_cast<std::size_t>(rank.value);
    if (c.parts[me] == c.received[me]) return {};
    return "this rank sends itself " + text(c.parts[me].value) + " elements and receives " +
           text(c.received[me].value) + " of them";
  }
  std::string wrong = complaint_about_parts(gathers ? "out" : "in", c.parts, gathers ? c.out : c.in, size);
  if (!wrong.empty()) return wrong;
  const Count own = c.parts[static_cast<std::size_t>(rank.value)];
  const Count alone = gathers ? c.in.count : c.out.count;
  if (own == alone) return {};
  return std::string(gathers ? "in" : "out") + " has " + text(alone.value) + " elements; this rank's count is " +
         text(own.value);
}

/// Returns what is wrong with the positions of the buffers in memory, or an empty string.
std::string overlap_complaint(const Collective& c, Rank rank) {
  if (!overlap(c.in, c.out)) return {};
  if (c.kind == CollectiveKind::all_to_all || c.kind == CollectiveKind::all_to_all_v)
    return "in and out overlap; an all_to_all cannot be done in place";
  const ConstBuffer out = c.out;
  const ConstBuffer in_place = gathers_parts(c.kind) ? own_part(c, out, c.in, rank) : out;
  const ConstBuffer expected = scatters_parts(c.kind) ? own_part(c, c.in, out, rank) : c.in;
  return in_place.data == expected.data ? "" : "in and out overlap without being the same memory";
}

/// Returns what is wrong with the leaves of a tree, or an empty string.
std::string complaint_about_leaves(const Collective& c, Rank rank, int size) {
  if (c.kind != CollectiveKind::all_reduce) return "only an all_reduce adds up the leaves of a tree";
  const LeafShares& shares = c.leaves.shares;
  if (shares.total() < size)
    return text(shares.total()) + " leaves are too few for " + text(size) + " ranks: each brings at least one";
  if (shares.ranks() != 0 && shares.ranks() != size)
    return "the leaves are shared among " + text(shares.ranks()) + " ranks, not " + text(size);
  if (c.op == ReduceOp::average) return "an average over leaves: divide the sums by their number";
  const int sums = count_tree_nodes(shares.total(), shares.of(rank.value, size));
  if (sums == 1) return {};
  const auto room = product(c.leaves.stride.value, sums);
  if (!room || !product(*room, size_of(c.in.dtype)))
    return "a stride of " + text(c.leaves.stride.value) + " elements is more than memory can hold";
  if (c.leaves.stride < c.in.count)
    return "the sums of " + text(c.in.count.value) + " elements begin " + text(c.leaves.stride.value) +
           " elements apart, and so overlap";
  const ConstBuffer whole = whole_input(c, rank, size);
  const ConstBuffer others = slice(whole, c.leaves.stride, whole.count - c.leaves.stride);
  return overlap(others, c.out) ? "out overlaps another of this rank's sums than the first" : "";
}

/// Returns why the elements of a reduction cannot be combined by its operator, or an empty string.
std::string complaint_about_operator(const Collective& c) {
  const bool is_average = c.op == ReduceOp::average;
  const std::string op(name(c.op));
  if (is_average && is_scan(c.kind)) return "a scan has no average: divide each rank's sum by its number of operands";
  if (is_average && c.in.dtype == DType::boolean) return "there is no average of bool";
  if (is_complex(c.in.dtype) && combining(c.op) != ReduceOp::sum)
    return "complex numbers have sums and averages only, and no " + op;
  const bool has_bits = is_integer(c.in.dtype) || c.in.dtype == DType::boolean;
  if ((is_logical(c.op) || is_bitwise(c.op)) && !has_bits)
    return op + " is for integers and bool, not for " + std::string(name(c.in.dtype));
  return {};
}

}  // namespace

std::string complaint(const Collective& c, Rank rank, int size) {
  const auto n = [](const ConstBuffer& b) { return std::to_string(b.count.value); };
  if (!has_enumerators(c)) return complaint_about_enumerators(c);
  if (c.in.count < 0 || c.out.count < 0) return "the count is negative: in " + n(c.in) + ", out " + n(c.out);
  if (!sizes_fit(c, size)) {
    return text(largest_count(c).value) + " elements of " + std::string(name(c.out.dtype)) +
           " are more than memory can hold";
  }
  if (c.in.dtype != c.out.dtype)
    return "dtypes differ: in " + std::string(name(c.in.dtype)) + ", out " + std::string(name(c.out.dtype));
  if ((c.in.data == nullptr && c.in.count > 0) || (c.out.data == nullptr && c.out.count > 0)) return "a buffer is null";
  if (c.root < 0 || c.root >= size) {
    return (is_message(c.kind) ? "rank " : "root ") + std::to_string(c.root.value) + " is not one of the " +
           std::to_string(size) + " ranks";
  }
  if (!counts_fit(c, rank, size)) {
    return "counts do not fit for " + std::to_string(size) + " ranks: in " + n(c.in) + ", out " + n(c.out);
  }
  if (is_reduction(c.kind)) {
    std::string wrong = complaint_about_operator(c);
    if (!wrong.empty()) return wrong;
  }
  if (has_part_counts(c.kind)) {
    std::string wrong = complaint_about_parts(c, rank, size);
    if (!wrong.empty()) return wrong;
  }
  if (c.leaves.shares.total() != 0) {
    std::string wrong = complaint_about_leaves(c, rank, size);
    if (!wrong.empty()) return wrong;
  }
  return overlap_complaint(c, rank);
}

}  // namespace lockstep
