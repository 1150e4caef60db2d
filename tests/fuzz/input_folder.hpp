// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep::fuzz {

/// A folder with one file, the input of a reader that takes paths. It is removed at the end.
class InputFolder {
 public:
  InputFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for inputs");
    path_ = name;
  }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;
  ~InputFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Writes the file, and returns its path.
  std::filesystem::path write(std::string_view name, const std::string& input) const {
    std::ofstream(path_ / name, std::ios::binary) << input;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::fuzz
