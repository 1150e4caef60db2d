// SPDX-License-Identifier: Apache-2.0
#include "nn/graph/passes.hpp"

#include <algorithm>
#include <variant>

#include "base/nearest.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep::nn {
namespace {

/// Returns the operator's fused activation, or null for kinds that have none.
ops::Activation* activation_of(ops::Operator& op) {
  return std::visit(
      [](auto& kind) -> ops::Activation* {
        if constexpr (requires { kind.activation; }) {
          return &kind.activation;
        } else {
          return nullptr;
        }
      },
      op);
}

/// Returns the activation if the operator is a plain activation, otherwise none.
Activation activation_that_is(const ops::Operator& op) {
  if (std::holds_alternative<Relu>(op)) return Activation::relu;
  const auto* pointwise = std::get_if<Pointwise>(&op);
  return pointwise != nullptr && pointwise->kind == Pointwise::Kind::relu6 ? Activation::relu6 : Activation::none;
}

/// Returns how often each value is needed: by its readers, and as an output.
std::vector<int> uses_of(const Graph& graph) {
  std::vector<int> uses = graph.readers();
  for (const Output& output : graph.outputs()) ++uses[static_cast<std::size_t>(output.value)];
  return uses;
}

}  // namespace

Graph pool_before_relu(const Graph& graph) {
  Graph ordered = graph;
  const std::vector<int> readers = uses_of(graph);
  for (Node& pool : ordered.nodes_) {
    const auto* max = std::get_if<MaxPool>(&pool.op);
    if (max == nullptr || max->stride != max->kernel || max->padding != 0) continue;
    Value& between = ordered.values_[static_cast<std::size_t>(pool.inputs[0])];
    if (between.producer < 0 || readers[static_cast<std::size_t>(pool.inputs[0])] != 1) continue;
    Node& relu = ordered.nodes_[static_cast<std::size_t>(between.producer)];
    if (!std::holds_alternative<Relu>(relu.op)) continue;
    const Value& result = ordered.values_[static_cast<std::size_t>(pool.output)];
    std::swap(relu.op, pool.op);
    std::swap(relu.name, pool.name);
    between.shape = result.shape;
  }
  return ordered;
}

Graph synchronize_batch_norms(const Graph& graph) {
  Graph synchronized = graph;
  for (Node& node : synchronized.nodes_) {
    if (auto* norm = std::get_if<BatchNorm>(&node.op)) norm->synchronized = true;
  }
  return synchronized;
}

Graph sum_in_convolutions(const Graph& graph) {
  Graph summed = graph;
  const std::vector<bool> is_trained = graph.contributes_to_loss();
  const auto convolution_before = [&](int value) -> Node* {
    const int producer = graph.values_[static_cast<std::size_t>(value)].producer;
    if (producer < 0) return nullptr;
    Node& before = summed.nodes_[static_cast<std::size_t>(producer)];
    const auto* convolution = std::get_if<Convolution>(&before.op);
    if (convolution == nullptr || convolution->bias || convolution->activation != Activation::none) return nullptr;
    return convolution->statistics ? nullptr : &before;  // another batch norm may have them
  };
  for (std::size_t n = 0; n < graph.nodes_.size(); ++n) {
    const Node& node = graph.nodes_[n];
    const auto* norm = std::get_if<BatchNorm>(&node.op);
    if (norm == nullptr || !is_trained[n]) continue;
    std::vector<Node*> before;  // of each input that is normalized
    for (std::size_t i = 0; i < static_cast<std::size_t>(norm->norms()); ++i)
      before.push_back(convolution_before(node.inputs[i]));
    if (std::ranges::count(before, nullptr) > 0 || std::ranges::adjacent_find(before) != before.end()) continue;
    for (std::size_t i = 0; i < before.size(); ++i) {
      std::get<Convolution>(before[i]->op).statistics = true;
      before[i]->state = {node.state[2 * i]};
    }
  }
  return summed;
}

