// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ddp/process_group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ddp/ranks.hpp"
#include "lockstep/ddp/data_parallel.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::ddp {
namespace {

double sum_of(Communicator& communicator, double mine) {
  const Buffer buffer{&mine, {1}, DType::float64};
  communicator.all_reduce(buffer, buffer, ReduceOp::sum).wait();
  return mine;
}

double triangle(int ranks) { return ranks * (ranks + 1) / 2.0; }

TEST(ProcessGroup, HasCommunicatorsWithOrdersOfTheirOwn) {
  on_every_rank([](ProcessGroup& group) {
    EXPECT_FALSE(group.host().empty());
    const auto another = group.new_communicator();
    std::vector<double> values(4, 1.0);
    std::vector<Communicator*> communicators = {&group.communicator(), &group.control(), another.get()};
    // If they used one communicator, ranks that submit in different orders would be refused.
    std::vector<Work> under_way;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(group.rank().value)) % 3;
      const Buffer buffer{&values[which], {static_cast<std::int64_t>(which == 2 ? 2 : 1)}, DType::float64};
      under_way.push_back(communicators[which]->all_reduce(buffer, buffer, ReduceOp::sum));
    }
    for (Work& work : under_way) work.wait();
    EXPECT_EQ(values, std::vector<double>(4, group.size()));
    another->close();
  });
}

TEST(ProcessGroup, ShiftsValuesAlongALineAndARing) {
  on_every_rank([](ProcessGroup& group) {
    const int rank = group.rank();
    const int ranks = group.size();
    std::vector<int> seen(static_cast<std::size_t>(ranks));
    seen[group.rank()] = rank;  // a rank is an index, and counts on from here as a number
    const int next = (group.rank() + 1) % ranks;
    const int previous = (group.rank() + ranks - 1) % ranks;
    int got = -1;
    group.communicator().send_recv(seen[group.rank()], next, got, previous);
    EXPECT_EQ(got, previous);
    // At the ends of a line there is nobody.
    got = -1;
    group.communicator().send_recv(rank, rank + 1 < ranks ? std::optional<Rank>(rank + 1) : std::nullopt, got,
                                   rank > 0 ? std::optional<Rank>(rank - 1) : std::nullopt);
    EXPECT_EQ(got, rank - 1);
    int all = rank;
    group.communicator().broadcast(all, ranks - 1).wait();
    EXPECT_EQ(all, ranks - 1);
  });
}

TEST(ProcessGroup, SplitsByColorInTheOrderOfKeys) {
  on_every_rank([](ProcessGroup& group) {
    const int rank = group.rank().value;
    // Ranks 0, 2, 4 … are in reverse order; the others only take part in the split.
    auto even = group.split(rank % 2 == 0 ? std::optional(7) : std::nullopt, -rank);
    ASSERT_EQ(even.has_value(), rank % 2 == 0);
    if (even) {
      EXPECT_EQ(even->size(), (group.size() + 1) / 2);
      EXPECT_EQ(even->rank().value, even->size() - 1 - rank / 2);
      EXPECT_EQ(sum_of(even->communicator(), 1), even->size());
      even->close();
    }
    auto all = group.split(0, rank);
    EXPECT_EQ(sum_of(all->communicator(), rank + 1), triangle(group.size()));
    all->close();
    EXPECT_NE(message_of([&] { (void)group.split(-3, 0); }).find("the color -3"), std::string::npos);
  });
}

TEST(ProcessGroup, SplitsWithOtherOptionsAndMovesThePartsOperationsWithItsOwn) {
  on_every_rank([](ProcessGroup& group) {
    auto part = group.split(0, group.rank().value, {.compress = backends::WireFormat::bfloat16});
    float fine = 1.0F + 1.0F / 1024;  // bfloat16 does not represent this number
    float rounded = fine;
    const Buffer whole{&fine, {1}, DType::float32};
    const Buffer narrow{&rounded, {1}, DType::float32};
    Work a = group.communicator().all_reduce(whole, whole, ReduceOp::sum);
    Work b = part->communicator().all_reduce(narrow, narrow, ReduceOp::sum);
    // Neighbors wait for each other's other operation, which needs progress.
    const bool is_even = group.rank().value % 2 == 0;
    (is_even ? a : b).wait();
    (is_even ? b : a).wait();
    EXPECT_EQ(fine, static_cast<float>(group.size()) * (1.0F + 1.0F / 1024));
    EXPECT_EQ(rounded, static_cast<float>(group.size()));
    part->close();
  });
}

enum class Verdict : std::uint8_t { go_on, stop };

