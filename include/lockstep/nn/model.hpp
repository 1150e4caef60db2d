// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
#include "lockstep/base/statistics_exchange.hpp"
#include "lockstep/nn/graph.hpp"
#include "lockstep/nn/optimizer.hpp"
#include "lockstep/nn/peers.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

struct StepNumbers;
class ItemQueue;
class Lanes;
class PreparedGraph;

/// Overwrites running statistics with their average over ranks, weighted by the samples that each has seen; 0 in total
/// leaves them alone. Collective.
/// @throws Error{invalid_argument} if `samples` is negative; what `exchange` throws
void average_statistics(Buffer statistics, StatisticsExchange& exchange, std::int64_t samples);

/// Passes over a graph that change how a step is computed, and not what: each can be left out.
struct Passes {
  bool fuse = true;          ///< sums and activations become part of the operators before them, or behind them
  bool recompute = true;     ///< cheap results that only the backward pass waits for are computed again
  bool reuse_memory = true;  ///< activations that are not alive at the same time share memory

  /// What they are called: "fuse", "recompute", "reuse-memory".
  static std::vector<std::string_view> names();
  /// Leaves one out. @throws Error{invalid_argument} for an unknown name, with the nearest one
  void leave_out(const std::string& name);
};

/// How a model is to be run.
struct ModelOptions {
  DType dtype = DType::float32;
  std::optional<SgdOptions> sgd;  ///< without it a step makes gradients and no update
  /// Micro-batches, of about equal size, into which a rank's samples of a step are cut. They run one after the other,
  /// so that only one's activations have to be held; gradients are added, and leave after the last.
  int accumulate = 1;
  /// Parts of about equal size into which a step is cut over all ranks, and this rank's. Their gradients are added in
  /// the canonical order over the shards, so that the bits do not depend on who has which. 0: each rank's samples are
  /// one part, and ranks' parts are added in any order.
  int shards = 0;
  Share own_shards{0, 1};
  /// Threads of a rank that take shards side by side, each with operators of its own: `ops` has one thread then.
  int lanes = 1;
  /// Shards, or where there are none, ranks (`Peers::size()`), of whose samples batch norm takes mean and variance
  /// together; 0: of each part by itself.
  int synchronized_parts = 0;
  double clip_norm = 0;  ///< the longest gradient, over all that is updated; a longer one is shortened to it. 0: any
  double ema = 0;        ///< decay of the weights' exponential moving average, which is what evaluations use. 0: none
  Passes passes;
  Observer* observer = nullptr;  ///< gets a span for each operator on the track "compute": "forward <layer>", …
};

/// Numbers of one step that are known before it.
struct StepScalars {
  double learning_rate = 0;
  double samples = 0;           ///< of the step, over all ranks
  double loss_scale = 1;        ///< what gradients are multiplied by until the update, so that small ones are not lost
  ops::Occasion occasion = {};  ///< of this rank's samples; all but `first_sample` the same on all ranks
};

/// What a step came to, the same on all ranks.
struct StepResult {
  double loss = 0;           ///< Σ coefficient · loss ÷ normalizer
  double correct = 0;        ///< of the first loss term
  bool finite = true;        ///< gradients and loss; otherwise nothing was updated
  double gradient_norm = 0;  ///< before it was clipped; known where there is something to clip by
};

/// This rank's part of a batch: a pointer for each of the graph's inputs, in their order, row-major, integers as int32
/// and reals in the model's dtype.
struct Feed {
  std::int64_t samples = 0;  ///< 0 is allowed: the same step is taken, with nothing in it
  std::span<const void* const> inputs;
};

/// One operator of a step: what it is, and what it has to do at least.
struct OperatorReport {
  std::string name;       ///< "forward conv1", "backward conv1"
  std::string operation;  ///< "convolution 3×3, ReLU"
  std::string result;     ///< extents and layout, "64×32×28×28 nChw16c"; of backward: of the first input's gradient
  std::string algorithm;  ///< the back end's name for its kernel
  Bytes bytes;            ///< each tensor read or written once
  std::int64_t flops = 0;
  double seconds = 0;  ///< median, where it has been measured

  /// How much of what the machine can do at best it reaches: the larger of the two bounds on its time, ÷ its time.
  /// Above 1 where tensors stay in caches, or an algorithm multiplies less, as Winograd's does.
  [[nodiscard]] double share_of(const ops::MachineLimits& limits) const;
};

