// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/nccl/shared_rings.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace emulated_gpu {
namespace {

constexpr std::size_t size_of_both = 2 * sizeof(Ring);

void* map(int file) {
  void* memory = mmap(nullptr, size_of_both, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

std::size_t Ring::write(const std::byte* from, std::size_t bytes) {
  const std::uint64_t written = written_.load(std::memory_order_relaxed);
  const std::size_t room = capacity - static_cast<std::size_t>(written - read_.load(std::memory_order_acquire));
  bytes = std::min(bytes, room);
  const std::size_t begin = written % capacity;
  const std::size_t before_the_end = std::min(bytes, capacity - begin);
  std::memcpy(data_ + begin, from, before_the_end);
  std::memcpy(data_, from + before_the_end, bytes - before_the_end);
  written_.store(written + bytes, std::memory_order_release);
  return bytes;
}

std::size_t Ring::read(std::byte* to, std::size_t bytes) {
  const std::uint64_t read = read_.load(std::memory_order_relaxed);
  bytes = std::min(bytes, static_cast<std::size_t>(written_.load(std::memory_order_acquire) - read));
  const std::size_t begin = read % capacity;
  const std::size_t before_the_end = std::min(bytes, capacity - begin);
  std::memcpy(to, data_ + begin, before_the_end);
  std::memcpy(to + before_the_end, data_, bytes - before_the_end);
  read_.store(read + bytes, std::memory_order_release);
  return bytes;
}

/// The memory is a file without a name, so nothing remains, however its processes end.
std::unique_ptr<SharedRings> SharedRings::make() {
  const int file = memfd_create("emulated NCCL", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = ftruncate(file, static_cast<off_t>(size_of_both)) == 0 ? map(file) : nullptr;
  if (memory == nullptr) {
    close(file);
    return nullptr;
  }
  Ring* rings = new (memory) Ring;
  new (rings + 1) Ring;
  return std::unique_ptr<SharedRings>(new SharedRings(file, rings, true));
}

std::unique_ptr<SharedRings> SharedRings::open(const Place& place) {
  const std::string path = "/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = map(file);
  close(file);
  if (memory == nullptr) return nullptr;
  return std::unique_ptr<SharedRings>(new SharedRings(-1, static_cast<Ring*>(memory), false));
}

SharedRings::~SharedRings() {
  munmap(rings_, size_of_both);
  close_place();
}

void SharedRings::close_place() {
  if (file_ >= 0) close(std::exchange(file_, -1));
}

SharedRings::Place SharedRings::place() const { return {getpid(), file_}; }

}  // namespace emulated_gpu
