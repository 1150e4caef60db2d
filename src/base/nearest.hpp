// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

/// What messages say about text that a user wrote.
namespace lockstep {

/// The text as a message can repeat it: on one line, control characters and bytes that are not UTF-8 as '?', and of a
/// text longer than `most` bytes its beginning and "…".
std::string echo(std::string_view text, std::size_t most = 80);

/// The word of `words` that was probably meant: the one that takes the fewest insertions, deletions, replacements and
/// swaps of neighboring characters to become `word` (the first of equals), if they are at most one for every three
/// characters, and one of the words has four; or, unless one of them is enough, the only word that begins with `word`.
/// Empty where no word is near.
/// @source Damerau, Communications of the ACM 7(3), 1964 (optimal string alignment)
std::string nearest(std::string_view word, std::span<const std::string_view> words);

/// "; did you mean 'lenet'?" with `dashes` in front of the nearest word; empty where no word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> words, std::string_view dashes = "");

/// What to tell a user who named something that does not exist: "there is no model 'lennet'; did you mean 'lenet'?
/// There are lenet, resnet20"; without the question where nothing is near.
/// @param what  kind of thing it should have been
std::string unknown(std::string_view what, std::string_view word, std::span<const std::string_view> known);

}  // namespace lockstep
