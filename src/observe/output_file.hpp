// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::observe {

/// A file that is written without buffers of our own, so that what was written outlives the process.
class OutputFile {
 public:
  enum class Mode { append, truncate };

  /// Creates the file if there is none. A file that is appended to and ends within a line gets that line's end first.
  /// @throws Error{io} naming the path and the reason
  OutputFile(const std::filesystem::path& path, Mode mode);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes in one call of the system where it takes all at once. @throws Error{io}
  void write(std::string_view text);

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace lockstep::observe
