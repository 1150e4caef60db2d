// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/text_file.hpp"

namespace lockstep::observe {

/// JSON whose fields keep the order in which they are added.
using Json = nlohmann::ordered_json;

/// Formats JSON on one line. Bytes that are not UTF-8, as in a path or host name, become U+FFFD, because they must not
/// end a training run.
inline std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// A file that is written without a buffer in the process, so that written text outlives the process.
class OutputFile {
 public:
  enum class Mode { append, truncate };

  /// Creates the file if there is none. If text is appended to a file that ends within a line, that line is ended
  /// first.
  /// @throws Error{io} naming the path and the reason
  OutputFile(const std::filesystem::path& path, Mode mode);

  /// Writes text, in one system call if that takes all of it. @throws Error{io}
  void write(std::string_view text);

 private:
  std::string path_;
  Descriptor descriptor_;
};

}  // namespace lockstep::observe
