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

/// Small blocking exchanges for start-up, before there is a communicator. They are not meant for training steps. Every
/// function is collective over its group, waits for at most the group's deadline, and @throws Error{timeout} that names
/// the phase (`phase.hpp`) and the ranks that have not taken part; Error{transport}.
namespace lockstep {

/// Whether MPI is finalized, so that nothing can be sent or freed any more. Not collective; it does not throw.
bool mpi_has_ended();

/// Returns the strings of all ranks, by rank; less than 2 GiB in total. @throws Error{invalid_argument} on all ranks if
/// more
std::vector<std::string> all_gather_strings(const MpiGroup& group, std::string_view mine);

/// Returns the strings of all ranks on `root`, by rank, and nothing on other ranks. @throws as all_gather_strings
std::vector<std::string> gather_strings(const MpiGroup& group, std::string_view mine, Rank root);

/// Returns the root's string on every rank; `value` is ignored on other ranks.
std::string broadcast_string(const MpiGroup& group, std::string_view value, Rank root);

/// Returns the numbers of all ranks, by rank.
std::vector<std::int64_t> all_gather_numbers(const MpiGroup& group, std::int64_t mine);

/// Returns when every rank has called it.
void barrier(const MpiGroup& group);

/// Combines the results of checks that each rank has made by itself. If any rank passes an error, every rank throws the
/// error of the lowest such rank (`Error::is_on_every_rank`). That rank is filled in if it was unknown, and `peers`
/// names all ranks that passed an error.
void agree(const MpiGroup& group, const std::optional<Error>& mine);

/// Runs work that can fail on single ranks, then agrees on the result: if it throws on any rank, every rank throws.
/// Another exception than Error becomes an Error{io} with its text.
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

/// Runs work on rank 0 only, then agrees on the result.
template <std::invocable Work>
void agree_on_rank_zero(const MpiGroup& group, const Work& work) {
  agree(group, [&] {
    if (group.rank() == Rank{0}) work();
  });
}

/// Returns the MPI library that this process runs with, e.g. "Open MPI v4.1.4", as the library names itself. It may be
/// called before there is a World, and is not collective.
std::string mpi_library_version();

}  // namespace lockstep
