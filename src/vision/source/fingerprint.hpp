// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vision/source/source.hpp"

namespace lockstep::vision {

/// Hashes by which ranks find that they read different data. Pictures are read where that is needed, and never decoded.
struct SourceFingerprint {
  /// What should be equal on all ranks, by name: "files", "sizes", "annotations", "class names" and "stored bytes of 64
  /// samples" (or of as many as were read).
  std::vector<std::pair<std::string, std::uint64_t>> terms;
  std::vector<std::uint64_t> samples;  ///< by sample: its relative place, size and annotation
  std::vector<std::pair<std::int64_t, std::uint64_t>>
      contents;  ///< samples that were read, with the hash of their bytes
};

/// @param all  whether the stored bytes of all samples are hashed, in place of 64 at equal distances. Those of a source
///             that holds its pictures in memory are all hashed in any case
/// @throws Error{io} if a picture cannot be read
/// @cost a hash of each path and annotation, and reading the pictures that are hashed
SourceFingerprint fingerprint(const Source& source, bool all);

/// Gives every rank the texts of all ranks, by rank. Collective.
using ExchangeTexts = std::function<std::vector<std::string>(const std::string& mine)>;

/// The first sample that is not the same on all ranks.
struct SampleDifference {
  std::int64_t sample = 0;
  std::vector<std::string> by_rank;  ///< what each rank has: "cat/17.jpg (812 bytes, cat)"; "no such sample"
};

/// Looks for the first sample that is not the same on all ranks, by comparing hashes of 256 blocks of samples, then of
/// the blocks of the first block that differs, and so on; then for the first whose stored bytes differ. Collective; the
/// result is the same on all ranks.
/// @return nothing if all samples are the same, and the terms differ for another reason
/// @cost one exchange of 8 bytes, then at most two of 2 KiB for each factor of 256 in the number of samples
std::optional<SampleDifference> first_difference(const Source& source, const SourceFingerprint& mine,
                                                 const ExchangeTexts& exchange);

/// Returns "sample 17 is the first that differs: rank 3 on host2 has …, the other 15 have …".
/// @param host_of  returns the host of a rank; an empty text if it is unknown
std::string text_of(const SampleDifference& difference, const std::function<std::string(int)>& host_of);

}  // namespace lockstep::vision
