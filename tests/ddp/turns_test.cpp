// SPDX-License-Identifier: Apache-2.0
// Tests that several threads of a program call a DataParallel, as those of autograd do.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "ddp/model.hpp"
#include "ddp/ranks.hpp"

namespace lockstep::ddp {
namespace {

using namespace testing_support;

void run_steps(ProcessGroup& group, DataParallel& model, const std::function<void(const std::function<void()>&)>& on) {
  const int rank = group.rank().value;
  for (int step = 0; step < 3; ++step) {
    // Each parameter has a thread, and all run at once.
    std::vector<std::thread> threads;
    for (int parameter = 0; parameter < parameters; ++parameter) {
      threads.emplace_back([&, parameter] {
        write(model.gradient(parameter), rank, parameter, step);
        model.ready(parameter);
        model.progress();
      });
    }
    for (std::thread& thread : threads) thread.join();
    on([&] { EXPECT_EQ(model.finish(1).weight, group.size()); });
    for (int parameter = 0; parameter < parameters; ++parameter) {
      for (std::int64_t i = 0; i < model.gradient(parameter).count.value; ++i) {
        float sum = 0;
        for (int of = 0; of < group.size(); ++of) sum += contribution(of, parameter, i, step);
        ASSERT_EQ(floats(model.gradient(parameter))[i], sum);
      }
    }
    group.communicator().barrier().wait();  // the group belongs to its own thread again
  }
}

void on_another(const std::function<void()>& call) { std::thread(call).join(); }
void on_this(const std::function<void()>& call) { call(); }

TEST(Turns, AreTakenByThreadsThatCallAtOnce) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    run_steps(group, model, on_this);
  });
}

TEST(Turns, IncludeTheEndOfTheStep) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    on_another([&] { model.synchronize(); });
    run_steps(group, model, on_another);
  });
}

TEST(Turns, AreTakenBesideAProgressThread) {
  on_every_rank(
      [](ProcessGroup& group) {
        DataParallel model(group, layout(), DType::float32, small_buckets);
        model.synchronize();
        run_steps(group, model, on_another);
      },
      {.progress_thread = true});
}

TEST(Turns, LeaveTheGroupToItsThreadAlone) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    on_another([&] {
      (void)model.finish(1);
      EXPECT_NE(message_of([&] { (void)group.communicator().barrier(); }).find("another thread"), std::string::npos);
      EXPECT_NE(message_of([&] { (void)group.sum(1); }).find("group.take_turn()"), std::string::npos);
      const auto turn = group.take_turn();
      EXPECT_EQ(group.sum(1), group.size());
    });
    auto fresh = group.split(0, 0);  // its second communicator, which sum() uses, is made on its thread only
    on_another([&] { EXPECT_NE(message_of([&] { (void)fresh->sum(1); }).find("take_turn"), std::string::npos); });
  });
}

/// Threads of a rank hand the group to each other, in an order that is the same on all ranks.
TEST(Turns, AreTakenForTheProgramsOwnOperations) {
  on_every_rank([](ProcessGroup& group) {
    DataParallel model(group, layout(), DType::float32, small_buckets);
    model.synchronize();
    constexpr int rounds = 20;
    std::atomic<int> next = 0;
    double sum = 0;
    const auto body = [&](int me) {
      for (int round = me; round < rounds; round += 2) {
        while (next.load() != round) std::this_thread::yield();
        const auto turn = group.take_turn();
        double mine = round + group.rank().value;
        group.communicator().all_reduce(Buffer(mine), Buffer(mine), ReduceOp::sum).wait();
        sum += mine;
        model.progress();  // a thread that has the turn takes it again
        next = round + 1;
      }
    };
    std::thread even([&] { body(0); });
    std::thread odd([&] { body(1); });
    even.join();
    odd.join();
    const double ranks = group.size();
    EXPECT_EQ(sum, ranks * rounds * (rounds - 1) / 2 + rounds * ranks * (ranks - 1) / 2);
  });
}

}  // namespace
}  // namespace lockstep::ddp
