// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Texts for messages: about input of a user, and about ranks.
namespace lockstep {

/// Returns a text of strangers, such as a file, a peer or an option, in a form that fits into a message: on one line,
/// with '?' for control characters, for characters that change the order of others, and for bytes that are not UTF-8. A
/// text longer than `most` bytes is cut and ends with "…".
std::string echo(std::string_view text, std::size_t most = 80);

/// Does the same to the lines of a message as a whole, and cuts nothing: the last filter before a terminal.
std::string echo_lines(std::string_view text);

/// Returns the word of `words` that was probably meant. This is the word that takes the fewest insertions, deletions,
/// replacements and swaps of neighboring characters to become `word` (the first of equals), if there is at most one for
/// every three characters, and one of the two words has at least four characters. Unless one edit is enough, the only
/// word that begins with `word` takes precedence. Empty if no word is near.
/// @source Damerau, Communications of the ACM 7(3), 1964 (optimal string alignment)
std::string nearest(std::string_view word, std::span<const std::string_view> words);

/// Returns "; did you mean 'lenet'?" with `dashes` in front of the nearest word; empty if no word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> words, std::string_view dashes = "");

/// Returns a message about a name that does not exist: "there is no model 'lennet'; did you mean 'lenet'? There are
/// lenet, resnet20"; without the question if no word is near.
/// @param what  kind of the missing thing
std::string unknown(std::string_view what, std::string_view word, std::span<const std::string_view> known);

/// Lists ranks: "rank 3 on host2", "ranks 0 on host1, 3 on host2 and 14 more".
/// @param host_of  returns the host of a rank; an empty text if it is unknown
template <typename HostOf>
std::string rank_names(const std::vector<int>& ranks, const HostOf& host_of) {
  constexpr std::size_t most = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i) {
    const std::string host = host_of(ranks[i]);
    list += (list.empty() ? "" : ", ") + std::to_string(ranks[i]) + (host.empty() ? "" : " on " + host);
  }
  if (ranks.size() > most) list += " and " + std::to_string(ranks.size() - most) + " more";
  return (ranks.size() == 1 ? "rank " : "ranks ") + list;
}

}  // namespace lockstep
