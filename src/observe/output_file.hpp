// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::observe {

/// A file that is written without a buffer in the process, so that written text outlives the process.
class OutputFile {
 public:
  enum class Mode { append, truncate };

  /// Creates the file if there is none. If text is appended to a file that ends within a line, that line is ended
  /// first.
  /// @throws Error{io} naming the path and the reason
  OutputFile(const std::filesystem::path& path, Mode mode);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes text, in one system call if that takes all of it. @throws Error{io}
  void write(std::string_view text);

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace lockstep::observe
