// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "emulated_gpu/device/random.hpp"
#include "emulated_gpu/device/task.hpp"

namespace emulated_gpu {

/// A task and what has to be done before it. Null stands for what is done.
class Node;
using NodePtr = std::shared_ptr<Node>;

/// When GPUs do what they may: as soon as they can; as late as they can, only what the host waits for; at random.
enum class Order { early, late, mixed };

/// All GPUs of a process: nodes, each of which becomes ready when those before it are done, and the choice of the one
/// that goes on next, which is the seed's. Streams, events and graphs are ways to say what comes before what.
///
/// The host drives it, in each call of the runtime; and where nothing has moved for a while, a thread does: what other
/// ranks may be waiting for, and after a longer while everything.
class Engine {
 public:
  static Engine& instance();

  /// Everything of this process's GPUs happens under it.
  std::recursive_mutex& lock() { return lock_; }
  Random& random() { return random_; }
  [[nodiscard]] Order order() const { return order_; }

  /// @param task  null: a point in the order, at which nothing is done
  NodePtr add(std::unique_ptr<Task> task, std::vector<NodePtr> after, int gpu);
  [[nodiscard]] static bool is_done(const NodePtr& node);
  /// When a node was done; @pre is_done
  [[nodiscard]] static std::chrono::steady_clock::time_point done_at(const NodePtr& node);

  /// The GPUs do something, if they like. To be called in each call of the runtime.
  void work();
  /// As if the host had waited for the node. @return whether it is done; then the host may touch what it has brought
  bool look(const NodePtr& node);
  /// Waits until the node is done, or `stop` says that it never will be.
  void wait(const NodePtr& node, const std::function<bool()>& stop);
  /// No node of this GPU goes on.
  void lose(int gpu);

 private:
  Engine();
  std::vector<Node*> ready_ones();
  std::vector<Node*> ready_ones_before(std::vector<const Node*> targets);
  std::vector<Node*> ready_for_others();
  bool is_ready(const Node& node) const;
  bool may_start(const Node& node) const;
  bool drive_after_a_lull();
  bool step_one_of(std::vector<Node*>& candidates);
  bool step(Node& node);
  bool run_host_function();
  bool step_started();
  void drive_towards(const Node& target);
  void finish(Node& node);
  void remove_done();
  void run_background();
  static void see(Node& node);

  std::recursive_mutex lock_;
  std::condition_variable_any news_;
  Order order_;
  bool kernels_fill_the_gpu_;
  Random random_;
  std::vector<NodePtr> pending_;  // in the order in which they were added
  std::vector<bool> lost_;
  std::chrono::milliseconds lull_;
  std::chrono::steady_clock::time_point last_move_;
  std::uint64_t added_ = 0;
  std::ofstream trace_;  // each step that did something
  bool has_thread_ = false;
};

}  // namespace emulated_gpu