TEST(ProcessGroup, SumsAndComparesNumbersOfAnyType) {
  on_every_rank([](ProcessGroup& group) {
    const int rank = group.rank().value;
    const int ranks = group.size();
    EXPECT_EQ(group.is_root(), rank == 0);
    EXPECT_EQ(group.sum(rank + 1), triangle(ranks));
    EXPECT_EQ(group.sum(0.5 * (rank + 1)), triangle(ranks) / 2);
    EXPECT_EQ(group.sum(float(rank + 1)), static_cast<float>(triangle(ranks)));
    EXPECT_EQ(group.sum(bfloat16(1.0F)), static_cast<float>(ranks));
    EXPECT_EQ(group.sum(std::int8_t{100}), static_cast<std::int8_t>(100 * ranks)) << "wraps";
    EXPECT_EQ(group.sum(std::uint64_t{1} << 63), ranks % 2 == 0 ? 0 : std::uint64_t{1} << 63) << "wraps";
    EXPECT_EQ(group.max(rank - 7), ranks - 8);
    EXPECT_EQ(group.max(-1.0 - rank), -1);
    EXPECT_EQ(group.max(rank == 0 ? ~std::uint64_t{0} : std::uint64_t{5}), ~std::uint64_t{0});
    EXPECT_EQ(group.max(std::uint64_t{7} + static_cast<std::uint64_t>(rank)), 6U + static_cast<unsigned>(ranks));
    EXPECT_EQ(group.min(rank - 7), -7);
    EXPECT_EQ(group.min(-1.0 - rank), -ranks);
    EXPECT_EQ(group.min(rank == 0 ? ~std::uint64_t{0} : std::uint64_t{5}), ranks == 1 ? ~std::uint64_t{0} : 5U);
    std::vector<float> list = {1, static_cast<float>(rank)};
    group.sum(list);
    EXPECT_EQ(list, (std::vector<float>{static_cast<float>(ranks), static_cast<float>(triangle(ranks - 1))}));
    std::int32_t counts[] = {rank, -rank};
    group.max(counts);
    EXPECT_EQ(counts[0], ranks - 1);
    EXPECT_EQ(counts[1], 0);
  });
}

TEST(ProcessGroup, BroadcastsValuesOfTheRoot) {
  on_every_rank([](ProcessGroup& group) {
    const int rank = group.rank().value;
    const Rank last{group.size() - 1};
    EXPECT_EQ(group.broadcast(rank + 3), 3);
    EXPECT_EQ(group.broadcast(rank + 0.25, last), last.value + 0.25);
    EXPECT_TRUE(group.broadcast(rank == 0));
    EXPECT_EQ(group.broadcast(rank == last ? Verdict::stop : Verdict::go_on, last), Verdict::stop);
    std::vector<std::int64_t> list(3, rank);
    group.broadcast(list, last);
    EXPECT_EQ(list, std::vector<std::int64_t>(3, last.value));
  });
}

TEST(ProcessGroup, AgreesWhereAllRanksDo) {
  on_every_rank([](ProcessGroup& group) {
    EXPECT_TRUE(agree(group, true));
    EXPECT_FALSE(agree(group, false));
    EXPECT_EQ(agree(group, group.rank() != group.size() - 1), false);
  });
}

/// Gradients become ready in a different order on each rank, and all-reduces are submitted between them, so the two
/// must not share one order.
TEST(ProcessGroup, SumsBesideStepsOfDataParallel) {
  on_every_rank([](ProcessGroup& group) {
    constexpr int tensors = 6;
    std::vector<std::vector<float>> values(tensors, std::vector<float>(1000, 1.0F));
    std::vector<std::vector<float>> gradients = values;
    std::vector<Parameter> parameters;
    for (std::size_t i = 0; i < tensors; ++i) parameters.push_back({std::to_string(i), values[i], gradients[i]});
    DataParallel parallel(group, parameters, {.bucket = Bytes{4000}});
    for (int step = 1; step <= 3; ++step) {
      for (auto& gradient : gradients) gradient.assign(1000, static_cast<float>(step));
      for (int k = 0; k < tensors; ++k) {
        parallel.ready((k + group.rank().value * step) % tensors);
        EXPECT_EQ(group.sum(k), k * group.size());
        EXPECT_EQ(group.broadcast(group.rank().value + k), k);
      }
      EXPECT_EQ(parallel.finish(1).weight, group.size());
      for (const auto& gradient : gradients)
        EXPECT_EQ(gradient, std::vector<float>(1000, static_cast<float>(step * group.size())));
      EXPECT_TRUE(agree(group, true));
    }
  });
}

