// SPDX-License-Identifier: Apache-2.0
// After the first steps, training allocates nothing. Every call of operator new in the process is counted, except those
// from oneDNN's code, which allocates whenever it runs a primitive.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "data/dataset_of_sizes.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/nn/models.hpp"
#include "lockstep/ops/onednn.hpp"
#include "lockstep/ops/reference.hpp"
#include "lockstep/trainer/trainer.hpp"
#include "trainer/small_data.hpp"

namespace {

std::atomic<long> allocations = 0;

bool is_onednn(void* caller) {
  Dl_info object{};
  return dladdr(caller, &object) != 0 && std::strstr(object.dli_fname, "libdnnl") != nullptr;
}

void* counted(std::size_t bytes, std::size_t alignment, void* caller) {
  if (!is_onednn(caller)) ++allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded)) return memory;
  throw std::bad_alloc();
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t), __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, alignof(std::max_align_t), __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace lockstep::trainer {
namespace {

nn::Graph resnet20_for(const std::vector<TensorSpec>& tensors) { return nn::make_model("resnet20", {tensors, 10}); }

void expect_no_allocation(ops::Ops& ops, DType precision, const char* model, const char* algorithm,
                          std::optional<backends::WireFormat> compress = std::nullopt, bool zero = false,
                          TrainerOptions cut = {}) {
  World world;
  ProcessGroup members(world, {.algorithm = algorithm, .wait = {.spins_before_yield = 0}, .compress = compress});
  {
    const data::DatasetPair data = testing_support::small_digits(200, 50, 16);
    // There are 20 steps of 10 samples, with small buckets, so that several all-reduces are under way.
    TrainerOptions options = cut;
    options.precision = precision;
    options.epochs = 2;
    options.batch = {10};
    options.step.clip_norm = 1;
    options.step.ema = 0.9;
    options.zero = zero;
    options.workers = 1;
    options.bucket = {32 << 10};
    Trainer trainer(members, ops, nn::make_model(model, nn::DataSpec::of_images(1, 16, 16, 10)), data, options);
    EXPECT_EQ(trainer.train_steps(2), 2);
    const long before = allocations;
    EXPECT_EQ(trainer.train_steps(1000), 18);
    EXPECT_EQ(trainer.train_steps(5), 5) << "the next epoch";
    EXPECT_EQ(allocations - before, 0) << model << " on " << ops.name() << " by " << algorithm
                                       << (compress ? ", compressed" : "") << (zero ? ", in parts" : "") << ", "
                                       << cut.step.shards << " shards in " << cut.step.lanes << " lanes";
  }
  members.close();
  world.close();
}

TEST(Allocation, TheCounterCounts) {
  const long before = allocations;
  ::operator delete(::operator new(1));  // a compiler may elide a new expression, but not this call
  EXPECT_GT(allocations, before);
}

TEST(Allocation, NoneInAStepOnTheReferenceOps) {
  const auto ops = ops::make_reference_ops();
  for (const char* algorithm : {"auto", "ring", "tree", "halving-doubling", "recursive-doubling", "tree-order"}) {
    expect_no_allocation(*ops, DType::float64, "lenet", algorithm);
  }
  expect_no_allocation(*ops, DType::float64, "lenet", "auto", std::nullopt, true);
}

TEST(Allocation, NoneInStepsOfDifferentSizes) {
  World world;
  ProcessGroup members(world, {.wait = {.spins_before_yield = 0}});
  {
    const auto ops = ops::make_onednn_ops(1);
    const data::DatasetPair data{std::make_shared<data::DatasetOfSizes>(200),
                                 std::make_shared<data::DatasetOfSizes>(50)};
    const TrainerOptions options{.epochs = 2, .batch = {10}, .log_every = 1, .graphs = resnet20_for};
    Trainer trainer(members, *ops, resnet20_for(data.train->tensors()), data, options);
    EXPECT_EQ(trainer.train_steps(6), 6);
    const long before = allocations;
    EXPECT_EQ(trainer.train_steps(1000), 14);
    EXPECT_EQ(trainer.train_steps(5), 5) << "the next epoch";
    EXPECT_EQ(allocations - before, 0);
  }
  members.close();
  world.close();
}

TEST(Allocation, NoneInAStepThatRounds) {
  const auto ops = ops::make_rounded_ops(ops::make_onednn_ops(1), DType::bfloat16);
  expect_no_allocation(*ops, DType::float32, "resnet20", "auto");
  expect_no_allocation(*ops, DType::float32, "lenet", "auto", std::nullopt, false, {.step = {.shards = 4, .lanes = 2}});
}

TEST(Allocation, NoneInAStepOnOneDnn) {
  const auto ops = ops::make_onednn_ops(1);
  expect_no_allocation(*ops, DType::float32, "lenet", "ring");
  expect_no_allocation(*ops, DType::float32, "lenet", "ring", backends::WireFormat::bfloat16);
  expect_no_allocation(*ops, DType::float32, "resnet20", "ring");
  for (const int lanes : {1, 2})
    for (const bool synchronized : {false, true})
      expect_no_allocation(*ops, DType::float32, "resnet20", "auto", std::nullopt, false,
                           {.sync_batch_norm = synchronized, .step = {.shards = 4, .lanes = lanes}});
}

}  // namespace
}  // namespace lockstep::trainer
