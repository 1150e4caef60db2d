// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/base/leaves.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/nn/gradient_reducer.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/optimizer.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

class StepNumbers;
class ItemQueue;
class Lanes;
class PlacedSteps;
class PreparedGraph;

/// Options of a Model.
struct ModelOptions {
  DType dtype = DType::float32;
  std::optional<OptimizerOptions> optimizer;  ///< without it a step computes gradients and makes no update
  ops::StepOptions step;
  Share own_shards{0, 1};  ///< this rank's part of the `step.shards`
  /// Number of shards, or without shards of ranks (`GradientReducer::size()`), over whose samples batch norm computes
  /// mean and variance together; 0: each part by itself.
  int synchronized_parts = 0;
  OptimizationPasses passes;
  Observer* observer = nullptr;  ///< gets a span for each operator on the track "compute", named "forward <layer>", …
};

using ops::StepResult;
using ops::StepScalars;
using ops::StepState;

/// This rank's part of a batch: a pointer for each input of the graph, in their order, row-major, integers as int32 and
/// reals in the model's dtype, or as bytes (`Graph::take_bytes`).
struct Feed {
  std::int64_t samples = 0;  ///< may be 0; the rank then takes part in the step without samples
  std::span<const void* const> inputs;
  std::size_t extents = 0;  ///< those of the inputs: 0 or what `Model::add_extents` has returned
  /// Whether the inputs are in memory of `ops::ComputeDevice::allocate_staging` and stay unchanged until the step is
  /// finished. A device then copies them from there, and otherwise from a copy that the host makes.
  bool stays = false;
};

/// Results of a prediction on this rank, valid until the next call of a function of the model.
struct Prediction {
  std::span<const ops::LossSums> losses;  ///< the sums of each loss term
  /// A buffer for each of the graph's outputs, in their order: samples × extents, row-major, in the model's dtype.
  std::span<const Buffer> outputs;
};

/// Description of an operator of a step, with its minimum of work.
struct OperatorReport {
  std::string name;       ///< "forward conv1", "backward conv1"
  std::string operation;  ///< "convolution 3×3, ReLU"
  std::string result;  ///< extents and layout, "64×32×28×28 nChw16c"; for backward those of the first input's gradient
  std::string algorithm;  ///< the compute library's name for its kernel
  Bytes bytes;            ///< bytes if each tensor is read or written once
  std::int64_t flops = 0;
  double seconds = 0;  ///< median, if it was measured

  /// Fraction of the roofline: the larger of the two lower bounds on its time divided by its time. It is above 1 if
  /// tensors stay in caches, or if the algorithm multiplies less, as Winograd's does.
  [[nodiscard]] double share_of(const ops::MachineLimits& limits) const;
};

/// An executable graph: training steps and evaluations over parameters, gradients and state that the caller owns, each
/// a flat allocation. The model owns the activations, whose memory is planned for each number of samples in one shared
/// arena. The inputs may have several extents, each with a graph of its own over the same parameters and state.
class Model {
 public:
  /// @param ops       outlives the model, as does the observer
  /// @throws Error{invalid_argument} if the graph is incomplete or an option of the optimizer is out of range;
  ///         Error{unsupported} if `ops` cannot compute in the dtype
  Model(Graph graph, ops::Ops& ops, ModelOptions options = {});
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  /// Adds the graph of the same model for inputs of other extents. Plans of all graphs share the arena.
  /// @return what means these extents in `Feed` and in the functions below: 1, 2, …
  /// @throws Error{invalid_argument} that names the layer whose parameters differ, or what else does
  std::size_t add_extents(Graph graph);
  /// Lets the model keep kernels and plans for at most so many extents, those that were used last; others are made
  /// again when they are needed. Without it, all are kept. @pre at least 1
  void keep_plans(std::size_t extents) { most_plans_ = extents; }

  /// Destroys the graphs into which a device has captured training steps; steps that follow are captured again. A group
  /// of GPUs can be closed only when no graph with its operations is left: either this is called before, or the model
  /// is destroyed.
  void drop_captured_steps();

  /// The graph as given, before any pass, for the first extents.
  [[nodiscard]] const Graph& graph() const { return graphs_.front().graph; }
  [[nodiscard]] DType dtype() const { return options_.dtype; }
  /// The device that computes the model.
  [[nodiscard]] const ops::ComputeDevice& device() const { return ops_.device(); }
  /// The dtype of stored activations.
  [[nodiscard]] DType values() const { return ops_.values(dtype()); }
  [[nodiscard]] const Layout& parameters() const { return graph().parameters(); }
  [[nodiscard]] const Layout& state() const { return graph().state(); }

