// SPDX-License-Identifier: Apache-2.0
#include "platform/node_memory/mapping.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <string>

#include "lockstep/base/error.hpp"
#include "platform/node_memory/descriptor.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // older headers do not define it
#endif

namespace lockstep {
namespace {

/// Reserves aligned addresses for `bytes`, without memory. Returns null if there are not enough addresses.
std::byte* reserve(std::size_t bytes) {
  constexpr auto alignment = static_cast<std::size_t>(huge_page_bytes);
  void* wide = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (wide == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(wide);
  const std::size_t before = (alignment - reinterpret_cast<std::uintptr_t>(begin) % alignment) % alignment;
  if (before > 0) munmap(begin, before);
  if (before < alignment) munmap(begin + before + bytes, alignment - before);
  return begin + before;
}

bool fill(std::byte* data, std::size_t bytes, int flags, int descriptor) {
  if (mmap(data, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_NORESERVE, descriptor, 0) == MAP_FAILED) {
    return false;
  }
  madvise(data, bytes, MADV_DONTDUMP);
  madvise(data, bytes, MADV_HUGEPAGE);  // advice: without huge pages it is only slower
  return true;
}

}  // namespace

// The size must be a multiple of a page: mmap rounds the end up, but the munmap in reserve() needs an exact end.
Mapping Mapping::of_file(int descriptor, Bytes bytes) {
  const auto size = static_cast<std::size_t>(bytes.value);
  Mapping mapping(reserve(size), size);
  if (mapping.data_ == nullptr || !fill(mapping.data_, size, MAP_SHARED, descriptor)) {
    throw Error(ErrorCode::unsupported, "cannot map " + std::to_string(bytes.value) +
                                            " bytes of the node's shared memory: " + failed("mmap") +
                                            "; raise the limit of addresses (ulimit -v) or set a smaller heap");
  }
  return mapping;
}

Mapping Mapping::untouched(Bytes bytes) {
  const auto size = static_cast<std::size_t>((bytes.value + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes);
  Mapping mapping(reserve(size), size);
  if (mapping.data_ == nullptr || !fill(mapping.data_, size, MAP_PRIVATE | MAP_ANONYMOUS, -1)) throw std::bad_alloc();
  return mapping;
}

Mapping Mapping::anonymous(Bytes bytes) {
  Mapping mapping = untouched(bytes);
  if (!populate(mapping.data_, {static_cast<std::int64_t>(mapping.bytes_)}) && errno == ENOMEM) throw std::bad_alloc();
  return mapping;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool populate(std::byte* data, Bytes bytes) {
  while (madvise(data, static_cast<std::size_t>(bytes.value), MADV_POPULATE_WRITE) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace lockstep
