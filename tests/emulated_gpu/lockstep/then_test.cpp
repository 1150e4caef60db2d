// SPDX-License-Identifier: Apache-2.0
// Tests Work::order_before: copy in → all_reduce → copy out, repeatedly, while the host waits for nothing. Ranks are
// threads.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "emulated_gpu/lockstep/ranks.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::on_emulated_gpus {
namespace {

using backends::NcclAlgorithm;

constexpr int chained_ranks = 3;
constexpr std::int64_t count = 5000;
constexpr int rounds = 12;

float brought(int rank, int round, std::int64_t i) { return static_cast<float>(rank + 3 * round + i % 11); }
float sum_of(int round, std::int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < chained_ranks; ++rank) sum += brought(rank, round, i);
  return sum;
}
float* floats(const Allocation& memory) { return static_cast<float*>(memory.data()); }

/// One rank: a buffer on the GPU that every round reuses, and pinned memory for each round's values and results.
class Chain {
 public:
  Chain(Ranks& all, NcclAlgorithm algorithm)
      : rank_(all.rank()),
        communicator_(all.make(progress_, {.algorithm = algorithm, .deadline = std::chrono::seconds(60)})) {
    for (Allocation* memory : {&in_, &out_}) *memory = communicator_->allocate(bytes);
    for (int round = 0; round < rounds; ++round) {
      values_.push_back(allocate_pinned(bytes));
      results_.push_back(allocate_pinned(bytes));
      for (std::int64_t i = 0; i < count; ++i) floats(values_.back())[i] = brought(rank_, round, i);
    }
  }
  /// Runs on one stream, which is ordered after each result, or on two that alternate.
  void run(int streams) {
    std::vector<Stream> all(static_cast<std::size_t>(streams));
    std::vector<Event> free(all.size());  // a stream needs the buffers no more after this event
    for (int round = 0; round < rounds; ++round) {
      const auto number = static_cast<std::size_t>(round % streams);
      const Queue queue = all[number].queue();
      free[static_cast<std::size_t>((round + streams - 1) % streams)].hold_back(queue);
      copy_bytes(in_.data(), values_[static_cast<std::size_t>(round)].data(), bytes, queue);
      works_.push_back(
          communicator_->all_reduce(in_.as(DType::float32), out_.as(DType::float32), ReduceOp::sum, queue));
      works_.back().order_before(queue);
      copy_bytes(results_[static_cast<std::size_t>(round)].data(), out_.data(), bytes, queue);
      free[number].record(queue);
    }
    for (Stream& stream : all) stream.synchronize();
  }
  void check() {
    for (int round = 0; round < rounds; ++round)
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_EQ(floats(results_[static_cast<std::size_t>(round)])[i], sum_of(round, i))
            << "rank " << rank_ << ", round " << round << ", element " << i;
  }
  void close() {
    for (Work& work : works_) work.wait();
    communicator_->close();
  }

 private:
  static constexpr Bytes bytes{count * 4};
  int rank_;
  Progress progress_{{.spins_before_yield = 0}};
  std::unique_ptr<Communicator> communicator_;
  Allocation in_;
  Allocation out_;
  std::vector<Allocation> values_;
  std::vector<Allocation> results_;
  std::vector<Work> works_;
};

class Then : public testing::TestWithParam<NcclAlgorithm> {
 protected:
  static void run(int streams) {
    on_threads(chained_ranks, [&](Ranks& all) {
      Chain chain(all, GetParam());
      chain.run(streams);
      chain.check();
      chain.close();
    });
  }
};

TEST_P(Then, OrdersOneStreamAfterEachResult) { run(1); }
TEST_P(Then, OrdersStreamsThatTakeTurns) { run(2); }

/// Work that another stream gets before order_before() does not wait for the result; later work does.
TEST_P(Then, OrdersAnotherStreamThanTheOperationCameFrom) {
  on_threads(chained_ranks, [&](Ranks& all) {
    Progress progress({.spins_before_yield = 0});
    const auto c = all.make(progress, {.algorithm = GetParam(), .deadline = std::chrono::seconds(60)});
    const Bytes bytes{count * 4};
    const Allocation memory = c->allocate(bytes);
    const Allocation host = allocate_pinned(bytes);
    const Allocation result = allocate_pinned(bytes);
    for (std::int64_t i = 0; i < count; ++i) floats(host)[i] = brought(all.rank(), 0, i);
    Stream before;
    Stream after;
    copy_bytes(memory.data(), host.data(), bytes, before.queue());
    Work work = c->all_reduce(memory.as(DType::float32), memory.as(DType::float32), ReduceOp::sum, before.queue());
    work.order_before(after.queue());
    copy_bytes(result.data(), memory.data(), bytes, after.queue());
    after.synchronize();
    for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(floats(result)[i], sum_of(0, i)) << "element " << i;
    before.synchronize();
    work.order_before(before.queue());  // the operation has ended
    work.wait();
    c->close();
  });
}

INSTANTIATE_TEST_SUITE_P(, Then, testing::Values(NcclAlgorithm::automatic, NcclAlgorithm::tree_order),
                         [](const auto& parameter) {
                           return parameter.param == NcclAlgorithm::automatic ? "NcclsOwn" : "TreeOrder";
                         });

}  // namespace
}  // namespace lockstep::on_emulated_gpus
