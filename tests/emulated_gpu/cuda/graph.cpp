// SPDX-License-Identifier: Apache-2.0
// Captured graphs: their contents and their launches.
#include <algorithm>
#include <map>

#include "emulated_gpu/cuda/runtime.hpp"

/// A graph in the state of its instantiation or its last update.
struct CUgraphExec_st {
  struct Item {
    cudaGraphNodeType kind;
    emulated_gpu::Recipe recipe;
    std::shared_ptr<const emulated_gpu::GraphMemory> memory;
    std::vector<std::size_t> after;  ///< indices of the items that it depends on
    int gpu;
    cudaGraphNode_t node;
  };
  std::vector<Item> items;
  emulated_gpu::NodePtr last;  ///< the end of its last launch, because launches follow each other
};

namespace emulated_gpu {
namespace {

std::vector<CUgraphExec_st::Item> items_of(const CUgraph_st& graph) {
  std::map<const GraphNode*, std::size_t> place;
  std::vector<CUgraphExec_st::Item> items;
  for (const auto& node : graph.nodes) {
    CUgraphExec_st::Item item{node->kind, node->recipe, node->memory, {}, node->gpu, node.get()};
    for (const GraphNode* before : node->after) item.after.push_back(place.at(before));
    std::sort(item.after.begin(), item.after.end());
    place[node.get()] = items.size();
    items.push_back(std::move(item));
  }
  return items;
}

cudaError_t launch(CUgraphExec_st& exec, CUstream_st& stream) {
  // Graphs within graphs are not emulated.
  if (stream.capture) return break_capture(stream, cudaErrorNotSupported);
  if (const cudaError_t error = refuse_legacy_in_capture(stream); error != cudaSuccess) return error;
  Engine& engine = Engine::instance();
  std::vector<NodePtr> before = order_behind(stream);
  before.push_back(exec.last);
  std::vector<NodePtr> nodes;
  for (const CUgraphExec_st::Item& item : exec.items) {
    std::vector<NodePtr> after;
    for (const std::size_t place : item.after) after.push_back(nodes[place]);
    if (after.empty()) after = before;
    nodes.push_back(engine.add(item.recipe ? item.recipe() : nullptr, std::move(after), item.gpu));
  }
  nodes.insert(nodes.end(), before.begin(), before.end());
  stream.tail = exec.last = engine.add(nullptr, std::move(nodes), stream.gpu);
  engine.work();
  return cudaSuccess;
}

/// Compares two lists of items, which may differ only in their actions.
cudaGraphExecUpdateResult compare(const std::vector<CUgraphExec_st::Item>& old,
                                  const std::vector<CUgraphExec_st::Item>& now, cudaGraphNode_t* culprit) {
  if (old.size() != now.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (std::size_t i = 0; i < now.size(); ++i) {
    *culprit = now[i].node;
    if (old[i].kind != now[i].kind) return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (old[i].after != now[i].after) return cudaGraphExecUpdateErrorTopologyChanged;
  }
  *culprit = nullptr;
  return cudaGraphExecUpdateSuccess;
}

}  // namespace
}  // namespace emulated_gpu

using namespace emulated_gpu;

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  EMULATED_GPU_CALL("cudaGraphCreate");
  if (graph == nullptr || flags != 0) return Call::result(cudaErrorInvalidValue);
  *graph = new CUgraph_st;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  EMULATED_GPU_CALL("cudaGraphDestroy");
  if (graph == nullptr) return Call::result(cudaErrorInvalidValue);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  EMULATED_GPU_CALL("cudaGraphGetNodes");
  if (graph == nullptr || count == nullptr) return Call::result(cudaErrorInvalidValue);
  if (nodes != nullptr) {
    for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
  }
  *count = nodes == nullptr ? graph->nodes.size() : std::min(*count, graph->nodes.size());
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  EMULATED_GPU_CALL("cudaGraphNodeGetType");
  if (node == nullptr || type == nullptr) return Call::result(cudaErrorInvalidValue);
  *type = node->kind;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  EMULATED_GPU_CALL("cudaGraphInstantiate");
  if (exec == nullptr || graph == nullptr || flags != 0) return Call::result(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{items_of(*graph), nullptr};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  EMULATED_GPU_CALL("cudaGraphExecUpdate");
  if (exec == nullptr || graph == nullptr) return Call::result(cudaErrorInvalidValue);
  std::vector<CUgraphExec_st::Item> items = items_of(*graph);
  cudaGraphExecUpdateResultInfo result{};
  result.result = compare(exec->items, items, &result.errorNode);
  if (info != nullptr) *info = result;
  if (result.result != cudaGraphExecUpdateSuccess) return Call::result(cudaErrorGraphExecUpdateFailure);
  exec->items = std::move(items);
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) {
  EMULATED_GPU_CALL("cudaGraphUpload");
  const bool is_valid = exec != nullptr && find_stream(handle) != nullptr;
  return is_valid ? cudaSuccess : Call::result(cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  EMULATED_GPU_CALL("cudaGraphLaunch");
  CUstream_st* stream = find_stream(handle);
  if (exec == nullptr) return Call::result(cudaErrorInvalidValue);
  if (stream == nullptr) return Call::result(cudaErrorInvalidResourceHandle);
  return Call::result(launch(*exec, *stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  EMULATED_GPU_CALL("cudaGraphExecDestroy");
  if (exec == nullptr) return Call::result(cudaErrorInvalidValue);
  delete exec;  // launched work continues
  return cudaSuccess;
}

}  // extern "C"
