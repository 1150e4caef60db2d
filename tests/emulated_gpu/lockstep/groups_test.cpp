// SPDX-License-Identifier: Apache-2.0
// Tests process groups on GPUs: which operations go to NCCL and which to the host, groups that are split from groups,
// and DataParallel with values in device memory, whose sums in tree order have the same bits as on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "backends/contract/device_memory.hpp"
#include "backends/stated_order.hpp"
#include "emulated_gpu/cuda/runtime.hpp"
#include "emulated_gpu/lockstep/ranks.hpp"
#include "emulated_gpu/nccl/windows.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "lockstep/mpi/world.hpp"
#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/gpu/gpu.hpp"
#include "platform/ranks/bootstrap.hpp"
#include "support/verdict.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

GroupOptions on_gpus(const char* algorithm = "auto") {
  return {.device = Device::cuda,
          .algorithm = algorithm,
          .wait = {.spins_before_yield = 0},
          .deadline = std::chrono::seconds(60)};
}

class Groups : public testing::Test {
 protected:
  void TearDown() override { world_.close(); }
  const World& world() { return world_; }

  /// Returns the sum of 1 + rank on the group's GPUs, as this rank gets it.
  static float sum_of_ranks(ProcessGroup& group) {
    const contract::DeviceMemory memory;
    const Allocation values = group.allocate({4});
    auto value = static_cast<float>(1 + group.rank().value);
    memory.copy(values.data(), &value, {4});
    EXPECT_EQ(values.kind(), MemoryKind::device);
    group.communicator().all_reduce(values.as(DType::float32), values.as(DType::float32), ReduceOp::sum).wait();
    memory.copy(&value, values.data(), {4});
    return value;
  }
  static float sum_up_to(int ranks) { return static_cast<float>(ranks * (ranks + 1) / 2); }

 private:
  World world_;
};

TEST_F(Groups, SendDeviceMemoryToNcclAndTheRestToTheHost) {
  ProcessGroup group(world(), on_gpus());
  EXPECT_EQ(sum_of_ranks(group), sum_up_to(group.size()));
  double number = 1;
  group.communicator().all_reduce(std::span<const double>(&number, 1), std::span(&number, 1), ReduceOp::sum).wait();
  EXPECT_EQ(number, group.size());
  group.control().barrier().wait();
  group.close();
}

/// NCCL's kernels begin beside those of computing only if their stream goes first.
TEST_F(Groups, HaveAStreamOfTheHighestPriorityForNccl) {
  ProcessGroup group(world(), on_gpus());
  EXPECT_EQ(sum_of_ranks(group), sum_up_to(group.size()));
  int least = 0;
  int highest = 0;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&least, &highest), cudaSuccess);
  const auto& streams = emulated_gpu::Runtime::instance().streams;
  EXPECT_TRUE(std::any_of(streams.begin(), streams.end(), [&](const auto* one) { return one->priority == highest; }));
  group.close();
}

TEST_F(Groups, AreSplitAndHaveFurtherCommunicators) {
  ProcessGroup group(world(), on_gpus());
  const int me = group.rank().value;
  auto part = group.split(me % 2, -me);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->size(), (group.size() + 1 - me % 2) / 2);
  EXPECT_EQ(sum_of_ranks(*part), sum_up_to(part->size()));
  EXPECT_EQ(sum_of_ranks(group), sum_up_to(group.size()));
  const auto another = group.new_communicator();
  const Allocation memory = another->allocate({4});
  another->broadcast(memory.as(DType::int32), {0}).wait();
  EXPECT_EQ(sum_of_ranks(*part), sum_up_to(part->size()));
  another->close();
  part->close();
  auto first = group.split(me == 0 ? std::optional(0) : std::nullopt, 0, on_gpus("tree-order"));
  ASSERT_EQ(first.has_value(), me == 0);
  if (first) {
    EXPECT_EQ(sum_of_ranks(*first), 1);
    first->close();
  }
  EXPECT_EQ(sum_of_ranks(group), sum_up_to(group.size()));
  group.close();
}

TEST_F(Groups, HaveAProgressThreadIfAsked) {
  GroupOptions options = on_gpus();
  options.progress_thread = true;
  ProcessGroup group(world(), options);
  for (int k = 0; k < 20; ++k) ASSERT_EQ(sum_of_ranks(group), sum_up_to(group.size()));
  group.close();
}

