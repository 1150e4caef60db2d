// SPDX-License-Identifier: Apache-2.0
#include "nn/plan/step_plan.hpp"

#include <algorithm>
#include <deque>

#include "nn/plan/leaf_planner.hpp"

namespace lockstep::nn {
namespace {

/// Decides the order in which leaves go through the graph, and the items in between.
class StepPlanner {
 public:
  /// @param runs  for each node whether it is run
  StepPlanner(const Graph& graph, std::span<const Leaf> leaves, const Cut& cut, std::vector<bool> runs)
      : graph_(graph),
        cut_(cut),
        runs_(std::move(runs)),
        differentiable_(differentiable(graph)),
        loss_of_(graph.nodes().size(), -1) {
    for (std::size_t term = 0; term < graph.losses().size(); ++term) {
      loss_of_[static_cast<std::size_t>(graph.losses()[term].node)] = static_cast<int>(term);
    }
    UsersLeft users{.left = std::vector<int>(graph.parameters().tensors().size()), .all = {}};
    for_each_run([&](std::size_t n) {
      for (const int parameter : graph.nodes()[n].parameters)
        users.left[static_cast<std::size_t>(parameter)] += cut.micro_batches;
    });
    users.all = users.left;
    users_.assign(cut.additions.place.size(), users);
    shards_left_.assign(users.left.size(), static_cast<int>(cut.additions.place.size()));
    pack(*leaves.front().kernels);
    for (const Leaf& leaf : leaves) {
      const auto shard = static_cast<std::size_t>(leaf.shard);
      leaves_.emplace_back(graph, leaf, leaves_.size(), cut.additions.place[shard], differentiable_, loss_of_, packed_,
                           users_[shard], builder_);
      builder_.add_leaf(leaf.first);
    }
  }

  StepPlan training() {
    normalizers();
    if (cut_.parts > 1) {
      for (int micro_batch = 0; micro_batch < cut_.micro_batches; ++micro_batch) run(micro_batch);
    } else {
      for (LeafPlanner& leaf : leaves_) run({leaf});
    }
    join();
    for (const int parameter : complete_) {
      for (const GradientAddition& addition : cut_.additions.last)
        add_shards(addition, parameter, leaves_.front().leaf(), no_lane);
      builder_.add(PlannedReduce{parameter});
    }
    builder_.add(PlannedUpdate{});
    return builder_.take();
  }

  StepPlan evaluation() {
    for_each_run([&](std::size_t n) { forward({leaves_.front()}, n, ops::Pass::infer); });
    std::vector<Operand> outputs;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) outputs.push_back(leaves_.front().output(i));
    for (const Operand& output : outputs) builder_.use(output.index);
    StepPlan plan = builder_.take();
    plan.outputs = std::move(outputs);
    return plan;
  }

 private:
  /// Leaves that go through the graph together.
  using Group = std::vector<std::reference_wrapper<LeafPlanner>>;

  template <typename F>
  void for_each_run(const F& f) const {
    for (std::size_t n = 0; n < runs_.size(); ++n)
      if (runs_[n]) f(n);
  }