Graph smooth_labels(const Graph& graph, double fraction) {
  Graph smoothed = graph;
  bool has_classes = false;
  for (Node& node : smoothed.nodes_) {
    if (auto* loss = std::get_if<CrossEntropy>(&node.op)) loss->label_smoothing = fraction;
    if (auto* loss = std::get_if<SoftCrossEntropy>(&node.op)) loss->label_smoothing = fraction;
    has_classes |= std::holds_alternative<CrossEntropy>(node.op) || std::holds_alternative<SoftCrossEntropy>(node.op);
    auto* detected = std::get_if<AnchorLoss>(&node.op);
    if (detected == nullptr || detected->part != AnchorLoss::Part::classes) continue;
    detected->label_smoothing = fraction;
    has_classes = true;
  }
  if (!has_classes) {
    throw Error(ErrorCode::invalid_argument,
                "the model '" + graph.name() + "' has no cross-entropy, so there are no labels to smooth");
  }
  return smoothed;
}

Graph normalize_residuals(const Graph& graph) {
  Graph merged = graph;
  const std::vector<int> readers = uses_of(graph);
  std::vector<int> owners(graph.state().tensors().size());  // number of nodes that have a state tensor
  for (const Node& node : graph.nodes())
    for (const int state : node.state) ++owners[static_cast<std::size_t>(state)];
  // The batch norm whose result only this one reads, as its residual. The order of nothing that is summed changes.
  const auto residual_of = [&](const Node& node) -> const Node* {
    const auto* norm = std::get_if<BatchNorm>(&node.op);
    if (norm == nullptr || !norm->residual || norm->normalizes_residual) return nullptr;
    const auto value = static_cast<std::size_t>(node.inputs[1]);
    const int producer = graph.values()[value].producer;
    if (producer < 0 || readers[value] != 1) return nullptr;
    const Node& before = graph.nodes()[static_cast<std::size_t>(producer)];
    const auto* other = std::get_if<BatchNorm>(&before.op);
    if (other == nullptr || other->residual || other->pool || other->activation != Activation::none) return nullptr;
    const bool is_like = other->epsilon == norm->epsilon && other->momentum == norm->momentum &&
                         other->synchronized == norm->synchronized;
    const bool is_read_once = readers[static_cast<std::size_t>(before.inputs[0])] == 1;
    return is_like && is_read_once && owners[static_cast<std::size_t>(before.state[0])] == 1 ? &before : nullptr;
  };
  std::vector<bool> is_merged(graph.nodes().size());
  for (Node& node : merged.nodes_) {
    const Node* before = residual_of(node);
    if (before == nullptr) continue;
    std::get<BatchNorm>(node.op).normalizes_residual = true;
    node.inputs[1] = before->inputs[0];
    node.parameters.insert(node.parameters.end(), before->parameters.begin(), before->parameters.end());
    node.state.insert(node.state.end(), before->state.begin(), before->state.end());
    is_merged[static_cast<std::size_t>(before - graph.nodes().data())] = true;
  }
  std::vector<int> new_index;
  int kept = 0;
  for (const bool merged_away : is_merged) new_index.push_back(merged_away ? -1 : kept++);
  for (Value& value : merged.values_)
    if (value.producer >= 0) value.producer = new_index[static_cast<std::size_t>(value.producer)];
  for (LossTerm& term : merged.losses_) term.node = new_index[static_cast<std::size_t>(term.node)];
  std::erase_if(merged.nodes_,
                [&](const Node& node) { return is_merged[static_cast<std::size_t>(&node - merged.nodes_.data())]; });
  return merged;
}

/// Removes nodes from a graph whose work other nodes take over.
class Absorption {
 public:
  explicit Absorption(const Graph& graph) : graph_(graph), fused_(graph), readers_(uses_of(graph)) {}

