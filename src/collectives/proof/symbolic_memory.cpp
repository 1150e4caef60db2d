// SPDX-License-Identifier: Apache-2.0
#include "collectives/proof/symbolic_memory.hpp"

#include <numeric>

namespace lockstep::collectives {
namespace {

constexpr int output_memory = 0;
constexpr int scratch_memory = 1;
constexpr int staging_memory = 2;
constexpr int first_input_memory = 3;

bool starts_in_output(const Trial& trial, int rank) {
  switch (trial.kind) {
    case CollectiveKind::reduce_then:
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather: return trial.in_place;
    case CollectiveKind::reduce: return trial.in_place && rank == trial.root.value;
    default: return false;
  }
}

}  // namespace

std::int64_t input_count(const Trial& trial, int ranks) {
  switch (trial.kind) {
    case CollectiveKind::reduce_then:
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce:
    case CollectiveKind::all_gather: return trial.count.value;
    case CollectiveKind::all_to_all:
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
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all: return ranks * trial.count.value;
    case CollectiveKind::reduce: return rank == trial.root.value ? trial.count.value : 0;
    default: return trial.count.value;
  }
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
  const bool output_is_input =
      trial.kind == CollectiveKind::reduce_scatter && trial.in_place && inputs_of(trial, rank) > 0;
  switch (range.memory) {
    case Memory::input: {
      if (range.leaf > 0 || !starts_in_output(trial, rank)) return {first_input_memory + range.leaf, range.offset, end};
      const std::int64_t own_part = trial.kind == CollectiveKind::all_gather ? rank * trial.count.value : 0;
      return {output_memory, own_part + range.offset, own_part + end};
    }
    case Memory::scratch: return {scratch_memory, range.offset, end};
    case Memory::staging: return {staging_memory, range.offset, end};
    case Memory::output: break;
  }
  if (!output_is_input) return {output_memory, range.offset, end};
  const std::int64_t own_part = rank * trial.count.value;
  return {first_input_memory, own_part + range.offset, own_part + end};
}

Seen seen(std::span<const Plan> plans, int rank, const NodeRange& at) {
  if (at.rank == self) return {rank, at.range};
  Seen result{at.rank, at.range};
  if (plans[static_cast<std::size_t>(at.rank)].staging.value > 0) {
    result.range.memory = Memory::staging;
    result.range.leaf = 0;
  }
  return result;
}

std::optional<Expression> sum_applied_to(const Expressions& expressions, int first, Expression value) {
  if (expressions.size(value) != 1) return std::nullopt;
  const int leaf = expressions.leaves(value).front();
  if (leaf < first) return std::nullopt;
  return Expression{leaf - first};
}

SymbolicMemory::SymbolicMemory(const Trial& trial, int ranks, int rank, Expressions& expressions)
    : trial_(&trial), rank_(rank), memories_(static_cast<std::size_t>(first_input_memory + inputs_of(trial, rank))) {
  const int first = first_leaf(trial, rank);
  const auto bring = [&](const Range& where, int leaf) { write(where, {{0, where.count, {expressions.leaf(leaf)}}}); };
  for (int i = 0; i < inputs_of(trial, rank); ++i) {
    const std::int64_t own_part = trial.kind == CollectiveKind::all_gather ? rank * trial.count.value : 0;
    if (i == 0 && starts_in_output(trial, rank)) {
      bring({Memory::output, own_part, trial.count.value}, first);
    } else {
      bring({Memory::input, 0, input_count(trial, ranks), i}, first + i);
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
