// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/kernel/shared_memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace emulated_gpu {

SharedMemory::SharedMemory()
    : memory_(static_cast<std::byte*>(::operator new (addresses, std::align_val_t{most_alignment}))),
      owner_(addresses) {
  std::memset(memory_, 0xff, addresses);
}

void SharedMemory::restart(std::size_t dynamic_bytes) {
  std::memset(memory_, 0xff, end_);
  std::memset(owner_.data(), 0, end_ * sizeof owner_[0]);
  variables_.clear();
  end_ = used_ = 0;
  owners_ = 0;
  if (dynamic_bytes > 0) take(dynamic_bytes, 1);
}

std::byte* SharedMemory::take(std::size_t bytes, std::size_t alignment) {
  constexpr std::size_t between = 16;
  const std::size_t begin = (end_ + alignment - 1) / alignment * alignment;
  used_ = (used_ + alignment - 1) / alignment * alignment + bytes;
  if (used_ > most_bytes || begin + bytes + between > addresses) return nullptr;
  std::fill_n(owner_.begin() + static_cast<std::ptrdiff_t>(begin), bytes, ++owners_);
  end_ = begin + bytes + between;
  return memory_ + begin;
}

void* SharedMemory::variable(const void* declaration, std::size_t bytes, std::size_t alignment) {
  for (const Variable& known : variables_)
    if (known.declaration == declaration) return known.place;
  std::byte* const place = take(bytes, alignment);
  if (place != nullptr) variables_.push_back({declaration, place});
  return place;
}

}  // namespace emulated_gpu
