// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/convolution/cudnn_engines.hpp"

#include <charconv>

#include "ops/cuda/convolution/convolutions.hpp"

namespace lockstep::ops::cuda {
namespace {

constexpr std::string_view fused_prefix = "fused,";

/// Removes a beginning and the number after it, if they are there.
std::optional<std::int64_t> take_number(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return std::nullopt;
  const std::string_view rest = text.substr(beginning.size());
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (failure != std::errc()) return std::nullopt;
  text = rest.substr(static_cast<std::size_t>(end - rest.data()));
  return number;
}

}  // namespace

std::shared_ptr<const PlanTarget> PlanTarget::of_selected_gpu() {
  auto target = std::make_shared<PlanTarget>();
  if (const cudnnStatus_t status = cudnn().Create(&target->handle); status != CUDNN_STATUS_SUCCESS) {
    throw Error(ErrorCode::unsupported,
                "cuDNN " + cudnn().version + " (" + cudnn().file + ") cannot use this GPU: " + text_of(status) +
                    ". Its driver or the GPU may be too old for this cuDNN: install a newer driver, or an older cuDNN");
  }
  return target;
}

std::shared_ptr<const PlanTarget> PlanTarget::described(const std::string& device_properties) {
  auto target = std::make_shared<PlanTarget>();
  Descriptor& properties = target->properties.emplace(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(device_properties));
  if (!properties.try_to_finalize()) {
    throw Error(ErrorCode::invalid_argument,
                "cuDNN refuses these properties of a GPU: " + text_of(CUDNN_STATUS_BAD_PARAM));
  }
  return target;
}

std::optional<Descriptor> graph_of(const ConvolutionRequest& request, bool is_fused, const PlanTarget& target) {
  constexpr std::size_t oldest_with_deterministic_sums = 91100;
  if (is_fused && request.statistics && cudnn().number < oldest_with_deterministic_sums) return std::nullopt;
  try {
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_of(request, is_fused));
    target.tell(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, std::nullopt);
    if (!graph.try_to_finalize()) return std::nullopt;
    return graph;
  } catch (const Error& error) {
    throw Error(error.code(), text(request) + ": " + error.message());
  }
}

std::string word_of(const EngineChoice& choice) {
  std::string word = (choice.is_fused ? std::string(fused_prefix) : "") + "eng" + std::to_string(choice.engine);
  for (const auto& [type, value] : choice.knobs) word += ",k" + std::to_string(type) + "=" + std::to_string(value);
  return word;
}

std::optional<EngineChoice> parse_word(std::string_view word) {
  EngineChoice choice;
  choice.is_fused = word.starts_with(fused_prefix);
  if (choice.is_fused) word.remove_prefix(fused_prefix.size());
  const auto engine = take_number(word, "eng");
  if (!engine) return std::nullopt;
  choice.engine = *engine;
  while (!word.empty()) {
    const auto type = take_number(word, ",k");
    const auto value = take_number(word, "=");
    if (!type || !value) return std::nullopt;
    choice.knobs.emplace_back(*type, *value);
  }
  return choice;
}

std::vector<EngineChoice> choices_of(const Descriptor& graph, bool is_fused, cudnnBackendHeurMode_t mode,
                                     const PlanTarget& target) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  target.tell(heuristic, std::nullopt, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
  if (!heuristic.try_to_finalize()) return {};
  std::vector<EngineChoice> choices;
  for (const Descriptor& configuration :
       heuristic.parts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 64)) {
    const std::vector<Descriptor> engine =
        configuration.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
    if (engine.empty()) continue;
    EngineChoice& choice = choices.emplace_back();
    choice.is_fused = is_fused;
    choice.engine = engine.front().value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    for (const Descriptor& knob :
         configuration.parts(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, 64)) {
      choice.knobs.emplace_back(knob.value<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                                knob.value<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    }
  }
  return choices;
}

bool is_compiled_at_run_time(const Descriptor& engine) {
  return engine.has_note(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

std::string_view fault_of(const Descriptor& engine, const ConvolutionRequest& request, bool is_fused) {
  const auto notes = [&](cudnnBackendNumericalNote_t note) {
    return engine.has_note(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, note);
  };
  if (notes(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return "the engine adds in another order every time";
  if (notes(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return "the engine rounds operands to a shorter type";
  if (notes(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return "the engine rounds sums to a shorter type";
  // The errors are larger than those of sums of products.
  if (notes(CUDNN_NUMERICAL_NOTE_WINOGRAD) || notes(CUDNN_NUMERICAL_NOTE_FFT)) return "the engine transforms operands";
  // Tensor cores take float32 operands as TF32, and there is no other sign of it.
  if (notes(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) && request.dtype == DType::float32 && !request.tf32) {
    return "the engine uses tensor cores, which round float32 to TF32";
  }
  // A ReLU that makes 0 of NaN would hide that training has diverged. cuDNN ignores the attribute that asks for NaN.
  // Engines with this note let it pass, and so does the code that cuDNN generates, which selects x unless x < 0.
  if (is_fused && request.relu && !notes(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP) && !is_compiled_at_run_time(engine)) {
    return "the engine's ReLU may hide NaN";
  }
  return {};
}

std::optional<Descriptor> engine_of(const EngineChoice& choice, const Descriptor& graph, const PlanTarget& target) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
  target.tell(engine, std::nullopt, CUDNN_ATTR_ENGINE_DEVICEPROP);
  if (!engine.try_to_finalize()) return std::nullopt;
  return engine;
}

std::optional<Descriptor> configuration_of(const EngineChoice& choice, const Descriptor& engine) {
  std::vector<Descriptor> knobs;
  for (const auto& [type, value] : choice.knobs) {
    Descriptor& knob = knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    if (!knob.try_to_finalize()) return std::nullopt;
  }
  Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!knobs.empty()) configuration.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  if (!configuration.try_to_finalize()) return std::nullopt;
  return configuration;
}

std::optional<Descriptor> plan_of(const Descriptor& configuration, const PlanTarget& target) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  target.tell(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  if (!plan.try_to_finalize()) return std::nullopt;
  return plan;
}

}  // namespace lockstep::ops::cuda
