// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random operations on several overlapping communicators. On each communicator all ranks submit the same ones in the
// same order; how the communicators take turns, and which operation is waited for when, differs from rank to rank.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/comm/communicator.hpp"
#include "lockstep/comm/progress.hpp"

namespace lockstep::stress {

/// Ranks of the world, in the order of their ranks in the group.
using Members = std::vector<int>;

/// All, all but one, neighbours, every other one, a single one: any two ranks meet in several, and every rank is in
/// some that its neighbour is not in.
inline std::vector<Members> overlapping_groups(int ranks) {
  std::vector<Members> groups(4);
  for (int rank = 0; rank < ranks; ++rank) {
    groups[0].push_back(rank);
    groups[1].push_back(ranks - 1 - rank);
    if (rank > 0) groups[2].push_back(rank);
    if (rank % 2 == 0) groups[3].push_back(rank);
  }
  for (int rank = 0; rank + 1 < ranks; ++rank) groups.push_back({rank, rank + 1});
  std::erase_if(groups, [](const Members& members) { return members.empty(); });
  return groups;
}

/// One operation, as drawn from the seed by every rank alike.
struct Request {
  std::size_t group = 0;
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::int64_t count = 0;  // of the buffer; of each rank's part where there are parts
  bool in_place = true;
  int salt = 0;
};

inline bool has_parts_in(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all;
}
inline bool has_parts_out(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::all_to_all;
}

/// Mostly small, up to 64 KiB in all.
inline std::int64_t draw_bytes(std::mt19937& random) {
  const auto kind = random() % 100;
  if (kind < 70) return static_cast<std::int64_t>(random() % 256);
  return static_cast<std::int64_t>(kind < 97 ? random() % 4096 : random() % (64 * 1024 + 1));
}

inline std::vector<Request> draw(unsigned seed, int operations, const std::vector<Members>& groups) {
  constexpr CollectiveKind kinds[] = {
      CollectiveKind::all_reduce, CollectiveKind::all_reduce,     CollectiveKind::broadcast,
      CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::reduce,
      CollectiveKind::all_to_all, CollectiveKind::barrier,        CollectiveKind::reduce_then};
  constexpr DType dtypes[] = {DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8};
  constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::min, ReduceOp::max};
  std::mt19937 random(seed);
  std::vector<Request> requests;
  for (int k = 0; k < operations; ++k) {
    Request r;
    r.group = random() % groups.size();
    const int size = static_cast<int>(groups[r.group].size());
    r.kind = kinds[random() % std::size(kinds)];
    r.dtype = dtypes[random() % std::size(dtypes)];
    r.op = ops[random() % std::size(ops)];
    r.root = static_cast<int>(random() % static_cast<unsigned>(size));
    const bool parts = has_parts_in(r.kind) || has_parts_out(r.kind);
    const std::int64_t count = draw_bytes(random) / size_of(r.dtype) / (parts ? size : 1);
    r.count = r.kind == CollectiveKind::barrier ? 0 : count;
    r.in_place = random() % 2 == 0;
    r.salt = static_cast<int>(random() % 1000);
    requests.push_back(r);
  }
  return requests;
}

/// What `member` brings at element i of an input: small, so that sums are exact in every dtype.
inline int brought(const Request& r, int member, std::int64_t i) {
  return static_cast<int>((member * 5 + i * 3 + r.salt) % 7);
}

inline int expected(const Request& r, int size, int me, std::int64_t i) {
  if (r.kind == CollectiveKind::broadcast) return brought(r, r.root, i);
  if (r.kind == CollectiveKind::all_gather) {
    return brought(r, static_cast<int>(i / r.count), i % r.count);
  }
  if (r.kind == CollectiveKind::all_to_all) {
    return brought(r, static_cast<int>(i / r.count), me * r.count + i % r.count);
  }
  const std::int64_t at = r.kind == CollectiveKind::reduce_scatter ? me * r.count + i : i;
  int result = brought(r, 0, at);
  for (int member = 1; member < size; ++member) {
    const int value = brought(r, member, at);
    result = r.op == ReduceOp::sum   ? result + value
             : r.op == ReduceOp::min ? std::min(result, value)
                                     : std::max(result, value);
  }
  return r.kind == CollectiveKind::reduce_then ? result + 1 : result;
}

