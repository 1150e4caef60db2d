// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::observe {

/// A number that TensorBoard draws over steps. It keeps float32.
struct Scalar {
  std::string tag;  ///< tags with the same words before a '/' are shown together
  double value = 0;
};

/// An encoded picture that TensorBoard shows by steps.
struct EncodedPicture {
  std::string tag;
  int width = 0;
  int height = 0;
  std::span<const std::byte> png;
};

/// Returns the checksum of a record's bytes as the records of TensorFlow have it: the masked CRC-32C.
/// @source RFC 3720, appendix B.4; TensorFlow, tsl/lib/hash/crc32c.h
std::uint32_t masked_crc(std::string_view bytes);
/// Returns a record: the length of the bytes, the bytes, and a checksum of each.
/// @source TensorFlow, tsl/lib/io/record_writer.h
std::string record_of(std::string_view bytes);

/// A file of events in TensorFlow's format, which TensorBoard reads while it grows. Each event is passed to the
/// operating system at once, so it is kept if the process is killed.
class EventFile {
 public:
  /// Makes the folder where it is missing, and a new file in it, which TensorBoard reads after those that are there.
  /// @throws Error{io} naming the path and the reason
  explicit EventFile(const std::filesystem::path& folder);
  ~EventFile();
  EventFile(EventFile&&) noexcept;
  EventFile& operator=(EventFile&&) noexcept;

  /// Begins a start of the program, of which a run may have several: TensorBoard forgets what earlier ones have
  /// reported of steps after this one. @throws Error{io}
  void start_after(std::int64_t step);
  /// @throws Error{io}
  void write(std::int64_t step, std::span<const Scalar> scalars);
  /// @throws Error{io}
  void write(std::int64_t step, const EncodedPicture& picture);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<class OutputFile> file_;
};

}  // namespace lockstep::observe
