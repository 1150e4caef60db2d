// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu/device/engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <thread>

#include "emulated_gpu/device/memory.hpp"
#include "emulated_gpu/device/violation.hpp"

namespace emulated_gpu {

class Node {
 public:
  std::unique_ptr<Task> task;
  std::vector<NodePtr> after;  // dependencies that are not done
  std::vector<std::shared_ptr<Landing>>
      landings;  // its own and those of its dependencies, as far as the host waits for them
  int gpu = 0;
  std::uint64_t number = 0;  // in the order in which they were added
  bool started = false;
  bool done = false;
  std::chrono::steady_clock::time_point done_at;
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr int long_lulls = 50;  // as many ordinary lulls

/// Returns how long nothing may move, although something could, before the GPUs continue by themselves.
std::chrono::milliseconds lull_of_process() {
  const char* text = std::getenv("EMULATED_GPU_LULL_MS");
  return std::chrono::milliseconds(text == nullptr ? 2 : std::atoi(text));
}

std::uint64_t seed_of_process() {
  const char* text = std::getenv("EMULATED_GPU_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

/// Returns the rank, so that ranks that are processes draw different numbers.
std::uint64_t rank_of_process() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* text = std::getenv(name)) return std::strtoull(text, nullptr, 10);
  return 0;
}

Order order_of_process() {
  const char* text = std::getenv("EMULATED_GPU_ORDER");
  if (text == nullptr) return static_cast<Order>(seed_of_process() % 3);
  for (const auto& [name, order] : {std::pair("early", Order::early), {"late", Order::late}, {"mixed", Order::mixed}})
    if (std::string_view(text) == name) return order;
  violation("EMULATED_GPU_ORDER=" + std::string(text) + " is none of early, late and mixed");
}

}  // namespace

Engine& Engine::instance() {
  static auto* engine = new Engine;  // its thread uses it until the process ends
  return *engine;
}

Engine::Engine()
    : order_(order_of_process()),
      kernels_fill_the_gpu_(seed_of_process() / 3 % 2 == 1),
      random_(seed_of_process() * 1000 + rank_of_process()),
      lull_(lull_of_process()) {
  if (const char* path = std::getenv("EMULATED_GPU_TRACE")) trace_.open(path);
}

NodePtr Engine::add(std::unique_ptr<Task> task, std::vector<NodePtr> after, int gpu) {
  auto node = std::make_shared<Node>();
  node->task = std::move(task);
  node->gpu = gpu;
  node->number = ++added_;
  std::set<Landing*> known;
  for (NodePtr& before : after) {
    if (!before) continue;
    for (const auto& landing : before->landings)
      if (!landing->seen && known.insert(landing.get()).second) node->landings.push_back(landing);
    if (!before->done) node->after.push_back(std::move(before));
  }
  if (node->task) {
    if (auto landing = node->task->landing()) node->landings.push_back(std::move(landing));
  }
  if (pending_.empty()) last_move_ = Clock::now();
  pending_.push_back(node);
  if (!has_thread_) {
    has_thread_ = true;
    std::thread([this] { run_background(); }).detach();
  }
  news_.notify_all();
  return node;
}

bool Engine::is_done(const NodePtr& node) { return !node || node->done; }

std::chrono::steady_clock::time_point Engine::done_at(const NodePtr& node) {
  return node ? node->done_at : Clock::time_point();
}

bool Engine::is_ready(const Node& node) const {
  const bool is_lost = static_cast<std::size_t>(node.gpu) < lost_.size() && lost_[static_cast<std::size_t>(node.gpu)];
  if (node.done || is_lost || (node.task && node.task->host_function() != nullptr)) return false;
  const bool waits = std::any_of(node.after.begin(), node.after.end(), [](const NodePtr& n) { return !n->done; });
  return !waits && may_start(node);
}

/// Returns the nodes that are ready, in the order in which they were added.
std::vector<Node*> Engine::ready_ones() {
  std::vector<Node*> ready;
  for (const NodePtr& node : pending_)
    if (is_ready(*node)) ready.push_back(node.get());
  return ready;
}

/// Returns the ready nodes among the targets and their dependencies.
std::vector<Node*> Engine::ready_ones_before(std::vector<const Node*> targets) {
  std::set<const Node*> wanted;
  while (!targets.empty()) {
    const Node* node = targets.back();
    targets.pop_back();
    if (node->done || !wanted.insert(node).second) continue;
    for (const NodePtr& before : node->after) targets.push_back(before.get());
  }
  std::vector<Node*> ready;
  for (const NodePtr& node : pending_)
    if (wanted.count(node.get()) > 0 && is_ready(*node)) ready.push_back(node.get());
  return ready;
}

/// Returns the ready nodes for which other ranks may wait.
std::vector<Node*> Engine::ready_for_others() {
  std::vector<const Node*> targets;
  for (const NodePtr& node : pending_)
    if (node->task && node->task->fills_the_gpu()) targets.push_back(node.get());
  return ready_ones_before(std::move(targets));
}

/// If kernels fill the GPU, none starts beside one that waits for other ranks. The latter start in the order in which
/// they were launched, unless their dependencies delay them.
bool Engine::may_start(const Node& node) const {
  if (!kernels_fill_the_gpu_ || node.started || !node.task || !node.task->is_kernel()) return true;
  for (const NodePtr& other : pending_) {
    if (other.get() == &node) return true;
    if (other->done || other->gpu != node.gpu || !other->task || !other->task->fills_the_gpu()) continue;
    const bool waits = std::any_of(other->after.begin(), other->after.end(), [](const NodePtr& n) { return !n->done; });
    if (other->started || (!waits && node.task->fills_the_gpu())) return false;
  }
  return true;
}

bool Engine::step(Node& node) {
  node.started = true;
  node.after.clear();
  const Step result = node.task ? node.task->step(random_) : Step::done;
  if (trace_.is_open() && node.task && result != Step::waiting)
    trace_ << node.gpu << " " << node.number << ' ' << node.task->what() << (result == Step::done ? ", done" : "")
           << std::endl;
  if (result == Step::done) finish(node);
  if (result != Step::waiting) last_move_ = Clock::now();
  return result != Step::waiting;
}

void Engine::finish(Node& node) {
  node.done = true;
  node.done_at = Clock::now();
  node.task.reset();
}

void Engine::remove_done() {
  std::erase_if(pending_, [](const NodePtr& node) { return node->done; });
}

/// Steps random candidates until one has moved. A candidate that could not move is removed.
bool Engine::step_one_of(std::vector<Node*>& candidates) {
  while (!candidates.empty()) {
    const auto which = static_cast<std::ptrdiff_t>(random_.below(candidates.size()));
    Node& node = *candidates[static_cast<std::size_t>(which)];
    if (step(node)) return true;
    candidates.erase(candidates.begin() + which);
  }
  return false;
}

/// Steps the nodes for which other ranks wait, in any order, because a network does not depend on the host's calls.
bool Engine::step_started() {
  bool moved = false;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    Node& node = *pending_[i];
    if (node.started && !node.done && node.task && node.task->fills_the_gpu()) moved = step(node) || moved;
  }
  return moved;
}

