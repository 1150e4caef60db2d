// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "emulated_gpu/kernel/running.hpp"
#include "emulated_gpu/kernel/shared_memory.hpp"

namespace emulated_gpu {

enum class Access : std::uint8_t { read, write, atomic };

/// Records which threads have accessed each byte of shared memory since the block's last barrier, and which accesses
/// are ordered: those before a __syncwarp of both threads. Votes and shuffles order nothing.
/// @source CUDA C++ Programming Guide 13.0, warp vote and warp shuffle functions, synchronization functions;
/// Flanagan, Freund: FastTrack, PLDI 2009 (clocks of threads; most bytes need only one)
class Conflicts {
 public:
  /// An access that is not ordered with the new one.
  struct Conflict {
    unsigned thread;
    Access access;
    const void* place;
  };

  Conflicts();
  /// Notes that all threads of the block have met, or that another block begins.
  void meet() { ++phase_; }
  /// Notes that these lanes have met in __syncwarp.
  void meet(unsigned warp, unsigned lanes);
  /// Records the access. @param place  an address in the kernel's code
  std::optional<Conflict> note(std::size_t offset, std::size_t bytes, Access access, unsigned thread,
                               const void* place);

 private:
  static constexpr std::uint16_t nobody = 0xffff;
  struct Touch {
    std::uint16_t thread = nobody;
    std::uint32_t time = 0;  // in the thread's own clock
    const void* place = nullptr;
  };
  /// The last times of a warp's lanes.
  struct Times {
    std::uint32_t lanes = 0;
    std::array<std::uint32_t, lanes_of_warp> of_lane{};
  };
  /// The accesses of one kind since the last write. Accesses of two warps are never ordered, so one of another warp
  /// suffices.
  struct Touches {
    Touch first;
    Touch of_another_warp;
    std::uint32_t times = 0;  // if not 0, times_[times − 1] has the accesses of the lanes of the first one's warp
  };
  /// The record of a byte. As long as only the whole word is accessed, the record of its first byte stands for the
  /// word.
  struct Record {
    std::uint64_t phase = 0;
    bool is_split = false;  // in the first one: whether each byte has its own record
    Touch write;
    Touches reads;
    Touches atomics;
  };
  using Clock = std::array<std::uint32_t, lanes_of_warp>;

  [[nodiscard]] std::optional<Touch> unordered(const Touch& touch, unsigned thread) const;
  [[nodiscard]] std::optional<Touch> unordered(const Touches& touches, unsigned thread) const;
  void add(Touches& touches, const Touch& touch);
  std::optional<Conflict> note(Record& record, Access access, const Touch& touch);
  void split(std::size_t word);

  std::vector<Record> records_;
  std::vector<Times> times_;
  std::uint64_t times_phase_ = 0;
  std::uint64_t phase_ = 1;
  // clocks_[thread][lane] is the time of that lane of the warp before which its accesses are ordered before the
  // thread's. Times only grow, so they need no reset.
  std::vector<Clock> clocks_;
};

}  // namespace emulated_gpu
