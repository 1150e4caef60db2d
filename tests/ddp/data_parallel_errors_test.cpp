// SPDX-License-Identifier: Apache-2.0
// Every error that lockstep/ddp/data_parallel.hpp promises where gradients are in host memory.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <new>
#include <string>
#include <vector>

#include "ddp/model.hpp"
#include "ddp/ranks.hpp"
#include "support/errors.hpp"

namespace lockstep::ddp {
namespace {

using namespace testing_support;
constexpr auto invalid = ErrorCode::invalid_argument;

/// Expects an error of this code on every rank that names the last one.
template <typename Call>
void expect_last_rank_named(const ProcessGroup& group, ErrorCode code, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown on rank " << group.rank().value;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_TRUE(error.is_on_every_rank()) << error.what();
    EXPECT_EQ(error.context().peers, std::vector<int>{group.size() - 1}) << error.what();
  }
}

TEST(DataParallelErrors, OfRanksThatDiffer) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    const bool is_odd = group.rank().value == group.size() - 1;
    Layout other = layout();
    if (is_odd) other.add("one more", {1});
    expect_last_rank_named(group, ErrorCode::mismatch, [&] { DataParallel(group, other, DType::float32); });
    expect_last_rank_named(group, ErrorCode::mismatch,
                           [&] { DataParallel(group, layout(), is_odd ? DType::float64 : DType::float32); });
    expect_last_rank_named(group, ErrorCode::mismatch,
                           [&] { DataParallel(group, layout(), DType::float32, {.bucket = {is_odd ? 128 : 256}}); });
    DataParallel model(group, layout(), DType::float32, {.initial = InitialValues::compare});
    floats(model.values())[17] = is_odd ? 1 : 0;
    expect_last_rank_named(group, ErrorCode::mismatch, [&] { model.synchronize(); });
    model.rebind(group);
    expect_last_rank_named(group, ErrorCode::mismatch, [&] { model.synchronize(); });
  });
}

TEST(DataParallelErrors, OfOptionsThatCannotBe) {
  on_every_rank([](ProcessGroup& group) {
    const auto make = [&](const DataParallelOptions& options) {
      DataParallel(group, layout(), DType::float32, options);
    };
    for (const std::int64_t bytes : {0, -1}) expect_error([&] { make({.bucket = {bytes}}); }, invalid);
    if (group.size() > 1) expect_error([&] { make({.shards = group.size() - 1}); }, invalid, {"shards"});
    if (group.size() == 2)
      expect_error([&] { make({.shards = 6, .places = 1}); }, invalid, {"needs 2, and places is 1"});
    OwnTensors tensors;
    const auto make_own = [&](const DataParallelOptions& options) {
      DataParallel(group, tensors.parameters(), options);
    };
    expect_error([&] { make_own({.shard_optimizer = true}); }, ErrorCode::unsupported);
    expect_error([&] { make_own({.shards = 2 * group.size(), .places = 2}); }, ErrorCode::unsupported);
    auto rounded = group.split(0, group.rank().value, {.compress = backends::WireFormat::bfloat16});
    expect_error([&] { DataParallel(*rounded, layout(), DType::float32, {.shards = 2 * group.size(), .places = 2}); },
                 ErrorCode::unsupported, {"shards"});
    rounded->close();
  });
}

TEST(DataParallelErrors, OfMemoryThatIsNotThere) {
  on_every_rank([](ProcessGroup& group) {
    Layout huge;
    huge.add("weight", {std::int64_t{1} << 55});
    const auto make = [&] { DataParallel(group, huge, DType::float32); };
    if (ranks_are_threads() || group.size() == 1) {
      EXPECT_THROW(make(), std::bad_alloc);
    } else {
      expect_error(make, ErrorCode::unsupported);
    }
  });
}

