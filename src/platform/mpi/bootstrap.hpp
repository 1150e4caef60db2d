// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.hpp"
#include "lockstep/base/types.hpp"
#include "lockstep/platform/mpi/mpi_group.hpp"

/// Small blocking exchanges for start-up, before there is a communicator. Nothing here belongs into a training step.
/// Every function is collective over its group, waits for the group's deadline at most, and @throws Error{timeout} that
/// names the ranks which have not taken part and the phase (`phase.hpp`); Error{transport}.
namespace lockstep {

/// Whether MPI is finalized, so that nothing can be sent or freed any more. Not collective; it throws nothing.
bool mpi_has_ended();

/// Everybody's string, by rank. Less than 2 GiB in all. @throws Error{invalid_argument} on all ranks if more
std::vector<std::string> all_gather_strings(const MpiGroup& group, std::string_view mine);

/// Everybody's string, by rank, on `root`; nothing on the other ranks. @throws as all_gather_strings
std::vector<std::string> gather_strings(const MpiGroup& group, std::string_view mine, Rank root);

/// The root's string, on every rank; `value` is ignored elsewhere.
std::string broadcast_string(const MpiGroup& group, std::string_view value, Rank root);

/// Everybody's number, by rank.
std::vector<std::int64_t> all_gather_numbers(const MpiGroup& group, std::int64_t mine);

/// Returns when every rank has called it.
void barrier(const MpiGroup& group);

/// The verdict of all ranks on what each has validated by itself. If any rank brings an error, every rank throws the
/// lowest such rank's (`Error::is_on_every_rank`), with that rank filled in where it was unknown, and `peers` naming
/// all ranks that brought one.
void agree(const MpiGroup& group, const std::optional<Error>& mine);

/// Does what this rank may fail at and others not, then agrees on how it went: if it throws on any rank, every rank
/// throws. What is no Error becomes an Error{io} with its text.
template <std::invocable Work>
void agree(const MpiGroup& group, const Work& work) {
  std::optional<Error> failure;
  try {
    work();
  } catch (const Error& error) {
    failure = error.reported_by(group.rank().value, group.host());
  } catch (const std::exception& error) {
    failure = Error(ErrorCode::io, error.what(), {.rank = group.rank().value, .host = group.host()});
  }
  agree(group, failure);
}

/// The same for what only rank 0 does.
template <std::invocable Work>
void agree_on_rank_zero(const MpiGroup& group, const Work& work) {
  agree(group, [&] {
    if (group.rank() == Rank{0}) work();
  });
}

}  // namespace lockstep