/// Ranks that MPI has not introduced to each other compare their calls over connections of their own.
TEST_F(Groups, OfAnyOriginCompareTheirCalls) {
  const auto all_gather = [this](std::span<const std::byte> mine, std::span<std::byte> all) {
    std::string texts;
    for (const std::string& text : world().group().exchange({reinterpret_cast<const char*>(mine.data()), mine.size()}))
      texts += text;
    std::memcpy(all.data(), texts.data(), all.size());
  };
  GroupOptions options = on_gpus();
  options.check = true;
  ProcessGroup group(from_exchange(world().rank(), world().size(), all_gather), options);
  EXPECT_EQ(sum_of_ranks(group), sum_up_to(group.size()));
  const Allocation values = group.allocate({1000});
  const Buffer some = slice(values.as(DType::float32), {0}, {group.rank() == Rank{0} ? 100 : 101});
  const std::optional<Error> error =
      error_of([&] { group.communicator().all_reduce(some, some, ReduceOp::sum).wait(); });
  ASSERT_EQ(error.has_value(), group.size() > 1);
  if (!error) return group.close();
  EXPECT_EQ(error->code(), ErrorCode::mismatch) << error->what();
}

/// Returns parameters of uneven lengths; buckets are so small that there are several.
Layout layout() {
  Layout layout;
  for (const std::int64_t length : {400, 3, 1001, 64, 2000})
    layout.add("parameter " + std::to_string(length), {length});
  return layout;
}
constexpr int parameters = 5;
constexpr DataParallelOptions small_buckets{.bucket = {4096}};

/// Returns a rank's gradients in a step: of both signs and over seven orders of magnitude.
std::vector<float> gradients_of(int rank, int step, std::int64_t count) {
  return stated_order::input_of(rank + 16 * step, count);
}

/// Zeros the gaps between the parameters, whose contents have no meaning.
void clear_gaps(const DataParallel& model, std::vector<float>& flat) {
  std::vector<float> kept(flat.size());
  for (int parameter = 0; parameter < parameters; ++parameter) {
    const Buffer gradient = model.gradient(parameter);
    const auto offset = static_cast<float*>(gradient.data) - static_cast<float*>(model.gradients().data);
    std::copy_n(flat.begin() + offset, gradient.count.value, kept.begin() + offset);
  }
  flat = kept;
}

/// Trains one rank's values by plain steps; the gradients come on one or several streams.
/// @return the sums of each step, with zeros between the parameters
std::vector<float> train(ProcessGroup& group, int steps, int streams_of_gradients) {
  DataParallel model(group, layout(), DType::float32, small_buckets);
  const std::int64_t count = model.values().count.value;
  const contract::DeviceMemory memory;
  std::vector<float> values(static_cast<std::size_t>(count), static_cast<float>(group.rank().value));
  memory.copy(model.values().data, values.data(), model.values().bytes());
  model.synchronize();
  std::vector<Stream> streams(static_cast<std::size_t>(streams_of_gradients));
  std::vector<float> sums;
  memory.copy(values.data(), model.values().data, model.values().bytes());
  for (const float value : values) EXPECT_EQ(value, 0) << "rank 0's were sent to all";
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> mine = gradients_of(group.rank().value, step, count);
    const Allocation pinned = allocate_pinned(model.values().bytes());
    std::memcpy(pinned.data(), mine.data(), mine.size() * sizeof(float));
    const Queue queue = streams[static_cast<std::size_t>(step % streams_of_gradients)].queue();
    for (int parameter = parameters - 1; parameter >= 0; --parameter) {
      const Buffer gradient = model.gradient(parameter);
      const auto offset = static_cast<float*>(gradient.data) - static_cast<float*>(model.gradients().data);
      copy_bytes(gradient.data, static_cast<float*>(pinned.data()) + offset, gradient.bytes(), queue);
      model.ready(parameter, queue);
      model.progress();
    }
    EXPECT_EQ(model.finish(1).weight, group.size());
    std::vector<float> result(static_cast<std::size_t>(count));
    memory.copy(result.data(), model.gradients().data, model.gradients().bytes());
    clear_gaps(model, result);
    sums.insert(sums.end(), result.begin(), result.end());
  }
  return sums;
}

/// Returns the bits of a sum that depends on its order.
std::vector<std::uint32_t> bits_of_sum(ProcessGroup& group) {
  const contract::DeviceMemory memory;
  std::vector<float> values = gradients_of(group.rank().value, 1, 64);
  const Bytes bytes{static_cast<std::int64_t>(values.size() * sizeof(float))};
  const Allocation there = group.allocate(bytes);
  memory.copy(there.data(), values.data(), bytes);
  group.communicator().all_reduce(there.as(DType::float32), there.as(DType::float32), ReduceOp::sum).wait();
  memory.copy(values.data(), there.data(), bytes);
  return stated_order::bits(values);
}

