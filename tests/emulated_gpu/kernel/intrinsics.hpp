// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>

/// The functions with which device.hpp implements CUDA's functions.
namespace emulated_gpu {

using Place = std::source_location;

uint3 thread_index();
uint3 block_index();
dim3 block_extent();
dim3 grid_extent();

void* shared_variable(const void* declaration, std::size_t bytes, std::size_t alignment, const void* place);
void* dynamic_shared_memory();

/// @param declaration  an address that is unique to the declaration
template <typename T>
__attribute__((noinline)) T& shared_variable(const void* declaration, std::size_t alignment = alignof(T)) {
  return *static_cast<T*>(shared_variable(declaration, sizeof(T), alignment, __builtin_return_address(0)));
}
template <typename T>
T* dynamic_shared() {
  return static_cast<T*>(dynamic_shared_memory());
}

/// @return the number of threads whose predicate is true
unsigned wait_for_block(bool predicate, const char* function, const Place& place);
unsigned threads_of_block();

void wait_for_lanes(unsigned mask, const Place& place);
/// @return the lanes whose predicate is true
unsigned vote(unsigned mask, bool predicate, const char* function, const Place& place);
/// Returns the lanes of the mask that the block has.
unsigned lanes_there_are(unsigned mask);
/// Returns the lanes with the same value.
unsigned match(unsigned mask, std::uint64_t bits, const char* function, const Place& place);
enum class Source { lane, lane_below, lane_above, lane_across };
std::uint64_t shuffle(unsigned mask, std::uint64_t bits, int operand, int width, Source source, const char* function,
                      const Place& place);
enum class Reduction { add, min, max, bit_and, bit_or, bit_xor };
unsigned reduce_unsigned(unsigned mask, unsigned value, Reduction how, const char* function, const Place& place);
int reduce_signed(unsigned mask, int value, Reduction how, const char* function, const Place& place);

/// Checks an access that the compiler does not report.
void check_read(const void* address, std::size_t bytes, const void* place);
/// Returns the value before. Other threads may come first.
std::uint64_t begin_atomic(const void* address, std::size_t bytes, const void* place);
void end_atomic(void* address, std::size_t bytes, std::uint64_t after);
/// Lets other threads run first, half of the time.
void pause();
[[noreturn]] void trap(const Place& place);

template <typename T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <typename T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace emulated_gpu