TEST(DataParallelErrors, OfAnotherGroup) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    const int rank = group.rank().value;
    auto rounded = group.split(0, rank, {.compress = backends::WireFormat::bfloat16});
    auto in_tree_order = group.split(0, rank, {.algorithm = "tree-order"});
    DataParallel of_shards(*in_tree_order, layout(), DType::float32, {.shards = group.size(), .allow_unused = true});
    expect_error([&] { of_shards.rebind(*rounded); }, ErrorCode::unsupported, {"shards"});
    DataParallel model(*in_tree_order, layout(), DType::float32, {.bucket = {1}});
    DataParallel other(group, layout(), DType::float32, {.bucket = {4096}});
    const bool is_odd = rank == group.size() - 1;
    expect_last_rank_named(group, ErrorCode::mismatch, [&] { (is_odd ? other : model).rebind(group); });
    in_tree_order->close();
    rounded->close();
  });
}

TEST(DataParallelErrors, OfTheProgramsTensors) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    auto parameters = tensors.parameters();
    parameters[1].gradient.count = {2};
    expect_error([&] { DataParallel(group, parameters); }, invalid, {"'tensor 1'"});
    parameters[1] = tensors.parameters()[1];
    parameters[2].value.dtype = DType::int32;
    expect_error([&] { DataParallel(group, parameters); }, invalid, {"'tensor 2'"});
    DataParallel model(group, tensors.parameters(), small_buckets);
    expect_error([&] { (void)model.values(); }, invalid);
    expect_error([&] { (void)model.gradients(); }, invalid);
  });
}

TEST(DataParallelErrors, OfCallsOutOfOrder) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    for (const char* synchronize : {"synchronize()"}) {
      expect_error([&] { model.ready(0); }, invalid, {synchronize});
      expect_error([&] { (void)model.finish(1); }, invalid, {synchronize});
      expect_error([&] { model.finish_on(Queue::host()); }, invalid, {synchronize});
    }
    model.synchronize();
    model.ready(1);
    expect_error([&] { model.ready(1); }, invalid, {"'conv.bias'"});
    expect_error([&] { model.gather(model.values()); }, invalid, {"finish()"});
    expect_error([&] { model.move_shards(2, 1); }, invalid, {"finish()"});
    expect_error([&] { model.rebind(group); }, invalid, {"finish()"});
    expect_error([&] { model.finish_on(Queue::host()); }, invalid, {"'conv.weight'"});
    for (const double weight : {-1.0, std::nan("")})
      expect_error([&] { (void)model.finish(weight); }, invalid, {"not negative"});
    EXPECT_EQ(model.finish(1).unused, (std::vector<int>{0, 2})) << "what was refused has changed nothing";
    expect_error([&] { model.gather(model.value(0)); }, invalid, {"40 elements"});
    expect_error([&] { model.move_shards(2, 1); }, invalid, {"2 shards"});
    const auto guard = model.no_sync();
    for (int parameter = 0; parameter < parameters; ++parameter) model.ready(parameter);
    expect_error([&] { model.finish_on(Queue::host()); }, invalid, {"no_sync()"});
  });
}

TEST(DataParallelErrors, OfGradientsThatAreGiven) {
  on_every_rank([](ProcessGroup& group) {
    std::vector<float> right(40), shorter(39);
    std::vector<double> wide(40);
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    const void* before = model.gradient(0).data;
    expect_error([&] { model.ready(0, shorter); }, invalid, {"'conv.weight'"});
    expect_error([&] { model.ready(0, wide); }, invalid, {"'conv.weight'"});
    expect_error([&] { model.ready(0, Buffer{nullptr, {40}}); }, invalid, {"'conv.weight'"});
    EXPECT_EQ(model.gradient(0).data, before) << "nothing has changed";
    DataParallelOptions options = small_buckets;
    options.shard_optimizer = true;
    DataParallel sharded(group, layout(), DType::float32, options);
    sharded.synchronize();
    expect_error([&] { sharded.ready(0, right); }, invalid, {"'conv.weight'"});
    auto in_tree_order = group.split(0, group.rank().value, {.algorithm = "tree-order"});
    DataParallel of_shards(*in_tree_order, layout(), DType::float32, {.shards = group.size(), .allow_unused = true});
    of_shards.synchronize();
    expect_error([&] { of_shards.ready(0, right); }, invalid, {"'conv.weight'"});
    expect_error([&] { of_shards.move_shards(2 * group.size(), 2); }, invalid, {"shards"});
    in_tree_order->close();
  });
}

