// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <span>

namespace lockstep::nn {

/// What a step needs of the other ranks. Calls come from the thread that runs the step, in the same order on every rank
/// whatever its samples.
class Peers {
 public:
  virtual ~Peers() = default;
  /// The gradient of this parameter (an index into `Graph::parameters()`) is complete: of this rank's samples. Must not
  /// block for long.
  virtual void ready(int parameter) = 0;
  /// Between operators of the backward pass: a chance to let communication progress.
  virtual void between_operators() = 0;
  /// Overwrites the values with their sums over ranks, at once.
  virtual void sum(std::span<double> values) = 0;
  /// How many ranks there are.
  [[nodiscard]] virtual int size() const = 0;
  /// Overwrites `all` with every rank's `own`, one behind the other.
  virtual void gather(std::span<const double> own, std::span<double> all) = 0;
  /// Comes after all parameters: gradients that this rank updates by are sums over ranks when it returns, and so are
  /// these values.
  /// @param found  numbers that `find` overwrites, of sums that this rank has then; added up over ranks where each has
  ///               sums of its own
  /// @return whether every gradient is finite, on every rank and in sum
  virtual bool finish(std::span<double> values, std::span<double> found, const std::function<void()>& find) = 0;
  /// Where each rank updates parameters of its own: overwrites all others with what their ranks have made of them.
  virtual void gather_parameters() = 0;
};

/// One rank alone.
class NoPeers final : public Peers {
 public:
  void ready(int /*parameter*/) override {}
  void between_operators() override {}
  void sum(std::span<double> /*values*/) override {}
  [[nodiscard]] int size() const override { return 1; }
  void gather(std::span<const double> own, std::span<double> all) override {
    std::copy(own.begin(), own.end(), all.begin());
  }
  /// Looks at nothing: what is not finite shows in the weights.
  bool finish(std::span<double> /*values*/, std::span<double> /*found*/, const std::function<void()>& find) override {
    find();
    return true;
  }
  void gather_parameters() override {}
};

}  // namespace lockstep::nn
