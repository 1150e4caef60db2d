// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lockstep/ops/ops.hpp"
#include "ops/scratch.hpp"

namespace lockstep::ops {

/// Returns the format of rounded values in the layout of `inner`.
Format rounded(const Format& inner);
bool is_rounded(const Format& format);
/// Returns the layout of a rounded format, or the format itself if it is not rounded.
const Format& inner_of(const Format& format);
/// Returns whether values are rounded after the kernel, which stores float32.
bool is_emulated(const Format& format);

/// A kernel that rounds results and gradients of inputs if their formats are rounded and the inner kernel does not
/// round.
class RoundedKernel final : public Kernel {
 public:
  /// @param inner       the kernel that computes
  /// @param traits      the traits of `inner`, except for formats
  /// @param parameters  for each parameter, the number of elements of which `inner` gets a rounded copy; 0: it reads
  ///        the parameter itself; empty: it reads all parameters themselves
  RoundedKernel(KernelPtr inner, Traits traits, DType half, std::vector<std::int64_t> parameters,
                std::shared_ptr<Scratch> scratch, OnTeam on_team);

  [[nodiscard]] std::string algorithm(Pass pass) const override;

 private:
  void forward(const Arguments& call) override { run_forward(Pass::forward, call); }
  void infer(const Arguments& call) override { run_forward(Pass::infer, call); }
  void recompute(const Arguments& call) override { run_forward(Pass::recompute, call); }
  void backward(const Arguments& call) override;
  void normalizer(const Arguments& call) override { inner_->run(Pass::normalizer, call); }
  void measure(const Arguments& call) override { inner_->run(Pass::measure, call); }
  void measure_backward(const Arguments& call) override { inner_->run(Pass::measure_backward, call); }

  void run_forward(Pass pass, const Arguments& call);
  Arguments with_rounded_parameters(Arguments call);
  void round_in_place(const Format& format, void* values) const;

  KernelPtr inner_;
  DType half_;
  std::vector<std::int64_t> counts_;     // for each parameter; 0: read without a copy
  std::vector<const void*> parameters_;  // for the current call: the copies of the parameters
  std::shared_ptr<Scratch> scratch_;
  OnTeam on_team_;
};

/// Copies a value to another layout or dtype, or neither, and rounds it if only the target format is rounded.
class RoundedReorder final : public Kernel {
 public:
  /// @param inner  null: both have the same layout
  RoundedReorder(KernelPtr inner, const Format& from, const Format& to, DType half, OnTeam on_team);

  [[nodiscard]] std::string algorithm(Pass pass) const override;

 private:
  void forward(const Arguments& call) override;
  void backward(const Arguments& call) override;

  KernelPtr inner_;
  DType half_;
  bool rounds_;
  OnTeam on_team_;
};

}  // namespace lockstep::ops
