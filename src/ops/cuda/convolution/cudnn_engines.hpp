// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "ops/cuda/convolution/convolutions.hpp"
#include "ops/cuda/convolution/cudnn_descriptor.hpp"

// From a request to a plan of cuDNN: a graph, the engines that the heuristics name for it, and their configurations.
namespace lockstep::ops::cuda {

/// The identifiers of the tensors of a graph, by which a plan is told their addresses.
enum TensorId : std::int64_t {
  x_tensor = 1,
  w_tensor,
  y_tensor,
  bias_tensor,
  products_tensor,
  biased_tensor,
  shift_tensor,
  deviations_tensor,
  squares_tensor,
  sum_tensor,
  sum_of_squares_tensor
};

/// Returns the operations of a request, with its epilogue if `is_fused`.
std::vector<Descriptor> operations_of(const ConvolutionRequest& request, bool is_fused);

/// The GPU that plans are made for: the selected one, by a handle, or one that is described by its properties.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  std::optional<Descriptor> properties;

  PlanTarget() = default;
  /// @throws Error{unsupported} if cuDNN cannot use the selected GPU
  static std::shared_ptr<const PlanTarget> of_selected_gpu();
  /// @param device_properties  @see make_convolutions_for. @throws Error{invalid_argument} if cuDNN refuses them
  static std::shared_ptr<const PlanTarget> described(const std::string& device_properties);
  PlanTarget(const PlanTarget&) = delete;
  PlanTarget& operator=(const PlanTarget&) = delete;
  ~PlanTarget() {
    if (handle != nullptr) cudnn().Destroy(handle);
  }
  /// Sets that one of two attributes which says for what a descriptor is made.
  void tell(Descriptor& descriptor, std::optional<cudnnBackendAttributeName_t> by_handle,
            std::optional<cudnnBackendAttributeName_t> by_properties) const {
    if (handle != nullptr && by_handle) descriptor.set(*by_handle, handle);
    if (properties && by_properties) descriptor.set(*by_properties, *properties);
  }
};

/// An engine and its knobs.
struct EngineChoice {
  bool is_fused = false;  ///< bias and ReLU, or the sums of statistics, are a part of it
  std::int64_t engine = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;  ///< type and value
};

/// Returns the graph of a request; nothing if cuDNN does not know such graphs.
/// @throws Error{device} naming the request if it cannot be described
std::optional<Descriptor> graph_of(const ConvolutionRequest& request, bool is_fused, const PlanTarget& target);

/// Returns a text such as "fused,eng13,k2=1,k14=3".
std::string word_of(const EngineChoice& choice);

/// Returns what `word_of` made the word from, or nothing if it is none of its words.
std::optional<EngineChoice> parse_word(std::string_view word);

/// Returns the choices of a heuristic for a graph, the most promising first.
std::vector<EngineChoice> choices_of(const Descriptor& graph, bool is_fused, cudnnBackendHeurMode_t mode,
                                     const PlanTarget& target);

bool is_compiled_at_run_time(const Descriptor& engine);

/// Returns why lockstep does not take an engine for a request; empty if it does.
std::string_view fault_of(const Descriptor& engine, const ConvolutionRequest& request, bool is_fused);

/// Makes the engine of a choice; nothing if the graph has none of this number here.
std::optional<Descriptor> engine_of(const EngineChoice& choice, const Descriptor& graph, const PlanTarget& target);

/// Makes the configuration of a choice; nothing if its knobs do not suit the engine.
std::optional<Descriptor> configuration_of(const EngineChoice& choice, const Descriptor& engine);

/// Makes the plan of a configuration; nothing if it does not suit the tensors. Compiles its code, if it has to be.
std::optional<Descriptor> plan_of(const Descriptor& configuration, const PlanTarget& target);

}  // namespace lockstep::ops::cuda
