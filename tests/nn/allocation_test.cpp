// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "nn/drawn_run.hpp"
#include "support/verdict.hpp"

namespace {
std::atomic<std::int64_t> allocations{0};

struct AddressRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

/// Returns the address range of oneDNN's code, whose allocations inside a call are not counted.
AddressRange find_onednn() {
  AddressRange range;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* found) {
        if (std::strstr(object->dlpi_name, "libdnnl") == nullptr) return 0;
        std::uintptr_t end = 0;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          end = std::max<std::uintptr_t>(end, object->dlpi_phdr[i].p_vaddr + object->dlpi_phdr[i].p_memsz);
        }
        *static_cast<AddressRange*>(found) = {object->dlpi_addr, object->dlpi_addr + end};
        return 1;
      },
      &range);
  return range;
}

void* counted(std::size_t bytes, const void* caller) {
  static const AddressRange onednn = find_onednn();
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (address < onednn.begin || address >= onednn.end) ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(bytes, __builtin_return_address(0)); }
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return counted(bytes, __builtin_return_address(0)); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace lockstep::nn {
namespace {

class NullObserver final : public Observer {
 public:
  void span(const Span&) override {}
};

TEST(Allocation, TheCounterCounts) {
  const std::int64_t before = allocations;
  ::operator delete(::operator new(1));  // compilers may elide a new expression, but not this call
  EXPECT_EQ(allocations - before, 1);
}

/// Runs model `name` on `ops` with batches of several sizes, an empty one and an evaluation between them.
template <typename Real>
void expect_no_allocation(std::string_view name, std::unique_ptr<ops::Ops> ops) {
  NullObserver observer;
  const DataSpec data = Models().example(name);
  DrawnRun<Real> run(make_model(name, data), data.classes, {.batch = 2, .observer = &observer}, std::move(ops));
  run.draw(0);
  for (const std::int64_t batch : {2, 1, 0}) run.model.prepare(batch);
  std::int64_t before = 0;
  for (int round = 0; round < 2; ++round) {
    if (round == 1) before = allocations;  // operators may allocate scratch in their first call
    run.train(2);
    run.train(1);
    run.train(0);
    (void)run.predict(2);
  }
  EXPECT_EQ(allocations - before, 0) << name;
}

TEST(Allocation, StepsOnTheReferenceAllocateNothingAfterTheFirst) {
  for (const Models models; const std::string_view name : models.names())
    expect_no_allocation<double>(name, ops::make_reference_ops());
}

TEST(Allocation, StepsOnOneDnnAllocateNothingAfterTheFirst) {
  for (const Models models; const std::string_view name : models.names())
    expect_no_allocation<float>(name, ops::make_onednn_ops(1));
}

TEST(Allocation, NothingInStepsOfDifferentExtents) {
  DrawnRun<float> run(make_model("resnet20", DataSpec::of_images(3, 8, 8, 10)), 10, {.batch = 2},
                      ops::make_onednn_ops(1));
  ASSERT_EQ(run.model.add_extents(make_model("resnet20", DataSpec::of_images(3, 12, 12, 10))), 1U);
  const std::vector<float> images(2 * 3 * 12 * 12, 0.5F);
  const std::vector<std::int32_t> labels(2);
  const void* inputs[] = {images.data(), labels.data()};
  std::int64_t before = 0;
  for (int round = 0; round < 3; ++round) {
    if (round == 2) before = allocations;
    for (const std::size_t extents : {1, 0}) {
      SingleRank alone;
      run.model.train({.samples = 2, .inputs = inputs, .extents = extents}, {.samples = 2}, alone);
      (void)run.model.predict({.samples = 2, .inputs = inputs, .extents = extents});
    }
  }
  EXPECT_EQ(allocations - before, 0);
}

TEST(Allocation, NothingInStepsOfKernelsThatStoreBFloat16) {
  if (!ops::make_onednn_ops(1)->half_kernels(DType::bfloat16).exist)
    LOCKSTEP_SKIP(bfloat16) << "oneDNN has no kernels of it for this processor";
  for (const char* name : {"lenet", "resnet20"})
    expect_no_allocation<float>(
        name, ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16, ops::HalfPrecision::native));
}

}  // namespace
}  // namespace lockstep::nn