/// NCCL takes the algorithm with each call from 2.31.2 on, and before with the first communicator of the process.
TEST_F(Groups, HaveDifferentAlgorithmsIfNcclTakesThemWithEachCall) {
  ProcessGroup by_choice(world(), on_gpus());
  if (std::getenv("EMULATED_NCCL_VERSION") == nullptr) {
    EXPECT_THROW(ProcessGroup(world(), on_gpus("ring")), Error);
  } else {
    ProcessGroup by_ring(world(), on_gpus("ring"));
    ProcessGroup by_tree(world(), on_gpus("tree"));
    const std::vector<std::uint32_t> sum = bits_of_sum(by_ring);
    EXPECT_EQ(bits_of_sum(by_tree) == sum, by_tree.size() < 3);
    EXPECT_EQ(bits_of_sum(by_ring), sum);
    by_tree.close();
    by_ring.close();
  }
  by_choice.close();
}

/// NCCL's own kernels for memory that GPUs reach directly are used where NCCL chooses the algorithm.
TEST_F(Groups, RegisterTheGradientsForNcclsChoice) {
  ProcessGroup group(world(), on_gpus());
  const int registered = group.size() > 1 ? 1 : 0;
  {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    EXPECT_EQ(emulated_gpu::count_windows(), registered);
    const DataParallel moved(std::move(model));
    EXPECT_EQ(emulated_gpu::count_windows(), registered);
  }
  EXPECT_EQ(emulated_gpu::count_windows(), 0) << "the memory is free";
  {
    const DataParallel model(group, layout(), DType::float32, small_buckets);
    EXPECT_EQ(emulated_gpu::count_windows(), registered);
    group.close();
    EXPECT_EQ(emulated_gpu::count_windows(), 0) << "NCCL forgets it with its communicator";
  }
  ProcessGroup in_tree_order(world(), on_gpus("tree-order"));
  const DataParallel model(in_tree_order, layout(), DType::float32, small_buckets);
  EXPECT_EQ(emulated_gpu::count_windows(), 0);
  in_tree_order.close();
}

TEST_F(Groups, TrainToTheBitsOfTheHostInTreeOrder) {
  for (const int streams : {1, 2}) {
    ProcessGroup group(world(), on_gpus("tree-order"));
    constexpr int steps = 3;
    const std::vector<float> sums = train(group, steps, streams);
    const auto count = static_cast<std::int64_t>(sums.size()) / steps;
    for (int step = 0; step < steps; ++step) {
      std::vector<std::vector<float>> inputs;
      for (int rank = 0; rank < group.size(); ++rank) inputs.push_back(gradients_of(rank, step, count));
      const auto begin = sums.begin() + step * count;
      for (std::vector<float>& input : inputs)
        for (std::int64_t i = 0; i < count; ++i)
          if (begin[i] == 0) input[static_cast<std::size_t>(i)] = 0;  // a gap; no sum is exactly zero
      // Buckets may begin and end anywhere, because the order over the ranks is the same in each.
      EXPECT_EQ(stated_order::bits({begin, begin + count}), stated_order::bits(stated_order::canonical_sums(inputs)))
          << "step " << step;
      std::vector<float> on_host = inputs[static_cast<std::size_t>(group.rank().value)];
      const Buffer buffer{on_host.data(), {count}, DType::float32};
      group.communicator().all_reduce(buffer, buffer, ReduceOp::sum).wait();
      EXPECT_EQ(stated_order::bits({begin, begin + count}), stated_order::bits(on_host)) << "step " << step;
    }
    group.close();
  }
}

/// A rank writes the sums of its shards' gradients, and all ranks get the sum of the tree over all shards.
TEST_F(Groups, AddShardsInTheOrderOfAllOfThem) {
  constexpr int shards = 13;
  EXPECT_EQ(error_of([&] {
              ProcessGroup group(world(), on_gpus());
              DataParallel(group, layout(), DType::float32, {.shards = shards, .places = 8});
            })->code(),
            ErrorCode::unsupported)
      << "NCCL adds in an order of its own";
  ProcessGroup group(world(), on_gpus("tree-order"));
  DataParallel model(group, layout(), DType::float32, {.bucket = {4096}, .shards = shards, .places = 8});
  const std::int64_t count = model.values().count.value;
  const contract::DeviceMemory memory;
  model.synchronize();
  const auto inputs = stated_order::inputs_of(shards, count);
  int place = 0;
  for (const LeafNode& node : tree_nodes(shards, share_of(shards, group.rank().value, group.size()))) {
    const auto below = inputs.begin() + node.first;
    const std::vector<float> sum = stated_order::canonical_sums({below, below + node.leaves});
    const Buffer its = slice(model.gradient_places(), {place++ * count}, {count});
    memory.copy(its.data, sum.data(), its.bytes());
  }
  const Stream stream;
  for (int parameter = parameters - 1; parameter >= 0; --parameter) model.ready(parameter, stream.queue());
  model.finish(1);
  std::vector<float> result(static_cast<std::size_t>(count));
  memory.copy(result.data(), model.gradients().data, model.gradients().bytes());
  clear_gaps(model, result);
  std::vector<float> expected = stated_order::canonical_sums(inputs);
  clear_gaps(model, expected);
  EXPECT_EQ(stated_order::bits(result), stated_order::bits(expected));
  group.close();
}