void Engine::work() {
  const std::scoped_lock lock(lock_);
  if (order_ == Order::late || (order_ == Order::mixed && random_.one_in(2))) return;
  const Memory::KeepOpen open;
  std::uint64_t steps = order_ == Order::early ? ~std::uint64_t{0} : 1 + random_.below(8);
  while (steps-- > 0) {
    std::vector<Node*> ready = ready_ones();
    if (!step_one_of(ready)) break;
    remove_done();
  }
  remove_done();
}

/// Makes some steps towards the node for which the host waits. Unless the order is late, other nodes may be stepped as
/// well.
void Engine::drive_towards(const Node& target) {
  const Memory::KeepOpen open;
  for (auto steps = 1 + random_.below(32); steps > 0 && !target.done; --steps) {
    const bool only_what_must = order_ == Order::late || (order_ == Order::mixed && random_.one_in(2));
    std::vector<Node*> ready = only_what_must ? ready_ones_before({&target}) : ready_ones();
    if (!step_one_of(ready)) return;
    remove_done();
  }
}

bool Engine::look(const NodePtr& node) {
  const std::scoped_lock lock(lock_);
  if (node && !node->done && (order_ != Order::late || random_.one_in(4))) drive_towards(*node);
  remove_done();
  if (!is_done(node)) return false;
  if (node) see(*node);
  return true;
}

