// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/idx_files.hpp"
#include "vision/formats/sources.hpp"

namespace lockstep::vision {

/// A folder of a user, in a temporary place.
class UserFiles {
 public:
  [[nodiscard]] std::filesystem::path path(const std::string& relative = "") const {
    return relative.empty() ? directory_.path() : directory_.path() / relative;
  }
  /// Writes a file, and the folders that it is in.
  void put(const std::string& relative, const std::string& bytes) const {
    std::filesystem::create_directories(path(relative).parent_path());
    data::write_plain(path(relative), bytes);
  }
  /// Writes files that are listed as pictures; nothing decodes them.
  void put_pictures(const std::vector<std::string>& relatives) const {
    for (const std::string& relative : relatives) put(relative, "picture " + relative);
  }

 private:
  data::TemporaryDirectory directory_;
};

/// The paths of samples, with their labels: "cat/1.jpg 0".
inline std::vector<std::string> samples_of(const Source& source) {
  std::vector<std::string> samples;
  for (std::int64_t i = 0; i < source.size(); ++i)
    samples.push_back(source.relative_place(i) + ' ' + std::to_string(source.annotation(i).label));
  return samples;
}

/// A list of names, for comparisons.
using Names = std::vector<std::string>;

}  // namespace lockstep::vision
