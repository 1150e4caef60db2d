// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ddp/model.hpp"
#include "ddp/ranks.hpp"
#include "lockstep/base/error.hpp"
#include "lockstep/ddp/data_parallel.hpp"

namespace lockstep::ddp {
namespace {

using namespace testing_support;

constexpr DataParallelOptions scattered{
    .bucket = {256}, .check_finite = true, .shard_optimizer = true, .allow_unused = true};

void scattered_backward(DataParallel& model, int rank) {
  for (int parameter = parameters - 1; parameter >= 0; --parameter) {
    write(model.gradient(parameter), rank, parameter);
    model.ready(parameter);
  }
}

/// Returns 1 for each element of the layout that this rank owns, otherwise 0.
std::vector<int> marks(const DataParallel& model) {
  std::vector<int> owned(static_cast<std::size_t>(model.layout().count().value));
  for (const LayoutPart& part : model.owned())
    for (std::int64_t i = 0; i < part.count.value; ++i) ++owned[static_cast<std::size_t>(part.offset.value + i)];
  return owned;
}

/// Expects sums in the parameters' elements of a flat buffer: in all of them, or only in the marked ones.
void expect_sums(const DataParallel& model, const float* flat, int ranks, const std::vector<int>* marked = nullptr) {
  for (int parameter = 0; parameter < parameters; ++parameter) {
    const TensorSlot& slot = model.layout().at(parameter);
    for (std::int64_t i = 0; i < slot.count.value; ++i) {
      const std::int64_t at = slot.offset.value + i;
      if (marked != nullptr && (*marked)[static_cast<std::size_t>(at)] == 0) continue;
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += contribution(rank, parameter, i);
      ASSERT_EQ(flat[at], sum) << slot.name << '[' << i << ']';
    }
  }
}

/// If each tensor is a bucket, "conv.bias" is a bucket of one block, which rank 0 owns.
constexpr std::int64_t bucket_bytes[] = {1, 256, 1 << 20};

TEST(Scatter, EveryElementHasOneOwnerAndRankZeroHasMost) {
  on_every_rank([](ProcessGroup& group) {
    for (const std::int64_t bytes : bucket_bytes) {
      DataParallel model(group, layout(), DType::float32,
                         {.bucket = {bytes}, .shard_optimizer = true, .allow_unused = true});
      std::int64_t end = -1;
      for (const LayoutPart& part : model.owned()) {
        EXPECT_GT(part.offset.value, end) << "ascending, with something between";
        EXPECT_EQ(part.offset.value % Layout::alignment, 0);
        end = part.offset.value + part.count.value;
      }
      std::vector<int> owners = marks(model);
      Communicator& all = group.control();
      all.all_reduce(std::span(owners), std::span(owners), ReduceOp::sum).wait();
      EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
      std::int64_t most = total(model.owned()).value;
      const std::int64_t own = most;
      all.broadcast(std::span(&most, 1), {0}).wait();
      EXPECT_LE(own, most);
    }
  });
}

TEST(Scatter, SumsWhatARankOwnsAndGathersTheRestStepAfterStep) {
  on_every_rank([](ProcessGroup& group) {
    for (const std::int64_t bytes : bucket_bytes) {
      DataParallel model(group, layout(), DType::float32,
                         {.bucket = {bytes}, .check_finite = true, .shard_optimizer = true, .allow_unused = true});
      model.synchronize();
      for (int step = 0; step < 3; ++step) {
        scattered_backward(model, group.rank().value);
        EXPECT_TRUE(model.finish(1).not_finite.empty());
        const std::vector<int> owned = marks(model);
        expect_sums(model, floats(model.gradients()), group.size(), &owned);
        // In the update, each rank writes its own values, from its own gradients.
        poison(model.values());
        for (std::size_t i = 0; i < owned.size(); ++i)
          if (owned[i] != 0) floats(model.values())[i] = floats(model.gradients())[i];
        model.gather(model.values());
        expect_sums(model, floats(model.values()), group.size());
      }
    }
  });
}

/// With shards every rank gets all sums, but still updates only its own part.
TEST(Scatter, OfShardsLeavesAllSumsWithAll) {
  on_every_rank([](ProcessGroup& group) {
    DataParallelOptions options = scattered;
    options.shards = group.size();
    DataParallel model(group, layout(), DType::float32, options);
    model.synchronize();
    EXPECT_EQ(model.summed(), (std::vector<LayoutPart>{{{0}, model.layout().count()}}));
    const DataParallel other(group, layout(), DType::float32, scattered);
    EXPECT_EQ(model.owned(), other.owned());
    for (int step = 0; step < 2; ++step) {
      scattered_backward(model, group.rank().value);
      EXPECT_TRUE(model.finish(1).not_finite.empty());
      expect_sums(model, floats(model.gradients()), group.size());
    }
    const std::vector<int> owned = marks(model);
    poison(model.values());
    for (std::size_t i = 0; i < owned.size(); ++i)
      if (owned[i] != 0) floats(model.values())[i] = floats(model.gradients())[i];
    model.gather(model.values());
    expect_sums(model, floats(model.values()), group.size());
  });
}

/// A rank's sums are those of the shards that it has now. One rank after the other has the most.
TEST(Shards, MoveBetweenSteps) {
  on_every_rank([](ProcessGroup& group) {
    const int ranks = group.size();
    const int shards = 2 * ranks + 3;
    const auto sums_of = [&](const LeafShares& of) { return tree_nodes(shards, of.of(group.rank().value, ranks)); };
    DataParallelOptions options = scattered;
    options.shards = shards;
    options.places = static_cast<int>(sums_of(shards).size());
    DataParallel model(group, layout(), DType::float32, options);
    std::fill_n(floats(model.values()), model.layout().count().value, 3.0F);
    model.synchronize();
    EXPECT_THROW(model.move_shards(shards + 1, 8), Error) << "another number of shards";
    EXPECT_THROW(model.move_shards(LeafShares(std::vector<int>(static_cast<std::size_t>(ranks) + 1, 2)), 8), Error)
        << "of another number of ranks";
    for (int step = 0; step < 3; ++step) {
      std::vector<int> counts(static_cast<std::size_t>(ranks), 2);
      counts[static_cast<std::size_t>(step % ranks)] += 3;
      const std::vector<LeafNode> sums = sums_of(LeafShares(counts));
      model.move_shards(LeafShares(counts), static_cast<int>(sums.size()));
      for (int parameter = parameters - 1; parameter >= 0; --parameter) {
        const TensorSlot& slot = model.layout().at(parameter);
        for (std::size_t sum = 0; sum < sums.size(); ++sum) {
          float* gradient = floats(model.gradient_places()) +
                            static_cast<std::int64_t>(sum) * model.layout().count().value + slot.offset.value;
          std::fill_n(gradient, slot.count.value, 0.0F);
          for (int shard = sums[sum].first; shard < sums[sum].first + sums[sum].leaves; ++shard)
            for (std::int64_t i = 0; i < slot.count.value; ++i) gradient[i] += contribution(shard, parameter, i);
        }
        model.ready(parameter);
      }
      EXPECT_THROW(model.move_shards(shards, 8), Error) << "within a step";
      EXPECT_TRUE(model.finish(1).not_finite.empty());
      expect_sums(model, floats(model.gradients()), shards);
      EXPECT_EQ(floats(model.values())[0], 3) << "values stay";
    }
  });
}

TEST(Scatter, TheSummedPartsOfAllRanksAreAllGradients) {
  on_every_rank([](ProcessGroup& group) {
    for (const bool shared : {false, true}) {
      for (const int shards : {0, group.size()}) {
        DataParallelOptions options = scattered;
        options.shard_optimizer = shared;
        options.shards = shards;
        DataParallel model(group, layout(), DType::float32, options);
        model.synchronize();
        for (int step = 0; step < 2; ++step) {
          double found[2] = {0, 0};
          scattered_backward(model, group.rank().value);
          EXPECT_TRUE(model.finish(1).not_finite.empty());
          for (const LayoutPart& part : model.summed()) {
            found[0] += static_cast<double>(part.count.value);
            for (std::int64_t i = 0; i < part.count.value; ++i)
              found[1] += floats(model.gradients())[part.offset.value + i];
          }
          if (shared && shards == 0) group.sum(found);
          double all = 0;
          for (int rank = 0; rank < group.size(); ++rank)
            for (int parameter = 0; parameter < parameters; ++parameter)
              for (std::int64_t i = 0; i < model.layout().at(parameter).count.value; ++i)
                all += contribution(rank, parameter, i);
          EXPECT_EQ(found[0], static_cast<double>(model.layout().count().value));
          EXPECT_EQ(found[1], all) << "shared " << shared << ", " << shards << " shards";
        }
      }
    }
  });
}

TEST(Scatter, OwnsEverythingWhereGradientsAreNotScattered) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    const LayoutPart whole{{0}, model.layout().count()};
    EXPECT_EQ(model.owned(), std::vector<LayoutPart>{whole});
    floats(model.values())[5] = static_cast<float>(group.rank().value);
    model.gather(model.values());
    EXPECT_EQ(floats(model.values())[5], static_cast<float>(group.rank().value));
  });
}