template <typename F>
void with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::float32: return f(float{});
    case DType::float64: return f(double{});
    case DType::int32: return f(std::int32_t{});
    case DType::int64: return f(std::int64_t{});
    case DType::uint8: return f(std::uint8_t{});
    default: FAIL() << name(dtype) << " is not drawn";
  }
}

/// What a reduce_then does to the sums.
inline void add_one(const ConstBuffer& sum, const Buffer& out, Count /*offset*/) {
  with_type(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* from = static_cast<const T*>(sum.data);
    std::transform(from, from + sum.count.value, static_cast<T*>(out.data), [](T v) { return static_cast<T>(v + 1); });
  });
}

/// An operation under way with its buffers.
class Pending {
 public:
  Pending(Communicator& c, const Request& request)
      : request_(request),
        size_(c.size()),
        me_(c.rank().value),
        in_(allocate(in_count())),
        out_(allocate(out_count())) {
    fill();
    work_ = std::make_unique<Work>(submit(c));
  }

  [[nodiscard]] bool done() { return work_->test(); }
  void wait_and_check() {
    work_->wait();
    with_type(request_.dtype, [this](auto zero) {
      using T = decltype(zero);
      if (request_.kind == CollectiveKind::barrier) return;
      const Buffer result = this->result();
      const auto* values = static_cast<const T*>(result.data);
      for (std::int64_t i = 0; i < result.count.value; ++i) {
        ASSERT_EQ(values[i], static_cast<T>(expected(request_, size_, me_, i)))
            << name(request_.kind) << " of " << name(request_.dtype) << ", " << request_.count << " elements, element "
            << i;
      }
    });
  }

 private:
  [[nodiscard]] std::int64_t in_count() const {
    return has_parts_in(request_.kind) ? request_.count * size_ : request_.count;
  }
  [[nodiscard]] std::int64_t out_count() const {
    return has_parts_out(request_.kind) ? request_.count * size_ : request_.count;
  }
  [[nodiscard]] std::vector<std::int64_t> allocate(std::int64_t count) const {
    return std::vector<std::int64_t>(static_cast<std::size_t>(count * size_of(request_.dtype) / 8 + 1));
  }
  [[nodiscard]] Buffer whole_in() { return {in_.data(), {in_count()}, request_.dtype}; }
  [[nodiscard]] Buffer whole_out() { return {out_.data(), {out_count()}, request_.dtype}; }
  /// Of the buffer that has room for all parts: this rank's.
  [[nodiscard]] Buffer own_part(const Buffer& all) const {
    return slice(all, {me_ * request_.count}, {request_.count});
  }

