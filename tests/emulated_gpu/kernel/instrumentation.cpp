// SPDX-License-Identifier: Apache-2.0
// The compiler's thread-sanitizer instrumentation calls these functions at each access of a translated file.
#include <cstddef>
#include <cstring>

#include "emulated_gpu/kernel/accesses.hpp"

#define EMULATED_GPU_PLACE __builtin_return_address(0)

// NOLINTBEGIN(bugprone-reserved-identifier): the compiler's names
extern "C" {

#define EMULATED_GPU_ACCESSES(size)                                                                      \
  void __tsan_read##size(void* address) {                                                                \
    emulated_gpu::check_access({address, size, emulated_gpu::Access::read, true, EMULATED_GPU_PLACE});   \
  }                                                                                                      \
  void __tsan_write##size(void* address) {                                                               \
    emulated_gpu::check_access({address, size, emulated_gpu::Access::write, true, EMULATED_GPU_PLACE});  \
  }                                                                                                      \
  void __tsan_unaligned_read##size(void* address) {                                                      \
    emulated_gpu::check_access({address, size, emulated_gpu::Access::read, false, EMULATED_GPU_PLACE});  \
  }                                                                                                      \
  void __tsan_unaligned_write##size(void* address) {                                                     \
    emulated_gpu::check_access({address, size, emulated_gpu::Access::write, false, EMULATED_GPU_PLACE}); \
  }                                                                                                      \
  void __tsan_read_write##size(void* address) {                                                          \
    emulated_gpu::check_access({address, size, emulated_gpu::Access::write, true, EMULATED_GPU_PLACE});  \
  }                                                                                                      \
  void __tsan_unaligned_read_write##size(void* address) {                                                \
    emulated_gpu::check_access({address, size, emulated_gpu::Access::write, false, EMULATED_GPU_PLACE}); \
  }
EMULATED_GPU_ACCESSES(1)
EMULATED_GPU_ACCESSES(2)
EMULATED_GPU_ACCESSES(4)
EMULATED_GPU_ACCESSES(8)
EMULATED_GPU_ACCESSES(16)
#undef EMULATED_GPU_ACCESSES

void __tsan_read_range(void* address, std::size_t bytes) {
  emulated_gpu::check_access({address, bytes, emulated_gpu::Access::read, false, EMULATED_GPU_PLACE});
}
void __tsan_write_range(void* address, std::size_t bytes) {
  emulated_gpu::check_access({address, bytes, emulated_gpu::Access::write, false, EMULATED_GPU_PLACE});
}

void __tsan_init() {}
void __tsan_func_entry(void* /*caller*/) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** /*place*/, void* /*value*/) {}
void __tsan_vptr_read(void** /*place*/) {}

// device.hpp redirects the C library's functions to these.

void* emulated_gpu_memcpy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    emulated_gpu::check_access({from, bytes, emulated_gpu::Access::read, false, EMULATED_GPU_PLACE});
    emulated_gpu::check_access({to, bytes, emulated_gpu::Access::write, false, EMULATED_GPU_PLACE});
  }
  return std::memcpy(to, from, bytes);
}
void* emulated_gpu_memmove(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {
    emulated_gpu::check_access({from, bytes, emulated_gpu::Access::read, false, EMULATED_GPU_PLACE});
    emulated_gpu::check_access({to, bytes, emulated_gpu::Access::write, false, EMULATED_GPU_PLACE});
  }
  return std::memmove(to, from, bytes);
}
void* emulated_gpu_memset(void* to, int value, std::size_t bytes) {
  if (bytes > 0) emulated_gpu::check_access({to, bytes, emulated_gpu::Access::write, false, EMULATED_GPU_PLACE});
  return std::memset(to, value, bytes);
}

// These functions implement std::atomic for host functions in such a file.

#define EMULATED_GPU_CHECKED(address, size) \
  emulated_gpu::check_access(               \
      {const_cast<const void*>(address), size, emulated_gpu::Access::atomic, true, EMULATED_GPU_PLACE})
#define EMULATED_GPU_FETCH(bits, T, name)                                                     \
  T __tsan_atomic##bits##_fetch_##name(volatile void* address, T value, int /*order*/) {      \
    EMULATED_GPU_CHECKED(address, sizeof(T));                                                 \
    return __atomic_fetch_##name(static_cast<volatile T*>(address), value, __ATOMIC_SEQ_CST); \
  }
#define EMULATED_GPU_COMPARE(bits, T, name)                                                                         \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile void* address, void* expected, T value, int /*order*/, \
                                                    int /*otherwise*/) {                                            \
    EMULATED_GPU_CHECKED(address, sizeof(T));                                                                       \
    return __atomic_compare_exchange_n(static_cast<volatile T*>(address), static_cast<T*>(expected), value, false,  \
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                         \
  }
#define EMULATED_GPU_ATOMICS(bits, T)                                                       \
  T __tsan_atomic##bits##_load(const volatile void* address, int /*order*/) {               \
    EMULATED_GPU_CHECKED(address, sizeof(T));                                               \
    return __atomic_load_n(static_cast<const volatile T*>(address), __ATOMIC_SEQ_CST);      \
  }                                                                                         \
  void __tsan_atomic##bits##_store(volatile void* address, T value, int /*order*/) {        \
    EMULATED_GPU_CHECKED(address, sizeof(T));                                               \
    __atomic_store_n(static_cast<volatile T*>(address), value, __ATOMIC_SEQ_CST);           \
  }                                                                                         \
  T __tsan_atomic##bits##_exchange(volatile void* address, T value, int /*order*/) {        \
    EMULATED_GPU_CHECKED(address, sizeof(T));                                               \
    return __atomic_exchange_n(static_cast<volatile T*>(address), value, __ATOMIC_SEQ_CST); \
  }                                                                                         \
  EMULATED_GPU_FETCH(bits, T, add)                                                          \
  EMULATED_GPU_FETCH(bits, T, sub)                                                          \
  EMULATED_GPU_FETCH(bits, T, and)                                                          \
  EMULATED_GPU_FETCH(bits, T, or)                                                           \
  EMULATED_GPU_FETCH(bits, T, xor)                                                          \
  EMULATED_GPU_COMPARE(bits, T, strong)                                                     \
  EMULATED_GPU_COMPARE(bits, T, weak)
EMULATED_GPU_ATOMICS(8, unsigned char)
EMULATED_GPU_ATOMICS(16, unsigned short)
EMULATED_GPU_ATOMICS(32, unsigned)
EMULATED_GPU_ATOMICS(64, unsigned long)
#undef EMULATED_GPU_ATOMICS
#undef EMULATED_GPU_COMPARE
#undef EMULATED_GPU_FETCH
#undef EMULATED_GPU_CHECKED
#undef EMULATED_GPU_PLACE

void __tsan_atomic_thread_fence(int /*order*/) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int /*order*/) {}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)
