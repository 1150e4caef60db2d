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
#include "lockstep/platform/ranks/rank_set.hpp"

/// Small blocking exchanges for start-up, before there is a communicator. They are not meant for training steps. Every
/// function is collective over its group, waits for at most the group's deadline, and @throws Error{timeout} that names
/// the phase (`phase.hpp`) and the ranks that have not taken part; Error{transport}.
namespace lockstep {

/// Returns the strings of all ranks on `root`, by rank, and nothing on other ranks. @throws as RankSet::exchange
std::vector<std::string> gather_strings(const RankSet& group, std::string_view mine, Rank root);

/// Returns the root's string on every rank; `value` is ignored on other ranks.
std::string broadcast_string(const RankSet& group, std::string_view value, Rank root);

/// Returns the numbers of all ranks, by rank.
std::vector<std::int64_t> all_gather_numbers(const RankSet& group, std::int64_t mine);

/// Returns the text of the lowest rank whose text is not empty, such as why a resource cannot be had; empty if all are.
std::string first_reason(const RankSet& group, std::string_view mine);

/// Returns when every rank has called it.
void barrier(const RankSet& group);

/// Returns the error that work throws; nothing if it throws none. Another exception than Error becomes an Error{io}
/// with its text. Not collective.
template <std::invocable Work>
std::optional<Error> error_of(const Work& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::io, error.what());
  }
}

/// Throws the error of the lowest rank that has one (`Error::is_on_every_rank`), with that rank and its host filled in
/// if they were unknown; `peers` names all ranks that have an error. Not collective.
/// @param of_ranks  by rank; the same on every rank
void throw_first_of(const RankSet& group, const std::vector<std::optional<Error>>& of_ranks);

/// Writes an error as text for another rank, without its peers and source location, and reads it.
std::string to_text(const Error& error);
Error error_from_text(const std::string& text);

/// Combines the results of checks that each rank has made by itself: if any rank passes an error, every rank throws as
/// `throw_first_of` does.
void agree(const RankSet& group, const std::optional<Error>& mine);

/// Runs work that can fail on single ranks, then agrees on the result: if it throws on any rank, every rank throws.
template <std::invocable Work>
void agree(const RankSet& group, const Work& work) {
  agree(group, error_of(work));
}

/// Runs work on rank 0 only, then agrees on the result.
template <std::invocable Work>
void agree_on_rank_zero(const RankSet& group, const Work& work) {
  agree(group, [&] {
    if (group.rank() == Rank{0}) work();
  });
}

}  // namespace lockstep
