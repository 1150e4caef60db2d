// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace emulated_gpu {

/// An ordered stream of bytes from one process to another on its host.
class Ring {
 public:
  static constexpr std::size_t capacity = std::size_t{64} << 10;

  /// Writes as many bytes as there is room for. @return their number
  std::size_t write(const std::byte* from, std::size_t bytes);
  /// Reads as many bytes as there are. @return their number
  std::size_t read(std::byte* to, std::size_t bytes);

 private:
  alignas(64) std::atomic<std::uint64_t> written_{0};  // total number of bytes
  alignas(64) std::atomic<std::uint64_t> read_{0};
  std::byte data_[capacity];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "others have it mapped elsewhere");

/// A ring in each direction, in memory that two processes, or two threads, have mapped.
class SharedRings {
 public:
  /// The place where another process of this user finds the memory.
  struct Place {
    std::int32_t process = 0;
    std::int32_t file = -1;
  };

  /// Makes the memory; returns nothing if that fails.
  static std::unique_ptr<SharedRings> make();
  /// Opens the memory that make() has made in another process, as its other side; returns nothing without access to
  /// that process.
  static std::unique_ptr<SharedRings> open(const Place& place);
  SharedRings(const SharedRings&) = delete;
  SharedRings& operator=(const SharedRings&) = delete;
  ~SharedRings();

  [[nodiscard]] Place place() const;
  /// Closes the file when no process will open it any more.
  void close_place();
  Ring& out() { return rings_[is_maker_ ? 0 : 1]; }
  Ring& in() { return rings_[is_maker_ ? 1 : 0]; }

 private:
  SharedRings(int file, Ring* rings, bool is_maker) : file_(file), rings_(rings), is_maker_(is_maker) {}

  int file_;  // −1: closed
  Ring* rings_;
  bool is_maker_;
};

}  // namespace emulated_gpu