TEST(DataParallelErrors, OfACheckOfGradients) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, {.check_finite = true, .allow_unused = true});
    model.synchronize();
    int stream = 0;
    expect_error([&] { model.ready(0, Queue::stream(&stream)); }, invalid, {"check_finite"});
  });
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, {.check_finite = true});
    model.synchronize();
    for (int parameter = 0; parameter < parameters; ++parameter) model.ready(parameter);
    expect_error([&] { model.finish_on(Queue::host()); }, invalid, {"check_finite"});
    (void)model.finish(1);
  });
}

TEST(DataParallelErrors, OfGradientsThatRanksLeftOut) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, {.bucket = {256}});
    model.synchronize();
    for (const int parameter : {0, 2}) model.ready(parameter);
    expect_error_on_every_rank([&] { (void)model.finish(1); }, invalid, {"'conv.bias'"});
    EXPECT_EQ(model.finish(0).unused, (std::vector<int>{0, 1, 2})) << "no rank has a weight";
    if (group.size() == 1) return;
    const bool is_odd = group.rank().value == group.size() - 1;
    for (int parameter = 0; parameter < parameters; ++parameter)
      if (!is_odd || parameter != 1) model.ready(parameter);
    expect_last_rank_named(group, invalid, [&] { (void)model.finish(1); });
  });
}

/// Lets the operations of all ranks fail with an error of this code. Rank 0 is late where others wait for it in vain.
void fail(ErrorCode code, const ProcessGroup& group, Communicator& of_group) {
  float one = 1;
  if (code == ErrorCode::timeout && group.is_root()) return;
  if (code == ErrorCode::transport && group.is_root()) of_group.abort("as if a rank had died");
  const bool differs = code == ErrorCode::mismatch && group.is_root();
  (differs ? of_group.all_reduce(one, one, ReduceOp::sum) : of_group.barrier()).wait();
}

/// Uses a group whose operations fail. The error of the last one leaves the scope of the group, as in a program.
void use_group_that_fails(ErrorCode code, ProcessGroup& whole) {
  ProcessGroup group = whole.split(0, whole.rank().value, {.deadline = std::chrono::milliseconds(500)}).value();
  DataParallel model(group, layout(), DType::float32, {.bucket = {1}, .shard_optimizer = true, .allow_unused = true});
  model.synchronize();
  DataParallel waiting(group, layout(), DType::float32, {.bucket = {1}, .allow_unused = true});
  waiting.synchronize();
  const auto expect_failure = [&](const auto& call) { EXPECT_EQ(code_of(call), code); };
  for (Communicator* of_group : {&group.communicator(), &group.control()})
    if (code == ErrorCode::timeout && group.is_root()) {
      EXPECT_NO_THROW(fail(code, group, *of_group));
    } else {
      expect_failure([&] { fail(code, group, *of_group); });
    }
  (void)whole.sum(0);  // until all have failed
  expect_failure([&] { model.synchronize(); });
  expect_failure([&] { model.gather(model.values()); });
  expect_failure([&] { (void)group.sum(1); });
  expect_failure([&] { group.sum(model.value(0)); });
  expect_failure([&] { (void)agree(group, true); });
  expect_failure([&] { model.ready(2); });
  expect_failure([&] { (void)model.finish(1); });
  for (int parameter = parameters - 1; parameter >= 0; --parameter) expect_failure([&] { waiting.ready(parameter); });
  expect_failure([&] { waiting.finish_on(Queue::host()); });
  group.communicator().barrier().wait();
}

/// A failed operation fails the later ones with the same error, and each call passes it on.
TEST(DataParallelErrors, OfAGroupThatFails) {
  on_every_rank([](ProcessGroup& whole) {
    if (whole.size() != 2) return;
    for (const ErrorCode code : {ErrorCode::transport, ErrorCode::timeout, ErrorCode::mismatch})
      expect_error([&] { use_group_that_fails(code, whole); }, code);
  });
}

}  // namespace
}  // namespace lockstep::ddp