void Engine::see(Node& node) {
  for (const auto& landing : node.landings) {
    if (!landing->seen) Memory::instance().allow(landing->address, landing->bytes);
    landing->seen = true;
  }
  node.landings.clear();
}

void Engine::wait(const NodePtr& node, const std::function<bool()>& stop) {
  for (;;) {
    {
      const std::scoped_lock lock(lock_);
      const Memory::KeepOpen open;
      for (int steps = 0; steps < 64 && !is_done(node); ++steps) {
        const bool only_what_must = order_ == Order::late || (order_ == Order::mixed && random_.one_in(2));
        std::vector<Node*> ready = only_what_must ? ready_ones_before({node.get()}) : ready_ones();
        const bool moved = step_one_of(ready);
        remove_done();
        if (!moved) break;
      }
      if (is_done(node)) {
        if (node) see(*node);
        return;
      }
      if (stop()) return;
    }
    news_.notify_all();  // there may be a host function to run
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// Runs a ready host function without the lock, because it may wait for the host. @return whether there was one
bool Engine::run_host_function() {
  std::unique_lock lock(lock_);
  const auto is_ready = [](const NodePtr& node) {
    const bool waits = std::any_of(node->after.begin(), node->after.end(), [](const NodePtr& n) { return !n->done; });
    return !node->done && !node->started && !waits && node->task && node->task->host_function() != nullptr;
  };
  const auto found = std::find_if(pending_.begin(), pending_.end(), is_ready);
  if (found == pending_.end()) return false;
  const NodePtr node = *found;
  node->started = true;
  node->after.clear();
  see(*node);
  lock.unlock();
  (*node->task->host_function())();
  lock.lock();
  finish(*node);
  remove_done();
  return true;
}

void Engine::run_background() {
  std::thread([this] {  // host functions wait for the host, and the GPUs do not wait for them
    const auto is_one = [](const NodePtr& node) { return !node->started && node->task && node->task->host_function(); };
    for (;;) {
      std::unique_lock lock(lock_);
      news_.wait(lock, [&] { return std::any_of(pending_.begin(), pending_.end(), is_one); });
      lock.unlock();
      if (!run_host_function()) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  })
      .detach();
  auto nap = std::chrono::microseconds(200);
  for (;;) {
    bool moved = false;
    {
      std::unique_lock lock(lock_);
      news_.wait(lock, [this] { return !pending_.empty(); });
      moved = step_started();
      moved = drive_after_a_lull() || moved;
      remove_done();
    }
    nap = moved ? std::chrono::microseconds(50) : std::min(2 * nap, std::chrono::microseconds(1000));
    std::this_thread::sleep_for(nap);
  }
}

/// Steps nodes after a lull. Nodes for which no other rank waits stay pending for longer, because the host may still
/// show that it has forgotten to wait for them.
bool Engine::drive_after_a_lull() {
  const auto lull = Clock::now() - last_move_;
  if (lull < lull_) return false;
  const bool everything = order_ == Order::early || lull > long_lulls * lull_;
  bool moved = false;
  const Memory::KeepOpen open;
  for (int steps = 0; steps < 64; ++steps) {
    std::vector<Node*> ready = everything ? ready_ones() : ready_for_others();
    if (!step_one_of(ready)) break;
    remove_done();
    moved = true;
  }
  return moved;
}

void Engine::lose(int gpu) {
  const std::scoped_lock lock(lock_);
  lost_.resize(std::max(lost_.size(), static_cast<std::size_t>(gpu) + 1));
  lost_[static_cast<std::size_t>(gpu)] = true;
}

}  // namespace emulated_gpu
