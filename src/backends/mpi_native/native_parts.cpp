// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <climits>

#include "backends/mpi_native/native_operation.hpp"

namespace lockstep::backends {
namespace {

/// Calls piece(offset, count) for every piece of a part, each small enough for one call.
template <typename F>
void for_each_piece(Count part, Count most, const F& piece) {
  for (std::int64_t offset = 0; offset < part.value; offset += most.value)
    piece(offset, static_cast<int>(std::min(most.value, part.value - offset)));
}

bool is_in_place(const Collective& c, Rank me) {
  const ConstBuffer out = c.out;
  const ConstBuffer& whole = c.kind == CollectiveKind::all_gather_v ? out : c.in;
  const ConstBuffer& own = c.kind == CollectiveKind::all_gather_v ? c.in : out;
  return own.count > 0 && slice(whole, offset_of_part(c.parts, me), {0}).data == own.data;
}

}  // namespace

void NativeParts::post(const Collective& c, Count most, MpiOperators& operators, std::vector<MPI_Request>& requests) {
  if (c.kind == CollectiveKind::all_gather_v && c.out.count > 0) all_gather(c, most, operators, requests);
  if (c.kind == CollectiveKind::reduce_scatter_v && c.in.count > 0) reduce_scatter(c, most, operators, requests);
  if (c.kind == CollectiveKind::all_to_all_v) all_to_all(c, most, requests);
}

bool NativeParts::fits_one_call(const Collective& c, Count most) {
  lengths_.clear();
  offsets_.clear();
  std::int64_t offset = 0;
  for (const Count part : c.parts) {
    if (part > most || offset > INT_MAX) return false;
    lengths_.push_back(static_cast<int>(part.value));
    offsets_.push_back(static_cast<int>(offset));
    offset += part.value;
  }
  return offset <= INT_MAX;
}

void NativeParts::all_gather(const Collective& c, Count most, MpiOperators& operators,
                             std::vector<MPI_Request>& requests) {
  const MPI_Datatype type = mpi_type(c.out.dtype);
  const bool in_place = is_in_place(c, me_);
  if (fits_one_call(c, most)) {
    const void* in = c.in.count == 0 ? &empty_buffer_ : c.in.data;
    return MpiCall(communicator_, me_, ranks_, c, operators, &requests.emplace_back())
        .all_gather_v(in_place ? MPI_IN_PLACE : in, lengths_, offsets_);
  }
  Count begin;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Buffer part = slice(c.out, begin, c.parts[static_cast<std::size_t>(rank)]);
    if (rank == me_.value && !in_place && part.count > 0)
      std::memcpy(part.data, c.in.data, static_cast<std::size_t>(part.bytes().value));
    for_each_piece(part.count, most, [&](std::int64_t offset, int count) {
      LOCKSTEP_MPI(
          MPI_Ibcast(slice(part, {offset}, {count}).data, count, type, rank, communicator_, &requests.emplace_back()));
    });
    begin += part.count;
  }
}

void NativeParts::reduce_scatter(const Collective& c, Count most, MpiOperators& operators,
                                 std::vector<MPI_Request>& requests) {
  const MPI_Datatype type = mpi_type(c.out.dtype);
  const bool in_place = is_in_place(c, me_);
  if (fits_one_call(c, most)) {
    result_.resize(in_place ? static_cast<std::size_t>(c.out.bytes().value) : 0);
    void* out = c.out.count == 0 ? &empty_buffer_ : c.out.data;
    return MpiCall(communicator_, me_, ranks_, c, operators, &requests.emplace_back())
        .reduce_scatter_v(in_place ? result_.data() : out, lengths_);
  }
  result_.clear();
  Count begin;
  for (int rank = 0; rank < ranks_; ++rank) {
    const bool is_mine = rank == me_.value;
    const ConstBuffer part = slice(c.in, begin, c.parts[static_cast<std::size_t>(rank)]);
    for_each_piece(part.count, most, [&](std::int64_t offset, int count) {
      const void* in = is_mine && in_place ? MPI_IN_PLACE : slice(part, {offset}, {count}).data;
      void* out = is_mine ? slice(c.out, {offset}, {count}).data : nullptr;
      LOCKSTEP_MPI(MPI_Ireduce(in, out, count, type, operators.get(c.out.dtype, c.op), rank, communicator_,
                               &requests.emplace_back()));
    });
    begin += part.count;
  }
}

void NativeParts::all_to_all(const Collective& c, Count most, std::vector<MPI_Request>& requests) {
  describe(sent_, c.parts, c.in.dtype, most);
  describe(received_, c.received, c.in.dtype, most);
  zeros_.assign(static_cast<std::size_t>(ranks_), 0);
  const void* in = c.in.count == 0 ? &empty_buffer_ : c.in.data;
  LOCKSTEP_MPI(MPI_Ialltoallw(in, sent_.counts.data(), zeros_.data(), sent_.types.data(), c.out.data,
                              received_.counts.data(), zeros_.data(), received_.types.data(), communicator_,
                              &requests.emplace_back()));
}

void NativeParts::describe(Side& side, std::span<const Count> parts, DType dtype, Count most) const {
  const std::int64_t width = size_of(dtype);
  side.counts.clear();
  side.types.clear();
  std::int64_t begin = 0;
  for (const Count part : parts) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    for_each_piece(part, most, [&](std::int64_t offset, int count) {
      lengths.push_back(count);
      places.push_back(static_cast<MPI_Aint>((begin + offset) * width));
    });
    begin += part.value;
    side.counts.push_back(part > 0 ? 1 : 0);
    MPI_Datatype& type = side.types.emplace_back(MPI_BYTE);
    if (part == 0) continue;
    LOCKSTEP_MPI(MPI_Type_create_hindexed(static_cast<int>(lengths.size()), lengths.data(), places.data(),
                                          mpi_type(dtype), &type));
    LOCKSTEP_MPI(MPI_Type_commit(&type));
  }
}

void NativeParts::finish(const Collective& c) {
  if (c.kind == CollectiveKind::reduce_scatter_v && !result_.empty())
    std::memcpy(c.out.data, result_.data(), result_.size());
  for (Side* const side : {&sent_, &received_}) {
    for (MPI_Datatype& type : side->types)
      if (type != MPI_BYTE) LOCKSTEP_MPI(MPI_Type_free(&type));
    side->types.clear();
  }
}

}  // namespace lockstep::backends
