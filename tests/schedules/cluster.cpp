// SPDX-License-Identifier: Apache-2.0
#include "schedules/cluster.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "backends/plan/plan_communicator.hpp"
#include "platform/node_memory/node_memory_layout.hpp"
#include "support/algorithms.hpp"

namespace lockstep::schedules {
namespace {

using backends::PlanCommunicator;
using backends::PlanOptions;
using collectives::Algorithm;

constexpr std::int64_t cell_bytes = 24 * 1024;
constexpr std::int64_t cells = 24;  // of a rank's heap

/// The ranks of a node, all in this thread, with a heap each. Memory outside of the heap is not accessible to other
/// ranks.
class Arena {
 public:
  Arena(int ranks, Bytes control, bool has_heaps)
      : controls_(static_cast<std::size_t>(ranks * control.value / 8)),
        heaps_(new std::byte[static_cast<std::size_t>(has_heaps ? ranks * cells * cell_bytes : 1)]),
        members_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] NodeMemory::View view(int rank, int ranks, Bytes control) {
    const auto heap_bytes = static_cast<std::uintptr_t>(cells * cell_bytes);
    const auto heaps = reinterpret_cast<std::uintptr_t>(heaps_.get());
    NodeMemory::View view{.rank = rank,
                          .size = ranks,
                          .control_bytes = control,
                          .own_heap = heaps + static_cast<std::uintptr_t>(rank) * heap_bytes,
                          .own_heap_bytes = heap_bytes,
                          .doorbell = &doorbell_,
                          .members = members_.data(),
                          .alarm = &alarm_};
    for (int peer = 0; peer < ranks; ++peer) {
      view.controls.push_back(reinterpret_cast<std::byte*>(controls_.data()) + peer * control.value);
      view.heaps.push_back(heaps + static_cast<std::uintptr_t>(peer) * heap_bytes);
    }
    return view;
  }

 private:
  std::vector<std::uint64_t> controls_;
  std::unique_ptr<std::byte[]> heaps_;  ///< not initialized, because that would take long
  std::vector<NodeMember> members_;
  Doorbell doorbell_;
  std::atomic<std::uint32_t> alarm_{0};
};

/// One rank's part of an arena, from which it allocates.
class Part final : public NodeMemory::Store {
 public:
  /// @param has_ended  returns whether the process of a rank of the node has ended
  Part(std::shared_ptr<Arena> arena, std::uintptr_t heap, std::function<bool(int)> has_ended)
      : has_ended_(std::move(has_ended)),
        arena_(std::move(arena)),
        cells_(std::make_shared<Cells>(Cells{reinterpret_cast<std::byte*>(heap), {}})) {
    cells_->used.resize(cells);
  }

  Allocation allocate(Bytes bytes) override {
    const auto free = std::find(cells_->used.begin(), cells_->used.end(), false);
    if (free == cells_->used.end() || bytes.value > cell_bytes) throw std::logic_error("the arena is too small");
    *free = true;
    const auto number = free - cells_->used.begin();
    std::byte* const begin = cells_->begin + number * cell_bytes;
    std::fill_n(begin, bytes.value, std::byte{0});
    return {begin, bytes, MemoryKind::shared,
            [of = cells_, arena = arena_, number](void*) { of->used[static_cast<std::size_t>(number)] = false; }};
  }
  void left_in_order() override {}
  [[nodiscard]] bool has_mortal_ranks() const override { return true; }
  [[nodiscard]] bool has_ended(int peer) const override { return has_ended_(peer); }

 private:
  struct Cells {
    std::byte* begin;
    std::vector<bool> used;
  };
  std::function<bool(int)> has_ended_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Cells> cells_;
};

template <typename List>
auto one_of(std::mt19937_64& random, const List& choices) {
  return choices[random() % std::size(choices)];
}

PlanOptions draw_options(std::mt19937_64& random, bool is_one_node) {
  constexpr Algorithm on_a_node[] = {Algorithm::shared_memory, Algorithm::shared_memory,
                                     Algorithm::hierarchical_tree_order};
  constexpr Bytes sizes[] = {{64}, {72}, {200}, {512}, {4096}};
  constexpr Bytes areas[] = {
      {128}, {136}, {200}, {512}, {4096}};  // the first has a largest element for each of 8 ranks
  constexpr Bytes caches[] = {{100}, {1 << 20}};
  PlanOptions options;
  collectives::Choice choice;
  choice.algorithm = random() % 4 == 0 ? one_of(random, testing_support::message_algorithms)
                     : is_one_node     ? one_of(random, on_a_node)
                                       : one_of(random, testing_support::hierarchical_algorithms());
  choice.segment = one_of(random, sizes);
  choice.blocks_in_flight = 1 + static_cast<int>(random() % 3);
  choice.radix = 2 + static_cast<int>(random() % 3);
  options.selection = collectives::forced(choice);
  options.operations_in_flight = 1 + static_cast<int>(random() % 4);
  options.node = {
      .staging = one_of(random, areas), .pull_limit = one_of(random, sizes), .cache = one_of(random, caches)};
  constexpr int ranks_per_cache[] = {0, 2, 3};
  options.selection.ranks_per_cache = one_of(random, ranks_per_cache);
  return options;
}

/// Returns the members' nodes, numbered in the order in which they occur.
ClusterShape shape_of(const comm_check::Members& members, const std::vector<int>& node_of_rank) {
  std::map<int, int> numbers;
  ClusterShape shape;
  for (const int member : members) {
    const int node = node_of_rank[static_cast<std::size_t>(member)];
    shape.node_of_rank.push_back(numbers.emplace(node, static_cast<int>(numbers.size())).first->second);
  }
  return shape;
}

}  // namespace