TEST(Scatter, FindsASumThatIsNotFiniteWhoeverOwnsIt) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, scattered);
    model.synchronize();
    for (const std::int64_t at : {0, 50, 99}) {
      for (int parameter = parameters - 1; parameter >= 0; --parameter) {
        write(model.gradient(parameter), group.rank().value, parameter);
        if (parameter == 2) floats(model.gradient(parameter))[at] = std::numeric_limits<float>::max();
        model.ready(parameter);
      }
      const DataParallel::Step step = model.finish(1);
      ASSERT_EQ(step.not_finite.size(), group.size() == 1 ? 0U : 1U);
      if (group.size() == 1) continue;
      EXPECT_FALSE(step.not_finite[0].rank.has_value());
      EXPECT_EQ(step.not_finite[0].parameters, std::vector<int>{2});
    }
    scattered_backward(model, group.rank().value);
    EXPECT_TRUE(model.finish(1).not_finite.empty()) << "it is forgotten";
    // The gradient of a single rank is at fault.
    const bool at_fault = group.rank().value == group.size() - 1;
    write(model.gradient(1), group.rank().value, 1);
    if (at_fault) floats(model.gradient(1))[0] = std::numeric_limits<float>::infinity();
    model.ready(1);
    const DataParallel::Step step = model.finish(1);
    ASSERT_EQ(step.not_finite.size(), 1U);
    EXPECT_EQ(step.not_finite[0].rank, group.size() - 1);
  });
}