/// A graph that runs: steps and evaluations over parameters, gradients and state that the caller owns, each a flat
/// allocation. Activations are its own: planned per number of samples, in one arena that all share.
class Model {
 public:
  /// @param ops       outlives the model, as does the observer
  /// @throws Error{invalid_argument} if the graph is incomplete or an option of the optimizer cannot be;
  ///         Error{unsupported} if `ops` cannot compute in the dtype
  Model(Graph graph, ops::Ops& ops, ModelOptions options = {});
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  /// As it was given, before any pass.
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] DType dtype() const { return options_.dtype; }
  /// What values are rounded to where they are stored.
  [[nodiscard]] DType values() const { return ops_.values(dtype()); }
  [[nodiscard]] const Layout& parameters() const { return graph_.parameters(); }
  [[nodiscard]] const Layout& state() const { return graph_.state(); }

  /// Memory of the model's dtype and in host reach, of as many elements as the layouts have. Gradients are overwritten
  /// by each step (padding apart).
  struct Memory {
    Buffer parameters;
    Buffer gradients;  ///< `gradient_places()` times, one behind the other; the sums are in the first places
    Buffer state;      ///< for each of the rank's shards, one behind the other
    Buffer velocity;   ///< of the optimizer, where there is one: like parameters, and zero before the first step
    Buffer averages;   ///< where there is a decay: like parameters, and equal to them before the first step
    /// The parts of the parameters that this rank updates, ascending, where `Peers::gather_parameters` brings all
    /// others. `velocity` and `averages` are of these, one behind the other.
    std::optional<std::vector<LayoutPart>> owned = {};
    /// Those whose gradients are sums over ranks when `Peers::finish` returns, if not all are.
    std::optional<std::vector<LayoutPart>> summed = {};
    /// With `owned` and a decay: like parameters, where evaluations find all averages. The caller gathers them there;
    /// between steps it may be `gradients`.
    Buffer gathered_averages = {};
  };
  /// Hands it over. It may be called again.
  /// @throws Error{invalid_argument} if a count or dtype is wrong; Error{unsupported} for memory of a GPU
  void bind(const Memory& memory);

  /// Overwrites parameters and state with what the operators say: weights and biases of PyTorch's default (Kaiming
  /// uniform with a = √5), normalization as the identity. Depends on the seed and the tensors' names alone.
  void initialize(std::uint64_t seed);

  /// How many gradients of the parameters have to be held at a time: one, and with shards so many more as wait to be
  /// added up.
  [[nodiscard]] int gradient_places() const;

  /// Makes kernels and memory plan for a step, or an evaluation, of so many samples on this rank, unless they exist.
  /// Afterwards those of this size allocate nothing, but for scratch memory that an operator may keep from its first
  /// call.
  void prepare(std::int64_t samples, bool training = true);
  /// Makes all kernels that there are, and later ones, by other choices of algorithms.
  /// @throws as ops::Ops::use and ops::Ops::make; nothing has changed then
  void use(const ops::Choices& choices);
  /// What kernels are made by.
  [[nodiscard]] const ops::Choices& choices() const;
  /// Memory that activations and their gradients take in a step, or in an evaluation.
  [[nodiscard]] Bytes activation_bytes(std::int64_t samples, bool training = true);
  /// The operators of a step, in their order, and its updates where there is memory for them.
  [[nodiscard]] std::vector<OperatorReport> operators(std::int64_t samples);

  /// One step: forward, backward, the sums over ranks, and the update, unless something is not finite.
  /// @return valid until the next call
  /// @throws what `peers` and the kernels throw, e.g. Error{invalid_argument} for a label that is no class
  const StepResult& train(const Feed& feed, const StepScalars& scalars, Peers& peers);
  /// What each loss term has come to on this rank in the last step.
  [[nodiscard]] std::span<const ops::Figures> own_figures() const;

  /// Forward only, by running statistics. @return each loss term's figures, valid until the next call
  std::span<const ops::Figures> evaluate(const Feed& feed);
  /// What is minimized, of figures that are summed over all ranks and batches.
  [[nodiscard]] double loss_of(std::span<const ops::Figures> figures, double samples) const;

  /// The order in which a step reports parameters, whatever the number of samples.
  [[nodiscard]] std::vector<int> backward_order();

  /// Hands over the items of a step, in their order, to be run by a `Runner` once or several times, when the feed and
  /// the numbers are there: what `train` does at once. @see nn/step.hpp
  void submit_step(const Feed& feed, ItemQueue& queue);
  /// What items read and write beside tensors.
  [[nodiscard]] StepNumbers& numbers() { return *numbers_; }
  /// What a `Runner` runs them on.
  [[nodiscard]] Lanes& lanes() { return *lanes_; }

  /// Averages the running statistics over ranks, as `average_statistics` does. Collective. @throws as that
  /// @pre there are no shards
  void average_state(StatisticsExchange& exchange, std::int64_t samples);

 private:
  PreparedGraph& prepared(std::int64_t samples, bool training);
  void place(PreparedGraph& prepared);
  void require_bound() const;
  void require_inputs(const Feed& feed) const;

  Graph graph_;
  Graph passed_;  // after the passes
  ops::Ops& ops_;
  ModelOptions options_;
  std::unique_ptr<Lanes> lanes_;
  std::optional<Sgd> optimizer_;
  Memory memory_;
  bool bound_ = false;
  Allocation arena_;
  std::map<std::int64_t, std::unique_ptr<PreparedGraph>> prepared_;
  std::unique_ptr<StepNumbers> numbers_;
};

}  // namespace lockstep::nn
