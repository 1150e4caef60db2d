// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "nn/run/step.hpp"

namespace lockstep::nn {

/// Threads that run parts of a step side by side. Lane 0 is the calling thread; each other lane has its own thread. No
/// thread spins while it waits.
class Lanes {
 public:
  /// @param count  ≥ 1
  /// @param first  the ops of lane 0; the other lanes make theirs like it, on their own threads
  Lanes(int count, ops::Ops& first);
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  ~Lanes();

  [[nodiscard]] int count() const { return static_cast<int>(ops_.size()); }
  /// Returns a lane's ops, which make its kernels. Only the calling thread may use them, while the lanes rest.
  [[nodiscard]] ops::Ops& ops(int lane) const { return *ops_[static_cast<std::size_t>(lane)]; }

  /// Appends an item to a lane's list. The item must live until it has run.
  void add(int lane, const Item& item) { lists_[static_cast<std::size_t>(lane)].push_back(&item); }
  /// Lets every lane call `take` on each of its items in their order, and waits for all lanes.
  /// @throws what `take` throws, from the lowest lane where it throws; the lists are then empty, too
  void run(const std::function<void(const Item&)>& take);

 private:
  void work(std::size_t lane);
  void run_list(std::size_t lane);

  std::vector<ops::Ops*> ops_;
  std::vector<std::unique_ptr<ops::Ops>> own_ops_;  // of all lanes but the first
  std::vector<std::vector<const Item*>> lists_;
  std::vector<std::exception_ptr> failures_;
  const std::function<void(const Item&)>* take_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t round_ = 0;    // how often the lanes were started
  std::size_t working_ = 0;  // lanes that are running, or have not made their ops yet
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::nn
