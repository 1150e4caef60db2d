// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "data/small_dataset.hpp"
#include "lockstep/data/prefetcher.hpp"
#include "support/count_allocations.hpp"

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
