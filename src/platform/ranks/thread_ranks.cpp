// SPDX-License-Identifier: Apache-2.0
#include "platform/ranks/thread_ranks.hpp"

#include <condition_variable>
#include <exception>
#include <thread>

#include "lockstep/platform/ranks/key_value_store.hpp"
#include "platform/ranks/phase.hpp"
#include "platform/ranks/rank_link.hpp"

namespace lockstep {
namespace {

class MemoryStore final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    {
      const std::scoped_lock lock(mutex_);
      values_[key] = value;
    }
    changed_.notify_all();
  }
  std::optional<std::string> get(const std::string& key, std::chrono::duration<double> at_most) override {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] { return values_.contains(key); };
    if (!changed_.wait_for(lock, at_most, is_there)) return std::nullopt;
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace

std::vector<RankSet> from_threads(int ranks, std::chrono::duration<double> deadline) {
  require_deadline(deadline);
  if (ranks < 1) throw Error(ErrorCode::invalid_argument, "a set needs at least 1 rank, not " + std::to_string(ranks));
  const auto store = std::make_shared<MemoryStore>();
  const auto shared = std::make_shared<SharedByThreads>();
  std::vector<std::optional<RankSet>> made(static_cast<std::size_t>(ranks));
  on_each_thread(ranks, [&](int rank) {
    RankSet set = from_store(store, {.rank = {rank}, .size = ranks}, deadline);
    set.link().shared_by_threads = shared;
    made[static_cast<std::size_t>(rank)] = std::move(set);
  });
  std::vector<RankSet> sets;
  for (std::optional<RankSet>& set : made) sets.push_back(*std::move(set));
  return sets;
}

void on_each_thread(int threads, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  for (int number = 0; number < threads; ++number) {
    others.emplace_back([&, number] {
      try {
        work(number);
      } catch (...) {
        failures[static_cast<std::size_t>(number)] = std::current_exception();
      }
    });
  }
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace lockstep
