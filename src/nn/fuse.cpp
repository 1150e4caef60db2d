// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/nn/graph.hpp"

namespace lockstep::nn {
namespace {

/// The operator's own activation, or null for kinds that have none.
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

}  // namespace

Graph synchronise_batch_norms(const Graph& graph) {
  Graph synchronised = graph;
  for (Node& node : synchronised.nodes_) {
    if (auto* norm = std::get_if<BatchNorm>(&node.op)) norm->synchronised = true;
  }
  return synchronised;
}

Graph fuse_activations(const Graph& graph) {
  Graph fused = graph;
  const std::vector<int> readers = graph.readers();
  std::vector<Node> kept;
  std::vector<int> new_index(graph.nodes().size(), -1);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    Value& read = fused.values_[static_cast<std::size_t>(node.inputs.front())];
    Node* producer = read.producer < 0 ? nullptr : &kept[static_cast<std::size_t>(read.producer)];
    ops::Activation* activation = producer == nullptr ? nullptr : activation_of(producer->op);
    const bool absorbed = std::holds_alternative<Relu>(node.op) && activation != nullptr &&
                          *activation == Activation::none && readers[static_cast<std::size_t>(producer->output)] == 1;
    if (absorbed) {  // what only the ReLU has read is nobody's any more
      *activation = Activation::relu;
      producer->output = node.output;
      fused.values_[static_cast<std::size_t>(node.output)].producer = std::exchange(read.producer, -1);
      continue;
    }
    new_index[i] = static_cast<int>(kept.size());
    if (node.output >= 0) fused.values_[static_cast<std::size_t>(node.output)].producer = new_index[i];
    kept.push_back(node);
  }
  fused.nodes_ = std::move(kept);
  for (LossTerm& term : fused.losses_) term.node = new_index[static_cast<std::size_t>(term.node)];
  return fused;
}

}  // namespace lockstep::nn
