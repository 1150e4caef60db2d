// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <thread>

#include "lockstep/platform/ranks/key_value_store.hpp"

namespace lockstep::bindings {
namespace {

/// PyTorch's store, which throws where a key has no value in time.
class TorchStore final : public KeyValueStore {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }

  std::optional<std::string> get(const std::string& key, std::chrono::duration<double> at_most) override {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::microseconds longest_sleep{10'000};
    std::chrono::microseconds sleep{100};
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(at_most);
    while (!store_->check({key})) {
      if (Clock::now() >= end) return std::nullopt;
      std::this_thread::sleep_for(sleep);
      sleep = std::min(2 * sleep, longest_sleep);
    }
    return store_->get_to_str(key);
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

/// By PyTorch's log, since the thread that calls this is none of Python's.
void warn(std::string_view text) { TORCH_WARN("lockstep: ", text); }

}  // namespace

std::unique_ptr<ProcessGroup> group_of(RankSet ranks, std::chrono::duration<double> deadline, bool is_watched) {
  constexpr std::chrono::duration<double> late_after{60};
  if (is_watched) ranks.watch({.on_late = warn, .late_after = std::min(late_after, deadline / 2)});
  return std::make_unique<ProcessGroup>(std::move(ranks), GroupOptions{.deadline = deadline});
}

std::unique_ptr<ProcessGroup> make_group_from_store(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                                    std::chrono::duration<double> at_most,
                                                    std::chrono::duration<double> deadline, bool is_watched) {
  RankSet ranks = from_store(std::make_shared<TorchStore>(std::move(store)), {.rank = {rank}, .size = size}, at_most);
  ranks.set_deadline(deadline);
  return group_of(std::move(ranks), deadline, is_watched);
}

}  // namespace lockstep::bindings
