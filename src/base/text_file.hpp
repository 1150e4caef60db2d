// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

/// Reads a whole text file, or what a pipe has until its end.
/// @param most  bytes; a longer file is refused, so that one like /dev/zero ends
/// @throws Error{io} naming the file and the reason: missing, a directory, too long
std::string read_text(const std::string& path, std::size_t most = std::size_t{16} << 20);

/// A text file that several jobs read, add to and replace as a whole. Readers see the old text or the new one, never a
/// part. Symbolic links to the file are followed; what is written first is a new file beside it, whose name nobody can
/// have taken before.
class SharedTextFile {
 public:
  /// Finds out whether the file can be replaced, by writing one of at least its size beside it and removing that.
  /// @throws Error{io} naming the file and the reason: no permission, no space, not an ordinary file
  explicit SharedTextFile(const std::string& path);

  /// The present text; nothing where there is no file yet. @throws Error{io}
  [[nodiscard]] std::optional<std::string> read() const;
  /// Replaces the file by what `change` makes of the present text. Of processes that update at the same time each sees
  /// what the one before has written: they lock the file's folder, for which they wait 10 s at most. The new text is on
  /// the disk when this returns. @throws Error{io}; what `change` throws, and then the file is as before
  void update(const std::function<std::string(const std::optional<std::string>& present)>& change) const;

 private:
  std::string path_;
};

}  // namespace lockstep
