// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "lockstep/base/types.hpp"

namespace lockstep {

inline constexpr std::int64_t huge_page_bytes = std::int64_t{2} << 20;

/// A piece of this process's addresses, aligned to a huge page so that the kernel may use some, and left out of
/// core dumps, which would be as long as all of it. Move-only.
class Mapping {
 public:
  Mapping() = default;
  /// The first `bytes` of a file, shared with whoever maps it too. No memory is set aside.
  /// @throws Error{unsupported}
  static Mapping of_file(int descriptor, Bytes bytes);
  /// Zeroed memory of this process that is there when it is touched. @throws std::bad_alloc
  static Mapping untouched(Bytes bytes);
  /// Zeroed memory of this process, all of it present. @throws std::bad_alloc
  static Mapping anonymous(Bytes bytes);

  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Makes all pages of a range of a mapping present, for writing.
/// @return false with errno where that failed; EINVAL on kernels before 5.14, which cannot do it
bool populate(std::byte* data, Bytes bytes);

}  // namespace lockstep