std::string Cluster::host_name(int node, std::size_t group) {
  return "host" + std::to_string(node) + '@' + std::to_string(group);
}

std::optional<std::size_t> Cluster::group_of(const Error& error) {
  const std::string& host = error.context().host;
  const auto at = host.find('@');
  if (at == std::string::npos) return std::nullopt;
  return std::stoull(host.substr(at + 1));
}

Cluster::Cluster(const comm_check::Scenario& scenario, const Setting& setting)
    : scenario_(scenario),
      setting_(setting),
      is_dead_(static_cast<std::size_t>(scenario.ranks)),
      groups_(scenario.groups.size()) {
  std::mt19937_64 random(scenario.seed + 1);
  const std::uint64_t nodes = random() % 2 == 0 ? 1 : 1 + random() % 3;
  for (int rank = 0; rank < scenario.ranks; ++rank) node_of_rank_.push_back(static_cast<int>(random() % nodes));
}

void Cluster::share(std::size_t group) {
  Shared& shared = groups_[group];
  shared.seed = scenario_.groups[group].setting;
  std::mt19937_64 random(shared.seed);
  shared.shape = shape_of(scenario_.groups[group].members, node_of_rank_);
  shared.options = draw_options(random, shared.shape.nodes() == 1);
  shared.options.selection = selection_on(shared.shape, shared.options.selection);
  shared.boxes = std::make_shared<backends::Mailboxes>(shared.shape.ranks());
  shared.traffic = std::make_shared<FickleMedium::Traffic>(shared.shape.ranks());
  shared.options.deadline = setting_.deadline;
  shared.mailboxes = std::make_shared<ThreadMailboxes>(shared.shape.ranks());
  shared.words = memories(group, ControlChannel::control_bytes, false);
  if (may_share_memory(shared.options.selection)) {
    shared.memories = memories(group, {rounded_up(PlanCommunicator::control_bytes(shared.options).value, 64)}, true);
  } else {
    shared.memories.resize(static_cast<std::size_t>(shared.shape.ranks()));
  }
}

std::uint64_t Cluster::most_ahead() const {
  std::uint64_t most = 0;
  for (const Shared& shared : groups_)
    if (shared.traffic) most = std::max(most, shared.traffic->most_ahead);
  return most;
}

/// Returns for each rank of the group the memory that it shares with the ranks of its node.
std::vector<std::shared_ptr<NodeMemory>> Cluster::memories(std::size_t group, Bytes control, bool has_heaps) {
  const ClusterShape& shape = groups_[group].shape;
  std::vector<std::shared_ptr<NodeMemory>> all(static_cast<std::size_t>(shape.ranks()));
  for (int node = 0; node < shape.nodes(); ++node) {
    const std::vector<int> ranks = shape.ranks_on(node);
    const auto size = static_cast<int>(ranks.size());
    const auto arena = std::make_shared<Arena>(size, control, has_heaps);
    const auto has_ended = [this, group, ranks](int local) {
      return is_dead_[static_cast<std::size_t>(world_rank(group, ranks[static_cast<std::size_t>(local)]))];
    };
    for (int local = 0; local < size; ++local) {
      const auto view = arena->view(local, size, control);
      all[static_cast<std::size_t>(ranks[static_cast<std::size_t>(local)])] =
          std::make_shared<NodeMemory>(view, std::make_shared<Part>(arena, view.own_heap, has_ended));
    }
  }
  return all;
}

std::unique_ptr<Communicator> Cluster::make(std::size_t group, int rank, Progress& progress) {
  Shared& shared = groups_[group];
  if (!shared.boxes) share(group);
  const comm_check::Members& members = scenario_.groups[group].members;
  const Rank me{static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin())};
  const auto index = static_cast<std::size_t>(me.value);
  const std::string host = host_name(shared.shape.node_of_rank[index], group);
  auto control = std::make_shared<ControlChannel>(
      ControlChannel::Member{me, shared.shape.ranks(), host, shared.shape.ranks_on(shared.shape.node_of_rank[index])},
      shared.words[index],
      shared.shape.nodes() > 1 ? std::make_unique<ThreadControlLink>(shared.mailboxes, me) : nullptr);
  auto communicator = std::make_unique<PlanCommunicator>(
      PlanCommunicator::Identity{
          .backend = "local", .rank = me, .shape = shared.shape, .hostname = host, .control = std::move(control)},
      std::make_unique<FickleMedium>(shared.boxes, shared.traffic, me, PlanCommunicator::channels(shared.options),
                                     shared.seed, setting_.short_tags),
      shared.memories[index], progress, shared.options);
  communicator->enlist();
  shared.joined.push_back(rank);
  return std::make_unique<Communicator>(std::move(communicator));
}

}  // namespace lockstep::schedules