  /// Plans the copies of parameters that kernels read. Those of a node are alike for any number of samples.
  void pack(const Kernels& kernels) {
    PlannedPack pack;
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n) {
      const Node& node = graph_.nodes()[n];
      const std::vector<Bytes>& bytes = kernels.nodes[n].kernel->traits().packed;
      packed_.emplace_back(node.parameters.size(), StepPlanBuilder::none);
      if (!runs_[n]) continue;
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i].value == 0) continue;
        packed_[n][i] = builder_.new_buffer(bytes[i], cut_.lanes > 1 ? all_lanes : 0);
        pack.copies.push_back({kernels.nodes[n].kernel.get(),
                               static_cast<int>(i),
                               {Operand::Kind::parameter, node.parameters[i]},
                               builder_.use(packed_[n][i])});
      }
    }
    if (!pack.copies.empty()) builder_.add(std::move(pack));
  }

  void join() {
    if (cut_.lanes > 1) builder_.add(Join{});
  }

  void normalizers() {
    bool any = false;
    for (LeafPlanner& leaf : leaves_) {
      for (std::size_t term = 0; term < graph_.losses().size(); ++term) {
        if (graph_.losses()[term].normalizer != Normalizer::weight) continue;
        leaf.normalizer(static_cast<int>(term));
        any = true;
      }
    }
    if (any) join();
    if (any) builder_.add(PlannedWeights{});
    builder_.add(Compute{ops::StepStage::set_factors});
  }

  /// Plans one micro-batch of all shards.
  void run(int micro_batch) {
    Group group;
    for (LeafPlanner& leaf : leaves_)
      if (leaf.leaf().micro_batch == micro_batch) group.emplace_back(leaf);
    run(group);
  }

  void run(const Group& group) {
    for_each_run([&](std::size_t n) { forward(group, n, ops::Pass::forward); });
    for (std::size_t n = graph_.nodes().size(); n-- > 0;)
      if (runs_[n]) backward(group, n);
  }

  void forward(const Group& group, std::size_t n, ops::Pass pass) {
    std::vector<PlannedRun> runs;
    for (LeafPlanner& leaf : group) runs.push_back(leaf.forward(n, pass));
    const std::int64_t part = group.front().get().made(n).kernel->traits().forward_part;
    if (pass == ops::Pass::forward) exchange(runs, ops::Pass::measure, "measure " + graph_.nodes()[n].name, part);
    for (PlannedRun& run : runs) builder_.add(std::move(run));
  }

  /// Adds runs of `pass` before `runs`, which compute local statistics, and a gather of the statistics of all parts.
  void exchange(std::vector<PlannedRun>& runs, ops::Pass pass, const std::string& label, std::int64_t count) {
    if (count == 0) return;
    const auto bytes = static_cast<std::int64_t>(sizeof(double)) * count;
    const auto own = static_cast<std::int64_t>(runs.size());
    const int lane = cut_.lanes > 1 ? all_lanes : runs.front().lane;
    const Operand mine = builder_.use(builder_.new_buffer({own * bytes}, lane));
    const Operand all = builder_.use(builder_.new_buffer({cut_.parts * bytes}, lane));
    for (std::size_t i = 0; i < runs.size(); ++i) {
      runs[i].part = mine;
      runs[i].part.which = static_cast<std::int64_t>(i) * bytes;
      PlannedRun first = runs[i];
      first.pass = pass;
      first.label = label;
      runs[i].parts = all;
      runs[i].parts_count = cut_.parts * count;
      builder_.add(std::move(first));
    }
    join();
    builder_.add(PlannedGather{mine, all, own * count, cut_.parts * count});
  }

  void backward(const Group& group, std::size_t n) {
    const Node& node = graph_.nodes()[n];
    std::vector<std::optional<LeafPlanner::Backward>> planned;
    for (LeafPlanner& leaf : group) planned.push_back(leaf.backward(n));
    std::vector<PlannedRun> runs;
    for (const auto& one : planned)
      if (one) runs.push_back(one->run);
    if (!runs.empty()) {
      exchange(runs, ops::Pass::measure_backward, "measure backward " + node.name,
               group.front().get().made(n).kernel->traits().backward_part);
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      LeafPlanner& leaf = group[i];
      if (planned[i]) {  // either all leaves have it or none
        builder_.add(std::move(runs[i]));
        leaf.add_up_parameters(n, *planned[i]);
      }
      // This comes before the next shard, whose gradient may use the buffer that becomes free, and before the gradients
      // of the inputs, so that the reduction begins early.
      std::for_each(node.parameters.rbegin(), node.parameters.rend(),
                    [&](int parameter) { used(parameter, leaf.leaf(), leaf.leaf().lane); });
      if (planned[i]) leaf.add_up_inputs(n, *planned[i]);
    }
    if (cut_.lanes == 1) builder_.add(Poll{});
  }

  /// Notes that a leaf has added its gradient of a parameter to that of its shard.
  void used(int parameter, const Leaf& leaf, int lane) {
    const auto shard = static_cast<std::size_t>(leaf.shard);
    if (--users_[shard].left[static_cast<std::size_t>(parameter)] > 0) return;
    for (const GradientAddition& addition : cut_.additions.after[shard]) add_shards(addition, parameter, leaf, lane);
    if (--shards_left_[static_cast<std::size_t>(parameter)] > 0) return;
    if (cut_.lanes == 1 && cut_.additions.last.empty()) {
      builder_.add(PlannedReduce{parameter});
    } else {
      complete_.push_back(parameter);  // ready once lanes have joined
    }
  }

  void add_shards(const GradientAddition& addition, int parameter, const Leaf& leaf, int lane) {
    const Operand to{Operand::Kind::gradient, parameter, addition.to};
    builder_.add(PlannedRun{.kernel = leaf.kernels->sum[static_cast<std::size_t>(parameter)].get(),
                            .label = "add gradients of " + graph_.parameters().at(parameter).name,
                            .lane = lane,
                            .inputs = {to, {Operand::Kind::gradient, parameter, addition.from}},
                            .output = to});
  }

  const Graph& graph_;
  Cut cut_;
  std::vector<bool> runs_;  // by node
  std::vector<bool> differentiable_;
  std::vector<int> loss_of_;              // the loss term of each node, or −1
  std::vector<std::vector<int>> packed_;  // by node and parameter, the buffer of a copy, or none
  std::vector<UsersLeft> users_;          // by shard of the rank
  std::vector<int> shards_left_;          // by parameter
  std::vector<int> complete_;             // parameters that become ready once lanes have joined
  StepPlanBuilder builder_;
  std::deque<LeafPlanner> leaves_;
};

}  // namespace

std::vector<bool> differentiable(const Graph& graph) {
  std::vector<bool> leads_back(graph.values().size());
  for (const Node& node : graph.nodes()) {
    if (node.output < 0) continue;
    leads_back[static_cast<std::size_t>(node.output)] =
        !node.parameters.empty() || std::any_of(node.inputs.begin(), node.inputs.end(),
                                                [&](int value) { return leads_back[static_cast<std::size_t>(value)]; });
  }
  return leads_back;
}

StepPlan plan_training(const Graph& graph, std::span<const Leaf> leaves, const Cut& cut) {
  return StepPlanner(graph, leaves, cut, graph.contributes_to_loss()).training();
}

StepPlan plan_evaluation(const Graph& graph, const Kernels& kernels) {
  const Leaf whole{&kernels};
  const Share one{0, 1};
  return StepPlanner(graph, std::span(&whole, 1), {.additions = plan_gradient_additions(1, one, std::span(&one, 1))},
                     graph.contributes_to_evaluation())
      .evaluation();
}

}  // namespace lockstep::nn