TEST(ProcessGroup, MovesOperationsOnAThreadWhileNobodyWaits) {
  on_every_rank(
      [](ProcessGroup& group) {
        std::vector<float> values(100'000, 1.0F);
        const Buffer buffer{values.data(), {100'000}, DType::float32};
        Work work = group.communicator().all_reduce(buffer, buffer, ReduceOp::sum);
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!work.test() && std::chrono::steady_clock::now() < until)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_TRUE(work.test());
        work.wait();
        EXPECT_EQ(values[99'999], static_cast<float>(group.size()));
      },
      {.progress_thread = true});
}

TEST(ProcessGroup, CompressesSumsOfItsFirstCommunicatorOnly) {
  on_every_rank(
      [](ProcessGroup& group) {
        float fine = 1.0F + 1.0F / 1024;  // bfloat16 does not represent this number
        const Buffer buffer{&fine, {1}, DType::float32};
        group.communicator().all_reduce(buffer, buffer, ReduceOp::sum).wait();
        EXPECT_EQ(fine, static_cast<float>(group.size()));
        fine = 1.0F + 1.0F / 1024;
        group.control().all_reduce(buffer, buffer, ReduceOp::sum).wait();
        EXPECT_EQ(fine, static_cast<float>(group.size()) * (1.0F + 1.0F / 1024));
      },
      {.compress = backends::WireFormat::bfloat16});
}

TEST(ProcessGroup, RefusesWhatCannotBe) {
  const auto refusal = [](const GroupOptions& options) {
    return message_of([&] { on_every_rank([](ProcessGroup&) { ADD_FAILURE() << "there is a group"; }, options); });
  };
  const std::string unknown = refusal({.algorithm = "rign"});
  for (const std::string_view name : algorithm_names()) EXPECT_NE(unknown.find(name), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("did you mean 'ring'"), std::string::npos) << unknown;
  EXPECT_NE(refusal({.algorithm = "tree-order", .compress = backends::WireFormat::float16}).find("leave one of them"),
            std::string::npos);
  for (const double seconds : {0.0, -1.0, std::nan(""), 1e10}) {
    const std::string message = refusal({.deadline = std::chrono::duration<double>(seconds)});
    EXPECT_NE(message.find("a deadline of "), std::string::npos) << message;
    EXPECT_NE(message.find("set GroupOptions::deadline"), std::string::npos) << message;
  }
  if (gpu_count() > 0) return;  // a group on GPUs would be possible
  const std::string message = refusal({.device = Device::cuda});
  EXPECT_TRUE(message.find("cpu only") != std::string::npos || message.find(why_no_gpu()) != std::string::npos)
      << message;
}

TEST(ProcessGroup, ExplainsWhichAlgorithmRunsAtEachSize) {
  const std::vector<Bytes> sizes = {{64}, {1 << 20}};
  const auto explained = [&](const ProcessGroup& group) { return group.explain(CollectiveKind::all_reduce, sizes); };
  on_every_rank(
      [&](ProcessGroup& group) {
        const std::string text = explained(group);
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
        EXPECT_NE(text.find("1048576  recursive-doubling"), std::string::npos) << text;
        EXPECT_NE(text.find("forced"), std::string::npos) << text;
      },
      {.algorithm = "recursive-doubling"});
  on_every_rank([&](ProcessGroup& group) {
    const std::string text = explained(group);
    EXPECT_NE(text.find("cost model"), std::string::npos) << text;
    if (ranks_are_threads()) return;  // the MPI library's collectives are between processes
    auto part = group.split(0, group.rank().value, {.algorithm = "mpi"});
    EXPECT_NE(explained(*part).find("the MPI library chooses"), std::string::npos);
  });
}

TEST(ProcessGroup, RefusesNumbersThatAreNoEnumeratorsAndSizesThatCannotBe) {
  on_every_rank([](ProcessGroup& group) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const Bytes sizes[] = {{most}};
    const Bytes negative[] = {{-1}};
    EXPECT_FALSE(group.explain(CollectiveKind::all_reduce, sizes).empty());
    EXPECT_THROW((void)group.explain(CollectiveKind::all_reduce, negative), Error);
    EXPECT_THROW((void)group.explain(CollectiveKind::send, sizes), Error);
    EXPECT_THROW((void)group.explain(static_cast<CollectiveKind>(42), sizes), Error);
    EXPECT_THROW((void)group.split(0, group.rank().value, {.device = static_cast<Device>(42)}), Error);
    EXPECT_ANY_THROW((void)group.allocate({most}));
    Layout layout;
    layout.add("weight", {4});
    EXPECT_THROW(DataParallel(group, layout, static_cast<DType>(42)), Error);
    EXPECT_EQ(DataParallel(group, layout, DType::float32, {.bucket = {most}}).bucket_sizes().size(), 1U);
    EXPECT_EQ(group.sum(1), group.size());
  });
}

TEST(ProcessGroup, NamesWhoAsksForAnotherDevice) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    const bool is_last = group.rank().value == group.size() - 1;
    const std::string message =
        message_of([&] { (void)group.split(0, group.rank().value, {.device = is_last ? Device::cuda : Device::cpu}); });
    EXPECT_NE(message.find("device cuda"), std::string::npos) << message;
    EXPECT_NE(message.find("cpu"), std::string::npos) << message;
  });
}

