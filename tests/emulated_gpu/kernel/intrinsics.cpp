// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/kernel/intrinsics.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "emulated_gpu/device/violation.hpp"
#include "emulated_gpu/kernel/accesses.hpp"
#include "emulated_gpu/kernel/launch.hpp"
#include "emulated_gpu/kernel/multiprocessor.hpp"
#include "emulated_gpu/kernel/source_line.hpp"

namespace emulated_gpu {
namespace {

const Running& running_thread() {
  if (running == nullptr) violation("the host calls a function of kernels");
  return *running;
}

const LaneValues& exchange(unsigned mask, std::uint64_t value, const char* function, const Place& place) {
  return Multiprocessor::instance().wait_for_lanes(mask, value, false, function, place);
}

template <typename T>
T reduced(T a, T b, Reduction how) {
  switch (how) {
    case Reduction::add: return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
    case Reduction::min: return std::min(a, b);
    case Reduction::max: return std::max(a, b);
    case Reduction::bit_and: return a & b;
    case Reduction::bit_or: return a | b;
    case Reduction::bit_xor: return a ^ b;
  }
  return a;
}

template <typename T>
T reduce_lanes(unsigned mask, T value, Reduction how, const char* function, const Place& place) {
  const InEmulation emulation;
  const LaneValues& values = exchange(mask, static_cast<unsigned>(value), function, place);
  unsigned rest = mask & Multiprocessor::instance().lanes_of_its_warp();
  auto result = static_cast<T>(values[static_cast<unsigned>(std::countr_zero(rest))]);
  while ((rest &= rest - 1) != 0)
    result = reduced(result, static_cast<T>(values[static_cast<unsigned>(std::countr_zero(rest))]), how);
  return result;
}

}  // namespace

void begin_kernel() { Multiprocessor::instance().begin_kernel(); }

uint3 thread_index() { return running_thread().thread; }
uint3 block_index() { return running_thread().block; }
dim3 block_extent() { return running_thread().block_extent; }
dim3 grid_extent() { return running_thread().grid_extent; }
unsigned threads_of_block() {
  const dim3 extent = block_extent();
  return extent.x * extent.y * extent.z;
}

void* shared_variable(const void* declaration, std::size_t bytes, std::size_t alignment, const void* place) {
  running_thread();
  const InEmulation emulation;
  Multiprocessor& processor = Multiprocessor::instance();
  void* variable = processor.shared().variable(declaration, bytes, alignment);
  if (variable == nullptr) processor.violate("needs more than 48 KiB of shared memory", source_line(place));
  return variable;
}

void* dynamic_shared_memory() { return Multiprocessor::instance().shared().dynamic(); }

unsigned wait_for_block(bool predicate, const char* function, const Place& place) {
  running_thread();
  const InEmulation emulation;
  return Multiprocessor::instance().wait_for_block(predicate, function, place);
}

void wait_for_lanes(unsigned mask, const Place& place) {
  running_thread();
  const InEmulation emulation;
  Multiprocessor::instance().wait_for_lanes(mask, 0, true, "__syncwarp", place);
}

unsigned vote(unsigned mask, bool predicate, const char* function, const Place& place) {
  running_thread();
  const InEmulation emulation;
  const LaneValues& values = exchange(mask, predicate ? 1 : 0, function, place);
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < lanes_of_warp; ++lane) lanes |= static_cast<unsigned>(values[lane]) << lane;
  return lanes;
}

unsigned lanes_there_are(unsigned mask) { return mask & Multiprocessor::instance().lanes_of_its_warp(); }

unsigned match(unsigned mask, std::uint64_t bits, const char* function, const Place& place) {
  running_thread();
  const InEmulation emulation;
  const LaneValues& values = exchange(mask, bits, function, place);
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < lanes_of_warp; ++lane)
    if (values[lane] == bits) lanes |= 1U << lane;
  return lanes & lanes_there_are(mask);
}

std::uint64_t shuffle(unsigned mask, std::uint64_t bits, int operand, int width, Source source, const char* function,
                      const Place& place) {
  const int lane = static_cast<int>(running_thread().lane());
  const InEmulation emulation;
  const LaneValues& values = exchange(mask, bits, function, place);
  const int first = lane / width * width;
  const int end = first + width;
  int from = lane;
  switch (source) {
    case Source::lane: from = first + (operand & (width - 1)); break;
    case Source::lane_below: from = lane - operand < first ? lane : lane - operand; break;
    case Source::lane_above: from = lane + operand >= end ? lane : lane + operand; break;
    case Source::lane_across: from = (lane ^ operand) >= end ? lane : lane ^ operand; break;
  }
  if ((lanes_there_are(mask) >> from & 1U) == 0)
    Multiprocessor::instance().violate(
        std::string(function) + " from lane " + std::to_string(from) + ", which takes no part in it",
        source_line(place));
  return values[static_cast<std::size_t>(from)];
}

unsigned reduce_unsigned(unsigned mask, unsigned value, Reduction how, const char* function, const Place& place) {
  running_thread();
  return reduce_lanes(mask, value, how, function, place);
}
int reduce_signed(unsigned mask, int value, Reduction how, const char* function, const Place& place) {
  running_thread();
  return reduce_lanes(mask, value, how, function, place);
}

void check_read(const void* address, std::size_t bytes, const void* place) {
  check_access({address, bytes, Access::read, true, place});
}

std::uint64_t begin_atomic(const void* address, std::size_t bytes, const void* place) {
  running_thread();
  check_access({address, bytes, Access::atomic, true, place});
  pause();
  std::uint64_t before = 0;
  std::memcpy(&before, address, bytes);
  return before;
}

void end_atomic(void* address, std::size_t bytes, std::uint64_t after) { std::memcpy(address, &after, bytes); }

void pause() {
  const InEmulation emulation;
  Multiprocessor::instance().may_be_overtaken();
}

void trap(const Place& place) { Multiprocessor::instance().violate("__trap", source_line(place)); }

}  // namespace emulated_gpu