/// Each rank writes its parts of the values on a stream, which then has the parts of all.
TEST_F(Groups, GatherThePartsOfAShardedOptimizerOnAStream) {
  ProcessGroup group(world(), on_gpus());
  DataParallel model(group, layout(), DType::float32, {.bucket = {4096}, .shard_optimizer = true});
  model.synchronize();
  Stream stream;
  for (int step = 0; step < 2; ++step) {
    clear_bytes(model.gradients().data, model.gradients().bytes(), stream.queue());
    for (int parameter = parameters - 1; parameter >= 0; --parameter) model.ready(parameter, stream.queue());
    model.finish_on(stream.queue());
    const auto number = static_cast<float>(100 * step + 1 + group.rank().value);
    const std::vector<float> mine(static_cast<std::size_t>(model.values().count.value), number);
    const Allocation pinned = allocate_pinned(model.values().bytes());
    std::memcpy(pinned.data(), mine.data(), mine.size() * sizeof(float));
    for (const LayoutPart& part : model.owned()) {
      const Buffer its = slice(model.values(), part.offset, part.count);
      copy_bytes(its.data, pinned.data(), its.bytes(), stream.queue());
    }
    model.gather(model.values(), stream.queue());
    stream.synchronize();
    std::vector<float> all(mine.size());
    contract::DeviceMemory().copy(all.data(), model.values().data, model.values().bytes());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    EXPECT_EQ(std::ssize(all), group.size()) << "each rank has parts";
    EXPECT_EQ(all.front(), static_cast<float>(100 * step + 1));
    EXPECT_EQ(all.back(), static_cast<float>(100 * step + group.size()));
  }
  group.close();
}

/// Trains with checked gradients: zeros but for what `flaws` says.
class CheckedSteps {
 public:
  CheckedSteps(ProcessGroup& group, const DataParallelOptions& options)
      : model_(group, layout(), DType::float32, options) {
    model_.synchronize();
  }

  /// @param flaws  for each parameter the value of its last element
  DataParallel::Step step(const std::vector<float>& flaws, bool on_a_stream) {
    const Allocation pinned = allocate_pinned({parameters * 4});
    std::memcpy(pinned.data(), flaws.data(), flaws.size() * sizeof(float));
    for (int parameter = parameters - 1; parameter >= 0; --parameter) {
      const Buffer gradient = model_.gradient(parameter);
      clear_bytes(gradient.data, gradient.bytes(), stream_.queue());
      copy_bytes(static_cast<float*>(gradient.data) + gradient.count.value - 1,
                 static_cast<float*>(pinned.data()) + parameter, {4}, stream_.queue());
      if (!on_a_stream) stream_.synchronize();
      model_.ready(parameter, on_a_stream ? stream_.queue() : Queue::host());
    }
    // Sums would overtake checks here.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (std::chrono::steady_clock::now() < end) model_.progress();
    return model_.finish(1);
  }

 private:
  DataParallel model_;
  Stream stream_;
};