  /// Buffers of the model's dtype in memory of the device (`ops::Ops::device`), with as many elements as the layouts.
  /// Each step overwrites the gradients (except padding).
  struct Memory {
    Buffer parameters;
    Buffer gradients;  ///< `gradient_places()` gradient buffers, concatenated; the sums are in the first ones
    /// One for each of the rank's shards, concatenated. With `StepOptions::ema_statistics` each has its EMA behind it.
    Buffer state;
    /// The optimizer's state buffers, if there is an optimizer: each like parameters, and zero before the first step.
    std::vector<Buffer> optimizer_state;
    Buffer averages;  ///< EMA weights, if there is a decay: like parameters, and equal to them before the first step
    /// With `StepOptions::sum_steps`: the sum of gradients over several steps, like parameters.
    Buffer gradient_sums = {};
    /// With a sharded optimizer: the parts of the parameters that this rank updates, ascending;
    /// `GradientReducer::gather_parameters` provides all others. `optimizer_state`, `averages` and `gradient_sums` then
    /// hold these parts only, concatenated.
    std::optional<std::vector<LayoutPart>> owned = {};
    /// The parts whose gradients are sums over ranks after `GradientReducer::finish`, if each rank has other parts.
    std::optional<std::vector<LayoutPart>> summed = {};
    /// The parts of the gradients that `GradientReducer::reduce` reduces together. Empty: each parameter by itself.
    std::vector<LayoutPart> buckets = {};
    /// With `owned` and a decay: a buffer like parameters with all EMA weights, for evaluations. The caller gathers
    /// them; between steps it may be `gradients`.
    Buffer gathered_averages = {};
  };
  /// Sets the buffers. It may be called again. @pre no step is in flight
  /// @throws Error{invalid_argument} if a count or dtype is wrong, or the memory is not where the operators compute
  void bind(const Memory& memory);

  /// Overwrites parameters and state with the operators' initial values: PyTorch's defaults for weights and biases
  /// (Kaiming uniform with a = √5), the identity for normalization. The values depend on the seed and the names of the
  /// tensors only.
  void initialize(std::uint64_t seed);

  /// Moves shards between ranks: this rank has the given ones from now on. Kernels, memory plans and buffers of before
  /// are dropped, and `bind` and `set_state` follow. @pre no step is in flight
  /// @throws Error{invalid_argument} if they are not among the shards of a step
  void take_shards(const Share& own);

  /// Number of elements of the state of a shard, with its EMA if there is one.
  [[nodiscard]] Count state_of_shard() const;

  /// Number of gradient buffers that are held at a time: one, plus those of shards that wait to be added.
  [[nodiscard]] int gradient_places() const;

  /// Makes kernels and memory plan for a step, or an evaluation, with this number of samples on this rank, unless they
  /// exist. Afterwards steps of this size do not allocate, except for scratch memory that an operator keeps from its
  /// first call.
  /// @throws Error{out_of_memory}
  void prepare(std::int64_t samples, bool training = true, std::size_t extents = 0);
  /// The most samples, up to `samples`, for which `prepare` finds memory on the device, where what the model has
  /// allocated for other numbers of samples counts as free; 0 if not even one fits.
  /// @cost  about five memory plans, with their kernels
  [[nodiscard]] std::int64_t most_samples(std::int64_t samples, bool training, std::size_t extents = 0);
  /// The memory that `prepare` has allocated.
  struct MemoryUse {
    Bytes activations;  ///< with their gradients, and the workspaces of kernels
    Bytes inputs;       ///< copies of feeds; none if kernels read the host's memory
  };
  [[nodiscard]] MemoryUse memory_use() const;
  /// Makes all existing and later kernels with other kernel choices. @pre no step is in flight
  /// @throws as ops::Ops::use and ops::Ops::make, and then nothing changes
  void use(const ops::KernelChoices& choices);
  /// The name of the compute library whose kernel choices the model can use.
  [[nodiscard]] std::string_view library() const { return ops_.library(); }
  /// The kernel choices in use.
  [[nodiscard]] const ops::KernelChoices& choices() const;
  /// Memory of activations and their gradients in a step, or in an evaluation.
  [[nodiscard]] Bytes activation_bytes(std::int64_t samples, bool training = true);
  /// The operators of a step, in their order, and its updates if their buffers are bound.
  [[nodiscard]] std::vector<OperatorReport> operators(std::int64_t samples);

  /// Overwrites the state that the next step starts from, for instance with a checkpoint's, or to go on after a step
  /// that has halted. @pre no step is in flight
  void set_state(const StepState& state);
  /// Submits one step to the device's queue: forward, backward, the reduction over ranks, and the update, unless a
  /// value is not finite or a bad value was met. The host's queue runs it at once. The feed is read before the call
  /// returns, and may be overwritten then, unless it `stays`.
  /// @pre fewer than `max_in_flight()` steps are in flight
  /// @throws what `reducer` and the kernels throw
  void submit(const Feed& feed, const StepScalars& scalars, GradientReducer& reducer);
  /// Waits for the oldest step in flight, polling `reducer`.
  /// @return its results, valid until the next call of `submit`, `train` or `predict`
  /// @throws Error{device}; what `reducer` throws
  const StepResult& finish(GradientReducer& reducer);
  /// The number of steps that have been submitted and not finished.
  [[nodiscard]] int in_flight() const { return static_cast<int>(submitted_ - finished_); }
  /// The largest number of steps in flight: 2 on a device, so that it need not wait for the host, and 1 on the host.
  [[nodiscard]] int max_in_flight() const;
  /// Submits one step and finishes it.
  const StepResult& train(const Feed& feed, const StepScalars& scalars, GradientReducer& reducer) {
    submit(feed, scalars, reducer);
    return finish(reducer);
  }