  [[nodiscard]] Buffer source() {
    const bool inside = request_.kind == CollectiveKind::all_gather && request_.in_place;
    return inside ? own_part(whole_out()) : whole_in();
  }
  [[nodiscard]] Buffer result() {
    switch (request_.kind) {
      case CollectiveKind::broadcast: return whole_in();
      case CollectiveKind::reduce_then:
      case CollectiveKind::all_reduce: return request_.in_place ? whole_in() : whole_out();
      case CollectiveKind::reduce_scatter: return request_.in_place ? own_part(whole_in()) : whole_out();
      case CollectiveKind::reduce:
        if (me_ != request_.root) return {};
        return request_.in_place ? whole_in() : whole_out();
      case CollectiveKind::all_gather:
      case CollectiveKind::all_to_all:
      case CollectiveKind::barrier: break;
    }
    return whole_out();
  }
  void fill() {
    with_type(request_.dtype, [this](auto zero) {
      using T = decltype(zero);
      const Buffer in = source();
      auto* values = static_cast<T*>(in.data);
      for (std::int64_t i = 0; i < in.count.value; ++i) values[i] = static_cast<T>(brought(request_, me_, i));
    });
  }
  Work submit(Communicator& c) {
    switch (request_.kind) {
      case CollectiveKind::all_reduce: return c.all_reduce(source(), result(), request_.op);
      case CollectiveKind::broadcast: return c.broadcast(result(), {request_.root});
      case CollectiveKind::all_gather: return c.all_gather(source(), result());
      case CollectiveKind::reduce_scatter: return c.reduce_scatter(source(), result(), request_.op);
      case CollectiveKind::reduce: return c.reduce(source(), result(), request_.op, {request_.root});
      case CollectiveKind::all_to_all: return c.all_to_all(source(), result());
      case CollectiveKind::reduce_then: return c.reduce_then(source(), result(), request_.op, add_one);
      case CollectiveKind::barrier: break;
    }
    return c.barrier();
  }

  Request request_;
  int size_;
  int me_;
  std::vector<std::int64_t> in_;  // of 8-byte words, so that every dtype is aligned
  std::vector<std::int64_t> out_;
  std::unique_ptr<Work> work_;
};

/// One rank's part.
class OneRank {
 public:
  /// @param communicators  one for each group; null where this rank is not in it
  OneRank(int number, std::vector<Communicator*> communicators, Progress& progress)
      : communicators_(std::move(communicators)), progress_(&progress), random_(static_cast<unsigned>(99 + number)) {}

  /// Round after round: submits some requests with the communicators in any order; when all of the round are submitted,
  /// waits for some of those under way, in any order. So whoever waits, waits for what everybody submits before
  /// waiting.
  void run(const std::vector<Request>& requests) {
    constexpr std::size_t most_in_a_round = 40;
    for (std::size_t begin = 0; begin < requests.size();) {
      // The same rounds on all ranks: their length is drawn from the requests.
      const std::size_t length = 1 + static_cast<std::size_t>(requests[begin].salt) % most_in_a_round;
      const std::size_t end = std::min(begin + length, requests.size());
      submit_round(requests, begin, end);
      const bool last = end == requests.size();
      while (!under_way_.empty() && (last || random_() % 12 != 0)) {
        wait_for_any();
        if (testing::Test::HasFatalFailure()) return;
      }
      begin = end;
    }
  }

 private:
  void submit_round(const std::vector<Request>& requests, std::size_t begin, std::size_t end) {
    std::vector<std::deque<const Request*>> queues(communicators_.size());
    std::vector<std::size_t> turns;
    for (std::size_t k = begin; k < end; ++k) {
      if (communicators_[requests[k].group] == nullptr) continue;
      queues[requests[k].group].push_back(&requests[k]);
      turns.push_back(requests[k].group);
    }
    std::shuffle(turns.begin(), turns.end(), random_);
    for (const std::size_t group : turns) {
      under_way_.push_back(std::make_unique<Pending>(*communicators_[group], *queues[group].front()));
      queues[group].pop_front();
      compute();
    }
  }
  void wait_for_any() {
    std::swap(under_way_[random_() % under_way_.size()], under_way_.back());
    under_way_.back()->wait_and_check();
    under_way_.pop_back();
    compute();
  }
  /// What a program does between its calls: nothing, something, a poll, a look at what is done.
  void compute() {
    switch (random_() % 8) {
      case 0: progress_->poll(); break;
      case 1:
        done_seen_ += std::count_if(under_way_.begin(), under_way_.end(), [](const auto& p) { return p->done(); });
        break;
      case 2: std::this_thread::yield(); break;
      default: break;
    }
  }

  std::vector<Communicator*> communicators_;
  Progress* progress_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Pending>> under_way_;
  std::ptrdiff_t done_seen_ = 0;
};

}  // namespace lockstep::stress