TEST(ProcessGroup, OfThreadsIsOfTheCpu) {
  EXPECT_NE(message_of([] { ProcessGroup::of_threads(2, {.device = Device::cuda}); }).find("cpu only"),
            std::string::npos);
  EXPECT_NE(message_of([] { ProcessGroup::of_threads(2, {.algorithm = "mpi"}); }).find("another algorithm than mpi"),
            std::string::npos);
  EXPECT_NE(message_of([] { ProcessGroup::of_threads(0); }).find("at least 1 rank"), std::string::npos);
}

TEST(ProcessGroup, AbortsAllItsCommunicatorsAndTheGroupsSplitFromIt) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    auto doomed = group.split(0, group.rank().value);
    auto part = doomed->split(0, group.rank().value);
    doomed->new_communicator()->close();  // it is gone when the group is aborted
    const auto another = doomed->new_communicator();
    const bool is_last = group.rank().value == group.size() - 1;
    group.communicator().barrier().wait();
    if (is_last) std::thread([&] { doomed->abort("the disk is full"); }).join();
    for (Communicator* const communicator : {&doomed->communicator(), another.get(), &part->communicator()}) {
      const std::string message = message_of([&] { sum_of(*communicator, 1); });
      EXPECT_NE(message.find("the disk is full"), std::string::npos) << message;
    }
    group.communicator().barrier().wait();
  });
}

TEST(ProcessGroup, IsOfTheThreadThatUsesItFirst) {
  on_every_rank([](ProcessGroup& group) {
    group.communicator().barrier().wait();
    std::thread([&] {
      EXPECT_NE(message_of([&] { sum_of(group.communicator(), 1); }).find("on another thread"), std::string::npos);
    }).join();
    EXPECT_EQ(sum_of(group.communicator(), group.rank().value + 1), triangle(group.size()));
  });
}

TEST(ProcessGroup, GivesNoticeOfWhatIsDestroyedTooEarly) {
  std::vector<std::string> notices;
  double mine = 1;
  {
    const auto notice = [&notices](std::string_view text) { notices.emplace_back(text); };
    const auto groups = ProcessGroup::of_threads(2, {.notice = notice});
    (void)groups[0].communicator().all_reduce(mine, mine, ReduceOp::sum);  // rank 1 does not submit it
  }
  // Rank 1 is notified when it closes, and adds no notice to rank 0's.
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_NE(notices[0].find("the Work of all_reduce on rank 0 was destroyed"), std::string::npos) << notices[0];
  EXPECT_TRUE(notices[1].starts_with("rank 0: a communicator")) << notices[1];
  EXPECT_NE(notices[1].find("destroyed without close()"), std::string::npos) << notices[1];
}

TEST(ProcessGroup, ClosesAtTheNormalEndOfItsScope) {
  std::mutex mutex;
  std::vector<std::string> notices;
  const auto notice = [&](std::string_view text) {
    const std::scoped_lock lock(mutex);
    notices.emplace_back(text);
  };
  on_every_rank(
      [](ProcessGroup& group) {
        for (int again = 0; again < 3; ++again) {
          auto part = group.split(0, group.rank().value);
          const auto extra = part->new_communicator();
          EXPECT_EQ(sum_of(part->communicator(), 1), group.size());
          EXPECT_EQ(sum_of(part->control(), 2), 2 * group.size());
          EXPECT_EQ(sum_of(*extra, 3), 3 * group.size());
        }
      },
      {.notice = notice});
  EXPECT_EQ(notices, std::vector<std::string>());
}

TEST(ProcessGroup, LetsTheOthersFailWhereAnExceptionDestroysIt) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    const std::string message = message_of([&] {
      auto doomed = group.split(0, group.rank().value);
      if (group.rank() == group.size() - 1) throw Error(ErrorCode::io, "the disk is full");
      sum_of(doomed->communicator(), 1);
    });
    const std::string expected = group.rank() == group.size() - 1 ? "the disk is full" : "an exception went through";
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    group.communicator().barrier().wait();
  });
}

TEST(ProcessGroup, AbortsFromAnyThread) {
  on_every_rank([](ProcessGroup& group) {
    if (group.size() == 1) return;
    auto doomed = group.split(0, group.rank().value);
    const bool is_last = group.rank().value == group.size() - 1;
    if (is_last) std::thread([&] { doomed->abort("the disk is full"); }).join();
    const std::string message = message_of([&] { sum_of(doomed->communicator(), 1); });
    EXPECT_NE(message.find("the disk is full"), std::string::npos) << message;
    group.communicator().barrier().wait();
    try {
      doomed->close();
    } catch (const Error&) {  // an aborted group is not closed in order
    }
  });
}

}  // namespace
}  // namespace lockstep::ddp
