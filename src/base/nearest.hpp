// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// The word of `words` that takes the fewest insertions, deletions and replacements of a character to become `word`
/// (the first of equals); empty if there are no words. For messages of the form "did you mean 'lenet'?".
/// @source Levenshtein, Soviet Physics Doklady 10(8), 1966
std::string nearest(std::string_view word, std::span<const std::string_view> words);

/// What to tell a user who named something that does not exist: "there is no model 'lennet'; did you mean 'lenet'?
/// There are lenet, resnet20", and without the question where nothing exists.
/// @param what  kind of thing it should have been
std::string unknown(std::string_view what, std::string_view word, std::span<const std::string_view> known);

}  // namespace lockstep
