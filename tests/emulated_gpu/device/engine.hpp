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

/// A task with its dependencies. Null stands for a node that is done.
class Node;
using NodePtr = std::shared_ptr<Node>;

/// When GPUs make optional progress: as early as possible, as late as possible, with only the work for which the host
/// waits, or at random.
enum class Order { early, late, mixed };

/// Executes the work of all GPUs of a process. A node becomes ready when its dependencies are done, and the seed
/// chooses which ready node continues. Streams, events and graphs define dependencies.
///
/// The host drives the engine in each call of the runtime. If nothing has moved for a while, a thread drives it: first
/// the nodes for which other ranks may wait, and after a longer time everything.
class Engine {
 public:
  static Engine& instance();

  /// Returns the lock that guards everything on this process's GPUs.
  std::recursive_mutex& lock() { return lock_; }
  Random& random() { return random_; }
  [[nodiscard]] Order order() const { return order_; }

  /// @param task  null: the node only marks a point in the order
  NodePtr add(std::unique_ptr<Task> task, std::vector<NodePtr> after, int gpu);
  [[nodiscard]] static bool is_done(const NodePtr& node);
  /// Returns when a node was done. @pre is_done
  [[nodiscard]] static std::chrono::steady_clock::time_point done_at(const NodePtr& node);

  /// Lets the GPUs make progress if the order says so. Each call of the runtime calls it.
  void work();
  /// Behaves as if the host had waited for the node. @return whether it is done; then the host may access its results
  bool look(const NodePtr& node);
  /// Waits until the node is done, or until `stop` returns that it never will be.
  void wait(const NodePtr& node, const std::function<bool()>& stop);
  /// Stops all nodes of this GPU.
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
