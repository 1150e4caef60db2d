// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/symbolic_memory.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep::collectives {
namespace {

constexpr int output_memory = 0;
constexpr int scratch_memory = 1;
constexpr int staging_memory = 2;
constexpr int first_input_memory = 3;

bool starts_in_output(const Trial& trial, int rank) {
  switch (trial.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::scan:
    case CollectiveKind::exclusive_scan:
    case CollectiveKind::all_gather_v:
    case CollectiveKind::all_gather: return trial.in_place;
    case CollectiveKind::gather:
    case CollectiveKind::reduce: return trial.in_place && rank == trial.root.value;
    default: return false;
  }
}

/// Returns the position in the output of a rank's in-place input.
std::int64_t part_in_output(const Trial& trial, int rank) {
  const bool gathers = trial.kind == CollectiveKind::all_gather || trial.kind == CollectiveKind::all_gather_v ||
                       trial.kind == CollectiveKind::gather;
  return gathers ? rank * trial.count.value : 0;
}

/// Returns whether the output of a rank is a part of its input.
bool ends_in_input(const Trial& trial, int rank) {
  if (!trial.in_place || inputs_of(trial, rank) == 0) return false;
  return trial.kind == CollectiveKind::reduce_scatter || trial.kind == CollectiveKind::reduce_scatter_v ||
         (trial.kind == CollectiveKind::scatter && rank == trial.root.value);
}

}  // namespace

std::int64_t input_count(const Trial& trial, int ranks, int rank) {
  switch (trial.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce:
    case CollectiveKind::gather:
    case CollectiveKind::scan:
    case CollectiveKind::exclusive_scan:
    case CollectiveKind::all_gather: return trial.count.value;
    case CollectiveKind::scatter: return rank == trial.root.value ? ranks * trial.count.value : 0;
    case CollectiveKind::all_gather_v: return part_count(trial, ranks, rank, rank);
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_v:
    case CollectiveKind::reduce_scatter_v:
    case CollectiveKind::reduce_scatter: return ranks * trial.count.value;
    case CollectiveKind::broadcast:
    case CollectiveKind::barrier:
    case CollectiveKind::send:
    case CollectiveKind::recv: return 0;
  }
  return 0;
}

std::int64_t output_count(const Trial& trial, int ranks, int rank) {
  switch (trial.kind) {
    case CollectiveKind::reduce_scatter_v: return part_count(trial, ranks, rank, rank);
    case CollectiveKind::all_gather:
    case CollectiveKind::all_gather_v:
    case CollectiveKind::all_to_all_v:
    case CollectiveKind::all_to_all: return ranks * trial.count.value;
    case CollectiveKind::reduce: return rank == trial.root.value ? trial.count.value : 0;
    case CollectiveKind::gather: return rank == trial.root.value ? ranks * trial.count.value : 0;
    default: return trial.count.value;
  }
}

std::int64_t part_count(const Trial& trial, int ranks, int from, int to) {
  const int index = trial.kind == CollectiveKind::all_to_all_v ? from * ranks + to : from;
  return std::max<std::int64_t>(0, trial.parts[static_cast<std::size_t>(index)]);
}

std::vector<Range> parts_of_output(const Trial& trial, int ranks, int rank) {
  const bool has_gaps = trial.kind == CollectiveKind::all_gather_v || trial.kind == CollectiveKind::all_to_all_v;
  if (!has_gaps) return {{Memory::output, 0, output_count(trial, ranks, rank)}};
  std::vector<Range> parts;
  for (int from = 0; from < ranks; ++from) {
    const int to = trial.kind == CollectiveKind::all_to_all_v ? rank : from;
    parts.push_back({Memory::output, from * trial.count.value, part_count(trial, ranks, from, to)});
  }
  return parts;
}

int inputs_of(const Trial& trial, int rank) {
  return trial.leaves.empty() ? 1 : trial.leaves[static_cast<std::size_t>(rank)];
}

int first_leaf(const Trial& trial, int rank) {
  if (trial.leaves.empty()) return rank;
  return std::accumulate(trial.leaves.begin(), trial.leaves.begin() + rank, 0);
}

Extent extent_of(const Trial& trial, int rank, const Range& range) {
  const std::int64_t end = range.offset + range.count;
  switch (range.memory) {
    case Memory::input: {
      if (range.leaf > 0 || !starts_in_output(trial, rank)) return {first_input_memory + range.leaf, range.offset, end};
      const std::int64_t own_part = part_in_output(trial, rank);
      return {output_memory, own_part + range.offset, own_part + end};
    }
    case Memory::scratch: return {scratch_memory, range.offset, end};
    case Memory::staging: return {staging_memory, range.offset, end};
    case Memory::output: break;
  }
  if (!ends_in_input(trial, rank)) return {output_memory, range.offset, end};
  const std::int64_t own_part = rank * trial.count.value;
  return {first_input_memory, own_part + range.offset, own_part + end};
}

Seen seen(std::span<const Plan> plans, int rank, const NodeRange& at, const Trial& trial) {
  if (at.rank == self) return {rank, at.range};
  Seen result{at.rank, at.range};
  if (plans[static_cast<std::size_t>(at.rank)].staging > 0) {
    result.range.memory = Memory::staging;
    result.range.offset += result.range.leaf * trial.count.value;
    result.range.leaf = 0;
  }
  return result;
}

SymbolicMemory::SymbolicMemory(const Trial& trial, int ranks, int rank, Expressions& expressions)
    : trial_(&trial), rank_(rank), memories_(static_cast<std::size_t>(first_input_memory + inputs_of(trial, rank))) {
  const int first = first_leaf(trial, rank);
  const auto bring = [&](const Range& where, int leaf) { write(where, {{0, where.count, {expressions.leaf(leaf)}}}); };
  for (int i = 0; i < inputs_of(trial, rank); ++i) {
    if (i == 0 && starts_in_output(trial, rank)) {
      bring({Memory::output, part_in_output(trial, rank), input_count(trial, ranks, rank)}, first);
    } else {
      bring({Memory::input, 0, input_count(trial, ranks, rank), i}, first + i);
    }
  }
  if (trial.kind == CollectiveKind::broadcast && rank == trial.root.value)
    bring({Memory::output, 0, trial.count.value}, first);
}

IntervalMap<Symbol>& SymbolicMemory::memory(const Extent& at) { return memories_[static_cast<std::size_t>(at.memory)]; }

std::vector<Piece> SymbolicMemory::read(const Range& range) {
  const Extent at = extent_of(*trial_, rank_, range);
  std::vector<Piece> pieces;
  memory(at).visit(at.begin, at.end, [&](std::int64_t begin, std::int64_t end, const Symbol& symbol) {
    Symbol here = symbol;
    if (!here.filled) here.shift += at.begin;
    if (!pieces.empty() && pieces.back().symbol == here) {
      pieces.back().count += end - begin;
    } else {
      pieces.push_back({begin - at.begin, end - begin, here});
    }
  });
  return pieces;
}

void SymbolicMemory::write(const Range& range, const std::vector<Piece>& pieces) {
  const Extent at = extent_of(*trial_, rank_, range);
  for (const Piece& piece : pieces) {
    const std::int64_t begin = at.begin + piece.offset;
    Symbol there = piece.symbol;
    if (!there.filled) there.shift -= at.begin;
    memory(at).assign(begin, begin + piece.count, there);
  }
}

}  // namespace lockstep::collectives
