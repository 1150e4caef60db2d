// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "nn/step.hpp"

namespace lockstep::nn {

/// Threads that run parts of a step side by side: lane 0 is the thread that calls, each other one has its own. None
/// spins while it waits.
class Lanes {
 public:
  /// @param count  ≥ 1
  /// @param first  of lane 0; the others' are made like it, on their threads
  Lanes(int count, ops::Ops& first);
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  ~Lanes();

  [[nodiscard]] int count() const { return static_cast<int>(ops_.size()); }
  /// Makes a lane's kernels. By the caller's thread, while the lanes rest.
  [[nodiscard]] ops::Ops& ops(int lane) const { return *ops_[static_cast<std::size_t>(lane)]; }

  /// Puts an item at the end of a lane's list. It lives until that has run.
  void add(int lane, const Item& item) { lists_[static_cast<std::size_t>(lane)].push_back(&item); }
  /// Lets every lane call `take` on each of its items, in their order, and waits for all.
  /// @throws what `take` throws, of the lowest lane where it does; the lists are empty then, too
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
  std::size_t round_ = 0;    // how often lanes were set to work
  std::size_t working_ = 0;  // lanes that are at work, or have not made their ops yet
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::nn
