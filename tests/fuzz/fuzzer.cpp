// SPDX-License-Identifier: Apache-2.0
// The entry point for libFuzzer, which has main(). Beside crashes, it stops at an input for which the parser throws
// something undocumented, or holds more memory than a small multiple of the input.
#include <sanitizer/allocator_interface.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "fuzz/targets.hpp"

namespace {

using lockstep::fuzz::targets;

constexpr std::int64_t most_constant_bytes = std::int64_t{1} << 20;  // tables of options, texts of messages

std::atomic<std::int64_t> held_bytes = 0;
std::atomic<std::int64_t> most_held_bytes = 0;

void on_malloc(const volatile void*, std::size_t size) {
  held_bytes += static_cast<std::int64_t>(size);
  if (held_bytes > most_held_bytes) most_held_bytes = held_bytes.load();
}

void on_free(const volatile void* memory) {
  const auto* plain = const_cast<const void*>(memory);
  if (plain != nullptr) held_bytes -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(plain));
}

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (targets().size() != 1) stop("this executable must have one target");
  if (__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) == 0) stop("memory cannot be counted");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  held_bytes = most_held_bytes = 0;
  try {
    targets().front().run(input);
  } catch (const std::exception& error) {
    stop(error.what());
  }
  const std::int64_t most =
      most_constant_bytes + targets().front().most_bytes_per_input_byte * static_cast<std::int64_t>(size);
  if (most_held_bytes > most) stop("the parser holds more memory than a small multiple of its input");
  return 0;
}
