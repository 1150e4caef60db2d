// SPDX-License-Identifier: Apache-2.0
#include "nn/run/prepared_graph.hpp"

#include <algorithm>

namespace lockstep::nn {
namespace {

std::string text_of(const ops::Format& format) {
  const ops::Shape& s = format.shape;
  std::string text;
  for (const std::int64_t extent : {s.batch, s.channels, s.height, s.width})
    text += (text.empty() ? "" : "×") + std::to_string(extent);
  return text + ' ' + std::string(format.layout);
}

}  // namespace

GradientAdditions gradient_additions_of(const Graph& graph, const StepShape& shape, int lanes) {
  std::vector<int> users(graph.parameters().tensors().size());
  const std::vector<bool> is_trained = graph.contributes_to_loss();
  bool has_shared = false;
  for (std::size_t n = 0; n < is_trained.size(); ++n)
    if (is_trained[n])
      for (const int parameter : graph.nodes()[n].parameters)
        has_shared |= users[static_cast<std::size_t>(parameter)]++ > 0;
  // If all shards go through the graph together, the gradient of one is computed in several stages between those of the
  // others.
  const bool interleaved = shape.parts > 1 && (shape.micro_batches > 1 || has_shared);
  const auto streams = interleaved ? shape.own_shards.count : std::min<std::int64_t>(lanes, shape.own_shards.count);
  std::vector<Share> shares;
  for (std::int64_t stream = 0; stream < streams; ++stream)
    shares.push_back(share_of(shape.own_shards.count, stream, streams));
  return plan_gradient_additions(shape.shards, shape.own_shards, shares);
}

PlacedSteps& PreparedGraph::training(Bytes arena) {
  if (training_) return *training_;
  const Share& own = shape_.own_shards;
  const Cut cut{.additions = gradient_additions_of(graph_, shape_, lanes_.count()),
                .micro_batches = shape_.micro_batches,
                .lanes = static_cast<int>(std::min<std::int64_t>(lanes_.count(), own.count)),
                .parts = shape_.parts};
  std::vector<Leaf> leaves;
  for (int shard = 0; shard < own.count; ++shard) {
    const Share samples = share_of(samples_, shard, own.count);
    int lane = 0;
    while (shard >= share_of(own.count, lane, cut.lanes).end()) ++lane;
    for (int micro_batch = 0; micro_batch < cut.micro_batches; ++micro_batch) {
      const Share part = share_of(samples.count, micro_batch, cut.micro_batches);
      leaves.push_back({&kernels_for(part.count, lane), samples.first + part.first, shard, micro_batch, lane});
    }
  }
  const auto placed = [&](bool recomputes) -> PlacedSteps& {
    StepPlan plan = plan_training(graph_, leaves, cut);
    if (recomputes) plan = nn::recompute(std::move(plan));
    if (passes_.fuse) plan = fuse_sums(std::move(plan));
    if (passes_.reuse_memory) plan = share_gradients(std::move(plan));
    return training_.emplace(graph_, std::move(plan), passes_, dtype_, samples_);
  };
  // On a CPU, less memory means more cache hits. A GPU recomputes only if its memory would not suffice otherwise.
  const std::optional<ops::DeviceMemory> memory = lanes_.ops(0).device().memory();
  if (passes_.recompute && memory && placed(false).plan().total.value <= (memory->free.value + arena.value) / 10 * 9)
    return *training_;
  return placed(passes_.recompute);
}

PlacedSteps& PreparedGraph::evaluation() {
  if (evaluation_) return *evaluation_;
  return evaluation_.emplace(graph_, plan_evaluation(graph_, kernels_for(samples_, 0)), passes_, dtype_, samples_);
}

const Kernels& PreparedGraph::kernels_for(std::int64_t samples, int lane) {
  const auto found = kernels_.find({lane, samples});
  if (found != kernels_.end()) return found->second;
  const auto leaves = static_cast<std::size_t>(shape_.own_shards.count * shape_.micro_batches);
  return kernels_.emplace(std::pair(lane, samples), choose_kernels(graph_, lanes_.ops(lane), dtype_, samples, leaves))
      .first->second;
}

Bytes PreparedGraph::arena_bytes() const {
  return {std::max(training_ ? training_->plan().total.value : 0, evaluation_ ? evaluation_->plan().total.value : 0)};
}

void PreparedGraph::place(const StepMemory& memory) {
  if (training_) training_->place(memory);
  if (!evaluation_) return;
  StepMemory averaged = memory;
  averaged.slots = memory.slots.first(1);
  averaged.reads_averages = memory.options.ema_statistics;
  if (memory.options.ema > 0) {
    averaged.tensors.parameters = memory.tensors.owned ? memory.tensors.gathered_averages : memory.tensors.averages;
  }
  evaluation_->place(averaged);
}

OperatorReport PreparedGraph::report(const PlannedRun& run) const {
  const ops::Traits& traits = run.kernel->traits();
  OperatorReport report{.name = run.label, .algorithm = run.kernel->algorithm(run.pass)};
  if (run.pass == ops::Pass::forward || run.pass == ops::Pass::recompute) report.result = text_of(traits.output);
  if (run.node < 0) {  // it only reads its inputs and writes its result
    report.operation = run.inputs.size() == 1 ? "reorder" : "add";
    report.bytes = {traits.output.bytes.value * static_cast<std::int64_t>(run.inputs.size() + 1)};
    return report;
  }
  const Node& node = graph_.nodes()[static_cast<std::size_t>(run.node)];
  std::vector<ops::Shape> inputs;
  for (const ops::Format& format : traits.inputs) inputs.push_back(format.shape);
  const ops::Signature signature = ops::signature_of(node.op, inputs);
  const bool wants_inputs = std::any_of(run.input_gradients.begin(), run.input_gradients.end(),
                                        [](const Operand& operand) { return operand.kind != Operand::Kind::none; });
  ops::OperatorCost cost = signature.forward;
  if (run.pass == ops::Pass::backward) {
    const bool has_parameters_already = run.parameter_gradients.empty() && !node.parameters.empty();
    cost = has_parameters_already ? ops::OperatorCost{} : signature.backward;
    if (wants_inputs) cost = cost + signature.backward_inputs;
    if (wants_inputs) report.result = text_of(traits.inputs.front());
  }
  if (run.pass == ops::Pass::normalizer) cost = {};
  if (run.pass == ops::Pass::recompute) cost = {2 * inputs[0].count(), inputs[0].count() + traits.output.shape.count()};
  // These passes compute two sums over what they read.
  if (run.pass == ops::Pass::measure) cost = {3 * inputs[0].count(), inputs[0].count()};
  if (run.pass == ops::Pass::measure_backward) cost = {3 * inputs[0].count(), 2 * inputs[0].count()};
  report.operation = ops::text_of(node.op);
  report.flops = cost.flops;
  report.bytes = {cost.elements * size_of(traits.inputs.front().dtype)};
  return report;
}

}  // namespace lockstep::nn
