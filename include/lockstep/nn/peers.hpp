// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <span>

namespace lockstep::nn {

/// What a step needs from the other ranks. The thread that runs the step makes the calls, in the same order on every
/// rank, also on ranks without samples.
class Peers {
 public:
  virtual ~Peers() = default;
  /// The gradient of this parameter (an index into `Graph::parameters()`) is complete for this rank's samples. The call
  /// must not block for long.
  virtual void ready(int parameter) = 0;
  /// Is called between operators of the backward pass, so that communication can progress.
  virtual void between_operators() = 0;
  /// Overwrites the values with their sums over ranks, and waits for them.
  virtual void sum(std::span<double> values) = 0;
  /// Number of ranks.
  [[nodiscard]] virtual int size() const = 0;
  /// Overwrites `all` with the concatenation of every rank's `own`.
  virtual void gather(std::span<const double> own, std::span<double> all) = 0;
  /// Is called after all parameters are ready. When it returns, the gradients that this rank's update uses are sums
  /// over ranks, and so are `values`.
  /// @param found  numbers that `find` computes from the reduced gradients of this rank; they are summed over ranks if
  /// each rank has its own part of the reduced gradients
  /// @return whether every gradient is finite, on every rank and after the reduction
  virtual bool finish(std::span<double> values, std::span<double> found, const std::function<void()>& find) = 0;
  /// With a sharded optimizer: overwrites the parameters that other ranks updated with their values.
  virtual void gather_parameters() = 0;
};

/// A single rank.
class NoPeers final : public Peers {
 public:
  void ready(int /*parameter*/) override {}
  void between_operators() override {}
  void sum(std::span<double> /*values*/) override {}
  [[nodiscard]] int size() const override { return 1; }
  void gather(std::span<const double> own, std::span<double> all) override {
    std::copy(own.begin(), own.end(), all.begin());
  }
  /// Checks nothing; non-finite values show in the weights.
  bool finish(std::span<double> /*values*/, std::span<double> /*found*/, const std::function<void()>& find) override {
    find();
    return true;
  }
  void gather_parameters() override {}
};

}  // namespace lockstep::nn
