// SPDX-License-Identifier: Apache-2.0
// The hierarchical all-reduce without shared memory, which SMPI does not simulate. Messages replace the reads and
// writes of the memory of a node's other ranks; they go through the simulated node's loopback. Lanes, slices, the plans
// across nodes and the order of addition are the library's, whose function this one replaces.
#include "collectives/algorithms/all_reduce.hpp"
#include "collectives/algorithms/node.hpp"
#include "collectives/plan/expression.hpp"
#include "collectives/plan/partition.hpp"
#include "collectives/plan/plan_builder.hpp"

namespace lockstep::collectives {
namespace {

class Builder {
 public:
  Builder(Rank me, const CollectiveDescription& d, Algorithm algorithm)
      : d_(d),
        algorithm_(algorithm),
        node_(d.shape.node_of_rank[static_cast<std::size_t>(me.value)]),
        locals_(d.shape.ranks_on(node_)),
        lanes_(lanes(d.shape)) {
    while (locals_[static_cast<std::size_t>(local_)] != me.value) ++local_;
  }

  Plan build() {
    const AllReduceRow& across = row_of(algorithm_);
    const Plan lane =
        local_ < lanes_ ? across.plan({node_}, d_.shape.nodes(), {slice(local_).count}, d_.radix) : Plan{};
    first_slot_ = lane.scratch.value;
    plan_.scratch({first_slot_ + (local_ < lanes_ ? size() * slice(local_).count : 0)});
    give_slices();
    if (local_ < lanes_) add_up();
    for (const Step& step : lane.steps) append(step);
    hand_out();
    return plan_.take();
  }

 private:
  [[nodiscard]] int size() const { return static_cast<int>(locals_.size()); }
  [[nodiscard]] int rank(int local) const { return locals_[static_cast<std::size_t>(local)]; }
  [[nodiscard]] Range slice(int lane) const { return chunk(d_.count, lanes_, lane); }
  /// Returns where the contribution of a local rank to this rank's slice arrives.
  [[nodiscard]] Range slot(int local) const {
    const std::int64_t length = slice(local_).count;
    return {Memory::scratch, first_slot_ + local * length, length};
  }

  void give_slices() {
    for (int turn = 1; turn < size(); ++turn) {
      const int to = (local_ + turn) % size();
      const int from = (local_ + size() - turn) % size();
      if (to < lanes_) plan_.send(rank(to), slice(to));
      if (local_ < lanes_) plan_.receive(rank(from), slot(from));
    }
  }

  /// Because a ⊕ b equals b ⊕ a, the sum can move into the rank's own slice at its position in the order.
  void add_up() {
    const auto operand = [this](int local) { return local == local_ ? slice(local_) : slot(local); };
    const auto add = [this](const Range& a, const Range& b) {
      const bool is_own = b == slice(local_);
      plan_.reduce(is_own ? b : a, is_own ? a : b);
      return is_own ? b : a;
    };
    if (is_canonical(algorithm_)) {
      canonical_tree_fold(size(), operand, add);
    } else {
      Range sum = operand(0);
      for (int local = 1; local < size(); ++local) sum = add(sum, operand(local));
    }
  }

  void hand_out() {
    for (int turn = 1; turn < size(); ++turn) {
      const int to = (local_ + turn) % size();
      const int from = (local_ + size() - turn) % size();
      if (local_ < lanes_) plan_.send(rank(to), slice(local_));
      if (from < lanes_) plan_.receive(rank(from), slice(from));
    }
  }

  /// Appends a step of the plan across nodes, translated to the ranks and ranges of the whole.
  void append(const Step& step) {
    if (const auto* send = std::get_if<Send>(&step)) plan_.send(in_lane(send->peer), moved(send->from));
    if (const auto* receive = std::get_if<Receive>(&step)) plan_.receive(in_lane(receive->peer), moved(receive->to));
    if (const auto* sum = std::get_if<ReceiveReduce>(&step))
      plan_.receive_reduce(in_lane(sum->peer), moved(sum->to), moved(sum->own), sum->first);
    if (const auto* copy = std::get_if<Copy>(&step)) plan_.copy(moved(copy->to), moved(copy->from));
    if (const auto* sum = std::get_if<Reduce>(&step)) plan_.reduce(moved(sum->to), moved(sum->from), sum->first);
  }
  /// Returns the rank of this lane on a node. Nodes of equal size are numbered one after the other.
  [[nodiscard]] int in_lane(int node) const { return node * size() + local_; }
  [[nodiscard]] Range moved(Range range) const {
    if (range.memory == Memory::output) range.offset += slice(local_).offset;
    return range;
  }

  const CollectiveDescription& d_;
  Algorithm algorithm_;
  int node_;
  std::vector<int> locals_;
  int local_ = 0;
  int lanes_;
  std::int64_t first_slot_ = 0;
  PlanBuilder plan_;
};

}  // namespace

/// @pre all nodes have the same number of ranks, numbered node by node; the operation is in place
Plan hierarchical_all_reduce(Rank me, const CollectiveDescription& d, Algorithm algorithm) {
  return Builder(me, d, algorithm).build();
}

int lanes(const ClusterShape& shape) { return shape.ranks() / shape.nodes(); }

}  // namespace lockstep::collectives