  /// @param absorbs  called with (node, kept nodes, producer, input): returns whether the producer of this input, which
  ///        has no other reader, can also do the node's work, and if so changes the producer accordingly
  template <typename Absorbs>
  Graph without(const Absorbs& absorbs) {
    std::vector<int> new_index(graph_.nodes().size(), -1);
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (absorbed(node, absorbs)) continue;
      new_index[i] = static_cast<int>(kept_.size());
      if (node.output >= 0) value(node.output).producer = new_index[i];
      kept_.push_back(node);
    }
    fused_.nodes_ = std::move(kept_);
    for (LossTerm& term : fused_.losses_) term.node = new_index[static_cast<std::size_t>(term.node)];
    return std::move(fused_);
  }

 private:
  template <typename Absorbs>
  bool absorbed(const Node& node, const Absorbs& absorbs) {
    for (std::size_t input = 0; input < node.inputs.size(); ++input) {
      const int read = node.inputs[input];
      const int producer = value(read).producer;
      if (producer < 0 || readers_[static_cast<std::size_t>(read)] != 1) continue;
      if (!absorbs(node, kept_, static_cast<std::size_t>(producer), input)) continue;
      // The value that only this node read has no producer any more.
      kept_[static_cast<std::size_t>(producer)].output = node.output;
      value(node.output).producer = std::exchange(value(read).producer, -1);
      return true;
    }
    return false;
  }
  Value& value(int index) { return fused_.values_[static_cast<std::size_t>(index)]; }

  const Graph& graph_;
  Graph fused_;
  std::vector<int> readers_;
  std::vector<Node> kept_;
};

Graph fuse_activations(const Graph& graph) {
  return Absorption(graph).without(
      [](const Node& node, std::vector<Node>& kept, std::size_t producer, std::size_t /*input*/) {
        ops::Activation* own = activation_of(kept[producer].op);
        const Activation next = activation_that_is(node.op);
        const bool has_it = next == Activation::relu || std::holds_alternative<BatchNorm>(kept[producer].op);
        if (own == nullptr || *own != Activation::none || next == Activation::none || !has_it) return false;
        *own = next;
        return true;
      });
}

Graph pool_in_batch_norms(const Graph& graph) {
  return Absorption(graph).without(
      [](const Node& node, std::vector<Node>& kept, std::size_t producer, std::size_t /*input*/) {
        const auto* pool = std::get_if<MaxPool>(&node.op);
        auto* norm = std::get_if<BatchNorm>(&kept[producer].op);
        if (pool == nullptr || norm == nullptr || norm->residual || norm->pool) return false;
        MaxPool plain = *pool;
        plain.activation = Activation::none;
        // The largest result of a ReLU is the ReLU of the largest number.
        const bool moves_relu = pool->activation == Activation::relu && norm->activation == Activation::none;
        if ((pool->activation != Activation::none && !moves_relu) || !BatchNorm::can_fuse(plain)) return false;
        norm->pool = plain;
        if (moves_relu) norm->activation = Activation::relu;
        return true;
      });
}

Graph fuse_additions(const Graph& graph) {
  return Absorption(graph).without(
      [](const Node& node, std::vector<Node>& kept, std::size_t producer, std::size_t input) {
        const auto* sum = std::get_if<Add>(&node.op);
        auto* norm = std::get_if<BatchNorm>(&kept[producer].op);
        // The batch norm must come right before the sum; otherwise the order in which gradients are added could change.
        if (sum == nullptr || norm == nullptr || producer + 1 != kept.size()) return false;
        if (norm->residual || norm->activation != Activation::none) return false;
        norm->residual = true;
        norm->activation = sum->activation;
        kept[producer].inputs.push_back(node.inputs[1 - input]);
        return true;
      });
}

std::vector<std::string_view> OptimizationPasses::names() { return {"fuse", "recompute", "reuse-memory", "capture"}; }

void OptimizationPasses::disable(const std::string& name) {
  if (name == "fuse") {
    fuse = false;
  } else if (name == "recompute") {
    recompute = false;
  } else if (name == "reuse-memory") {
    reuse_memory = false;
  } else if (name == "capture") {
    capture = false;
  } else {
    throw Error(ErrorCode::invalid_argument, unknown("pass", name, names()));
  }
}

Graph after_passes(const Graph& graph, const OptimizationPasses& passes, bool synchronized, const ops::Ops& ops) {
  Graph passed = synchronized ? synchronize_batch_norms(graph) : graph;
  if (passes.fuse) {
    passed = fuse_activations(fuse_additions(pool_before_relu(passed)));
    if (ops.fuses_batch_norms()) passed = pool_in_batch_norms(normalize_residuals(passed));
    if (ops.sums_in_convolutions()) passed = sum_in_convolutions(passed);
  }
  return passed;
}

}  // namespace lockstep::nn
