// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "data/small_dataset.hpp"
#include "lockstep/data/prefetcher.hpp"

namespace {

std::atomic<long> allocations{0};

}  // namespace

// These functions are not inlined, because the compiler would otherwise warn that malloc's memory goes to delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace lockstep::data {
namespace {

TEST(PrefetcherAllocation, NothingIsAllocatedAfterConstruction) {
  const auto dataset = small_dataset(53);
  for (const int workers : {0, 1, 2}) {
    const long before_construction = allocations;
    Prefetcher prefetcher(dataset, DType::float32, DistributedSampler({.samples = {53}, .batch = {8}}),
                          {.workers = workers});
    prefetcher.start_epoch(1);
    ASSERT_NE(prefetcher.next(), nullptr);  // the workers are running
    const long before = allocations;
    EXPECT_GT(before, before_construction);  // the counter works
    while (prefetcher.next() != nullptr) {
    }
    prefetcher.start_epoch(2);
    while (prefetcher.next() != nullptr) {
    }
    EXPECT_EQ(allocations, before) << workers << " workers";
  }
}

}  // namespace
}  // namespace lockstep::data