  /// The sums of each loss term on this rank in the last step that was finished.
  [[nodiscard]] std::span<const ops::LossSums> own_loss_sums() const;
  /// For each parameter whether this rank's gradient was not finite in that step (not 0), before the reduction.
  [[nodiscard]] std::span<const double> not_finite_gradients() const;
  /// For each parameter whether the sum over ranks was not finite (not 0).
  [[nodiscard]] std::span<const double> not_finite_sums() const;
  /// The first bad value that this rank met in that step, its sample counted from this rank's first; without a code if
  /// there was none.
  [[nodiscard]] ops::Fault fault() const;
  /// Describes a bad value and its operator. @param sample  names the sample in the text
  [[nodiscard]] std::string text_of(const ops::Fault& fault, const std::string& sample) const;

  /// Runs forward only, with running statistics and, if there are any, the EMA weights. Inputs that only losses read
  /// may have any valid values if nobody needs the loss.
  /// @pre no step is in flight
  /// @throws Error{invalid_argument} naming operator, sample and value, for instance a label that is no class
  Prediction predict(const Feed& feed);

  /// Sets the inputs and the scalars of the next step, or of the next run of a list.
  void set(const Feed& feed, const StepScalars& scalars);
  /// Submits the items of a step in their order, which a `Runner` runs once or several times, each time after `set`
  /// with a feed of as many samples and these extents. `submit` does all of this at once. @see nn/step.hpp
  void submit_items(std::int64_t samples, ItemQueue& queue, std::size_t extents = 0);
  /// The scalars that items read and write.
  [[nodiscard]] StepNumbers& numbers() { return *numbers_; }
  /// The lanes on which a `Runner` runs the items.
  [[nodiscard]] Lanes& lanes() { return *lanes_; }

 private:
  void prepare_for_shards();
  /// A graph with what is prepared for it.
  struct GraphPlans {
    Graph graph;
    Graph passed;                                                     // after the passes
    std::map<std::int64_t, std::unique_ptr<PreparedGraph>> prepared;  // by number of samples
    std::int64_t last_use = 0;
  };
  void append(Graph graph);
  GraphPlans& plans(std::size_t extents);
  std::unique_ptr<PreparedGraph> new_plans(const GraphPlans& plans, std::int64_t samples) const;
  [[nodiscard]] bool is_prepared(std::int64_t samples, bool training, std::size_t extents);
  PreparedGraph& prepared(std::int64_t samples, bool training, std::size_t extents);
  void wait_until_idle(GradientReducer& reducer) const;
  void make_room_for_plans();
  void drop_plans();
  void place_all();
  void place(PreparedGraph& prepared);
  void check_optimizer_state(std::span<const Buffer> state, Count updated) const;
  PlacedSteps& set_inputs(const Feed& feed, bool training, int slot);
  void make_input_memory(const Graph& graph, std::int64_t samples);
  [[nodiscard]] Bytes input_bytes(const TensorSpec& spec, std::int64_t samples) const;
  [[nodiscard]] std::vector<Bytes> input_memory(const Graph& graph, std::int64_t samples) const;
  [[nodiscard]] Bytes bytes_needed(std::int64_t samples, bool training, std::size_t extents);
  [[nodiscard]] std::string text_of(const Graph& passed, const ops::Fault& fault, const std::string& sample) const;
  void copy_inputs(const Feed& feed, int slot);
  void require_none_in_flight() const;
  [[nodiscard]] int slot_of(std::int64_t step) const { return static_cast<int>(step % max_in_flight()); }
  [[nodiscard]] int last_slot() const { return finished_ == 0 ? 0 : slot_of(finished_ - 1); }
  void require_bound() const;
  void require_inputs(const Feed& feed) const;

  ops::Ops& ops_;
  ModelOptions options_;
  std::unique_ptr<Lanes> lanes_;
  std::optional<Optimizer> optimizer_;
  Memory memory_;
  bool bound_ = false;
  Allocation arena_;
  struct InputMemory {
    Allocation device;
    Allocation staging;  // the host's copy of feeds that do not stay
  };
  struct Slot {
    std::vector<InputMemory> inputs;               // empty if kernels read the host's memory
    std::unique_ptr<ops::DeviceEvent> has_inputs;  // after the copies to the device
    std::unique_ptr<ops::DeviceEvent> done;
    std::size_t extents = 0;  // of the step that has used it last
  };
  std::vector<Slot> slots_;  // steps in flight use them in turn
  std::int64_t submitted_ = 0;
  std::int64_t finished_ = 0;
  std::deque<GraphPlans> graphs_;  // by extents; they keep their addresses
  std::size_t most_plans_ = std::numeric_limits<std::size_t>::max();
  std::int64_t uses_ = 0;
  std::unique_ptr<StepNumbers> numbers_;
};

}  // namespace lockstep::nn
