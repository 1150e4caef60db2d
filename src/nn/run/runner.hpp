// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/observer.hpp"
#include "lockstep/nn/gradient_reducer.hpp"
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

/// Submits each item to the device's queue, together with the other ranks. On the host it runs at once.
class Runner final : public ItemQueue {
 public:
  /// @param lanes     if there are several, items with a lane wait for the next `Join` and run there
  /// @param observer  may be null; if it is not, a device runs the items that it gets spans of one by one
  Runner(StepNumbers& numbers, Lanes& lanes, GradientReducer& reducer, Observer* observer)
      : numbers_(numbers),
        lanes_(lanes),
        ops_(lanes.ops(0)),
        queue_(ops_.device().queue()),
        reducer_(reducer),
        observer_(observer) {}

  void submit(const Item& item) override;
  /// Submits an item on this thread, whatever its lane. @pre lanes rest
  void run_now(const Item& item);

 private:
  void settle();
  template <typename Body>
  void timed(const std::string& label, int lane, const Body& body);
  void run(const CopyOutput& item) { ops_.device().copy(item.to, item.from, item.bytes, queue_); }
  void run(const Upload& item) { numbers_.upload(item.slot, queue_); }
  void run(const PackParameters& item) { ops_.pack(item.parameters, queue_); }
  void run(const RunKernel& item);
  void run(const Zero& item) { ops_.device().clear(item.data, item.bytes, queue_); }
  void run(const Join& item);
  void run(const ReduceGradient& item) { reducer_.reduce(item.parameter, queue_); }
  void run(const Poll& /*item*/) { reducer_.progress(); }
  void run(const Compute& item) { ops_.compute_scalars(item.stage, numbers_.block(), queue_); }
  void run(const CountNotFinite& item) { ops_.count_not_finite(item.values, item.ends, item.counts, queue_); }
  void run(const AddSquares& item) { ops_.add_squares(item.values, item.sum, queue_); }
  void run(const SumOverRanks& item) { reducer_.sum(item.numbers, queue_); }
  void run(const GatherOverRanks& item) { reducer_.gather(item.own, item.all, queue_); }
  void run(const FinishReduction& item) { reducer_.finish(item.numbers, queue_); }
  void run(const MeasureUpdate& item) { ops_.measure_update(item.steps); }
  void run(const Update& item);
  void run(const Average& item) { ops_.average(item.step); }
  void run(const GatherParameters& /*item*/) { reducer_.gather_parameters(queue_); }
  void run(const Download& item) { numbers_.download(item.slot, queue_); }

  StepNumbers& numbers_;
  Lanes& lanes_;
  ops::Ops& ops_;
  Queue queue_;
  GradientReducer& reducer_;
  Observer* observer_;
};

}  // namespace lockstep::nn