TEST(Scatter, GoesOnWithAnotherGroup) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, scattered);
    model.synchronize();
    auto part = group.split(group.rank().value % 2, group.rank().value);
    model.rebind(*part);
    scattered_backward(model, part->rank().value);
    (void)model.finish(1);
    model.gather(model.gradients());
    expect_sums(model, floats(model.gradients()), part->size());
    part->close();
  });
}

TEST(Scatter, IsTheSameOnAllRanks) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    DataParallelOptions options = small_buckets;
    options.shard_optimizer = group.rank().value == group.size() - 1;
    try {
      const DataParallel odd(group, layout(), DType::float32, options);
      ADD_FAILURE() << "rank " << group.rank().value << " saw no difference";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_EQ(error.context().peers, std::vector<int>{group.size() - 1});
    }
  });
}

TEST(Scatter, RefusesWhatItDoesNotDo) {
  on_every_rank([](ProcessGroup& group) {
    OwnTensors tensors;
    EXPECT_NE(message_of([&] { DataParallel(group, tensors.parameters(), scattered); }).find("let DataParallel allocate"),
              std::string::npos);
    DataParallel model(group, layout(), DType::float32, scattered);
    model.synchronize();
    EXPECT_NE(message_of([&] { model.gather(model.value(0)); }).find("a buffer of 40 elements"), std::string::npos);
    model.ready(0);
    EXPECT_NE(message_of([&] { model.gather(model.values()); }).find("call finish() first"), std::string::npos);
    (void)model.finish(1);
  });
}

}  // namespace
}  // namespace lockstep::ddp
