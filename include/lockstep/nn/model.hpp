// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/buffer.hpp"
#include "lockstep/base/layout.hpp"
#include "lockstep/base/observer.hpp"
#include "lockstep/base/statistics_exchange.hpp"
#include "lockstep/nn/gradient_sink.hpp"
#include "lockstep/nn/network.hpp"
#include "lockstep/nn/tensors.hpp"
#include "lockstep/ops/ops.hpp"

namespace lockstep::nn {

class Program;

/// Overwrites running statistics with their average over ranks, weighted by the samples that each has seen; 0 in total
/// leaves them alone. Collective.
/// @throws Error{invalid_argument} if `samples` is negative; what `exchange` throws
void average_statistics(Buffer statistics, StatisticsExchange& exchange, std::int64_t samples);

/// A network that runs: forward and backward passes over parameters, gradients and batch-norm state that the caller
/// owns, each a flat allocation. Activations are its own: planned per batch size, in one arena that all sizes share.
class Model {
 public:
  /// @param ops       outlives the model
  /// @param observer  gets spans "forward <layer>", "loss" and "backward <layer>" on the track "compute"; may be null
  /// @throws Error{invalid_argument} if the network is incomplete; Error{unsupported} if `ops` cannot compute in
  /// `dtype`
  Model(Network network, ops::Ops& ops, DType dtype, Observer* observer = nullptr);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model();

  [[nodiscard]] const Network& network() const { return network_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  /// Names and order as in PyTorch's `named_parameters()` of the same model.
  [[nodiscard]] const Layout& parameters() const { return tensors_.parameters; }
  /// Running mean and variance of every batch norm; empty where there is none.
  [[nodiscard]] const Layout& state() const { return tensors_.state; }

  /// Hands over the memory, in host reach and of the model's dtype; counts are the layouts'. It may be called again.
  /// @throws Error{invalid_argument} if a count or dtype is wrong; Error{unsupported} for memory of a GPU
  void bind(Buffer parameters, Buffer gradients, Buffer state);

  /// Overwrites parameters and state: weights and biases uniform in ±1/√fan_in (PyTorch's default, Kaiming uniform with
  /// a = √5), gamma 1, beta 0, running mean 0, running variance 1. Depends on the seed and the tensors' names alone.
  void initialize(std::uint64_t seed);

  /// Makes the operators and the memory plan for this batch size, unless they exist. Afterwards forward and backward
  /// of this size allocate nothing, but for scratch memory that an operator may keep from its first call.
  void prepare(std::int64_t batch);
  /// What computes a layer of the network for this batch size. @pre prepare() was called for it
  [[nodiscard]] const ops::Operator& operator_of(int layer, std::int64_t batch) const;
  /// Memory that activations and their gradients take for this batch size, which is prepared if need be.
  [[nodiscard]] Bytes activation_bytes(std::int64_t batch);

  /// @param images    `batch` images, plain NCHW in the model's dtype; they stay valid until backward returns
  /// @param labels    one per image
  /// @param batch     0 is allowed: the same operators run, on nothing, and give zeros
  /// @param training  batch statistics, and what backward needs is kept; otherwise running statistics
  ops::Loss::Result forward(const void* images, const std::int32_t* labels, std::int64_t batch, bool training);

  /// Overwrites all gradients (padding apart) with sums over the samples of the last forward pass.
  /// @throws Error{invalid_argument} if the last forward pass was not one for training, or has been used already
  void backward(GradientSink& sink);
  /// The order in which `backward` reports parameters, whatever the batch size.
  [[nodiscard]] std::vector<int> backward_order() const;

  /// Averages the running statistics over ranks, as `average_statistics` does. Collective. @throws as that
  void average_state(StatisticsExchange& exchange, std::int64_t samples);

 private:
  void place(Program& program);
  void require_bound() const;

  Network network_;
  ops::Ops& ops_;
  DType dtype_;
  Observer* observer_;
  Tensors tensors_;
  Buffer parameter_memory_;
  Buffer gradient_memory_;
  Buffer state_memory_;
  bool bound_ = false;
  Allocation arena_;
  std::map<std::int64_t, std::unique_ptr<Program>> programs_;
  std::optional<std::int64_t> awaits_backward_;  ///< batch size of the forward pass that awaits its backward pass
};

}  // namespace lockstep::nn