TEST_F(Groups, FindGradientsThatAreNotFinite) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float largest = std::numeric_limits<float>::max();
  for (const bool sharded : {false, true}) {
    ProcessGroup group(world(), on_gpus());
    CheckedSteps steps(group, {.bucket = {4096}, .check_finite = true, .shard_optimizer = sharded});
    const int last = group.size() - 1;
    const bool is_last = group.rank().value == last;
    for (const bool on_a_stream : {true, false}) {
      EXPECT_TRUE(steps.step({0, 1, largest / 1e6F, -1, 0}, on_a_stream).not_finite.empty());
      const DataParallel::Step own =
          steps.step({is_last ? nan : 0, 0, largest, is_last ? -infinite : 0, 0}, on_a_stream);
      ASSERT_EQ(own.not_finite.size(), 1U);
      EXPECT_EQ(own.not_finite[0].rank, last);
      EXPECT_EQ(own.not_finite[0].host, group.host());
      EXPECT_EQ(own.not_finite[0].parameters, (std::vector<int>{0, 3}));
      const DataParallel::Step sum = steps.step({0, 0, 0, 0, largest}, on_a_stream);
      ASSERT_EQ(sum.not_finite.size(), group.size() == 1 ? 0U : 1U);
      if (group.size() == 1) continue;
      EXPECT_FALSE(sum.not_finite[0].rank);
      EXPECT_EQ(sum.not_finite[0].parameters, std::vector<int>{4});
    }
    group.close();
  }
}

/// The largest finite numbers, infinities and NaN of each type; integers are always finite.
TEST_F(Groups, TellWhatIsFiniteInEveryType) {
  struct Case {
    DType dtype;
    std::uint64_t bits;
    bool is_finite;
  };
  const Case cases[] = {{DType::float16, 0x7bff, true},
                        {DType::float16, 0xfc00, false},
                        {DType::float16, 0x7c01, false},
                        {DType::bfloat16, 0xff7f, true},
                        {DType::bfloat16, 0x7f80, false},
                        {DType::bfloat16, 0x7fff, false},
                        {DType::float32, 0xff7fffff, true},
                        {DType::float32, 0xff800000, false},
                        {DType::float64, 0x7fefffffffffffff, true},
                        {DType::float64, 0xfff0000000000001, false},
                        {DType::int32, 0x7f800000, true}};
  const contract::DeviceMemory memory;
  const Allocation mark = allocate_device({4});
  constexpr std::int64_t count = 600'000;  // some threads take two elements
  for (const Case& one : cases) {
    const Allocation values = allocate_device(bytes_of({count}, one.dtype));
    const Buffer buffer = values.as(one.dtype);
    const Buffer last = slice(buffer, {count - 1}, {1});
    memory.copy(last.data, &one.bits, last.bytes());
    Stream stream;
    clear_bytes(mark.data(), mark.bytes(), stream.queue());
    mark_not_finite(buffer, static_cast<std::uint32_t*>(mark.data()), stream.queue());
    stream.synchronize();
    std::uint32_t marked = 2;
    memory.copy(&marked, mark.data(), {4});
    EXPECT_EQ(marked, one.is_finite ? 0U : 1U) << name(one.dtype) << ' ' << one.bits;
  }
}

/// The program's own tensors are in device memory. They pass through DataParallel's memory and back.
TEST_F(Groups, TrainTheProgramsOwnTensors) {
  ProcessGroup group(world(), on_gpus("tree-order"));
  const contract::DeviceMemory memory;
  std::vector<Allocation> allocations;
  std::vector<Parameter> tensors;
  for (const std::int64_t count : {300, 7}) {
    for (int k = 0; k < 2; ++k) allocations.push_back(allocate_device({count * 4}));
    tensors.push_back(
        {"tensor", allocations[allocations.size() - 2].as(DType::float32), allocations.back().as(DType::float32)});
    tensors.back().name += std::to_string(count);
  }
  DataParallel model(group, tensors, small_buckets);
  Stream stream;
  for (int step = 0; step < 3; ++step) {
    for (const int parameter : {1, 0}) {
      const Buffer& gradient = tensors[static_cast<std::size_t>(parameter)].gradient;
      const std::vector<float> mine = gradients_of(group.rank().value, step, gradient.count.value);
      const Allocation pinned = allocate_pinned(gradient.bytes());
      std::memcpy(pinned.data(), mine.data(), mine.size() * sizeof(float));
      copy_bytes(gradient.data, pinned.data(), gradient.bytes(), stream.queue());
      model.ready(parameter, stream.queue());
      stream.synchronize();  // the pinned memory is freed
    }
    model.finish(1);
    for (const Parameter& tensor : tensors) {
      const std::int64_t count = tensor.gradient.count.value;
      std::vector<std::vector<float>> inputs;
      for (int rank = 0; rank < group.size(); ++rank) inputs.push_back(gradients_of(rank, step, count));
      std::vector<float> sums(static_cast<std::size_t>(count));
      memory.copy(sums.data(), tensor.gradient.data, tensor.gradient.bytes());
      EXPECT_EQ(stated_order::bits(sums), stated_order::bits(stated_order::canonical_sums(inputs))) << tensor.name;
    }
  }
  group.close();
}

}  // namespace
}  // namespace lockstep::on_emulated_gpus
