// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace emulated_gpu {

/// Bytes in order from one process to another of its host.
class Ring {
 public:
  static constexpr std::size_t capacity = std::size_t{64} << 10;

  /// As many as there is room for. @return how many that was
  std::size_t write(const std::byte* from, std::size_t bytes);
  /// As many as there are. @return how many that was
  std::size_t read(std::byte* to, std::size_t bytes);

 private:
  alignas(64) std::atomic<std::uint64_t> written_{0};  // since the beginning
  alignas(64) std::atomic<std::uint64_t> read_{0};
  std::byte data_[capacity];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "others have it mapped elsewhere");

/// A ring each way, in memory that two processes have mapped, or two threads.
class SharedRings {
 public:
  /// Where another process of this user finds what one has made.
  struct Place {
    std::int32_t process = 0;
    std::int32_t file = -1;
  };

  /// Nothing where memory cannot be had.
  static std::unique_ptr<SharedRings> make();
  /// What make() has made elsewhere, as its other side. Nothing where that process may not be looked into.
  static std::unique_ptr<SharedRings> open(const Place& place);
  SharedRings(const SharedRings&) = delete;
  SharedRings& operator=(const SharedRings&) = delete;
  ~SharedRings();

  [[nodiscard]] Place place() const;
  /// Nobody opens it any more.
  void close_place();
  Ring& out() { return rings_[is_maker_ ? 0 : 1]; }
  Ring& in() { return rings_[is_maker_ ? 1 : 0]; }

 private:
  SharedRings(int file, Ring* rings, bool is_maker) : file_(file), rings_(rings), is_maker_(is_maker) {}

  int file_;  // -1: closed
  Ring* rings_;
  bool is_maker_;
};

}  // namespace emulated_gpu
