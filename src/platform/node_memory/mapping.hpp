// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "lockstep/base/types.hpp"

namespace lockstep {

inline constexpr std::int64_t huge_page_bytes = std::int64_t{2} << 20;

/// A mapped range of addresses, aligned to a huge page so that the kernel can use huge pages, and excluded from core
/// dumps, which would otherwise contain all of it. Move-only.
class Mapping {
 public:
  Mapping() = default;
  /// Maps the first `bytes` of a file, shared with all processes that map it. It reserves no memory.
  /// @throws Error{unsupported}
  static Mapping of_file(int descriptor, Bytes bytes);
  /// Maps zeroed memory of this process, which gets its pages when they are touched. @throws std::bad_alloc
  static Mapping untouched(Bytes bytes);
  /// Maps zeroed memory of this process, with all pages present. @throws std::bad_alloc
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

/// Makes all pages of a range of a mapping present and writable.
/// @return false, with errno set, on failure; EINVAL on kernels before 5.14, which do not support it
bool populate(std::byte* data, Bytes bytes);

}  // namespace lockstep
