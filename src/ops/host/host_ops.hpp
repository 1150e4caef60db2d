// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "lockstep/ops/ops.hpp"
#include "ops/host/block_sums.hpp"

namespace lockstep::ops {

/// Measures the peak rates of the team. @throws Error{unsupported} unless the dtype is float32 or float64
MachineLimits measure_limits(DType dtype, const OnTeam& on_team);

/// @throws Error{unsupported} unless the dtype is float32 or float64
void check_update(const UpdateStep& step);

/// Makes one update in the element type's own precision; the bits are the same on every processor. @pre `check_update`
/// was called
void make_update(const UpdateStep& step);

/// Does what `Ops::measure_update` says. The bits are the same on any number of threads. @pre `check_update` was called
void measure_update(const UpdateStep& step, BlockSums& sums, const OnTeam& on_team);

/// Returns part `part` of `parts` of the step. The parts have about equal sizes and begin at cache lines if the tensors
/// do.
UpdateStep part_of(const UpdateStep& step, int part, int parts);

/// Returns Σ x² in double. The bits are the same on any number of threads.
/// @throws Error{unsupported} unless the values are float32 or float64
double sum_of_squares(const ConstBuffer& values, BlockSums& sums, const OnTeam& on_team);

/// @throws Error{unsupported} unless the dtype is float32 or float64
void check_average(const AverageStep& step);
/// Updates part `part` of `parts`. @pre `check_average` was called
void average_part(const AverageStep& step, int part, int parts);

/// The common part of the compute libraries for CPUs: the optimizer's kernels, on the library's team of threads.
class HostOps : public Ops {
 public:
  void update(const UpdateStep& step) override {
    check_update(step);
    on_team_([&](int member, int members) { make_update(part_of(step, member, members)); });
  }
  void measure_update(const UpdateStep& step) override {
    check_update(step);
    ops::measure_update(step, sums_, on_team_);
  }
  void average(const AverageStep& step) override {
    check_average(step);
    on_team_([&](int member, int members) { average_part(step, member, members); });
  }
  void add_squares(const ConstBuffer& values, double* sum, Queue /*queue*/) override {
    *sum += ops::sum_of_squares(values, sums_, on_team_);
  }
  [[nodiscard]] MachineLimits measure_limits(DType dtype) override { return ops::measure_limits(dtype, on_team_); }

 protected:
  explicit HostOps(OnTeam on_team) : on_team_(std::move(on_team)) {}

 private:
  OnTeam on_team_;
  BlockSums sums_;
};

}  // namespace lockstep::ops
