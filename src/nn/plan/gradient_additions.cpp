// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "nn/plan/step_plan.hpp"

namespace lockstep::nn {
namespace {

/// A stack of partial sums in gradient buffers, which are added up as far as the tree allows.
class Stack {
 public:
  Stack(int shards, std::int64_t first) : shards_(shards), first_(first) {}

  /// Adds the shard whose gradient is in `place` and that ends before `end`. @return the additions to make now
  std::vector<GradientAddition> push(int place, std::int64_t end) {
    places_.push_back(place);
    std::vector<GradientAddition> additions;
    while (std::ssize(places_) > count_tree_nodes(shards_, Share{first_, end - first_})) {
      const int upper = places_.back();
      places_.pop_back();
      additions.push_back({places_.back(), upper});
    }
    return additions;
  }
  [[nodiscard]] const std::vector<int>& places() const { return places_; }

 private:
  int shards_;
  std::int64_t first_;
  std::vector<int> places_;  // gradient buffers that hold partial sums, ascending
};

/// Renumbers the gradient buffers of a plan: `names` gives each one's new number.
void rename(GradientAdditions& plan, const std::vector<int>& names) {
  const auto name = [&](int& place) { place = names[static_cast<std::size_t>(place)]; };
  const auto name_all = [&](std::vector<GradientAddition>& additions) {
    for (GradientAddition& addition : additions) {
      name(addition.to);
      name(addition.from);
    }
  };
  for (int& place : plan.place) name(place);
  for (auto& additions : plan.after) name_all(additions);
  name_all(plan.last);
}

/// Numbers the gradient buffers so that those in `first` become 0, 1, …, and all others follow.
std::vector<int> names_of(const std::vector<int>& first, int places) {
  std::vector<int> order = first;
  for (int place = 0; place < places; ++place)
    if (std::find(first.begin(), first.end(), place) == first.end()) order.push_back(place);
  std::vector<int> names(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) names[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  return names;
}

}  // namespace

GradientAdditions plan_gradient_additions(int shards, const Share& own, std::span<const Share> streams) {
  GradientAdditions plan;
  Stack all(shards, own.first);
  for (const Share& stream : streams) {
    const std::int64_t first = own.first + stream.first;
    Stack stack(shards, first);
    int deepest = 0;
    for (std::int64_t shard = first; shard < first + stream.count; ++shard) {
      const auto depth = static_cast<int>(stack.places().size());
      plan.place.push_back(plan.places + depth);
      plan.after.push_back(stack.push(plan.place.back(), shard + 1));
      deepest = std::max(deepest, depth + 1);
    }
    const std::vector<LeafNode> nodes = tree_nodes(shards, Share{first, stream.count});
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::vector<GradientAddition> additions = all.push(stack.places()[i], nodes[i].first + nodes[i].leaves);
      plan.last.insert(plan.last.end(), additions.begin(), additions.end());
    }
    plan.places += deepest;
  }
  rename(plan, names_of(all.places(), plan.places));
  return plan;
}

}  // namespace lockstep::nn
