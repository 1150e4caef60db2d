// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// Owns a file descriptor and closes it at the end. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes over what `open` returned; a negative number means that it failed.
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

/// Writes text to an open file. @return whether all of it was written; if not, errno says why
bool write_all(int descriptor, std::string_view text);

/// Reads a whole text file, or a pipe to its end.
/// @param most  maximum number of bytes; a longer file is refused, so that reading one like /dev/zero ends
/// @throws Error{io} naming the file and the reason: missing, a directory, too long
std::string read_text(const std::string& path, std::size_t most = std::size_t{16} << 20);

/// Returns why a path is no folder whose entries can be looked up, such as "does not exist", "is not a folder", or
/// "cannot be read: Permission denied"; empty if it is one.
std::string why_no_folder(const std::string& path);

/// A text file that several jobs read, extend and replace as a whole. Readers see either the old text or the new one,
/// never a part. Symbolic links to the file are followed. New text is first written to a new file beside it, which is
/// created under a name that did not exist before.
class SharedTextFile {
 public:
  /// Checks whether the file can be replaced, by writing one of at least its size beside it and removing that.
  /// @throws Error{io} naming the file and the reason: no permission, no space, not an ordinary file
  explicit SharedTextFile(const std::string& path);

  /// Returns the present text; nothing if there is no file yet. @throws Error{io}
  [[nodiscard]] std::optional<std::string> read() const;
  /// Replaces the file by the result of `change` for the present text. Processes that update at the same time see each
  /// other's text, because they lock the file's folder, for which each waits at most 10 s. The new text is on disk when
  /// this returns. @throws Error{io}; what `change` throws, and then the file is unchanged
  void update(const std::function<std::string(const std::optional<std::string>& present)>& change) const;

 private:
  std::string path_;
};

}  // namespace lockstep
